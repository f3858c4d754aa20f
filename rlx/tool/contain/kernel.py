"""Kernel interfaces of containment, through ctypes, since Python 3.11 has none of them.

namespaces   processes, mounts, network, ipc, host name, users: what is outside cannot be named
view         a file system of a few read-only folders
limits       memory, processor time, size of files, open files, threads
capabilities none; never more through a program (no_new_privs)
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Iterable, Iterator
from contextlib import suppress

from rlx.tool.contain.syscalls import install_filter

NEW_MOUNTS, NEW_UTS, NEW_IPC, NEW_USER, NEW_PIDS, NEW_NET = (
    0x20000,
    0x4000000,
    0x8000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
OTHERS = NEW_UTS | NEW_IPC | NEW_PIDS | NEW_NET
READ_ONLY, NO_SUID, NO_DEVICES, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
MOUNT_FLAGS = {"nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1024, "nodiratime": 2048, "relatime": 1 << 21}
"""Flags of a mount that a user may not take away."""
DETACH = 2
NOBODY = 65534
OLD = "/.old"
SCRATCH = "/scratch"
"""Place of a process's own files where /tmp holds libraries, which they would hide."""
DEVICES = ("null", "zero", "full", "random", "urandom")
TMP_MB = 64
"""Size of a process's private /tmp."""
OPEN_FILES, THREADS = 64, 512
MOST_FDS = 256
"""Number above those of the files that a server has open."""
STACK = 96 * 2**20
HUGE, COLLAPSE = 2**21, 25
"""Bytes of a huge page, and the advice (MADV_COLLAPSE) that makes one: Linux 6.1 and newer."""
ARENA_MAX = -8
"""Parameter of mallopt: the number of arenas."""
libc = ctypes.CDLL(None, use_errno=True)
CAPABILITY_HEADER, NO_CAPABILITIES = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
"""Arguments of capset, made once: each type that ctypes makes after a fork is memory that must be copied."""


def call(name: str, *arguments: object) -> None:
    """Call a function of libc; OSError where it fails."""
    if getattr(libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    call("unshare", flags)


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    call("mount", *words, ctypes.c_ulong(flags), None if data is None else data.encode())


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, which may have happened already."""
    libc.prctl(1, 9, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def hide_memory() -> None:
    """Let no process of the same user look into this one: PR_SET_DUMPABLE."""
    libc.prctl(4, 0, 0, 0, 0)


def use_huge_pages() -> None:
    """Gather this process's own memory in huge pages, where the kernel can: a fork copies the table of its pages, and
    that of 50 MB with sympy and numpy takes 1.3 ms less."""
    try:
        with open("/proc/self/maps") as file:
            lines = [line.split() for line in file]
    except OSError:
        return
    for words in lines:
        if "w" in words[1] and (len(words) < 6 or words[5] == "[heap]"):
            low, high = (int(edge, 16) for edge in words[0].split("-"))
            for place in range(-(-low // HUGE) * HUGE, high // HUGE * HUGE, HUGE):
                libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(HUGE), COLLAPSE)


def build_view(pairs: Iterable[tuple[str, str]]) -> None:
    """Build a read-only root from pairs of paths: inside and outside."""
    mount("none", "/", None, RECURSIVE | PRIVATE)
    mount("tmpfs", "/tmp", "tmpfs", NO_SUID | NO_DEVICES, "size=1m,mode=755")
    os.mkdir("/tmp" + OLD)
    call("syscall", ctypes.c_long(pivot_root_number()), b"/tmp", b"/tmp" + OLD.encode())
    os.chdir("/")
    for path in ("/tmp", "/dev", SCRATCH):
        os.mkdir(path)
    for target, source in [*pairs, *((f"/dev/{name}", f"/dev/{name}") for name in DEVICES)]:
        bind(target, OLD + source)
    for path, flags in mounts():
        if not path.startswith(OLD):
            mount("none", path, None, BIND | REMOUNT | READ_ONLY | NO_SUID | flags)
    call("umount2", OLD.encode(), DETACH)


def pivot_root_number() -> int:
    return 155 if os.uname().machine == "x86_64" else 41


def bind(target: str, source: str) -> None:
    """Mount a file or a folder at a path, made where it is not there yet."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    mount(source, target, None, BIND | RECURSIVE)


def mounts() -> Iterator[tuple[str, int]]:
    """Every mount below the root, with the flags that must stay."""
    with open(f"{OLD}/proc/self/mountinfo") as file:
        lines = file.read().splitlines()
    for line in lines:
        words = line.split()
        path = words[4].encode().decode("unicode_escape").encode("latin-1").decode("utf-8", "surrogateescape")
        yield path, sum(MOUNT_FLAGS.get(word, 0) for word in words[5].split(","))


def seen_paths(extra: Iterable[str], prefixes: Iterable[str], path: Iterable[str]) -> list[tuple[str, str]]:
    """Return the folders of the libraries and of Python's packages, outer folders first."""
    prefix_folders = [f"{prefix}/{name}" for prefix in prefixes for name in ("lib", "lib64")]
    packages = [
        place
        for place in path
        if place.startswith(tuple(f"{prefix}/" for prefix in prefixes))
        or os.path.basename(place) in ("site-packages", "dist-packages")
    ]
    libraries = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache", "/nix/store"]
    linked = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    wanted = {os.path.abspath(place) for place in [*libraries, *linked, *prefix_folders, *packages, *extra] if place}
    folders: list[str] = []
    for place in sorted(place for place in wanted if os.path.exists(place)):
        if not any(place.startswith(f"{outer}/") and os.path.realpath(outer) == outer for outer in folders):
            folders.append(place)
    return [(place, os.path.realpath(place)) for place in folders]


def mount_private_tmp(place: str) -> None:
    """Give this process a private folder in memory; its files vanish with the process."""
    unshare(NEW_MOUNTS)
    mount("tmpfs", place, "tmpfs", NO_SUID | NO_DEVICES, f"size={TMP_MB}m,nr_inodes=4k,mode=700")
    os.chdir(place)


def count_threads_alone() -> None:
    """Let the limit of threads count this process alone: the kernel counts those of a user in a user namespace, and
    processes of a server share theirs. Let threads share one arena of malloc: each arena reserves 64 MB of address
    space, so that a program of 256 MB could have 7 threads."""
    with suppress(OSError):  # within bubblewrap a kernel may refuse it: then all count together
        unshare(NEW_USER)
    libc.mallopt(ARENA_MAX, 1)


def drop_capabilities() -> None:
    """Give up every capability, and whatever a program could give."""
    call("prctl", 38, 1, 0, 0, 0)
    call("capset", CAPABILITY_HEADER, NO_CAPABILITIES)


def limit(memory: int, seconds: float, file_mb: int) -> None:
    """Set the limits of this process; `memory` in bytes of address space, `seconds` of processor time."""
    for limit_id, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, file_mb * 2**20),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, THREADS),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        least = lesser(value, resource.getrlimit(limit_id)[1])
        resource.setrlimit(limit_id, (least, least))
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (lesser(STACK, hard), hard))
    cpu, hard = int(seconds) + 1, resource.getrlimit(resource.RLIMIT_CPU)[1]  # whole seconds are all that it counts
    resource.setrlimit(resource.RLIMIT_CPU, (lesser(cpu, hard), lesser(cpu + 1, hard)))  # SIGXCPU first, then SIGKILL


def lesser(value: int, hard: int) -> int:
    """Return a limit that is not above the present one."""
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def lock(open_fds: Iterable[int], memory: int, seconds: float, file_mb: int, tmp: str) -> None:
    """Contain this process for good, before it runs what may be hostile."""
    fds = sorted(open_fds)
    for low, high in zip([2, *fds], [*fds, MOST_FDS]):
        os.closerange(low + 1, high)
    if tmp:
        mount_private_tmp(tmp)
    count_threads_alone()
    limit(memory, seconds, file_mb)
    drop_capabilities()
    install_filter(libc)
