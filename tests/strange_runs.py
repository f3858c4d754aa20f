"""`python -m tests.strange_runs PLAN REPORT`: commands on copies of a run in which a file was replaced, in a process of
limited memory.

PLAN is a JSON file: the run, a folder for copies, and cases of (file, replacement, command). REPORT gets a line with
the outcome of each case.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import resource
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import FrameType
from typing import Any

MEMORY = 3 * 2**30
"""Bytes of address space beyond what Python with torch takes."""
SECONDS = 120
"""Time after which a case counts as one that hangs."""
LARGE = 2**30
DEEP = b'{"a": ' * 200_000
"""JSON that no parser follows to its end."""
REPLACEMENTS = ("fifo", "link", "zero", "folder", "large", "loop", "socket", "deep")
LOOKS = (
    *("show", "best", "compare", "report", "status", "metrics", "find", "view"),
    *("tokens", "list", "export", "sweep", "load"),
)
RUNS = ("resume", "eval")


class HangError(BaseException):
    """A case that did not end."""


def replace(path: Path, how: str, outside: Path) -> None:
    """Replace a file or a folder by something that looks like it."""
    if path.is_dir():
        shutil.copytree(path, outside)
        shutil.rmtree(path)
    else:
        shutil.copy(path, outside)
        path.unlink()
    if how == "fifo":
        os.mkfifo(path)
    elif how == "link":
        path.symlink_to(outside)
    elif how == "zero":
        path.symlink_to("/dev/zero")
    elif how == "folder":
        path.mkdir()
    elif how == "loop":
        path.symlink_to(path.name)
    elif how == "socket":
        make_socket(path)
    elif how == "deep":
        path.write_bytes(DEEP)
    else:
        with path.open("wb") as file:
            file.truncate(LARGE)


def make_socket(path: Path) -> None:
    """Make a socket file. Its address is short: sockets take about 100 bytes."""
    with socket.socket(socket.AF_UNIX) as made, chdir(path.parent):
        made.bind(path.name)


def copy(source: str, target: str) -> str:
    """Copy a file; one of a checkpoint, which a run never writes again, by a hard link."""
    if "checkpoints" in Path(source).parts:
        os.link(source, target)
        return target
    return shutil.copy2(source, target)


def state_of(place: Path) -> str:
    """Return a digest of all names and contents of a file or of a folder."""
    files = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def words_of(command: str, folder: Path) -> list[str]:
    """Return the words of a command on a run."""
    return {
        "show": ["show", str(folder)],
        "best": ["show", str(folder), "eval", "--best"],
        "compare": ["compare", str(folder)],
        "report": ["report", str(folder)],
        "status": ["status", str(folder)],
        "metrics": ["metrics", str(folder)],
        "find": ["show", str(folder), "1", "--failed"],
        "tokens": ["show", str(folder), "1", "--tokens"],
        "list": ["show", str(folder), "--list"],
        "export": ["view", str(folder), "--export", str(folder / "page.html")],
        "sweep": ["compare", str(folder), "--table"],
        "resume": ["resume", str(folder), "steps=2"],
        "eval": ["eval", f"run={folder}", "evaluate.num_samples=1", "evaluate.ks=[1]"],
    }[command]


def run_command(words: Sequence[str]) -> tuple[int, str]:
    """Run a command in this process; return its exit code and what it wrote to stderr."""
    from rlx.__main__ import main

    said = io.StringIO()
    sys.argv, sys.stdin = ["rlx", *words], io.StringIO()
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(said):
            main()
    except SystemExit as end:
        return int(end.code or 0), said.getvalue()
    return 0, said.getvalue()


def look_around(folder: Path) -> tuple[int, str]:
    """Ask `rlx view` for everything but pictures; return 0, and the damage that it names."""
    from rlx.base.http import RefusedError
    from rlx.view.places import Places
    from rlx.view.server import View

    view, said = View(Places([folder])), []
    runs = json.loads(view.runs.answer())["runs"]
    for run in [one["id"] for one in runs]:
        query = {"run": run, "q": "the"}
        asked: list[Mapping[str, str]] = [{"door": door} for door in ("config", "metrics", "episodes", "search")]
        for name in ("step-000001.jsonl", "eval-2.jsonl"):
            asked += [{"door": door, "file": name, "line": "1", "group": "0"} for door in ("episode", "group")]
        for more in asked:
            try:
                view.doors()[more["door"]]({**query, **more}, "")
            except RefusedError as error:
                said.append(str(error))
    return 0, "\n".join(said)


def load_all(folder: Path) -> tuple[int, str]:
    """Read a run from Python; return 0, and the damage that it names."""
    import rlx
    from rlx.commands.last_words import one_line_of

    said = []
    reads: tuple[Callable[[Any], object], ...] = (
        *(lambda run: run.config, lambda run: run.metrics, lambda run: run.summary, lambda run: run.files),
        *(lambda run: list(run.episodes()), lambda run: list(run.episodes("1"))),
    )
    for read in reads:
        try:
            read(rlx.load(folder))
        except Exception as error:
            line = one_line_of(error)
            if line is None:
                raise
            said.append(line)
    return 0, "\n".join(said)


@contextmanager
def ending() -> Iterator[None]:
    """End a block that hangs."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def try_case(base: Path, place: Path, name: str, how: str, command: str) -> dict[str, Any]:
    """Run a command on a copy of a run with one file replaced."""
    folder, outside = place / "run", place / "outside"
    shutil.copytree(base, folder, copy_function=copy)
    replace(folder / name, how, outside)
    before, names = state_of(outside), set(os.listdir(place))
    acts: dict[str, Callable[[], tuple[int, str]]] = {
        "view": lambda: look_around(folder),
        "load": lambda: load_all(folder),
    }
    act = acts.get(command, lambda: run_command(words_of(command, folder)))
    try:
        with ending():
            code, said = act()
        fault = ""
    except BaseException as error:  # whatever it is, it is what came of the case
        code, said, fault = -1, "", f"{type(error).__name__}: {error}"
    is_same = state_of(outside) == before and set(os.listdir(place)) == names
    return {"case": [name, how, command], "code": code, "said": said[-2000:], "fault": fault, "is_same": is_same}


def main(plan: Path, report: Path) -> None:
    told = json.loads(plan.read_text())
    base, place = Path(told["base"]), Path(told["place"])
    import rlx.training  # noqa: F401, before memory is limited

    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    for number, case in enumerate(told["cases"]):
        here = place / str(number)
        here.mkdir()
        with report.open("a") as file:
            file.write(json.dumps(try_case(base, here, *case)) + "\n")
        with suppress(OSError):
            shutil.rmtree(here)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
