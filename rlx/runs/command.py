"""Command line of a run, in its `command.json`: {"command": "train", "words": ["env=countdown", …]}."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

TRAIN, EVAL = "train", "eval"
"""Commands that record their words. A record without a name is of `rlx train`."""
LONGEST = 20_000
"""Largest number of characters of a command that is shown: in part it would be of no use."""


def command_record(name: str, words: Sequence[str]) -> str:
    """Return the text of command.json."""
    return json.dumps({"command": name, "words": list(words)}) + "\n"


def command_line(record: Mapping[str, Any]) -> str:
    """Return the command line that a record holds, quoted for a shell; empty where it holds none."""
    words, name = record.get("words"), record.get("command")
    if not isinstance(words, list) or not words:
        return ""
    return f"rlx {EVAL if name == EVAL else TRAIN} {shlex.join(map(str, words))}"
