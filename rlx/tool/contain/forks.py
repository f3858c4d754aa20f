"""Process C of a server (rlx.tool.contain.server): it forks a contained process for each request."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

from rlx.tool.contain import kernel
from rlx.tool.contain.messages import END, HEADER, KILL, NUMBER
from rlx.tool.contain.syscalls import pack_filter

FIRST_MB = 1024
"""Address space of a Python with its packages, where the kernel does not tell."""
FILE_MB = 32
set_handler: Callable[[int, Any], Any] = sys.modules["_signal"].signal
"""`signal.signal` without its enumerations, whose use after a fork costs 40 pages of memory."""
set_timer: Callable[[int, float], Any] = sys.modules["_signal"].setitimer
PROFILE = signal.ITIMER_PROF
"""Timer of processor time, which ends a process: SIGPROF."""
PAUSES = (0.01, 0.1, 0.5, 2.0)
"""Seconds between attempts to fork, where the limit of processes or memory is reached for now."""
WARMING = 16
"""Calls of a function after which CPython 3.11 and newer change its code no more."""


def warm(module: ModuleType) -> None:
    """Do once what each process would do first, and leave memory so that a fork is cheap: a page that a process writes
    is copied, and so is the place of each page that it has."""
    for _ in range(WARMING):
        seed_all(0)
    with suppress(OSError):
        pack_filter()
    if hasattr(module, "warm"):
        module.warm()
    gc.collect()
    gc.freeze()
    kernel.use_huge_pages()


class Server:
    """Fork a process for each request, kill one, or all when nobody asks any more. `tmp` is where each gets a
    folder of its own; empty: it gets none; None: nothing is contained."""

    def __init__(self, control: socket.socket, module: ModuleType, settings: dict[str, Any], tmp: str | None):
        self.control, self.module, self.settings, self.tmp = control, module, settings, tmp
        self.base = settings.get("base") or address_space()
        self.alive: dict[int, int] = {}
        self.ended: dict[int, int] = {}
        """Exit statuses of processes that ended by themselves."""

    def run(self) -> None:
        clear_environment(self.tmp)
        gc.freeze()
        tell(self.control, self.settings["told"])
        try:
            while self.serve_one():
                pass
        except OSError:
            pass
        finally:
            self.reap()
            for pid in self.alive.values():
                os.kill(pid, signal.SIGKILL)

    def serve_one(self) -> bool:
        header, fds, _, _ = socket.recv_fds(self.control, HEADER.size, 1)
        while header and len(header) < HEADER.size:
            header += self.control.recv(HEADER.size - len(header))
        if not header:
            return False
        command, number, length = HEADER.unpack(header)
        body = b""
        while len(body) < length:
            part = self.control.recv(length - len(body))
            if not part:
                return False
            body += part
        self.reap()
        if command == KILL:
            self.ended.pop(number, None)
            if number in self.alive:
                os.kill(self.alive[number], signal.SIGKILL)
        elif command == END:
            self.control.sendall(NUMBER.pack(self.end(number)))
        elif fds:
            self.fork(number, fds[0], body)
        return True

    def fork(self, number: int, fd: int, body: bytes) -> None:
        request = json.loads(body)
        if hasattr(self.module, "prepare"):
            with suppress(Exception):
                self.module.prepare(request["asked"])
        try:
            pid = self.fork_patiently()
        except OSError as error:
            with suppress(OSError):
                write_line(fd, json.dumps({"error": f"no process can be forked: {name_error(error)}"}))
        else:
            if pid == 0:
                self.control.detach()
                live(fd, self.module, request, self.base, self.tmp)
            self.alive[number] = pid
        os.close(fd)
        self.control.sendall(NUMBER.pack(number))

    def fork_patiently(self) -> int:
        """Fork, with retries until ended processes leave room. Return 0 in the new process, and its process id here."""
        for pause in PAUSES:
            with suppress(OSError):
                return os.fork()
            time.sleep(pause)
            self.reap()
        return os.fork()

    def end(self, number: int) -> int:
        """Return how a process ended, which was to end: it is killed if it lives."""
        if number in self.alive:
            os.kill(self.alive[number], signal.SIGKILL)
            return os.waitpid(self.alive.pop(number), 0)[1]
        return self.ended.pop(number, 0)

    def reap(self) -> None:
        for number, pid in tuple(self.alive.items()):
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                self.ended[number] = status
                del self.alive[number]


def clear_environment(tmp: str | None) -> None:
    """Leave nothing in the environment but where files may be put."""
    if tmp is not None:
        os.environ.clear()
        os.environ.update(HOME=tmp or "/tmp", TMPDIR=tmp or "/tmp", PATH="/usr/bin:/bin", LANG="C.UTF-8")


def live(line: int, module: ModuleType, request: dict[str, Any], base: int, tmp: str | None) -> None:
    """One process, to its end."""
    with suppress(BaseException):
        set_handler(signal.SIGINT.value, signal.default_int_handler)
        if tmp is not None:
            memory = base + request["memory_mb"] * 2**20
            try:
                kernel.lock([line], memory, request["cpu_seconds"], FILE_MB, tmp)
            except BaseException as error:
                write_line(line, json.dumps({"error": f"not contained, so not run: {name_error(error)}"}))
                os._exit(1)
        set_timer(PROFILE, request["cpu_seconds"])
        seed_all(request["seed"])
        (answer_all if hasattr(module, "answer") else play)(line, module, request["asked"])
    os._exit(0)


def answer_all(line: int, module: ModuleType, request: Any) -> None:
    """Answer each request, for as long as somebody asks."""
    answer(line, module, request)
    with open(line, "rb") as requests:  # after the first answer, which most processes do not outlive
        while True:
            answer(line, module, json.loads(requests.readline()))


def answer(line: int, module: ModuleType, request: Any) -> None:
    """Answer one request."""
    try:
        reply = {"value": module.answer(request)}
    except BaseException as error:
        reply = {"error": name_error(error)}
    write_line(line, json.dumps(reply))


def play(line: int, module: ModuleType, request: dict[str, Any]) -> None:
    """One episode."""
    episode, message = None, None
    with open(line, "rb") as requests:
        while True:
            try:
                episode = episode or module.play(request["task"], request["options"], request["seed"])
                reply = json.dumps(episode.send(message))
            except BaseException as error:
                reply = json.dumps({"error": name_error(error)})
            write_line(line, reply)
            message = json.loads(requests.readline())


def write_line(line: int, text: str) -> None:
    """Write an answer to the line of this process, past Python's sockets, whose making costs memory."""
    left = memoryview(text.encode() + b"\n")
    while left:
        left = left[os.write(line, left) :]


def seed_all(seed: int) -> None:
    """Seed the generators that a package may draw from, whether it seeds them or not."""
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def tell(control: socket.socket, report: dict[str, Any]) -> None:
    control.sendall(json.dumps(report).encode() + b"\n")


def name_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def address_space() -> int:
    """Bytes of address space that this process has."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return FIRST_MB * 2**20
