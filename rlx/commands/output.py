"""Results on standard output, which a pipe may read."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlx.base.console import ResultConsole, Screen, one_line
from rlx.base.limits import MistakeError
from rlx.base.regular import write_aside
from rlx.base.table import Table, to_rich
from rlx.runs.summary import without_infinities


class OutputError(MistakeError):
    """A file that cannot be written; the message is one line."""


def write_output(path: Path, text: str) -> None:
    """Write a file that the user named, or the file that a link leads to.

    OutputError for a device, a pipe or a socket. A file is renamed into its place, so root would replace /dev/null.
    """
    if path.exists() and not path.is_file():
        raise OutputError(f"{one_line(str(path))} is no regular file: name a file")
    write_aside(Path(os.path.realpath(path)), text)


def show_tables(tables: Sequence[Table]) -> None:
    screen = Screen(console=ResultConsole())
    for table in tables:
        screen.show(to_rich(table))


def show_json(value: Any) -> None:
    """One document; what may obey a terminal is escaped."""
    print(json.dumps(without_infinities(value), indent=2, allow_nan=False, default=str))
