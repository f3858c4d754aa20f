"""`rlx analyze criticality run=DIR`: how much each turn of a run's policy changes the reward."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.base.console import format_count
from rlx.base.limits import MistakeError
from rlx.base.regular import inside, read_bounded, write_aside
from rlx.base.table import Table
from rlx.evaluation.evaluate import held_out
from rlx.evaluation.picture import Handles, Panel
from rlx.evaluation.tables import Column, estimate_cell
from rlx.lab.criticality import (
    CRITICAL,
    FIGURES,
    FLAT,
    Inspection,
    State,
    measure_states,
    split_by_spread,
    state_figures,
)
from rlx.learner.checkpoint import newest_good
from rlx.plan.checks import check_evaluate
from rlx.plan.prospect import Prospect
from rlx.run.warm import model_digest, warm_model
from rlx.runs.cache import WARM
from rlx.runs.folder import CHECKPOINTS, digest_of
from rlx.runs.summary import Estimate
from rlx.settings.compose import build_run
from rlx.settings.saved import load_tree

if TYPE_CHECKING:
    from rlx.model.load import Model
    from rlx.run.run import Run

COLUMNS = (
    Column(stat="states", title="States", digits=0),
    Column(stat="flat", title=f"Spread below {FLAT}, %", percent=True),
    Column(stat="critical", title=f"Spread from {CRITICAL}, %", percent=True),
    Column(stat="spread", title="Mean spread", digits=3),
    Column(stat="uncertainty", title="Uncertainty, nats", digits=3),
    Column(stat="uncertainty_ratio", title="Top tenth over rest", digits=2),
    Column(stat="rank_correlation", title="Rank correlation", digits=2),
)
EDGES = [0.0, *(0.01 + 0.05 * step for step in range(12))]
"""Edges of the histogram's bins: the first is the flat states'."""


def inspect_run(folder: Path, words: Sequence[str], inspection: Inspection, from_start: bool) -> list[State]:
    """Measure a run's final or first policy on the held-out tasks of the run, with the run's sampling settings."""
    run = build_run(load_tree(folder, words, tracks=False), folder, words)
    check_evaluate(Prospect(run=run, trains=False))
    return inspect_model(run, start_model(run) if from_start else trained_model(run), inspection)


def trained_model(run: Run) -> Model:
    """Return the model of a run's newest good checkpoint."""
    return replace(run.model, path=str(checkpoint_in(run.folder)), lora=None)


def start_model(run: Run) -> Model:
    """Return the model of a run's warm start, from the cache or the folder of the run."""

    def find(stage: Run) -> Path:
        run_folder = inside(run.folder, WARM, stage.folder.name)
        return checkpoint_in(run_folder if run_folder.exists() else stage.folder)

    return replace(warm_model(run, find), lora=None)


def checkpoint_in(folder: Path) -> Path:
    """Return the newest good checkpoint of a folder."""
    newest, _ = newest_good(inside(folder, CHECKPOINTS))
    if newest is None:
        raise MistakeError(f"{folder}: it has no checkpoint to analyze; go on with it by its own rlx train command")
    return newest


def inspect_model(run: Run, model: Model, inspection: Inspection) -> list[State]:
    """Measure a model in a run's environment."""
    from rlx.run.fleet import open_fleet
    from rlx.run.trainee import build_policy

    tasks = held_out(replace(run.evaluate, num_tasks=inspection.tasks), run.env)
    with open_fleet(run) as fleet:
        policy = build_policy(run, model, fleet)
        player = policy.rollout(run.env, run.sampling, ("criticality", inspection.seed))
        return measure_states(player, tasks, run.sampling, inspection.draws)


def measure_or_read(run: Run, model: Model, file: Path, inspection: Inspection) -> list[State]:
    """Measure a model, or read what was measured of the same weights and written to a file."""
    key = digest_of({"weights": model_digest(model), "inspection": asdict(inspection)})
    stored_states = read_states(file, key)
    if stored_states is not None:
        return stored_states
    states = inspect_model(run, model, inspection)
    write_aside(file, json.dumps({"key": key, "states": [asdict(state) for state in states]}) + "\n")
    return states


def read_states(file: Path, key: str) -> list[State] | None:
    """Return the states in a file, where it is whole and of this key."""
    try:
        contents = json.loads(read_bounded(file))
        states = [State(**state) for state in contents["states"]] if contents["key"] == key else None
        return states if states is None or all(map(is_sound, states)) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def is_sound(state: State) -> bool:
    """Tell whether a state that was read has the types of one that was measured."""
    numbers = (state.uncertainty, state.spread, state.mean)
    is_named = isinstance(state.task, str) and isinstance(state.action, str) and isinstance(state.turn, int)
    return is_named and all(isinstance(number, float | int) and isfinite(number) for number in numbers)


def figures_of(states: Sequence[State], inspection: Inspection) -> dict[str, Estimate]:
    """Return the figures of states, of which there must be one."""
    if not states:
        raise MistakeError("criticality: no episode ended without an error, so no state was measured")
    return state_figures(states, inspection)


def criticality_tables(figures_by_policy: Mapping[str, Mapping[str, Estimate]], inspection: Inspection) -> list[Table]:
    """Return the figures of each policy, a row each."""
    draws = f"{inspection.draws} draws a state for the spread, {inspection.draws} for the uncertainty"
    scope_text = f"{format_count(inspection.tasks, 'task')}, {draws} [95% interval over tasks]"
    rows = tuple(
        (name, *(estimate_cell(figures[column.stat], column) for column in COLUMNS))
        for name, figures in figures_by_policy.items()
    )
    header = ("policy", *(column.title for column in COLUMNS))
    return [Table(title=f"Criticality of turns; {scope_text}", header=header, rows=rows)]


def criticality_values(states: Sequence[State], figures: Mapping[str, Estimate], inspection: Inspection) -> Any:
    """Return everything as JSON values."""
    estimates = {name: asdict(figures[name]) for name in FIGURES}
    return {**asdict(inspection), "figures": estimates, "states": [asdict(state) for state in states]}


def criticality_panel(title: str, states: Sequence[State]) -> Panel:
    """Return the panel of Figure 2: shares of states by spread, and uncertainty at the critical ones and the rest."""

    def draw(axes: Sequence[Any]) -> Handles:
        left, right = axes
        spreads = [min(state.spread, EDGES[-1]) for state in states]
        weights = [100 / max(1, len(states))] * len(states)
        left.hist(spreads, bins=EDGES, weights=weights, color="C0", alpha=0.8)
        left.set_xlabel("spread of the reward", fontsize=8)
        left.set_ylabel("states, %", fontsize=8)
        parts = [[state.uncertainty for state in part] or [0.0] for part in split_by_spread(states)]
        right.boxplot(parts, tick_labels=["top tenth", "rest"], showfliers=False, widths=0.5)
        right.set_ylabel("uncertainty, nats a token", fontsize=8)
        return []

    return Panel(title=title, draw=draw, num_axes=2, width=5.6, height=2.6)


def draw_criticality(file: Path, panels: Sequence[Panel]) -> None:
    """Write the panels as a picture."""
    from rlx.evaluation.picture import picture_svg

    write_aside(file, picture_svg(panels))
