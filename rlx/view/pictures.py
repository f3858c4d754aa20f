"""`api/pictures`: an episode drawn by its environment, after each turn.

The environment runs in a process that is forked for the episode (`rlx.view.drawing`) and killed after a time. So an
environment that hangs or fills the memory harms no page. Pictures that it drew until then are shown.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from rlx.tool.contain.box import Limits, box
from rlx.tool.contain.process import ChildError, LateError, StartError
from rlx.view.episode import read_line
from rlx.view.limits import MOST_PICTURED, MOST_TEXT, dump
from rlx.view.table import FileRows

SECONDS = 10.0
"""Seconds of a replay."""
LEAST = 1e-3
"""Seconds that are waited where none are left: a socket does not block for 0."""
MEMORY_MB = 2048
"""Memory of a replay, beyond that of the imported packages."""
MODULE = str(Path(__file__).with_name("draw.py"))
REPLAYING = threading.BoundedSemaphore(2)
"""Replays at a time."""


def pictures_answer(folder: Path, file_rows: FileRows, number: int) -> bytes:
    """Return the pictures, and why there are no more: nothing after the last turn."""
    read_line(file_rows, number)
    row = file_rows.find(number)
    assert row is not None
    pictures: list[str] = []
    if not REPLAYING.acquire(timeout=SECONDS):
        return dump({"pictures": pictures, "why": "other episodes are being replayed: try again"})
    try:
        why = collect(pictures, {"folder": str(folder), "file": str(file_rows.file.path), "row": row})
    except LateError:
        why = f"the environment was stopped: it took longer than {SECONDS:g} s"
    except (ChildError, StartError) as error:
        why = f"the environment was stopped: {error}"
    finally:
        REPLAYING.release()
    return dump({"pictures": pictures, "why": why[:1000]})


def collect(pictures: list[str], task: Mapping[str, Any]) -> str:
    """Append the pictures as they are drawn, and return why there are no more."""
    deadline = monotonic() + SECONDS
    options = {"memory_mb": MEMORY_MB, "here": str(Path.cwd())}
    process = box(MODULE, contained=False).begin({"task": task, "options": options, "seed": 0}, Limits())
    try:
        answer = process.hear(deadline - monotonic())
        while "picture" in answer:
            pictures.append(str(answer["picture"])[:MOST_TEXT])
            if sum(map(len, pictures)) > MOST_PICTURED:
                return f"the pictures have more than {MOST_PICTURED:,} characters"
            answer = process.ask(None, max(LEAST, deadline - monotonic()))
        return str(answer.get("why", ""))
    finally:
        process.end()
