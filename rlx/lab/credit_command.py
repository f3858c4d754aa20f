"""`rlx analyze credit`: the credit of several algorithms beside the true advantages, as tables or JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from statistics import fmean
from typing import Any

from rlx.algo.parts import Algorithm
from rlx.base.limits import near
from rlx.base.table import Table
from rlx.env.bifurcation.bifurcation import Bifurcation
from rlx.environment import Environment
from rlx.environment.dialect import Dialect
from rlx.environment.world import dialect_of
from rlx.evaluation.tables import Column, estimate_cell
from rlx.lab.credit_figures import Weigh, credit_figures
from rlx.lab.gradients import CELLS, Cells, chunks_of, gradient_cosines
from rlx.lab.laboratory import Measured, Policy, measure
from rlx.runs.summary import Estimate
from rlx.settings.compose import ConfigError, build_part, compose

COLUMNS = (
    Column(stat="correlation", title="Correlation", digits=2),
    Column(stat="correlation of all", title="of all", digits=2),
    Column(stat="slope", title="Slope", digits=2),
    Column(stat="error", title="Error", digits=2),
    Column(stat="error of all", title="of all", digits=2),
    Column(stat="bias", title="Bias", digits=3),
    Column(stat="scaled bias", title="Scaled bias", digits=3),
    Column(stat="mean error", title="Mean error", digits=3),
    Column(stat="variance", title="Variance", digits=3),
    Column(stat="sign", title="Sign, %", percent=True, digits=0),
    Column(stat="zero", title="Zero, %", percent=True, digits=0),
)
COSINES: dict[Cells, str] = {"state": "true state", "text": "text of the state", "shared": "text, shared by tasks"}
"""Parametrisations of the policy, as a table names them."""
STATS = (
    *(f"gradient/{cells}" for cells in CELLS),
    *(f"{weigh}/{column.stat}" for weigh in ("turn", "token") for column in COLUMNS),
)
TITLES: dict[Weigh, str] = {"turn": "Per sampled turn", "token": "Per generated token"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a measurement."""

    num_tasks: int = 16
    tokens: int = 100_000
    """Tokens that each algorithm may sample."""
    budget: int = 1000
    """Tokens a task for one estimate of the gradient."""
    invalid: float = 0.05
    """Share of the policy's turns that are no action."""
    num_resamples: int = 2000


@dataclass(frozen=True, kw_only=True)
class Report:
    """Figures of one algorithm."""

    figures: Mapping[Weigh, Mapping[str, Estimate]]
    gradients: Mapping[str, Estimate]
    """Cosines by parametrisation."""
    cost: Mapping[str, float]
    """Sampled tokens and turns and trained tokens, for a task in a step; steps; chunks of the cosines."""


def analyze_credit(
    words: Sequence[str], settings: Settings, say: Callable[[str], None]
) -> tuple[int, dict[str, Report]]:
    """Measure each algorithm of `algo=a,b,c` at equal tokens; return the seed and the reports by name."""
    names, rest = split_algorithms(words)
    reports: dict[str, Report] = {}
    seed = 0
    for name in names:
        say(f"{name}: {settings.tokens} tokens")
        tree = compose([*rest, f"algo={name}"])
        algo, env, protocol = (build_part(tree, part) for part in ("algo", "env", "protocol"))
        seed = tree["seed"]
        refuse_environment(env)
        reports[name] = measure_algorithm(algo, env, dialect_of(env, protocol), settings, seed)
    return seed, reports


def refuse_environment(env: Environment) -> None:
    """Refuse an environment whose values nobody can enumerate."""
    if not isinstance(env, Bifurcation):
        raise ConfigError("env: its exact values are not known; choose env=bifurcation")


def measure_algorithm(algo: Algorithm, env: Bifurcation, dialect: Dialect, settings: Settings, seed: int) -> Report:
    """Measure one algorithm on training tasks of this seed."""
    policy = Policy(env=env, dialect=dialect, invalid=settings.invalid)
    tasks = list(islice(env.tasks("train", seed), settings.num_tasks))
    return report_of(measure(algo, policy, tasks, tokens=settings.tokens, seed=seed), settings, seed)


def split_algorithms(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate `algo=a,b,c` from the other words."""
    from rlx.settings.folders import list_options

    lists = [word.removeprefix("algo=") for word in words if word.startswith("algo=")]
    if len(lists) != 1 or not all(names := lists[0].strip("[]").split(",")):
        raise ConfigError("algo=…: name one or more, as in algo=grpo,carl")
    options = list_options("algo")
    for name in names:
        if name not in options:
            raise ConfigError(f"algo={name:.60}: there is no such option{near(name, options)}")
    rest = [word for word in words if not word.startswith("algo=")]
    is_named = any(word.startswith("env=") for word in rest)
    return list(dict.fromkeys(names)), rest if is_named else ["env=bifurcation", *rest]


def report_of(measured: Measured, settings: Settings, seed: int) -> Report:
    num, rounds = settings.num_resamples, len(measured.tokens) * len(measured.values)
    weighs: tuple[Weigh, ...] = ("turn", "token")
    return Report(
        figures={weigh: credit_figures(measured, weigh, num_resamples=num, seed=seed) for weigh in weighs},
        gradients=gradient_cosines(measured, settings.budget, num_resamples=num, seed=seed),
        cost={
            "tokens": fmean(measured.tokens) / len(measured.values),
            "turns": measured.num_turns / rounds,
            "trained": sum(turn.num_trained for turn in measured.turns) / rounds,
            "steps": len(measured.tokens),
            "chunks": len(chunks_of(measured, settings.budget * len(measured.values))),
        },
    )


def credit_tables(seed: int, reports: Mapping[str, Report], settings: Settings) -> list[Table]:
    """Return the measures by turn and by token, and what a step costs."""
    scope_text = f"{settings.num_tasks} tasks, {settings.tokens} tokens each algorithm, seed {seed} [95% interval]"
    tables = [
        Table(
            title=f"{title}: estimates beside the true advantages; {scope_text}",
            header=("algorithm", *(column.title for column in COLUMNS)),
            rows=tuple(
                (name, *(estimate_cell(report.figures[weigh][column.stat], column) for column in COLUMNS))
                for name, report in reports.items()
            ),
        )
        for weigh, title in TITLES.items()
    ]
    return [*tables, cosine_table(reports, settings)]


def cosine_table(reports: Mapping[str, Report], settings: Settings) -> Table:
    """Return the cosines of the three parametrisations, and what a step costs a task."""
    columns = [Column(stat=cells, title=title, digits=2) for cells, title in COSINES.items()]
    costs = {"chunks": "Chunks", "tokens": "Tokens", "turns": "Turns", "trained": "Trained tokens"}
    rows = tuple(
        (
            name,
            *(estimate_cell(report.gradients[column.stat], column) for column in columns),
            *(f"{report.cost[key]:.0f}" for key in costs),
        )
        for name, report in reports.items()
    )
    title = f"Cosine of the gradient at {settings.budget} tokens a task, by parametrisation; a task's cost in a step"
    header = ("algorithm", *(column.title for column in columns), *costs.values())
    return Table(title=title, header=header, rows=rows)


def credit_values(seed: int, reports: Mapping[str, Report], settings: Settings) -> dict[str, Any]:
    """Return everything as JSON values."""
    algorithms = {
        name: {
            **{
                weigh: {figure: asdict(estimate) for figure, estimate in estimates.items()}
                for weigh, estimates in report.figures.items()
            },
            "gradient": {cells: asdict(estimate) for cells, estimate in report.gradients.items()},
            "cost": dict(report.cost),
        }
        for name, report in reports.items()
    }
    return {"seed": seed, **asdict(settings), "algorithms": algorithms}
