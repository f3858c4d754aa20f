"""`api/runs`: state, figures and unreadable files of every run."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from rlx.base.regular import open_regular
from rlx.runs.command import command_line
from rlx.runs.files import episode_files
from rlx.runs.folder import (
    COMMAND,
    METRICS,
    RESULTS,
    digest_of,
)
from rlx.runs.form import CodecError, parse
from rlx.runs.index import num_lines_of
from rlx.runs.mark import WATCHED, Jobs, Mark, mark_of, size_and_time
from rlx.runs.run import StoredRun, read_run
from rlx.runs.slurm import Record
from rlx.runs.state import job_of
from rlx.runs.summary import without_infinities
from rlx.view.limits import bounded, dump, plain
from rlx.view.places import Places, read_inside

MOST_CHECKED = 2**26
"""Bytes of metrics that are looked through for damage."""


@dataclass
class Runs:
    """Answers on runs, each made again only if something in its folder changed."""

    places: Places
    _cache: dict[Path, tuple[Mark, dict[str, Any]]] = field(default_factory=dict)
    _jobs: Jobs = field(default_factory=Jobs)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self) -> bytes:
        with self._lock:
            runs = self.places.runs()
            records = self._jobs.records(list(runs.values()), monotonic())
            descriptions = [
                {"id": name, "name": name.rpartition("/")[2], **self.describe(folder, records)}
                for name, folder in runs.items()
            ]
        groups = Counter(run["sweep"] for run in descriptions)
        rows = [{**run, "sweep": run["sweep"] if groups[run["sweep"]] > 1 else ""} for run in descriptions]
        places = [str(place).encode("utf-8", "replace").decode() for place in self.places.folders]
        return dump({"places": places, "runs": rows})

    def describe(self, folder: Path, records: Mapping[str, Record]) -> dict[str, Any]:
        mark = mark_of(folder, records)
        entry = self._cache.get(folder)
        if entry is None or entry[0] != mark:
            entry = self._cache[folder] = (mark, describe_run(folder, records))
        return entry[1]


def describe_run(folder: Path, records: Mapping[str, Record]) -> dict[str, Any]:
    run = read_run(folder, records.get(job_of(folder)))
    counts = [num_lines_of(file.path) for file in run.files if not file.is_partial]
    choices = choices_of(run)
    return {
        "state": run.state,
        "step": run.step,
        "steps": run.steps,
        "seconds": plain(run.seconds),
        "left": plain(run.left),
        "where": run.where[:200],
        **choices,
        "seed": plain(run.config.get("seed")),
        "sweep": sweep_of(run, choices),
        "changed": max(size_and_time(folder / name)[1] for name in WATCHED) / 1e9,
        "figures": figures_of(run),
        "num_episodes": None if None in counts else sum(count or 0 for count in counts),
        "damage": damage_of(run),
    }


def damage_of(run: StoredRun) -> list[str]:
    """Return a line for each file that cannot be read."""
    parts = [f"{damage.place}: {damage.reason}" for damage in run.damage]
    return [*parts, *metrics_damage(run.folder), *episode_files(run.folder)[1]]


def read_command(folder: Path) -> dict[str, Any]:
    """Return the record of a run's command; empty if it cannot be read."""
    raw = read_inside(folder, COMMAND)
    try:
        record = parse(raw) if isinstance(raw, bytes) and raw else {}
    except CodecError:
        record = {}
    return record if isinstance(record, dict) else {}


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


def choices_of(run: StoredRun) -> dict[str, str]:
    """Return the options of env, algo and model: from the command's words, else from the configuration's targets."""
    words = read_command(run.folder).get("words")
    pairs = [word.partition("=") for word in words if isinstance(word, str)] if isinstance(words, list) else []
    options = {key: value for key, _, value in pairs}
    return {key: str(options.get(key) or target_of(run.config.get(key)))[:100] for key in ("env", "algo", "model")}


def target_of(part: Any) -> str:
    if not isinstance(part, dict):
        return ""
    name = part.get("path") or part.get("_target_") or ""
    return str(name).rpartition(".")[2] if "path" not in part else str(name)


def sweep_of(run: StoredRun, choices: Mapping[str, str]) -> str:
    """Return the name of the runs that differ in their seeds alone."""
    flat = {key: value for key, value in run.settings.items() if key != "seed" and not key.startswith("track.")}
    return f"{' '.join(filter(None, choices.values()))} {digest_of(flat)[:6]}" if flat else ""


def figures_of(run: StoredRun) -> dict[str, list[float | int | None]]:
    """Return the final evaluation's figures: value, low and high."""
    metrics = {} if run.summary is None else run.summary.metrics
    return {
        name.removeprefix("eval/")[:200]: [plain(figure.value), plain(figure.low), plain(figure.high)]
        for name, figure in metrics.items()
        if name.startswith("eval/")
    }


def config_answer(folder: Path) -> bytes:
    """`api/config`: configuration, summary, command and results of a run."""
    run, results = read_run(folder), read_inside(folder, RESULTS)
    return dump(
        {
            "config": bounded(run.settings),
            "summary": bounded({} if run.summary is None else without_infinities(asdict(run.summary))),
            "command": command_line(read_command(folder))[:10_000],
            "results": results.decode(errors="replace")[:100_000] if isinstance(results, bytes) else "",
            "damage": damage_of(run),
        }
    )
