"""The Python that plays an adapter's episodes (rlx.env.forks): run as text, by an interpreter that need not have rlx,
so it imports nothing but the standard library and the adapter's file.

An adapter is a module with two functions:

    tasks()                    names of what can be played; None where that is not known
    play(task, options, seed)  a generator of one episode: it is sent what the agent says, None at first, and yields
                               {"text": what the agent sees, "reward": …, "done": …, "truncated": …, "success": …}
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import random
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from struct import pack, unpack
from types import ModuleType
from typing import Any


def main(adapter: str, contain: str, control: int, contained: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of whoever asks: it may still want what is under way
    line = socket.socket(fileno=control)
    try:
        module, limit = load("adapter", adapter), load("contain", contain).contain
        names = module.tasks()
        said: dict[str, Any] = {"tasks": None if names is None else sorted(names)}
    except BaseException as error:
        said = {"error": named(error), "missing": error.name if isinstance(error, ImportError) else None}
    line.sendall(json.dumps(said).encode() + b"\n")
    if "error" not in said:
        gc.freeze()
        fork_on_demand(line, module, limit if contained else lambda: None)


def load(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fork_on_demand(control: socket.socket, module: ModuleType, contain: Callable[[], None]) -> None:
    """A process for each `f`, which comes with its line; an end to a process for each `k`; to all when nobody asks."""
    alive: set[int] = set()
    try:
        while True:
            asked, fds, _, _ = socket.recv_fds(control, 5, 1)
            if len(asked) < 5:
                return
            what, pid = unpack("!ci", asked)
            reap(alive)
            if what == b"k" and pid in alive:
                os.kill(pid, signal.SIGKILL)
            elif fds:
                pid = os.fork()
                if pid == 0:
                    control.close()
                    live(socket.socket(fileno=fds[0]), module, contain)
                os.close(fds[0])
                alive.add(pid)
                control.sendall(pack("!i", pid))
    finally:
        reap(alive)
        for pid in alive:
            os.kill(pid, signal.SIGKILL)


def reap(alive: set[int]) -> None:
    for pid in tuple(alive):
        if os.waitpid(pid, os.WNOHANG)[0]:
            alive.discard(pid)


def live(line: socket.socket, module: ModuleType, contain: Callable[[], None]) -> None:
    """One episode, to its end."""
    with suppress(BaseException), line.makefile("rb") as heard:
        contain()
        asked = json.loads(heard.readline())
        seed_all(asked["seed"])
        episode, said = None, None
        while True:
            try:
                episode = episode or module.play(asked["task"], asked["options"], asked["seed"])
                told = json.dumps(episode.send(said))
            except BaseException as error:
                told = json.dumps({"error": named(error)})
            line.sendall(told.encode() + b"\n")
            said = json.loads(heard.readline())
    os._exit(0)


def seed_all(seed: int) -> None:
    """The generators that a package may draw from, whether it seeds them or not."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def named(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "1")
