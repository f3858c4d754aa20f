"""`api/runs`: every run with its state, its figures and what of its folder cannot be read."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from rlx.record.command import command_line
from rlx.record.folder import (
    COMMAND,
    CONFIG,
    METRICS,
    RESULTS,
    SUMMARY,
    FolderError,
    digest_of,
    flatten,
    read_config,
)
from rlx.record.form import CodecError, parse
from rlx.record.index import num_lines_of
from rlx.regular import open_regular
from rlx.runs.mark import WATCHED, Jobs, Mark, mark_of, size_and_time
from rlx.runs.slurm import Record
from rlx.runs.state import read_status_anyway
from rlx.view.limits import bounded, dump, plain
from rlx.view.places import Places, episode_files, read_inside

MOST_CHECKED = 2**26
"""Bytes of metrics that are looked through for damage."""


@dataclass
class Runs:
    """Answers on runs, each made again only if something in its folder changed."""

    places: Places
    _known: dict[Path, tuple[Mark, dict[str, Any]]] = field(default_factory=dict)
    _jobs: Jobs = field(default_factory=Jobs)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self) -> bytes:
        with self._lock:
            runs = self.places.runs()
            records = self._jobs.records(list(runs.values()), monotonic())
            found = [
                {"id": name, "name": name.rpartition("/")[2], **self.describe(folder, records)}
                for name, folder in runs.items()
            ]
        groups = Counter(run["sweep"] for run in found)
        rows = [{**run, "sweep": run["sweep"] if groups[run["sweep"]] > 1 else ""} for run in found]
        places = [str(place).encode("utf-8", "replace").decode() for place in self.places.folders]
        return dump({"places": places, "runs": rows})

    def describe(self, folder: Path, records: Mapping[str, Record]) -> dict[str, Any]:
        mark = mark_of(folder, records)
        known = self._known.get(folder)
        if known is None or known[0] != mark:
            known = self._known[folder] = (mark, describe_run(folder, records))
        return known[1]


def describe_run(folder: Path, records: Mapping[str, Record]) -> dict[str, Any]:
    status = read_status_anyway(folder, records)
    config, summary, damage = read_parts(folder)
    counts = [num_lines_of(file.path) for file in episode_files(folder)[0] if not file.is_partial]
    choices = choices_of(folder, config)
    return {
        "state": status.state,
        "step": status.step,
        "steps": status.steps,
        "seconds": plain(status.seconds),
        "left": plain(status.left),
        "where": status.where[:200],
        **choices,
        "seed": plain(config.get("seed")),
        "sweep": sweep_of(config, choices),
        "changed": max(size_and_time(folder / name)[1] for name in WATCHED) / 1e9,
        "figures": figures_of(summary),
        "num_episodes": None if None in counts else sum(count or 0 for count in counts),
        "damage": damage,
    }


def read_parts(folder: Path) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return the configuration and the summary, empty where they cannot be read, and what cannot be read."""
    config, config_damage = read_run_config(folder)
    summary, summary_damage = read_object(folder, SUMMARY)
    found = [*config_damage, *summary_damage, *metrics_damage(folder), *episode_files(folder)[1]]
    return config, summary, found


def read_run_config(folder: Path) -> tuple[dict[str, Any], list[str]]:
    path = folder / CONFIG
    if not os.path.lexists(path):
        return {}, [f"{CONFIG}: it is missing"]
    try:
        return read_config(folder), []
    except FolderError as error:
        return {}, [str(error).partition(";")[0].replace(str(path), CONFIG)[:300]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        return {}, [f"{CONFIG}: {type(error).__name__}"]


def read_object(folder: Path, name: str) -> tuple[dict[str, Any], list[str]]:
    raw = read_inside(folder, name)
    if isinstance(raw, str):
        return {}, [raw]
    try:
        found = parse(raw) if raw else {}
    except CodecError as error:
        return {}, [f"{name}: {error}"]
    return (found, []) if isinstance(found, dict) else ({}, [f"{name}: it is no object"])


def metrics_damage(folder: Path) -> list[str]:
    """Return what of the metrics cannot be read, by the beginnings and ends of lines."""
    path = folder / METRICS
    if not os.path.lexists(path):
        return []
    try:
        with open_regular(path) as file:
            *lines, _ = file.read(MOST_CHECKED).split(b"\n")
    except OSError as error:
        return [f"{METRICS}: {error.strerror}"]
    bad = sum(not (line.startswith(b"{") and line.endswith(b"}")) for line in lines)
    return [f"{METRICS}: {bad} of {len(lines)} lines cannot be read"] if bad else []


def choices_of(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of env, algo and model: from the command's words, else from the configuration's targets."""
    words = read_object(folder, COMMAND)[0].get("words")
    said = [word.partition("=") for word in words if isinstance(word, str)] if isinstance(words, list) else []
    chosen = {key: value for key, _, value in said}
    return {key: str(chosen.get(key) or target_of(config.get(key)))[:100] for key in ("env", "algo", "model")}


def target_of(part: Any) -> str:
    if not isinstance(part, dict):
        return ""
    name = part.get("path") or part.get("_target_") or ""
    return str(name).rpartition(".")[2] if "path" not in part else str(name)


def sweep_of(config: Mapping[str, Any], choices: Mapping[str, str]) -> str:
    """Return the name of the runs that differ in their seeds alone."""
    flat = {key: value for key, value in flatten(config).items() if key != "seed" and not key.startswith("track.")}
    return f"{' '.join(filter(None, choices.values()))} {digest_of(flat)[:6]}" if flat else ""


def figures_of(summary: Mapping[str, Any]) -> dict[str, list[float | int | None]]:
    """Return the final evaluation's figures: value, low and high."""
    metrics = summary.get("metrics")
    found = metrics.items() if isinstance(metrics, dict) else ()
    return {
        name.removeprefix("eval/")[:200]: [plain(value.get(key)) for key in ("value", "low", "high")]
        for name, value in found
        if name.startswith("eval/") and isinstance(value, dict)
    }


def config_answer(folder: Path) -> bytes:
    """`api/config`: configuration, summary, command and results of a run."""
    config, _ = read_run_config(folder)
    summary, _ = read_object(folder, SUMMARY)
    command = command_line(read_object(folder, COMMAND)[0])
    results = read_inside(folder, RESULTS)
    return dump(
        {
            "config": bounded(flatten(config)),
            "summary": bounded(summary),
            "command": command[:10_000],
            "results": results.decode(errors="replace")[:100_000] if isinstance(results, bytes) else "",
            "damage": read_parts(folder)[2],
        }
    )
