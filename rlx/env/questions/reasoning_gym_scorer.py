"""reasoning-gym in contained processes (rlx.tool.contain): questions drawn and answers scored by its own data sets.

Nine of its scorers give an answer's text to Python's own `eval`, or to sympy's parser, which does: those are given none
that could call or name anything but mathematics, and each answer is scored in a process of its own.
"""

from __future__ import annotations

import json
import random
import re
from collections import OrderedDict
from dataclasses import fields
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy
import reasoning_gym  # noqa: F401, imported before any process is forked

LISTS = {"string_insertion", "spiral_matrix", "binary_matrix", "n_queens"}
"""Tasks whose scorers evaluate a list."""
FORMULAS = {"simple_integration", "intermediate_integration", "polynomial_multiplication", "puzzle24", "countdown"}
"""Tasks whose scorers evaluate a formula."""
LIST = re.compile(r"""(?:[\[\], \t\r\n0-9+-]|'[^'\\\n]*'|"[^"\\\n]*")*""")
"""Lists of numbers and quoted text: no name, and nothing that is called."""
PLAIN = re.compile(r"[A-EQ_ \t\r\n]*")
"""Answers that stand there without quotes: letters to insert, and boards with queens. Nothing has such a name."""
FORMULA = re.compile(
    r"(?:[A-Za-z](?!\w)|(?:a?(?:sin|cos|tan|sec|csc|cot)h?|exp|log|ln|sqrt|Abs|pi)(?!\w)|(?<!\w)\d{1,30}(?!\w*[A-Za-z_])"
    r"|\.(?=\d)|(?<=\d)\.(?![A-Za-z_])|[-+/^(), \n]|\*(?!\*\s*[-+(]*\d{4}))*"
)
"""Numbers, single letters and functions of mathematics, no power above 999."""
MAX_ENTRIES = 4096
"""Entries that are kept until they are scored."""
ENTRIES: OrderedDict[str, dict[str, Any]] = OrderedDict()


def prepare(request: dict[str, Any]) -> None:
    """Draw an entry before processes are forked to score answers to it."""
    if request["do"] == "score":
        entry_of(request["key"])


def answer(request: dict[str, Any]) -> Any:
    if request["do"] == "know":
        return know(request["task"])
    entry = entry_of(request["key"])
    if request["do"] == "draw":
        return {"question": entry["question"], "answer": entry["answer"]}
    if entry["question"] != request["question"]:
        raise ValueError("this version of reasoning-gym asks something else here")
    text = request["text"] if is_harmless(request["key"]["task"], request["text"]) else ""
    return float(data_set(*place(request["key"])).score_answer(text, entry))


def know(task: str) -> dict[str, list[str]]:
    """Every task's name, and the options of this one."""
    from reasoning_gym.factory import DATASETS

    names = sorted(set(DATASETS) - {"composite"})
    keys = [field.name for field in fields(DATASETS[task][1])] if task in names else []
    return {"tasks": names, "options": [key for key in keys if key not in ("seed", "size")]}


def place(key: dict[str, Any]) -> tuple[str, str, int, int]:
    return key["task"], json.dumps(key["options"], sort_keys=True), key["seed"], key["size"]


@lru_cache(maxsize=8)
def data_set(task: str, options: str, seed: int, size: int) -> Any:
    from reasoning_gym.factory import create_dataset

    return create_dataset(task, seed=seed, size=size, **json.loads(options))


def entry_of(key: dict[str, Any]) -> dict[str, Any]:
    name = json.dumps(key, sort_keys=True)
    if name not in ENTRIES:
        seed_all(name)
        ENTRIES[name] = data_set(*place(key))[key["index"]]
        while len(ENTRIES) > MAX_ENTRIES:
            ENTRIES.popitem(last=False)
    return ENTRIES[name]


def seed_all(name: str) -> None:
    """Seed the global generators of Python and numpy, which a few tasks use: `codeio` runs snippets that do."""
    random.seed(name)
    numpy.random.seed(crc32(name.encode()))


def is_harmless(task: str, text: str) -> bool:
    """Check that a scorer may read the text."""
    if task in LISTS:
        return LIST.fullmatch(text) is not None or PLAIN.fullmatch(text) is not None
    return task not in FORMULAS or FORMULA.fullmatch(text) is not None
