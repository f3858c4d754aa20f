"""Where output goes: to a reader that leaves, to a full device; a run goes on without anybody to hear it."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys

import pytest

from rlx.commands.last_words import one_line_of
from rlx.console import RunConsole, Screen

COMMANDS = [["plan"], ["list", "algo"], ["status", "docs"], ["--help"]]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_reader_that_leaves_is_no_failure(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "rlx", *words], stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_full_device_is_one_line(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "rlx", *words], stdout=full, stderr=subprocess.PIPE, timeout=60)
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


@pytest.mark.parametrize(
    ("error", "line"),
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
