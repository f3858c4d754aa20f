"""Figures of a reproduction, which stay when its runs are gone: the file NAME.json of its folder, and docs/results.

    {"command": "rlx reproduce carl",
     "commits": ["c4e3e142..."],
     "figures": {"CARL over GRPO": {"reward": {"value": -0.011, "over_problems": [-0.033, 0.010],
                                               "over_seeds": [-0.078, 0.057], "seeds": [-0.029, 0.013, -0.017]}}},
     "cost": {"carl/0": {"tokens": 6119360, "tool_calls": 71034, "seconds": 3610.0}}}

Figures are those of rows, gains, curves, comparisons and measured policies, by the names of the reproduction's file.
One of the rows is the untrained model. A gain of a seed is that seed's over the mean of the other side. Intervals are
95%, and absent where nothing bounds them. Claims, bands and results pages follow from this file and the registry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path

from rlx.base.console import one_line
from rlx.base.regular import read_bounded
from rlx.lab.reproduce.reproduction import ReproductionError
from rlx.runs.form import NATURAL, NUMBER, STRING, CodecError, made, many, named, parse
from rlx.runs.summary import Estimate

DIGITS = 6
"""Significant digits of a figure in the file."""
Ends = tuple[float, ...]
"""Lower and upper end of an interval; empty without an interval."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Mean over the seeds, its intervals, and its value in each seed."""

    value: float
    over_problems: Ends = ()
    over_seeds: Ends = ()
    seeds: tuple[float, ...] = ()
    """Values in the order of the seeds; empty where one policy serves all seeds."""

    def __post_init__(self) -> None:
        if any(len(ends) not in (0, 2) for ends in (self.over_problems, self.over_seeds)):
            raise ValueError("an interval has two ends, or is left out")

    @property
    def problems(self) -> Estimate:
        """Return the figure with its interval over problems."""
        return estimate_of(self.value, self.over_problems)

    @property
    def measured(self) -> Estimate:
        """Return the figure with its interval over seeds, which decides verdicts."""
        return estimate_of(self.value, self.over_seeds)


@dataclass(frozen=True, kw_only=True)
class RunCost:
    """Cost of one run: sampled tokens, tool calls and wall-clock seconds."""

    tokens: int
    tool_calls: int
    seconds: float


Figures = Mapping[str, Mapping[str, Figure]]
"""Figures by the name of a row, gain, curve or measurement, and by statistic (`pass@1`)."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """Figures and cost of a reproduction, with the command and the commits that made them."""

    command: str
    commits: tuple[str, ...]
    figures: Figures
    cost: Mapping[str, RunCost]
    """Cost by run (`carl/0`)."""


def estimate_of(value: float, ends: Ends) -> Estimate:
    """Return an estimate whose ends are infinite where there is no interval."""
    low, high = ends or (-inf, inf)
    return Estimate(value=value, low=low, high=high)


def ends_of(estimate: Estimate | None) -> Ends:
    """Return the ends of an interval, rounded; empty if it has none."""
    if estimate is None or not (isfinite(estimate.low) and isfinite(estimate.high)):
        return ()
    return (rounded(estimate.low), rounded(estimate.high))


def rounded(value: float) -> float:
    """Return a number with the digits of the file."""
    return float(f"{value:.{DIGITS}g}")


def figure_from(
    problems: Estimate | None, over_seeds: Estimate | None = None, seeds: Iterable[float] = ()
) -> Figure | None:
    """Return a figure from its estimates; None where nothing was measured."""
    estimate = problems or over_seeds
    if estimate is None or not isfinite(estimate.value):
        return None
    return Figure(
        value=rounded(estimate.value),
        over_problems=ends_of(problems),
        over_seeds=ends_of(over_seeds),
        seeds=tuple(map(rounded, seeds)),
    )


ENDS = many(NUMBER).unless(())
FIGURE = made(Figure, value=NUMBER, over_problems=ENDS, over_seeds=ENDS, seeds=ENDS)
COST = made(RunCost, tokens=NATURAL, tool_calls=NATURAL, seconds=NUMBER)
RESULTS = made(Results, command=STRING, commits=many(STRING), figures=named(named(FIGURE)), cost=named(COST))


def to_json(results: Results) -> str:
    """Return the text of the file, a line for each row and run."""
    sections = []
    for key, value in RESULTS.write(results).items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, dict):
            lines = [f"  {json.dumps(name, ensure_ascii=False)}: {json.dumps(entry)}" for name, entry in value.items()]
            text = "{\n" + ",\n".join(lines) + "\n }"
        sections.append(f' "{key}": {text}')
    return "{\n" + ",\n".join(sections) + "\n}\n"


def read_results(path: Path) -> Results:
    """Return the results in a file; ReproductionError with one line that names the file."""
    try:
        results: Results = RESULTS.read(parse(read_bounded(path)), "results")
    except (OSError, CodecError, ValueError) as error:
        raise ReproductionError(f"{path}: {one_line(str(error), 200)}") from None
    return results
