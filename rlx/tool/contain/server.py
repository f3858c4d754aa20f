"""The Python that forks contained processes (rlx.tool.contain.box): it imports the needed modules once, and forks a
fresh process for each request. Any Python of 3.9 or newer can run it: it needs nothing but the standard library.

    A  watches: ends B when rlx is gone            imports the module, then forks B
    └─ B  makes the namespaces and the view        waits for C
       └─ C  process 1 of its namespaces           forks one for each request, and never reads what those write
          └─ contained: limits, no capabilities, filtered system calls

A module has one of two interfaces:

    answer(request)            the answer to a request, as JSON holds it
    play(task, options, seed)  a generator: it is sent requests, None at first, and yields answers

Three functions are optional. `tasks()` returns names that rlx reads at the start. `warm()` runs in A, once, to do what
each process would do first. `prepare(request)` runs in C before the fork, so it must evaluate no text of a model.
"""

from __future__ import annotations

import importlib.util
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from importlib.metadata import distributions
from types import ModuleType
from typing import Any

from rlx.tool.contain import kernel
from rlx.tool.contain.enter import enter, wrap
from rlx.tool.contain.forks import Server, name_error, tell, warm

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


def packages() -> dict[str, Any]:
    """Return the versions of all packages of this interpreter, as a part of the greeting."""
    return {"versions": {package.name: package.version for package in distributions() if package.name}}


def load(control: socket.socket, settings: dict[str, Any]) -> ModuleType | None:
    """Import the module, or tell why that fails."""
    try:
        name = f"rlx_contained_{settings['name']}"  # gem.py imports the package gem, which that name must not hide
        spec = importlib.util.spec_from_file_location(name, settings["module"])
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for other in settings["preload"]:
            with suppress(ImportError):
                importlib.import_module(other)
        names = None if hasattr(module, "answer") else module.tasks()
    except BaseException as error:
        tell(control, {"error": name_error(error), "missing": error.name if isinstance(error, ImportError) else None})
        return None
    warm(module)
    by = settings.get("by", "namespaces" if settings["contained"] else "nothing")
    settings["told"] = {"by": by, "tasks": None} if names is None else {"by": by, "tasks": sorted(names), **packages()}
    return module


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
    message = b""
    while True:
        waiting = select.poll()
        waiting.register(control, 0)  # a hang-up is told whether it is asked for or not
        waiting.register(readable, select.POLLIN)
        events = dict(waiting.poll())
        if control.fileno() in events:
            os.kill(pid, signal.SIGKILL)
            os._exit(0)
        part = os.read(readable, 4096)
        if part in USERS:
            map_users(pid, USERS[part])
        message += part if part not in USERS else b""
        if message == b"!" or not part:
            break
    os.close(readable)
    if message == b"!":
        wait_for(control, pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return message.decode("utf-8", "replace") or "it ended as it began"


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
    """Map user 0 of B to this user outside; None: the user of this process."""
    user, group = (os.geteuid(), os.getegid()) if number is None else (number, number)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with suppress(OSError), open(f"/proc/{pid}/{name}", "w") as file:
            file.write(text)
    os.kill(pid, signal.SIGUSR1)
