"""A paper's result as data: runs, rows of the report, published figures and expected ones.

source, setting: of the published numbers
seeds: number of seeds, from 0; words: added to every run's command line
runs: by name, the run's `words`; `per_seed`, or seed 0 alone; `needs`, runs to finish first, with every seed;
      `goes_on_from`, a run whose last checkpoint of the same seed is the first model; `as_long_as` a run: number of
      steps that take the time of that run, or `as_much_as` a run: number of steps that train on as many tokens, and
      `by_steps_of`, the run that measures one step; `tokens`, the measured tokens of an episode, for --plan
ks: values of k for which pass@k is reported
rows: by name, a run and one of its evaluations (`tool_rloo eval-8`: eight rounds; `random`: the floor); with several
      seeds the mean
gains: by name, two such: the first less the second, problem by problem
curves: by title, a `metric` of each step and the `runs` whose curves are drawn together; `by` steps, episodes or
      tokens; with `reach`, the amount that each run spent until it was there; with `amount`, the value there and
      not at the end (curves.svg)
credit: `runs` whose algorithms the laboratory measures (rlx/lab/laboratory.py), with `tokens` for each of them,
      `tasks` and a `budget` of tokens; `credit of RUN` has the figures `turn/bias`, `token/bias`, …, `gradient`
comparisons: by name, two `operands` such as `RUN METRIC`, means over all steps. `kind` chooses their ratio or their
      difference; `scale` multiplies the first mean
criticality: `policies` of runs (`grpo start`, `carl eval`), measured on `tasks` with `draws` in each state
      (rlx/lab/criticality.py); `criticality of grpo start` has the figures `flat`, `critical`, …
pass_curves: by title, pass@k against k for some `rows`, of all tasks or of a `part` of a mixture (pass_curves.svg)
bars: by title, some `figures` of some `rows`, a bar each (bars.svg)
distributions: by title, the histogram of a `figure` of an episode (episode/tokens: sampled tokens) for some `rows`,
      over the `correct` episodes unless that is false, of all tasks or of a `part` (distributions.svg and a table)
frontiers: by title, one figure (`across`) against another (`up`), a point for each of some `rows`; `line`: the rows
      that a line connects, in its order (frontiers.svg)
paper: name of the source in the registry (rlx/lab/reproduce/papers.py)
published: by row, rows of the paper's tables (`Table 2: Tool-RLOO`), several where the paper has several agents for it;
      pass_curves, bars and frontiers draw them hollow. Without `paper`: figures by name, a number or a list of them
expected: by row, gain, comparison or measured policy, the least and the largest value of a figure; by curve, those of
      the end of each run
marks: by name and figure of `expected`, for a band that was set after results: `added`, or the band before
claims: sentences of the registry. Without `paper`: sentences with the meaning of each here, the `figure` of a `row` or
      gain being at `least` or at `most` a number

A panel has up to ten rows. Pictures need matplotlib. All figures have the names of rlx/evaluation/figures.py.
A file with `like` is a variant of another file in the same folder, with other `seeds`, and `without` some runs and the
entries that name these runs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlx.base.console import one_line
from rlx.base.limits import LARGEST, MANY, MistakeError, near, within
from rlx.lab.reproduce.arm import ARM, WORDS, Arm, in_order
from rlx.lab.reproduce.comparisons import COMPARISON, Comparison
from rlx.lab.reproduce.studies import CLAIM, POLICIES, STUDY, Claim, Policies, Study
from rlx.runs.form import NATURAL, NUMBER, STRING, Form, made, many, named, number, numbers
from rlx.runs.form import in_order as both
from rlx.view.report.curves import CURVE, Curve
from rlx.view.report.pictures import (
    BARS,
    DISTRIBUTION,
    FRONTIER,
    PASS_CURVES,
    Bars,
    Distribution,
    Frontier,
    PassCurves,
    Picture,
)

NAME = re.compile(r"[\w-]+")
"""Pattern of run names; also used as folder names and in the entries of `rows`."""


class ReproductionError(MistakeError):
    """A reproduction that cannot be; the message is one line with its place."""


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """See above."""

    source: str
    setting: str = ""
    seeds: int = 1
    words: tuple[str, ...] = ()
    runs: Mapping[str, Arm]
    ks: tuple[int, ...] = (1,)
    rows: Mapping[str, str]
    gains: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)
    credit: Study | None = None
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    criticality: Policies | None = None
    pass_curves: Mapping[str, PassCurves] = field(default_factory=dict)
    bars: Mapping[str, Bars] = field(default_factory=dict)
    distributions: Mapping[str, Distribution] = field(default_factory=dict)
    frontiers: Mapping[str, Frontier] = field(default_factory=dict)
    paper: str = ""
    published: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    expected: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    marks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    claims: Mapping[str, Claim] = field(default_factory=dict)

    def __post_init__(self) -> None:
        within(1, MANY, seeds=self.seeds)
        for k in self.ks:
            within(1, MANY, ks=k)
        if not self.runs:
            raise ValueError("runs: expected at least one")
        for word in (*self.words, *(word for arm in self.runs.values() for word in arm.words)):
            refuse_word(word)
        for name in self.runs:
            if not NAME.fullmatch(name):
                raise ValueError(f"a run's name is letters, digits, _ and -, not {name!r:.60}")
        if any(" " not in entry for entry in (*self.rows.values(), *(x for both in self.gains.values() for x in both))):
            raise ValueError("rows and gains name a run and one of its evaluations, such as `mine eval-8`")
        named = [(name, other) for name, arm in self.runs.items() for other in arm.waits_for]
        mentions = [(row, entry.split(" ")[0]) for row, entry in self.rows.items()]
        mentions += [(gain, entry.split(" ")[0]) for gain, both in self.gains.items() for entry in both]
        mentions += [(curve, name) for curve, spec in self.curves.items() for name in spec.runs]
        mentions += [("credit", name) for name in (self.credit.runs if self.credit else ())]
        mentions += [(comparison, name) for comparison, spec in self.comparisons.items() for name in spec.runs]
        mentions += [
            ("criticality", policy.split(" ")[0]) for policy in (self.criticality.policies if self.criticality else ())
        ]
        for place, name in (*named, *mentions):
            if name not in self.runs:
                raise ValueError(f"{place}: there is no run {name!r} among {', '.join(self.runs)}")
        for name, arm in self.runs.items():
            if arm.per_seed and arm.goes_on_from and not self.runs[arm.goes_on_from].per_seed:
                raise ValueError(f"{name} goes on from {arm.goes_on_from} for every seed, which has seed 0 alone")
        self.check_figures()
        self.check_pictures()
        in_order(self.runs)

    def check_figures(self) -> None:
        """Check that published figures are of a row, and expected and claimed ones of a row, gain or curve. Names are
        of one of them alone."""
        names = (*self.rows, *self.gains, *self.curves, *self.measured)
        for name in (name for name, num in Counter(names).items() if num > 1):
            raise ValueError(f"{name}: rows, gains, curves and comparisons share no names")
        for name in (name for name in self.published if name not in self.rows):
            raise ValueError(f"{name}: published is of rows, and there is no such row{near(name, self.rows)}")
        for name in (name for name in self.expected if name not in names):
            raise ValueError(f"{name}: there is no such row, gain or curve{near(name, names)}")
        for sentence, claim in self.claims.items():
            if claim.row not in (*self.rows, *self.gains, *self.measured):
                where = f"{one_line(sentence, 60)}: row={claim.row:.60}"
                raise ValueError(f"{where}: there is no such row or gain{near(claim.row, names)}")
        for title, curve in self.curves.items():
            for name in (name for name in self.expected.get(title, ()) if name not in curve.runs):
                run_names = ", ".join(curve.runs)
                raise ValueError(f"{title}: expected names {name!r}, which is none of its runs: {run_names}")
        for figures in self.published.values():
            for stat, values in figures.items():
                for value in values:
                    within(-LARGEST, LARGEST, **{stat: value})
        for name, marks in self.marks.items():
            for stat in (stat for stat in marks if stat not in self.expected.get(name, ())):
                raise ValueError(f"{name}: marks has {stat!r:.60}, and expected has not")
        for name, bands in self.expected.items():
            for stat, (low, high) in bands.items():
                if not low <= high:
                    raise ValueError(f"{name}: {stat}=[{low:g}, {high:g}]: expected the least before the most")

    @property
    def measured(self) -> tuple[str, ...]:
        """Return the names of what is compared over steps or measured by itself."""
        credit, policies = (study.rows if study else () for study in (self.credit, self.criticality))
        return (*credit, *self.comparisons, *policies)

    @property
    def metrics(self) -> list[tuple[str, str, str]]:
        """Return what its curves and comparisons need: the title, a run, and a metric of its steps."""
        curves = [(title, arm, curve.metric) for title, curve in self.curves.items() for arm in curve.runs]
        pairs = [
            (name, operand.split(" "))
            for name, comparison in self.comparisons.items()
            for operand in comparison.operands
        ]
        return [*curves, *((name, arm, metric) for name, (arm, metric) in pairs)]

    @property
    def pictures(self) -> list[tuple[str, Picture]]:
        """Pictures of rows, by their titles."""
        kinds = (self.pass_curves, self.bars, self.distributions, self.frontiers)
        return [picture for kind in kinds for picture in kind.items()]

    def check_pictures(self) -> None:
        """Check that pictures are of rows, that a distribution's rows have episodes, and that pass@k has a curve."""
        for title, picture in self.pictures:
            for row in (row for row in picture.rows if row not in self.rows):
                raise ValueError(f"{one_line(title, 60)}: there is no row {one_line(row, 60)!r}{near(row, self.rows)}")
            for row in (row for row in picture.rows if isinstance(picture, Distribution) and self.is_floor(row)):
                raise ValueError(f"{one_line(title, 60)}: {one_line(row, 60)}: no episodes of random tries are stored")
            if isinstance(picture, PassCurves) and len({*self.ks}) < 2:
                raise ValueError(f"{one_line(title, 60)}: pass_curves need two values of ks or more")

    def is_floor(self, row: str) -> bool:
        """Return whether a row is of random tries."""
        return self.rows[row].endswith(" random")


def refuse_word(word: str) -> None:
    """Every run has the seed of its place: with the same one several would be one, and their mean no mean. An option
    such as `-m` or `--help` would make another command of it."""
    if word.startswith("-"):
        raise ReproductionError(f"{one_line(word, 60)}: expected a word of a run's configuration, not an option")
    if word.lstrip("+").partition("=")[0] == "seed":
        raise ReproductionError(f"{word:.60}: each run has a seed of its own; `seeds`, or --seeds, says how many")


def read_printed(value: Any, where: str) -> tuple[float, ...]:
    """Read a published figure: a number, or those of several agents."""
    return numbers(value, where) if isinstance(value, list) else (number(value, where),)


PRINTED = Form(list, read_printed)
REPRODUCTION = made(
    Reproduction,
    source=STRING,
    setting=STRING.unless(""),
    seeds=NATURAL.unless(1),
    words=WORDS,
    runs=named(ARM),
    ks=many(NATURAL).unless((1,)),
    rows=named(STRING),
    gains=named(both(STRING, STRING)).unless({}),
    curves=named(CURVE).unless({}),
    credit=STUDY.unless(None),
    comparisons=named(COMPARISON).unless({}),
    criticality=POLICIES.unless(None),
    pass_curves=named(PASS_CURVES).unless({}),
    bars=named(BARS).unless({}),
    distributions=named(DISTRIBUTION).unless({}),
    frontiers=named(FRONTIER).unless({}),
    paper=STRING.unless(""),
    published=named(named(PRINTED)).unless({}),
    expected=named(named(both(NUMBER, NUMBER))).unless({}),
    marks=named(named(STRING)).unless({}),
    claims=named(CLAIM).unless({}),
)
