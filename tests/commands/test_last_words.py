"""Where output goes: to a reader that leaves, to a full device; a run goes on without anybody to hear it."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys

import pytest

from rlx.base.console import RunConsole, Screen
from rlx.commands.last_words import one_line_of
from rlx.rollout.engine import WeightsError
from tests.loops import for_each

COMMANDS = [["plan"], ["list", "algo"], ["status", "docs"], ["--help"]]


@for_each("words", COMMANDS)
def test_a_reader_that_leaves_is_no_failure(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "rlx", *words], stdout=writer, stderr=subprocess.PIPE, timeout=600)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@for_each("words", COMMANDS)
def test_a_full_device_is_one_line(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "rlx", *words], stdout=full, stderr=subprocess.PIPE, timeout=600)
    assert done.returncode == 1
    assert done.stderr == b"rlx: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC, errno.EIO])
def test_a_run_that_nobody_hears_goes_on(number: int) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(number, os.strerror(number))

    screen = Screen(console=RunConsole(file=Gone()))
    screen.say("one")
    screen.show("two")
    with screen.bar("train", 2) as advance:
        advance(2)


@for_each(
    "error, line",
    [
        (FileExistsError(errno.EEXIST, "File exists", "/a"), "/a: there is a file, where a folder should be: choose"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "/a/b"), "/a/b: part of it is a file, where a folder"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "/a"), "/a: this is a folder, where a file should be"),
        (PermissionError(errno.EACCES, "Permission denied", "/a"), "/a: Permission denied"),
        (OSError(errno.ENOSPC, "/a could not be written: No space", "/a"), "/a could not be written: No space"),
    ],
)
def test_errors_of_the_file_system_name_the_file_and_no_number(error: OSError, line: str) -> None:
    told = one_line_of(error)
    assert told is not None
    assert told.startswith(line)
    assert "Errno" not in told


def test_output_that_is_ascii_or_closed_is_no_failure() -> None:
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = [sys.executable, "-m", "rlx", "status", "no-such-\N{SNOWMAN}"]
    done = subprocess.run(shown, capture_output=True, env=ascii_only, timeout=600)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"\\u2603" in done.stderr
    code = "from rlx.cli import main; import sys; sys.argv = ['rlx', 'list', 'algo']; main()"
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        done = subprocess.run(f'"{sys.executable}" -c "{code}" {closed}', shell=True, timeout=600, check=False)
        assert done.returncode == 0


@for_each(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.\nat x"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("unable to mmap 1 bytes"),
        WeightsError("policy version 0 gives logits that are not finite"),
    ],
)
def test_what_no_words_can_mend_is_one_line(error: Exception) -> None:
    told = one_line_of(error)
    assert told
    assert "\n" not in told


def test_a_bug_keeps_its_traceback() -> None:
    assert one_line_of(RuntimeError()) is None
    assert one_line_of(RuntimeError("shapes do not fit")) is None
