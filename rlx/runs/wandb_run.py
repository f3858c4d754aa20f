"""A run's page in W&B: metrics by step in sections, final figures, Pass@k curves, episodes, and the code's state.

Names and texts that a model, a page or an environment may have written are cleaned and bounded first.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlx.base.console import clean_value, one_line
from rlx.base.regular import is_regular, make_inside, read_text, write_aside
from rlx.runs.dashboard import Figures
from rlx.runs.episode_table import COLUMNS, episode_rows
from rlx.runs.folder import METRICS, WANDB
from rlx.runs.track import Track, finite_numbers, lines_by_step, missing_lines

PASS_AT = re.compile(r"(?P<policy>[^/]+)/pass@(?P<k>\d+)")
PASS_COLUMNS = ("policy", "k", "pass@k", "low", "high")
BEST = ("reward/mean", "success/mean", "eval/*")
"""Metrics whose largest value stands beside the last one in the table of runs."""
SWEEP = "multirun.yaml"
"""File in the folder of a sweep, above those of its runs."""


@dataclass
class WandbRun:
    """An open run of W&B. It begins with the first step, which a resumed run takes from metrics.jsonl."""

    run: Any
    folder: Path
    episodes: int
    last: int = 0
    """Newest step that W&B has."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Send the missing steps up to this step."""
        self._send(missing_lines(self.folder / METRICS, self.last, step, metrics))

    def finish(self, figures: Figures, exit_code: int) -> None:
        """Send missing steps, the final figures and the tables, and close even where they fail."""
        try:
            lines = lines_by_step(self.folder / METRICS)
            self._send({step: lines[step] for step in sorted(lines) if step > self.last})
            self.run.summary.update({one_line(name): value for name, (value, _, _) in figures.items()})
            tables = tables_of(figures, episode_rows(self.folder, self.episodes))
            if tables:
                self.run.log(tables)
        finally:
            self.run.finish(exit_code=exit_code)

    def _send(self, lines: Mapping[int, Mapping[str, Any]]) -> None:
        for step, line in lines.items():
            self.run.log({**finite_numbers(line), "step": step}, step=step, commit=True)
            self.last = step


def tables_of(figures: Figures, episodes: list[list[Any]]) -> dict[str, Any]:
    """Return W&B's tables and the plots that are drawn of them, each below its section."""
    wandb = import_wandb()
    tables: dict[str, Any] = {}
    passes = pass_rows(figures)
    if passes:
        table = wandb.Table(columns=list(PASS_COLUMNS), data=passes)
        tables["tables/pass@k"] = table
        tables["plots/pass@k"] = wandb.plot.line(table, "k", "pass@k", stroke="policy", title="Pass@k")
    if episodes:
        table = wandb.Table(columns=list(COLUMNS), data=episodes)
        tables["tables/episodes"] = table
        tables["plots/reward"] = wandb.plot.histogram(table, "reward", title="Reward of an episode")
    return tables


def pass_rows(figures: Figures) -> list[list[Any]]:
    """Return a row per policy and k: `eval/pass@4` is k=4 of the policy `eval`."""
    matches = [(PASS_AT.fullmatch(name), ends) for name, ends in figures.items()]
    rows = [[one_line(match["policy"]), int(match["k"]), *ends] for match, ends in matches if match]
    return sorted(rows, key=lambda row: row[:2])


def import_wandb() -> Any:
    """Import W&B so that it takes the server, the key and all other settings from the environment and the user's home
    alone.

    W&B would also read `wandb/settings` of the current folder, which may be a downloaded run's, and send the key to
    the server that the file names. No setting of its own turns that off.
    """
    import wandb

    setattr(wandb.Settings, "settings_workspace", property(lambda _: os.devnull))  # noqa: B010, mypy sees a method
    if wandb.Settings().read_system_settings()._local_path != Path(os.devnull):
        raise RuntimeError("this version of W&B reads settings of the current folder, which may be a stranger's")
    return wandb


def open_wandb(track: Track, folder: Path, config: Mapping[str, Any]) -> WandbRun:
    """Open W&B's run: online if the mode says so or, with `auto`, if the user is logged in. An unreachable server makes
    it offline.

    With `auto`, W&B's variable WANDB_MODE comes first. W&B cannot go back to the step of a checkpoint: `resume` is
    unset, so that a resumed run replaces the run of the same id.
    """
    wandb = import_wandb()
    mode = os.environ.get("WANDB_MODE", "auto") if track.mode == "auto" else track.mode
    online = mode == "online" or (mode == "auto" and is_logged_in())
    settings = wandb.Settings(init_timeout=track.timeout, silent=True, console="off", disable_git=True)
    options: dict[str, Any] = {
        "project": track.project,
        "entity": track.entity or None,
        "group": track.group or sweep_of(folder) or None,
        "job_type": f"seed {config['seed']}" if "seed" in config else None,
        "name": track.name or folder.name,
        "id": run_id(folder),
        "dir": str(folder),
        "config": clean_value(config),
        "settings": settings,
    }
    try:
        run = wandb.init(mode="online" if online else "offline", **options)
    except wandb.errors.CommError:
        run = wandb.init(mode="offline", **options)
    run.define_metric("*", step_metric="step")
    for name in BEST:
        run.define_metric(name, step_metric="step", summary="last,max")
    return WandbRun(run, folder, track.episodes)


def is_logged_in() -> bool:
    """Return True if W&B's server accepts the user's key."""
    wandb = import_wandb()
    try:
        return wandb.login(prompt=False, timeout=10) is True
    except wandb.errors.CommError:
        return False


def sweep_of(folder: Path) -> str:
    """Return the name of the sweep that a run's folder is part of; empty if it is part of none."""
    sweep = folder.parent
    return one_line(f"{sweep.parent.name}/{sweep.name}", 120) if is_regular(sweep / SWEEP) else ""


def run_id(folder: Path) -> str:
    """Return the run's id for W&B, the same across resumes."""
    path = make_inside(folder, WANDB) / "run-id"
    if not os.path.lexists(path):
        write_aside(path, uuid.uuid4().hex[:12])
    return read_text(path).strip()
