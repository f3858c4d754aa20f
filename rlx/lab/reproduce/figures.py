"""Figures of a reproduction's rows, and what one row gains over another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain

from rlx.evaluation.compare import scores_of
from rlx.evaluation.figures import Score, gains_of_each, mean_ratios, name_figures
from rlx.evaluation.passk import UnpairedError, estimates
from rlx.evaluation.seeds import gains_over_seeds, means_over_seeds
from rlx.lab.reproduce.members import Runs
from rlx.lab.reproduce.reproduction import Reproduction, ReproductionError
from rlx.runs.folder import SUMMARY
from rlx.runs.run import read_run
from rlx.runs.summary import Estimate, read_summary

Figures = dict[str, Estimate]
Scored = Mapping[str, Sequence[Sequence[Score]]]
"""Scores of each evaluation that a report is of, a table a seed, by what names it: `tool_rloo eval-8`."""


def score(reproduction: Reproduction, runs: Runs) -> Scored:
    """Each read once, as an evaluation is tens of megabytes."""
    named = dict.fromkeys([*reproduction.rows.values(), *chain.from_iterable(reproduction.gains.values())])
    places = [place.split(" ", 1) for place in named if not is_random(place)]
    return {
        f"{arm} {evaluation}": [scores_of(read_run(run), evaluation) for run in runs[arm]] for arm, evaluation in places
    }


def is_random(name: str) -> bool:
    """Return whether it names the floor, of which no episodes are stored."""
    return name.endswith(" random")


def row_figures(reproduction: Reproduction, row: str, runs: Runs, scores: Scored) -> Figures:
    """A row of the tables, `eval/stat` to its estimate; of several seeds the mean."""
    if is_random(row):
        figures = read_summary(runs[row.split(" ")[0]][0] / SUMMARY).metrics
        return {f"eval/{name.split('/', 1)[1]}": value for name, value in figures.items() if name.startswith("random/")}
    return name_figures("eval", estimates(mean_ratios(scores[row], reproduction.ks)))


def gain_figures(reproduction: Reproduction, scores: Scored) -> dict[str, Figures]:
    """Return the gains of one over another: the mean over seeds first, then each seed over the mean of the other's."""
    gains: dict[str, Figures] = {}
    for name, (ours, theirs) in reproduction.gains.items():
        with naming(name):
            mean, *each = gains_of_each(scores[ours], scores[theirs], ks=reproduction.ks, noun="eval")
        gains[name] = mean
        for seed, gain in enumerate(each if len(each) > 1 else ()):
            gains[f"{name}, seed {seed}"] = gain
    return gains


def seed_gain_figures(reproduction: Reproduction, scores: Scored) -> dict[str, Figures]:
    """Return the gains that have at least two seeds on either side, with intervals over seeds; those between two
    evaluations of one arm are paired by run."""
    seed_gains: dict[str, Figures] = {}
    for name, (ours, theirs) in reproduction.gains.items():
        mine, other = (mean_ratios(scores[side], reproduction.ks) for side in (ours, theirs))
        paired = ours.split(" ")[0] == theirs.split(" ")[0]
        seed_gains[name] = gains_over_seeds(mine, other, paired=paired, noun="eval")
    return {name: figures for name, figures in seed_gains.items() if figures}


def seed_row_figures(reproduction: Reproduction, scores: Scored) -> dict[str, Figures]:
    """Return the rows that have at least two seeds, with intervals over seeds."""
    means = {
        name: means_over_seeds(mean_ratios(scores[place], reproduction.ks), "eval")
        for name, place in reproduction.rows.items()
        if not is_random(place)
    }
    return {name: figures for name, figures in means.items() if figures}


def each_seed_of_rows(reproduction: Reproduction, scores: Scored) -> dict[str, dict[str, list[float]]]:
    """Return the value of each seed, by row and `eval/stat`, of the rows that have at least two seeds."""
    ratios = {
        name: mean_ratios(scores[place], reproduction.ks)
        for name, place in reproduction.rows.items()
        if not is_random(place)
    }
    return {
        name: {f"eval/{stat}": [*map(float, ratio.each)] for stat, ratio in figures.items() if len(ratio.top) > 1}
        for name, figures in ratios.items()
    }


@contextmanager
def naming(name: str) -> Iterator[None]:
    """A row's or gain's own name before what its runs cannot be compared for."""
    try:
        yield
    except UnpairedError as error:
        raise ReproductionError(f"{name}: {error}") from None
