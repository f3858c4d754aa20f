# ruff: noqa: E501, PT017
"""Attacks from within a contained process: none gets out, none outlives its call, none harms the next call."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from rlx.tool.contain.box import Box, Limits
from rlx.tool.contain.process import ChildError, LateError, RefusedError
from tests.errors import raises_naming

MODULE = str(Path(__file__).with_name("hostile.py"))
LIMITS = Limits(memory_mb=256, cpu_seconds=2)
SECRET = "a-secret-of-the-parent"
CALL = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLX_SECRET", SECRET)
        box = Box(MODULE)
        try:
            box.know()
        except RefusedError as error:
            pytest.skip(str(error))
        yield box
        box.end()


def run(box: Box, code: str, seconds: float = 60.0) -> Any:
    return box.ask(code, seconds, LIMITS)


def raised(box: Box, code: str) -> str:
    answer = run(box, code)
    assert isinstance(answer, dict), answer
    return str(answer["raised"])


REFUSED = {
    "read the passwords": "open('/etc/shadow').read()",
    "read the users": "open('/etc/passwd').read()",
    "read the machine's identity": "open('/etc/machine-id').read()",
    "read a home": "import os; os.listdir(os.path.expanduser('~root/.ssh'))",
    "read this test": f"open({str(Path(__file__))!r}).read()",
    "list the repository": f"import os; os.listdir({str(Path(__file__).parents[2] / 'conf')!r})",
    "environment of the parent": "import os; open(f'/proc/{os.getppid()}/environ').read()",
    "own environment": "open('/proc/self/environ').read()",
    "memory of the parent": "import os; open(f'/proc/{os.getppid()}/mem', 'r+b')",
    "kernel settings": "open('/proc/sys/kernel/core_pattern', 'w')",
    "write a package": "import json; open(json.__file__, 'a')",
    "replace a package": "import json, os; os.rename(json.__file__, json.__file__ + 'x')",
    "delete a package": "import json, os; os.remove(json.__file__)",
    "write into site-packages": "import os, sysconfig; open(os.path.join(sysconfig.get_path('purelib'), 'x.pth'), 'w')",
    "write at the root": "open('/x', 'w')",
    "make a folder at the root": "import os; os.mkdir('/x')",
    "write shared memory": "open('/dev/shm/x', 'w')",
    "make a device": "import os; os.mknod('/tmp/sda', 0o60600, os.makedev(254, 0))",
    "a symlink to the passwords": "import os; os.symlink('/etc/shadow', '/tmp/l'); open('/tmp/l').read()",
    "a symlink out": "import os; os.symlink('/../../../etc/passwd', '/tmp/l'); open('/tmp/l').read()",
    "a hard link": "import os, json; os.link(json.__file__, '/tmp/l'); open('/tmp/l', 'a')",
    "walk out of the root": "import os; os.chdir('/'); os.chdir('../../..'); open('work/main/README.md').read()",
    "the old root": "import os; os.listdir('/.old')[0]",
    "remount": CALL + "assert not libc.mount(b'none', b'/', None, 32, None), ctypes.get_errno()",
    "mount": CALL + "assert not libc.mount(b'tmpfs', b'/dev', b'tmpfs', 0, None), ctypes.get_errno()",
    "unmount": CALL + "assert not libc.umount2(b'/usr/lib', 2), ctypes.get_errno()",
    "new user namespace": CALL + "assert not libc.unshare(0x10000000), ctypes.get_errno()",
    "enter a namespace": CALL + "assert not libc.setns(0, 0), ctypes.get_errno()",
    "chroot": "import os; os.chroot('/tmp')",
    "setuid": CALL + "assert not libc.setuid(1), ctypes.get_errno()",
    "setgroups": "import os; os.setgroups([0])",
    "capabilities again": CALL + "assert not libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[2**32 - 1] * 6))",
    "internet": "import socket; socket.socket()",
    "connect by number": CALL + "assert libc.syscall(41 if __import__('os').uname().machine == 'x86_64' else 198, 2, 1, 0) >= 0",
    "unix socket": "import socket; socket.socket(socket.AF_UNIX)",
    "netlink": "import socket; socket.socket(16, 3, 0)",
    "fork": "import os; os.fork()",
    "system": "import os\nif os.system('true'): raise PermissionError",
    "subprocess": "import subprocess; subprocess.run(['/bin/true'])",
    "spawn": "import os; os.posix_spawn('/bin/true', ['true'], {})",
    "raw fork": "import _posixsubprocess; _posixsubprocess.fork_exec([b'/bin/true'], [b'/bin/true'], True, (), None, None, -1, -1, -1, -1, -1, -1, *__import__('os').pipe(), False, False, -1, None, None, None, -1, None, False)",
    "clone by number": CALL + "assert libc.syscall(56 if __import__('os').uname().machine == 'x86_64' else 220, 17, 0, 0, 0, 0) >= 0",
    "execute": "import os; os.execv('/usr/bin/env', ['env'])",
    "execute memory": "import os; os.memfd_create('x')",
    "pools of processes": "import multiprocessing as m; m.Pool(1).map(print, [1])",
    "trace the parent": CALL + "assert libc.ptrace(16, 1, 0, 0) >= 0",
    "read the parent's memory": CALL + "assert libc.process_vm_readv(1, None, 0, None, 0, 0) >= 0",
    "kill the parent": "import os; os.kill(os.getppid(), 9)",
    "stop the parent": "import os, signal; os.kill(1, signal.SIGSTOP)",
    "kill all": "import os; os.kill(-1, 9)",
    "kill the group": "import os; os.killpg(0, 9)",
    "kill a neighbour": "import os\nfor pid in range(1, 400):\n    if pid != os.getpid(): os.kill(pid, 9)",
    "signals by a file's owner": "import fcntl, socket; fcntl.fcntl(socket.socketpair()[0], fcntl.F_SETOWN, -1)",
    "signals by ioctl": "import fcntl, socket; fcntl.ioctl(socket.socketpair()[0], 0x8901, 1)",
    "keys of the kernel": CALL + "assert libc.syscall(250 if __import__('os').uname().machine == 'x86_64' else 219, 0, -3) >= 0",
    "bpf": CALL + "assert libc.syscall(321 if __import__('os').uname().machine == 'x86_64' else 280, 0, 0, 0) >= 0",
    "io_uring": CALL + "assert libc.syscall(425, 1, 0) >= 0",
    "userfaultfd": CALL + "assert libc.syscall(323 if __import__('os').uname().machine == 'x86_64' else 282, 0) >= 0",
    "performance counters": CALL + "assert libc.syscall(298 if __import__('os').uname().machine == 'x86_64' else 241, 0, 0, -1, -1, 0) >= 0",
    "shared memory of System V": CALL + "assert libc.shmget(1, 4096, 0o1666) >= 0",
    "message queues": CALL + "assert libc.msgget(1, 0o1666) >= 0",
    "files by handles": CALL + "assert libc.open_by_handle_at(0, None, 0) >= 0",
    "raise a limit": "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**45, 2**45))",
    "limits of the parent": "import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))",
    "priority of the parent": "import os; os.setpriority(os.PRIO_PROCESS, 1, 19)",
    "host name": "import socket; socket.sethostname('x')",
    "clock": "import time; time.clock_settime(time.CLOCK_REALTIME, 0)",
    "reboot": CALL + "assert not libc.reboot(0x1234567), ctypes.get_errno()",
    "a filter that lies": CALL + "assert not libc.prctl(22, 2, 0, 0, 0)",
    "dumps": CALL + "assert not libc.prctl(4, 1, 0, 0, 0)",
    "type into a terminal": "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",
    "memory": "x = bytearray(10**10)",
    "memory by steps": "x = []\nwhile True: x.append(bytearray(10**7))",
    "mapped memory": "import mmap; mmap.mmap(-1, 10**10)",
    "a large file": "import tempfile; f = open(tempfile.gettempdir() + '/x', 'wb')\nfor _ in range(1000): f.write(b'x' * 10**6)",
    "many large files": "import tempfile\nfor i in range(100): open(f'{tempfile.gettempdir()}/{i}', 'wb').write(b'x' * 10**7)",
    "many files": "import tempfile\nfor i in range(10**5): open(f'{tempfile.gettempdir()}/{i}', 'w')",
    "many open files": "x = [open('/dev/null') for _ in range(1000)]",
    "many threads": "import threading, time\nfor _ in range(10**5): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_an_attack_fails(box: Box, name: str) -> None:
    try:
        told = raised(box, REFUSED[name])
    except ChildError as error:  # it was killed
        told = str(error)
    assert SECRET not in told
    assert run(box, "out = 1") == 1, "the next call is answered"


def test_the_environment_is_empty(box: Box) -> None:
    assert SECRET not in run(box, "import os; out = repr(os.environ)")
    assert "RLX" not in run(box, "import os; out = repr(os.environ)")


def test_nothing_of_a_call_is_there_in_the_next(box: Box) -> None:
    run(
        box,
        "import builtins, json, sys, tempfile; open(f'{tempfile.gettempdir()}/left', 'w').write('x')\n"
        "builtins.left = 1; sys.left = json.left = 1",
    )
    look = (
        "import builtins, json, os, sys, tempfile\n"
        "out = [os.listdir(tempfile.gettempdir()), *(hasattr(m, 'left') for m in (builtins, json, sys))]"
    )
    assert run(box, look) == [[], False, False, False]


def test_no_file_of_the_parent_is_open(box: Box) -> None:
    code = "import os\nout = []\nfor fd in range(256):\n    try: os.fstat(fd); out.append(fd)\n    except OSError: pass"
    with socket.socket(), open(__file__):
        assert len(run(box, code)) == 4, "standard streams, which lead nowhere, and the line of this call"


@pytest.mark.parametrize(
    "code", ["while True: pass", "import time; time.sleep(600)", "import signal\nwhile True: signal.pause()"]
)
def test_what_takes_too_long_is_killed(box: Box, code: str) -> None:
    with pytest.raises((LateError, ChildError)):
        run(box, code, 1.0)
    assert run(box, "out = 1") == 1


def test_processor_time_is_limited_whatever_signals_are_ignored(box: Box) -> None:
    code = "import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass"
    with pytest.raises(ChildError, match=r"ended|longer"):
        run(box, code)


def test_a_thread_does_not_outlive_its_call(box: Box) -> None:
    run(box, "import threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); out = 1")
    run(box, "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin).start(); out = 1")
    assert box.server is not None
    assert is_soon(lambda: not descendants(box)), "the kernel ended both"


@pytest.mark.parametrize(
    "said",
    [
        'b"nonsense\\n"',
        'b"[" * 10**6 + b"\\n"',
        'b"x" * 10**8',
        "b'{\"value\": 1}\\n' * 1000",
        'b"1" * 10**5 + b"\\n"',
        'b\'{"error": "\\x1b[2J"}\\n\'',
        'b"\\xff\\xfe\\n"',
    ],
)
def test_what_is_written_on_the_line_harms_its_own_call_alone(box: Box, said: str) -> None:
    code = f"import os\nfor fd in range(3, 64):\n    try:\n        for part in [{said}]: os.write(fd, part)\n    except OSError: pass"
    try:
        run(box, code)
    except ChildError as error:
        assert str(error).isprintable()
    assert run(box, "out = 1") == 1


def test_calls_beside_each_other_do_not_see_each_other(box: Box) -> None:
    found: list[Any] = []
    slow = (
        "import os, tempfile, time\nplace = tempfile.gettempdir()\n"
        "open(f'{place}/mine', 'w')\ntime.sleep(0.5)\nout = os.listdir(place)"
    )
    threads = [threading.Thread(target=lambda: found.append(run(box, slow))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["mine"]] * 6


def test_all_ends_when_whoever_asked_is_gone() -> None:
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:  # as if rlx were killed in the middle of a call
        own = Box(MODULE)
        own.know()
        own.begin("while True: pass", Limits(memory_mb=256, cpu_seconds=600))
        assert own.server is not None
        os.write(writable, str(own.server.pid).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    server = int(os.read(readable, 20))
    assert is_soon(lambda: is_gone(server))
    os.close(readable)
    os.close(writable)


def test_a_machine_that_cannot_contain_refuses_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlx.tool.contain.box.BOOT", REFUSING)
    with raises_naming(RefusedError, "bubblewrap", "contained=false"):
        Box(MODULE).ask("out = 1", 20, LIMITS)


REFUSING = """
import json, os, sys
os.write(json.loads(sys.argv[1])["control"], json.dumps({"refused": "unshare: no"}).encode() + bytes([10]))
"""


def test_uncontained_code_runs_only_when_it_is_asked_for(tmp_path: Path) -> None:
    own = Box(MODULE, contained=False)
    path = tmp_path / "x"
    assert own.ask(f"out = open({str(path)!r}, 'w').write('x')", 20, LIMITS) == 1
    own.end()
    assert path.exists()


def descendants(box: Box) -> list[int]:
    assert box.server is not None
    found = [box.server.pid]
    for _ in range(3):
        found = [int(child) for pid in found for child in children(pid)]
    return [pid for pid in found if not is_gone(pid)]


def children(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGCONT)
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


def is_soon(holds: Any) -> bool:
    for _ in range(500):
        if holds():
            return True
        sleep(0.02)
    return False
