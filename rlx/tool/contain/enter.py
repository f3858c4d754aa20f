"""Process B of a server (rlx.tool.contain.server): it makes the namespaces and the view, or becomes bubblewrap."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

from rlx.tool.contain import kernel
from rlx.tool.contain.forks import Server, address_space


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
    """Return the folder for a process's own files; mounting this folder hides no readable path."""
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
    needed_files = [
        os.path.dirname(os.path.abspath(__file__)),
        settings["module"],
        os.path.join(sys.prefix, "pyvenv.cfg"),
    ]
    readable = [
        *settings["seen"],
        *filter(os.path.exists, needed_files),
        os.path.realpath(sys.executable),
        sys.executable,
    ]
    pairs = kernel.seen_paths(readable, {sys.prefix, sys.base_prefix}, sys.path)
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
