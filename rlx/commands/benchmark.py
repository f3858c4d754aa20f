"""The words of `rlx eval` that ask for general benchmarks: benchmark=NAME,FILE and what stands beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rlx.config.check import ConfigError
from rlx.evaluate.benchmarks import Benchmarks
from rlx.limits import near

FLAGS = {"true": True, "false": False}
NAMES = "benchmark"
KEYS = {"benchmark_limit": "limit", "benchmark_shots": "shots", "benchmark_batch_size": "batch_size"}
CODE = "benchmark_code"


def split_benchmarks(words: Sequence[str]) -> tuple[Benchmarks | None, list[str]]:
    """Separate the benchmarks from the other words; None where no word names any."""
    mine = [word for word in words if word.startswith(NAMES) and "=" in word]
    rest = [word for word in words if word not in mine]
    if not mine:
        return None, rest
    given = dict(word.split("=", 1) for word in mine)
    for key in given:
        if key not in (NAMES, CODE, *KEYS):
            raise ConfigError(f"there is no key {key!r:.60}{near(key, (NAMES, CODE, *KEYS))}")
    if NAMES not in given:
        raise ConfigError(f"{mine[0]:.60} needs benchmark=NAME beside it, such as benchmark=arc_challenge")
    try:
        return Benchmarks(names=names_in(given[NAMES]), **numbers_in(given), code=flag_in(given)), rest
    except ValueError as error:
        raise ConfigError(str(error)) from error


def names_in(value: str) -> tuple[str, ...]:
    """Return the names; brackets around a list are allowed, as in other keys."""
    inner = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    return tuple(name.strip() for name in inner.split(","))


def numbers_in(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the keys that are integers."""
    found: dict[str, Any] = {}
    for key, name in KEYS.items():
        text = given.get(key, "null")
        if text == "null":
            continue
        if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 10:
            raise ConfigError(f"{key}={text:.40}: expected an integer")
        found[name] = int(text)
    return found


def flag_in(given: Mapping[str, str]) -> bool:
    text = given.get(CODE, "false").lower()
    if text not in FLAGS:
        raise ConfigError(f"{CODE}={text:.40}: expected true or false")
    return FLAGS[text]


def quiet_bars() -> None:
    """Let the harness draw its progress bars on a terminal alone. tqdm reads the variable when it is imported."""
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")
