"""Two runs on the same held-out tasks, or two means over seeds: what one has over the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlx.base.console import format_count, one_line
from rlx.base.regular import inside
from rlx.base.table import Table
from rlx.environment.agents import groups_of_agents
from rlx.evaluation.columns import chosen_columns
from rlx.evaluation.evaluate import EvaluateError, default_ks
from rlx.evaluation.figures import Score, attainable, mean_gains, mean_ratios, name_figures, score
from rlx.evaluation.passk import estimates
from rlx.evaluation.seeds import gains_over_seeds
from rlx.evaluation.sweep import differing_keys, is_alike
from rlx.evaluation.tables import PAIRED, figure_table, pass_columns, use_columns
from rlx.runs.files import budgets_of, episode_files, rounds_in
from rlx.runs.find import is_run, runs_below
from rlx.runs.folder import TRAJECTORIES
from rlx.runs.provenance import Provenance, conflicts
from rlx.runs.run import StoredRun, require_run
from rlx.runs.store import load
from rlx.runs.summary import Estimate, Summary, plain
from rlx.types import Group


def runs_of(folder: Path) -> list[StoredRun]:
    """Return the run that a folder is, or, of a sweep over seeds, those below it that stored episodes."""
    below = [] if is_run(folder) else [run for run in runs_below(folder, nested=False) if episode_files(run)[0]]
    return [require_run(run) for run in below or [folder]]


def scores_of(run: StoredRun, name: str) -> list[Score]:
    """Return the scores of one of its stored evaluations, such as `eval-8`, a row per problem."""
    rounds, ended = rounds_in(name.rpartition("-")[2]), run.summary
    reward_range = (-math.inf, math.inf) if ended is None or ended.reward_range is None else ended.reward_range
    bounds = attainable(reward_range, None if math.isinf(rounds) else int(rounds))
    groups = load(inside(run.folder, TRAJECTORIES) / f"{name}.jsonl")
    return [score(group, bounds) for group in select_measured(groups, ended)]


def select_measured(groups: Sequence[Group], ended: Summary | None) -> list[Group]:
    """Return the episodes of the agent that a run's figures are of; of an agent that acts alone the whole episodes."""
    agents = {} if ended is None else ended.agents
    return groups_of_agents(groups, {group.task.env: (agents.get(group.task.env, ""),) for group in groups})


def refuse_none(run: StoredRun, budgets: list[str]) -> list[str]:
    if not budgets:
        raise EvaluateError(
            f"{run.folder} holds no evaluation: finish the run, or give a folder below its evaluations/"
        )
    return budgets


def name_rounds(max_rounds: int | None) -> str:
    """A limit of turns in the name of a file; `own` is each environment's own, or none."""
    return "own" if max_rounds is None else str(max_rounds)


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a comparison: an evaluation of one run, or of several that differ in their seeds."""

    name: str
    runs: tuple[StoredRun, ...]
    noun: str = "eval"
    """First word of the stored evaluations' names."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Paired gain of one side over the other under one limit of turns, with both sides' own figures, `eval/stat`."""

    max_rounds: str
    num_tasks: int
    ours: Side
    theirs: Side
    figures: Mapping[str, Estimate]
    """Ours less theirs."""
    over_seeds: Mapping[str, Estimate]
    """The same with intervals over seeds; empty if a side has a single run."""
    side_figures: tuple[Mapping[str, Estimate], Mapping[str, Estimate]]
    conflicts: tuple[str, ...] = ()
    """Code, packages and data in which the runs differ beside their configurations."""
    floor: Mapping[str, Estimate] = field(default_factory=dict)
    """Figures of random episodes, `eval/stat`; empty where the runs have none, or different ones."""

    @property
    def num_runs(self) -> tuple[int, int]:
        return len(self.ours.runs), len(self.theirs.runs)


def find_gains(ours: Path, theirs: Path | None = None) -> list[Gain]:
    """Return the gain over another run, or over the run's own start and over the untrained model, for each limit of
    turns that both sides were evaluated with."""
    mine = side_of(ours)
    others = starts_of(mine) if theirs is None else [side_of(theirs)]
    return [gain for other in others for gain in gains_over(mine, other)]


def side_of(folder: Path) -> Side:
    """Return the runs that a folder stands for; EvaluateError where their mean would mix different things."""
    runs = tuple(runs_of(folder))
    refuse_mixture(folder, runs)
    return Side(name=str(folder), runs=runs)


def refuse_mixture(folder: Path, runs: Sequence[StoredRun]) -> None:
    """Refuse to average runs that differ in more than their seeds."""
    keys = [key for key in differing_keys([run.settings for run in runs]) if not is_alike(key)]
    if keys:
        key_text = ", ".join(keys[:5]) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")
        raise EvaluateError(
            f"{folder} holds runs that differ in more than the seed ({key_text}): no mean of them is taken. Compare "
            f"one of them, such as {runs[0].folder}, or see all with `rlx compare {folder} --table`"
        )


def starts_of(side: Side) -> list[Side]:
    """Return the stored evaluations of the start and of the untrained model, for a comparison with both."""
    sides = [
        Side(name=name, runs=side.runs, noun=noun)
        for noun, name in (("start", "the start"), ("untrained", "the untrained model"))
        if all(budgets_of(run.folder, noun) for run in side.runs)
    ]
    if not sides:
        raise EvaluateError(f"{side.name} holds no evaluation of its start: give a second folder to compare it with")
    return sides


def gains_over(ours: Side, theirs: Side) -> list[Gain]:
    budgets = [refuse_none(run, budgets_of(run.folder, side.noun)) for side in (ours, theirs) for run in side.runs]
    shared = [rounds for rounds in budgets[0] if all(rounds in run_budgets for run_budgets in budgets)]
    if not shared:
        budget_lists = " and ".join(str(run_budgets) for run_budgets in (budgets[0], budgets[-1]))
        raise EvaluateError(f"{ours.name} and {theirs.name} were evaluated with other budgets: {budget_lists}")
    ks = sorted({k for run in (*ours.runs, *theirs.runs) for k in read_ks(run)})
    return [gain_under(rounds, ours, theirs, ks) for rounds in shared]


def gain_under(rounds: str, ours: Side, theirs: Side, ks: Sequence[int]) -> Gain:
    mine, other = ([scores_of(run, f"{side.noun}-{rounds}") for run in side.runs] for side in (ours, theirs))
    means = [mean_ratios(scores, ks) for scores in (mine, other)]
    side_figures = [name_figures("eval", estimates(mean)) for mean in means]
    return Gain(
        max_rounds=rounds,
        num_tasks=len(mine[0]),
        ours=ours,
        theirs=theirs,
        figures=mean_gains(mine, other, ks=ks, noun="eval"),
        over_seeds=gains_over_seeds(means[0], means[1], paired=folders_of(ours) == folders_of(theirs), noun="eval"),
        side_figures=(side_figures[0], side_figures[1]),
        conflicts=conflicts(records_of((*ours.runs, *theirs.runs))),
        floor=shared_floor((*ours.runs, *theirs.runs), rounds),
    )


def records_of(runs: Sequence[StoredRun]) -> list[Provenance]:
    """Return the provenance of each run that has ended."""
    summaries = {run.folder: run.summary for run in runs}.values()
    return [summary.provenance for summary in summaries if summary is not None]


def folders_of(side: Side) -> list[Path]:
    return [run.folder for run in side.runs]


def shared_floor(runs: Sequence[StoredRun], rounds: str) -> Mapping[str, Estimate]:
    """Return the figures of random episodes under a limit of turns; none unless the runs agree on all of them."""
    first, *others = [floor_in(run, rounds) for run in runs]
    return first if all(other == first for other in others) else {}


def floor_in(run: StoredRun, rounds: str) -> Mapping[str, Estimate]:
    """Return a run's figures of random episodes, `eval/stat`; none where its floor is of random tries, which have no
    reward. The run's first limit of turns has the noun `random`, another one `random@5`."""
    metrics = {} if run.summary is None else run.summary.metrics
    nouns = (f"random@{rounds}", "random")
    noun = next((noun for noun in nouns if f"{noun}/reward" in metrics), None)
    return {
        f"eval/{name.split('/', 1)[1]}": figure for name, figure in metrics.items() if name.split("/", 1)[0] == noun
    }


def read_ks(run: StoredRun) -> list[int]:
    """Values of k for which a run reports pass@k."""
    ks, num_samples = (run.settings.get(f"evaluate.{key}") for key in ("ks", "num_samples"))
    valid_ks = [k for k in ks if isinstance(k, int) and k > 0] if isinstance(ks, list) else []
    return valid_ks or list(default_ks(num_samples if isinstance(num_samples, int) and num_samples > 0 else 1))


def gain_values(gain: Gain) -> dict[str, Any]:
    """Return one of `find_gains` as JSON."""
    return {
        "max_rounds": None if gain.max_rounds == "own" else int(gain.max_rounds),
        "tasks": gain.num_tasks,
        "conflicts": list(gain.conflicts),
        "runs": list(gain.num_runs),
        "ours": {"name": gain.ours.name, "metrics": plain(gain.side_figures[0])},
        "theirs": {"name": gain.theirs.name, "metrics": plain(gain.side_figures[1])},
        "gain": plain(gain.figures),
        "gain_over_seeds": plain(gain.over_seeds),
        "random": plain(gain.floor),
    }


def gain_tables(gain: Gain, columns: str = "") -> list[Table]:
    """Return both sides and the gain, a row each: pass@k, then the use of tools and the reward; or these columns."""
    rounds = "the environment's own rounds" if gain.max_rounds == "own" else format_count(int(gain.max_rounds), "round")
    title = f"{format_count(gain.num_tasks, 'task')}, {rounds} [95% interval]{PAIRED}"
    floor = {"random episodes": gain.floor} if gain.floor else {}
    rows = {**floor, **dict(zip(side_names(gain), gain.side_figures, strict=True))}
    usual = {"Pass@k, %: ": pass_columns(gain.figures), "An episode: ": use_columns(rows.values())}
    columns_by_caption = {"": chosen_columns(columns, gain.figures)} if columns else usual
    gains = {"gain": gain.figures, **({"gain, interval over seeds": gain.over_seeds} if gain.over_seeds else {})}
    tables = [
        figure_table(f"{caption}{title}", chosen, rows, gains=gains) for caption, chosen in columns_by_caption.items()
    ]
    return [*tables, *([conflict_table(gain.conflicts)] if gain.conflicts else [])]


WIDTH = 200
"""Characters of a difference that a table shows."""


def conflict_table(conflicts: Sequence[str]) -> Table:
    """Return a table that names code, packages and data in which compared runs differ."""
    title = "These runs differ beside their configurations: the gain may come from here"
    return Table(title=title, header=("made with other",), rows=tuple((one_line(text, WIDTH),) for text in conflicts))


def side_names(gain: Gain) -> list[str]:
    """Return the names of both sides, which differ, with how many runs a mean is of."""
    names = [
        side.name + (f", mean of {len(side.runs)} runs" if len(side.runs) > 1 else "")
        for side in (gain.ours, gain.theirs)
    ]
    return names if names[0] != names[1] else [names[0], f"{names[1]}, again"]
