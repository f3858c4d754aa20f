"""Keywords of GEM's constructors, by the names that an option of rlx has for them.

min_number=1 -> low=1      dim_room=(6, 8) -> num_rows=6, num_columns=8      dataset_name="x/y" -> source=hub, hub=x/y
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rlx.base.limits import MistakeError

NAMES = {
    "min_number": "low",
    "max_number": "high",
    "code_length": "length",
    "word_length": "length",
    "num_numbers": "highest",
    "duplicate_numbers": "repeats",
    "target_tile": "target",
    "board_size": "size",
    "scale": "size",
    "dataset_name": "hub",
    "test_key": "answer_key",
    "name": "task",
}
"""GEM's names, and the keys with the same meaning, where an option has them."""
UNUSED = ("use_mp", "verbose", "sandbox_type", "load_from_cache_file", "only_real_words", "max_workers")
"""Keywords of GEM that change nothing here."""
LENGTHS = {False: (3, 5), True: (6, 8)}
"""Shortest and longest words without and with `hardcore`."""


def names_of(keys: Iterable[str]) -> dict[str, str]:
    """Return every name, of rlx and of GEM, that reads one of these keys; `task` is that of the episode."""
    option_keys = dict.fromkeys(key for key in keys if key != "task")
    return {name: key for name, key in NAMES.items() if key in option_keys} | {key: key for key in option_keys}


def translate(keywords: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Return keywords by the keys of an option; a key of the option itself, or an unknown one, stays as it is."""
    option_keys, option_values = set(keys), {}
    for name, value in keywords.items():
        if name in option_keys:
            option_values[name] = value
        elif name == "dim_room" and "num_rows" in option_keys:
            option_values["num_rows"], option_values["num_columns"] = value
        elif name == "hardcore" and "shortest" in option_keys:
            option_values["shortest"], option_values["longest"] = LENGTHS[bool(value)]
        elif name == "dataset" and "hub" in option_keys:
            option_values |= {"source": "hub", "hub": write_rows(value)}
        elif NAMES.get(name) in option_keys:
            option_values |= {NAMES[name]: value, **({"source": "hub"} if name == "dataset_name" else {})}
        elif name not in UNUSED and not (name == "hardcore" and not value):
            option_values[name] = value
    return option_values


def write_rows(dataset: Any) -> str:
    """Write the rows of a `datasets.Dataset` to a file that this process removes at its end; return the file's name."""
    if not hasattr(dataset, "to_json"):
        kind = "several splits" if hasattr(dataset, "values") else f"{type(dataset).__name__:.40}"
        raise MistakeError(f"dataset: {kind}: expected one datasets.Dataset, such as load_dataset(NAME)['train']")
    handle, path = tempfile.mkstemp(suffix=".jsonl")
    os.close(handle)
    atexit.register(Path(path).unlink, missing_ok=True)
    dataset.to_json(path)
    return path
