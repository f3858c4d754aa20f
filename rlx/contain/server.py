"""The Python that forks contained processes (rlx.contain.box): a fresh one for each request, after it has imported what
they need. Any Python of 3.9 or newer can run it: it needs nothing but the standard library.

    A  watches: ends B when rlx is gone            imports the module, then forks B
    └─ B  makes the namespaces and the view        waits for C
       └─ C  process 1 of its namespaces           forks one for each request, and never reads what those write
          └─ contained: limits, no capabilities, filtered system calls

A module has one of two interfaces:

    answer(asked)              the answer to a request, as JSON holds it
    play(task, options, seed)  a generator: it is sent requests, None at first, and yields answers

Two functions are optional. `tasks()` returns names that rlx reads at the start. `prepare(asked)` runs in C before the
fork, so it must evaluate nothing that a model wrote.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import random
import select
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from struct import pack, unpack
from types import ModuleType
from typing import Any

from rlx.contain import kernel

HEADER = 9
"""Bytes that begin a request: what to do, a process or 0, and the length of what follows."""
FIRST_MB = 1024
"""Address space of a Python with its packages, where the kernel does not tell."""
FILE_MB = 32
USERS = {b"n": kernel.NOBODY, b"o": None}
"""User that a message of B asks to be outside: nobody, or its own."""


def main(settings: dict[str, Any]) -> None:
    """Run a server until its control line is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of whoever asks: it may still want what is under way
    sys.path.extend(place for place in settings["path"] if place not in sys.path)
    control = socket.socket(fileno=settings["control"])
    started = settings["started"]
    if started is not None:  # within bubblewrap
        os.write(started, b"!")
        os.close(started)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        serve_module(control, {**settings, "by": "bubblewrap"}, tmp="")
    elif settings["contained"]:
        contain(control, settings)
    else:
        serve_module(control, settings, tmp=None)


def serve_module(control: socket.socket, settings: dict[str, Any], tmp: str | None) -> None:
    module = load(control, settings)
    if module is not None:
        Server(control, module, settings, tmp).run()


def load(control: socket.socket, settings: dict[str, Any]) -> ModuleType | None:
    """Import the module, or tell why that fails."""
    try:
        spec = importlib.util.spec_from_file_location(settings["name"], settings["module"])
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[settings["name"]] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name in settings["preload"]:
            with suppress(ImportError):
                importlib.import_module(name)
        names = None if hasattr(module, "answer") else module.tasks()
    except BaseException as error:
        tell(control, {"error": named(error), "missing": error.name if isinstance(error, ImportError) else None})
        return None
    by = settings.get("by", "namespaces" if settings["contained"] else "nothing")
    settings["told"] = {"tasks": None if names is None else sorted(names), "by": by}
    return module


def tell(control: socket.socket, said: dict[str, Any]) -> None:
    control.sendall(json.dumps(said).encode() + b"\n")


# Process A.


def contain(control: socket.socket, settings: dict[str, Any]) -> None:
    """Serve within namespaces; where they are refused, within bubblewrap; else tell why not."""
    module = load(control, settings)
    if module is None:
        return
    why = watch(control, lambda report: enter(control, module, settings, report))
    if why and settings["bubblewrap"]:
        first = why
        why = watch(control, lambda report: wrap(control, settings, report))
        why = why and f"{first}; bubblewrap: {why}"
    if why:
        tell(control, {"refused": why})


def watch(control: socket.socket, begin: Any) -> str:
    """Fork B, and wait for its end or that of rlx. Return why B could not begin, or nothing."""
    readable, report = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(readable)
        try:
            kernel.die_with_parent(parent)
            begin(report)
        except BaseException as error:
            with suppress(OSError):
                os.write(report, str(error).encode()[:500])
        os._exit(1)
    os.close(report)
    said = b""
    while True:
        waiting = select.poll()
        waiting.register(control, 0)  # a hang-up is told whether it is asked for or not
        waiting.register(readable, select.POLLIN)
        told = dict(waiting.poll())
        if control.fileno() in told:
            os.kill(pid, signal.SIGKILL)
            os._exit(0)
        part = os.read(readable, 4096)
        if part in USERS:
            map_users(pid, USERS[part])
        said += part if part not in USERS else b""
        if said == b"!" or not part:
            break
    os.close(readable)
    if said == b"!":
        wait_for(control, pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return said.decode("utf-8", "replace") or "it ended as it began"


def wait_for(control: socket.socket, pid: int) -> None:
    """End with B, or when rlx is gone."""
    waiting = select.poll()
    waiting.register(control, 0)
    while not waiting.poll(500):
        if os.waitpid(pid, os.WNOHANG)[0]:
            os._exit(0)
    os.kill(pid, signal.SIGKILL)
    os._exit(0)


def map_users(pid: int, number: int | None) -> None:
    """Let B's user 0 be this user outside; None: the one that runs this process."""
    user, group = (os.geteuid(), os.getegid()) if number is None else (number, number)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with suppress(OSError), open(f"/proc/{pid}/{name}", "w") as file:
            file.write(text)
    os.kill(pid, signal.SIGUSR1)


# Process B.


def enter(control: socket.socket, module: ModuleType, settings: dict[str, Any], report: int) -> None:
    """Make the namespaces and the view, fork C, and wait for it."""
    base = address_space()
    pairs = kernel.seen_paths(settings["seen"], {sys.prefix, sys.base_prefix}, sys.path)
    wanted = b"n" if all(is_public(source) for _, source in pairs) else b"o"
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        with suppress(OSError):
            os.setgroups([])
        kernel.unshare(kernel.NEW_MOUNTS)
        kernel.build_view(pairs)
        kernel.unshare(kernel.NEW_USER | kernel.NEW_MOUNTS | kernel.OTHERS)
        become_mapped(report, wanted)
    except PermissionError:
        kernel.unshare(kernel.NEW_USER | kernel.NEW_MOUNTS | kernel.OTHERS)
        become_mapped(report, b"o")  # the libraries may be in folders that nobody else may enter
        kernel.build_view(pairs)
    kernel.die_with_parent(os.getppid())  # the kernel forgot it as the user changed
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    pid = os.fork()
    if pid == 0:
        kernel.libc.prctl(1, 9, 0, 0, 0)  # its parent is in another namespace, and has no number here
        kernel.hide_memory()
        kernel.call("sethostname", b"box", 3)
        kernel.call("prctl", 38, 1, 0, 0, 0)
        os.write(report, b"!")
        os.close(report)
        settings["base"] = base
        Server(control, module, settings, place_of(pairs)).run()
        os._exit(0)
    os.close(report)
    control.close()
    os.waitpid(pid, 0)
    os._exit(0)


def place_of(pairs: list[tuple[str, str]]) -> str:
    """Return the folder for a process's own files: one that hides nothing it may read."""
    return kernel.SCRATCH if any(target.startswith("/tmp/") for target, _ in pairs) else "/tmp"


def is_public(path: str) -> bool:
    """Tell whether nobody in particular may read a file or a folder."""
    wanted = 0o5 if os.path.isdir(path) else 0o4
    return os.stat(path).st_mode & wanted == wanted


def become_mapped(report: int, wanted: bytes) -> None:
    """Wait until A has written the wanted map of users, and be user 0 of it."""
    os.write(report, wanted)
    if signal.sigtimedwait({signal.SIGUSR1}, 10) is None:
        raise OSError("no map of users")
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def wrap(control: socket.socket, settings: dict[str, Any], report: int) -> None:
    """Become bubblewrap, and within it a server."""
    own = [os.path.dirname(os.path.abspath(__file__)), settings["module"], os.path.join(sys.prefix, "pyvenv.cfg")]
    seen = [*settings["seen"], *filter(os.path.exists, own), os.path.realpath(sys.executable), sys.executable]
    pairs = kernel.seen_paths(seen, {sys.prefix, sys.base_prefix}, sys.path)
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    for target, source in pairs:
        words += ["--ro-bind", source, target]
    for name in kernel.DEVICES:
        words += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    words += ["--dir", "/tmp", "--remount-ro", "/", "--chdir", "/", "--setenv", "PYTHONHASHSEED", "0", "--"]
    within = {**settings, "started": report, "path": [place for place in sys.path if place]}
    for fd in (report, control.fileno()):
        os.set_inheritable(fd, True)
    os.dup2(report, 2)
    os.execv(settings["bubblewrap"], [*words, sys.executable, "-B", "-c", settings["boot"], json.dumps(within)])


def address_space() -> int:
    """Bytes of address space that this process has."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return FIRST_MB * 2**20


# Process C.


class Server:
    """Fork a process for each request, kill one, or all when nobody asks any more. `tmp` is where each gets a
    folder of its own; empty: it gets none; None: nothing is contained."""

    def __init__(self, control: socket.socket, module: ModuleType, settings: dict[str, Any], tmp: str | None):
        self.control, self.module, self.settings, self.tmp = control, module, settings, tmp
        self.base = settings.get("base") or address_space()
        self.alive: set[int] = set()

    def run(self) -> None:
        clear_environment(self.tmp)
        seed_all(0)  # numpy.random is imported when it is first used: here once, and not in every process
        gc.collect()
        gc.freeze()
        tell(self.control, self.settings["told"])
        try:
            while self.serve_one():
                pass
        except OSError:
            pass
        finally:
            self.reap()
            for pid in self.alive:
                os.kill(pid, signal.SIGKILL)

    def serve_one(self) -> bool:
        header, fds, _, _ = socket.recv_fds(self.control, HEADER, 1)
        while header and len(header) < HEADER:
            header += self.control.recv(HEADER - len(header))
        if not header:
            return False
        what, pid, length = unpack("!ciI", header)
        body = b""
        while len(body) < length:
            part = self.control.recv(length - len(body))
            if not part:
                return False
            body += part
        self.reap()
        if what == b"k" and pid in self.alive:
            os.kill(pid, signal.SIGKILL)
        elif fds:
            self.fork(fds[0], body)
        return True

    def fork(self, fd: int, body: bytes) -> None:
        asked = json.loads(body)
        if hasattr(self.module, "prepare"):
            with suppress(Exception):
                self.module.prepare(asked["asked"])
        pid = os.fork()
        if pid == 0:
            self.control.detach()
            live(socket.socket(fileno=fd), self.module, asked, self.base, self.tmp)
        os.close(fd)
        self.alive.add(pid)
        self.control.sendall(pack("!i", pid))

    def reap(self) -> None:
        for pid in tuple(self.alive):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self.alive.discard(pid)


def clear_environment(tmp: str | None) -> None:
    """Leave nothing in the environment but where files may be put."""
    if tmp is not None:
        os.environ.clear()
        os.environ.update(HOME=tmp or "/tmp", TMPDIR=tmp or "/tmp", PATH="/usr/bin:/bin", LANG="C.UTF-8")


def live(line: socket.socket, module: ModuleType, told: dict[str, Any], base: int, tmp: str | None) -> None:
    """One process, to its end."""
    with suppress(BaseException):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if tmp is not None:
            memory = base + told["memory_mb"] * 2**20
            try:
                kernel.lock([line.fileno()], memory, told["cpu_seconds"], FILE_MB, tmp)
            except BaseException as error:
                line.sendall(json.dumps({"error": f"not contained, so not run: {named(error)}"}).encode() + b"\n")
                os._exit(1)
        seed_all(told["seed"])
        asked = told["asked"]
        if hasattr(module, "answer"):
            for answer in answers(line, module, asked):
                line.sendall(json.dumps(answer).encode() + b"\n")
        else:
            play(line, module, asked)
    os._exit(0)


def answers(line: socket.socket, module: ModuleType, asked: Any) -> Iterator[dict[str, Any]]:
    """One answer to each request, for as long as somebody asks."""
    with line.makefile("rb") as heard:
        while True:
            try:
                yield {"value": module.answer(asked)}
            except BaseException as error:
                yield {"error": named(error)}
            asked = json.loads(heard.readline())


def play(line: socket.socket, module: ModuleType, asked: dict[str, Any]) -> None:
    """One episode."""
    episode, said = None, None
    with line.makefile("rb") as heard:
        while True:
            try:
                episode = episode or module.play(asked["task"], asked["options"], asked["seed"])
                told = json.dumps(episode.send(said))
            except BaseException as error:
                told = json.dumps({"error": named(error)})
            line.sendall(told.encode() + b"\n")
            said = json.loads(heard.readline())


def seed_all(seed: int) -> None:
    """Seed the generators that a package may draw from, whether it seeds them or not."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def named(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
