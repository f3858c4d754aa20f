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


def score(what: Reproduction, runs: Runs) -> Scored:
    """Each read once, as an evaluation is tens of megabytes."""
    named = dict.fromkeys([*what.rows.values(), *chain.from_iterable(what.gains.values())])
    told = [one.split(" ", 1) for one in named if not is_random(one)]
    return {
        f"{arm} {evaluation}": [scores_of(read_run(run), evaluation) for run in runs[arm]] for arm, evaluation in told
    }


def is_random(name: str) -> bool:
    """Return whether it names the floor, of which no episodes are stored."""
    return name.endswith(" random")


def row_figures(what: Reproduction, row: str, runs: Runs, scores: Scored) -> Figures:
    """A row of the tables, `eval/stat` to its estimate; of several seeds the mean."""
    if is_random(row):
        figures = read_summary(runs[row.split(" ")[0]][0] / SUMMARY).metrics
        return {f"eval/{name.split('/', 1)[1]}": value for name, value in figures.items() if name.startswith("random/")}
    return name_figures("eval", estimates(mean_ratios(scores[row], what.ks)))


def gain_figures(what: Reproduction, scores: Scored) -> dict[str, Figures]:
    """Return the gains of one over another: the mean over seeds first, then each seed over the mean of the other's."""
    found: dict[str, Figures] = {}
    for name, (ours, theirs) in what.gains.items():
        with naming(name):
            mean, *each = gains_of_each(scores[ours], scores[theirs], ks=what.ks, noun="eval")
        found[name] = mean
        for seed, gain in enumerate(each if len(each) > 1 else ()):
            found[f"{name}, seed {seed}"] = gain
    return found


def seed_gain_figures(what: Reproduction, scores: Scored) -> dict[str, Figures]:
    """Return the gains that have at least two seeds on either side, with intervals over seeds; those between two
    evaluations of one arm are paired by run."""
    found: dict[str, Figures] = {}
    for name, (ours, theirs) in what.gains.items():
        mine, other = (mean_ratios(scores[one], what.ks) for one in (ours, theirs))
        paired = ours.split(" ")[0] == theirs.split(" ")[0]
        found[name] = gains_over_seeds(mine, other, paired=paired, noun="eval")
    return {name: figures for name, figures in found.items() if figures}


def seed_row_figures(what: Reproduction, scores: Scored) -> dict[str, Figures]:
    """Return the rows that have at least two seeds, with intervals over seeds."""
    means = {
        name: means_over_seeds(mean_ratios(scores[place], what.ks), "eval")
        for name, place in what.rows.items()
        if not is_random(place)
    }
    return {name: figures for name, figures in means.items() if figures}


def each_seed_of_rows(what: Reproduction, scores: Scored) -> dict[str, dict[str, list[float]]]:
    """Return the value of each seed, by row and `eval/stat`, of the rows that have at least two seeds."""
    ratios = {name: mean_ratios(scores[place], what.ks) for name, place in what.rows.items() if not is_random(place)}
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
