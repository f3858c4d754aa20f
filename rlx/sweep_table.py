"""A table across the runs of a multirun: the keys that vary, then the figures every run ended with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rlx.config_check import ConfigError, show
from rlx.folder import flatten

FIGURES = ("eval/pass@1", "eval/pass@4", "eval/pass@8", "eval/pass@16", "eval/reward", "eval/tool_calls")
"""The main figures, shown where they exist; all others follow when asked for."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One run of a sweep."""

    name: str
    settings: Mapping[str, Any]
    summary: Mapping[str, Any]


def describe_sweep(folder: Path, *, whole: bool = False) -> str:
    """One line a run."""
    entries = read_sweep(folder)
    keys = varying(entries)
    found = dict.fromkeys(name for entry in entries for name in entry.summary.get("metrics", {}))
    metrics = sorted((name for name in found if whole or name in FIGURES), key=rank)
    return align([["run", "status", *keys, *metrics], *(row(entry, keys, metrics) for entry in entries)])


def read_sweep(folder: Path) -> list[Entry]:
    """Every folder below that holds a config.yaml, in the order of their numbers."""
    runs = [file.parent for file in folder.glob("*/config.yaml")]
    if not runs:
        raise ConfigError(f"{folder} holds no runs: give the folder of an `rlx train -m`")
    return [read_entry(run) for run in sorted(runs, key=lambda run: (len(run.name), run.name))]


def read_entry(run: Path) -> Entry:
    """A run's settings and what it ended with; a run that has not ended has no summary."""
    settings = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    file = run / "summary.json"
    summary = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return Entry(name=run.name, settings=flatten(settings), summary=summary)


def varying(entries: list[Entry]) -> list[str]:
    """Keys that do not have the same value in all runs."""
    keys = dict.fromkeys(key for entry in entries for key in entry.settings)
    return [key for key in keys if len({show(entry.settings.get(key)) for entry in entries}) > 1]


def rank(metric: str) -> tuple[int, str]:
    return (FIGURES.index(metric) if metric in FIGURES else len(FIGURES), metric)


def row(entry: Entry, keys: list[str], metrics: list[str]) -> list[str]:
    found = entry.summary.get("metrics", {})
    values = [figure(found.get(name)) for name in metrics]
    return [
        entry.name,
        str(entry.summary.get("status", "unfinished")),
        *(show(entry.settings.get(k)) for k in keys),
        *values,
    ]


def figure(value: Any) -> str:
    """`.563 (.512 to .610)`, or an empty cell."""
    if not isinstance(value, Mapping):
        return "" if value is None else f"{value:.3f}"
    interval = f" ({value['low']:.3f} to {value['high']:.3f})" if "low" in value and "high" in value else ""
    return f"{value['value']:.3f}{interval}"


def align(rows: list[list[str]]) -> str:
    widths = [max(len(line[column]) for line in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in rows)
