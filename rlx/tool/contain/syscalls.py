"""Filter of system calls for processes that run text of a model: seccomp-bpf, written by hand for x86-64 and aarch64.

A call that is not listed here fails: with EPERM where programs know it by name, else with ENOSYS, as on an old kernel.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from functools import cache
from struct import pack, pack_into

ALLOWED = {
    "x86_64": """
read=0 write=1 readv=19 writev=20 pread64=17 pwrite64=18 preadv=295 pwritev=296 preadv2=327 pwritev2=328 open=2
openat=257 close=3 close_range=436 stat=4 fstat=5 lstat=6 newfstatat=262 statx=332 lseek=8 mmap=9 mprotect=10
munmap=11 brk=12 mremap=25 madvise=28 msync=26 mincore=27 rt_sigaction=13 rt_sigprocmask=14 rt_sigreturn=15
rt_sigpending=127 rt_sigtimedwait=128 rt_sigsuspend=130 sigaltstack=131 access=21 faccessat=269 faccessat2=439
pipe=22 pipe2=293 select=23 pselect6=270 poll=7 ppoll=271 epoll_create=213 epoll_create1=291 epoll_ctl=233
epoll_wait=232 epoll_pwait=281 eventfd2=290 sched_yield=24 sched_getaffinity=204 sched_getparam=143
sched_getscheduler=145 sched_get_priority_max=146 sched_get_priority_min=147 dup=32 dup2=33 dup3=292
nanosleep=35 clock_nanosleep=230 clock_gettime=228 clock_getres=229 gettimeofday=96 time=201 times=100
getitimer=36 setitimer=38 alarm=37 pause=34 getpid=39 getppid=110 gettid=186 getuid=102 geteuid=107 getgid=104
getegid=108 getresuid=118 getresgid=120 getgroups=115 getpgrp=111 getpgid=121 getsid=124 uname=63 fsync=74
fdatasync=75 truncate=76 ftruncate=77 fallocate=285 getdents=78 getdents64=217 getcwd=79 chdir=80 fchdir=81
rename=82 renameat=264 renameat2=316 mkdir=83 mkdirat=258 rmdir=84 creat=85 unlink=87 unlinkat=263 link=86
linkat=265 symlink=88 symlinkat=266 readlink=89 readlinkat=267 chmod=90 fchmod=91 fchmodat=268 umask=95
utimensat=280 getrlimit=97 setrlimit=160 getrusage=98 sysinfo=99 statfs=137 fstatfs=138 futex=202
set_robust_list=273 get_robust_list=274 set_tid_address=218 arch_prctl=158 rseq=334 membarrier=324 exit=60
exit_group=231 wait4=61 waitid=247 getrandom=318 getcpu=309 sendmsg=46 recvmsg=47 sendto=44 recvfrom=45
shutdown=48 getsockname=51 getpeername=52 getsockopt=55 setsockopt=54 sendfile=40 copy_file_range=326
restart_syscall=219 capget=125 getpriority=140 fadvise64=221 sync_file_range=277
""",
    "aarch64": """
read=63 write=64 readv=65 writev=66 pread64=67 pwrite64=68 preadv=69 pwritev=70 preadv2=286 pwritev2=287
openat=56 close=57 close_range=436 fstat=80 newfstatat=79 statx=291 lseek=62 mmap=222 mprotect=226 munmap=215
brk=214 mremap=216 madvise=233 msync=227 mincore=232 rt_sigaction=134 rt_sigprocmask=135 rt_sigreturn=139
rt_sigpending=136 rt_sigtimedwait=137 rt_sigsuspend=133 sigaltstack=132 faccessat=48 faccessat2=439 pipe2=59
pselect6=72 ppoll=73 epoll_create1=20 epoll_ctl=21 epoll_pwait=22 eventfd2=19 sched_yield=124
sched_getaffinity=123 sched_getparam=121 sched_getscheduler=120 sched_get_priority_max=125
sched_get_priority_min=126 dup=23 dup3=24 nanosleep=101 clock_nanosleep=115 clock_gettime=113 clock_getres=114
gettimeofday=169 times=153 getitimer=102 setitimer=103 getpid=172 getppid=173 gettid=178 getuid=174 geteuid=175
getgid=176 getegid=177 getresuid=148 getresgid=150 getgroups=158 getpgid=155 getsid=156 uname=160 fsync=82
fdatasync=83 truncate=45 ftruncate=46 fallocate=47 getdents64=61 getcwd=17 chdir=49 fchdir=50 renameat=38
renameat2=276 mkdirat=34 unlinkat=35 linkat=37 symlinkat=36 readlinkat=78 fchmod=52 fchmodat=53 umask=166
utimensat=88 getrlimit=163 setrlimit=164 getrusage=165 sysinfo=179 statfs=43 fstatfs=44 futex=98
set_robust_list=99 get_robust_list=100 set_tid_address=96 rseq=293 membarrier=283 exit=93 exit_group=94
wait4=260 waitid=95 getrandom=278 getcpu=168 sendmsg=211 recvmsg=212 sendto=206 recvfrom=207 shutdown=210
getsockname=204 getpeername=205 getsockopt=209 setsockopt=208 sendfile=71 copy_file_range=285
restart_syscall=128 capget=90 getpriority=141 fadvise64=223 sync_file_range=84
""",
}
"""Calls that are allowed whatever their arguments are."""
FORBIDDEN = {
    "x86_64": """
tkill=200 socket=41 connect=42 bind=49 listen=50 accept=43 accept4=288 fork=57 vfork=58 execve=59 execveat=322
ptrace=101 mount=165 umount2=166 unshare=272 setns=308 pivot_root=155 chroot=161 process_vm_readv=310
process_vm_writev=311
""",
    "aarch64": """
tkill=130 socket=198 connect=203 bind=200 listen=201 accept=202 accept4=242 execve=221 execveat=281 ptrace=117
mount=40 umount2=39 unshare=97 setns=268 pivot_root=41 chroot=51 process_vm_readv=270 process_vm_writev=271
""",
}
"""Calls that fail with EPERM: a program is told that it may not, instead of that there is no such call."""
CHECKED = {
    "x86_64": """
fcntl=72 socketpair=53 clone=56 clone3=435 kill=62 tgkill=234 prlimit64=302 ioctl=16 prctl=157
""",
    "aarch64": """
fcntl=25 socketpair=199 clone=220 clone3=435 kill=129 tgkill=131 prlimit64=261 ioctl=29 prctl=167
""",
}
"""Calls whose arguments decide."""
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Number of each architecture in the kernel's audit.h."""
TERMINAL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""ioctl: is it a terminal, its size, bytes to read, non-blocking, close on exec; never FIOASYNC or TIOCSTI."""
SIGNALLING = (8, 10, 15, 1024, 1026)
"""fcntl: F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY, which have the kernel send signals to others."""
NAMES = (15, 16)
"""prctl: a thread's name."""
THREAD = 0x10000
"""clone: CLONE_THREAD; a new process does not have it."""
ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000
LOAD, EQUAL, AT_LEAST, HAS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

Instruction = tuple[int, int, int, int]
"""Code, jumps if true and if false, and a constant."""
PID = 0xFFFFFFFE
"""Constant that stands for the number of the process until that is known."""


def numbers(text: str) -> dict[str, int]:
    pairs = (word.split("=") for word in text.split())
    return {name: int(number) for name, number in pairs}


def answer(action: int) -> Instruction:
    return RETURN, 0, 0, action


def fail(number: int) -> Instruction:
    return answer(ERROR | number)


def argument_in(index: int, values: tuple[int, ...], inside: Instruction, outside: Instruction) -> list[Instruction]:
    """Answer by the low half of an argument: no argument that is compared here has more."""
    checks = [code for value in values for code in ((EQUAL, 0, 1, value), inside)]
    return [(LOAD, 0, 0, 16 + 8 * index), *checks, outside]


def decide_call(call: str) -> list[Instruction]:
    """Decide one call by its arguments."""
    allow, refuse = answer(ALLOW), fail(errno.EPERM)
    only_self = argument_in(0, (PID,), allow, refuse)
    return {
        "clone": [(LOAD, 0, 0, 16), (HAS, 0, 1, THREAD), allow, refuse],
        "clone3": [fail(errno.ENOSYS)],  # its flags are in memory, where no filter looks: libc then tries clone
        "kill": only_self,
        "tgkill": only_self,
        "prlimit64": argument_in(0, (0, PID), allow, refuse),
        "ioctl": argument_in(1, TERMINAL, allow, fail(errno.ENOTTY)),
        "fcntl": argument_in(1, SIGNALLING, refuse, allow),
        "prctl": argument_in(0, NAMES, allow, refuse),
        "socketpair": argument_in(0, (1,), allow, refuse),
    }[call]


def blocks(machine: str) -> dict[int, list[Instruction]]:
    """Return what decides each call that is known."""
    allowed = {number: [answer(ALLOW)] for number in numbers(ALLOWED[machine]).values()}
    forbidden = {number: [fail(errno.EPERM)] for number in numbers(FORBIDDEN[machine]).values()}
    return {**allowed, **forbidden, **{number: decide_call(call) for call, number in numbers(CHECKED[machine]).items()}}


def ranges(decisions: dict[int, list[Instruction]]) -> list[tuple[int, list[Instruction]]]:
    """Divide all numbers into ranges with one decision: the first number of each, and what decides."""
    unknown = [fail(errno.ENOSYS)]
    edges = sorted({0, *decisions, *(number + 1 for number in decisions)})
    pairs = [(edge, decisions.get(edge, unknown)) for edge in edges]
    return [pair for before, pair in zip([None, *pairs], pairs) if before is None or before[1] != pair[1]]


def tree(parts: list[tuple[int, list[Instruction]]]) -> list[Instruction]:
    """Find the range of a number by halving: the kernel runs a filter for each call there is as it is installed."""
    if len(parts) == 1:
        return parts[0][1]
    middle = len(parts) // 2
    low, high = tree(parts[:middle]), tree(parts[middle:])
    return [(AT_LEAST, len(low), 0, parts[middle][0]), *low, *high]


@cache
def make_filter(machine: str) -> tuple[Instruction, ...]:
    """Build the program for a process whose number is still to be filled in."""
    if machine not in ARCHITECTURES:
        raise OSError(f"no filter of system calls is written for {machine}")
    first = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, ARCHITECTURES[machine]), answer(KILL), (LOAD, 0, 0, 0)]
    return (*first, *tree(ranges(blocks(machine))))


@cache
def pack_filter() -> tuple[bytes, tuple[int, ...]]:
    """Return this machine's filter as bytes, and the places of the process's number."""
    program = make_filter(platform.machine())
    places = tuple(8 * index + 4 for index, code in enumerate(program) if code[3] == PID)
    return b"".join(pack("HBBI", *code) for code in program), places


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("codes", ctypes.c_char_p))


def install_filter(libc: ctypes.CDLL) -> None:
    """Filter this process's system calls from now on, and those of its threads."""
    codes, places = pack_filter()
    filter_bytes = bytearray(codes)
    for place in places:
        pack_into("I", filter_bytes, place, os.getpid())
    program = Program(len(codes) // 8, bytes(filter_bytes))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")
