"""`rlx analyze`: measurements of how algorithms assign credit, and of which turns matter.

Each command of the group is a function here. Heavy imports stand inside the commands, as in `rlx.cli`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rlx.base.limits import MANY
from rlx.commands.parts import MIXED, AsJson, Words, split_run

analyze = typer.Typer()


@analyze.callback(invoke_without_command=True)
def overview(ctx: typer.Context) -> None:
    """Measure how algorithms assign credit to turns, and which turns matter."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


@analyze.command(context_settings=MIXED)
def credit(
    words: Words = None,
    tasks: Annotated[int, typer.Option(min=2, max=1000, help="Tasks of a step.")] = 16,
    tokens: Annotated[int, typer.Option(min=1, max=10**9, help="Tokens that each algorithm may sample.")] = 100_000,
    budget: Annotated[int, typer.Option(min=1, max=MANY, help="Tokens a task for an estimate of the gradient.")] = 1000,
    invalid: Annotated[
        float, typer.Option(min=0, max=0.9, help="Share of the policy's turns that are invalid.")
    ] = 0.05,
    as_json: AsJson = False,
) -> None:
    """Compare the credit of algorithms with the true advantages.

    `rlx analyze credit env=bifurcation algo=grpo,carl`; other words are those of `rlx train`. A policy that is a table
    plays through each algorithm's own sampler and credit.
    """
    from rlx.commands.output import show_json, show_tables
    from rlx.lab.credit_command import Settings, analyze_credit, credit_tables, credit_values

    settings = Settings(num_tasks=tasks, tokens=tokens, budget=budget, invalid=invalid)
    seed, reports = analyze_credit(words or [], settings, lambda text: print(text, file=sys.stderr))
    if as_json:
        show_json(credit_values(seed, reports, settings))
    else:
        show_tables(credit_tables(seed, reports, settings))


@analyze.command(context_settings=MIXED)
def criticality(
    words: Words = None,
    tasks: Annotated[int, typer.Option(min=1, max=100_000, help="Held-out tasks, an episode each.")] = 60,
    draws: Annotated[
        int,
        typer.Option(min=2, max=1000, help="Turns sampled in a state for its spread, and again for its uncertainty."),
    ] = 8,
    start: Annotated[bool, typer.Option("--start", help="Measure the policy that the run began with.")] = False,
    picture: Annotated[Path | None, typer.Option(help="Write a histogram and a box plot there (SVG).")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how much each turn of a run's policy changes the reward.

    `rlx analyze criticality run=DIR`: in each state of an episode, turns are sampled and greedy turns follow. The
    spread of the reward is the state's criticality (CARL, section 3.2), and its uncertainty is measured on turns that
    are sampled apart. Other words change the run's settings.
    """
    from rlx.commands.output import show_json, show_tables
    from rlx.hardware.packages import how_to_get, lacks
    from rlx.lab.criticality import Inspection
    from rlx.lab.criticality_command import (
        criticality_panel,
        criticality_tables,
        criticality_values,
        draw_criticality,
        figures_of,
        inspect_run,
    )
    from rlx.settings.check import ConfigError

    folder, rest = split_run(words)
    if folder is None:
        raise ConfigError("run=: name the folder of a run, as in rlx analyze criticality run=DIR")
    if picture is not None and picture.exists():
        raise ConfigError(f"--picture {picture}: it exists already: choose another file")
    if picture is not None and not picture.absolute().parent.is_dir():
        raise ConfigError(f"--picture {picture}: there is no such folder: make it first")
    if picture is not None and lacks("plots"):
        raise ConfigError(f"--picture {picture}: {how_to_get('plots')}")
    inspection = Inspection(tasks=tasks, draws=draws)
    states = inspect_run(folder, rest, inspection, start)
    figures = figures_of(states, inspection)
    if picture is not None:
        draw_criticality(picture, [criticality_panel(folder.name, states)])
    if as_json:
        show_json(criticality_values(states, figures, inspection))
    else:
        show_tables(criticality_tables({folder.name: figures}, inspection))


@analyze.command(context_settings=MIXED)
def judge(
    words: Words = None,
    url: Annotated[str, typer.Option(help="Endpoint of OpenAI's protocol, such as http://127.0.0.1:8000/v1.")] = "",
    model: Annotated[str, typer.Option(help="Name of the judge's model.")] = "",
    evaluation: Annotated[str | None, typer.Option(help="Such as eval-9; all of them if not said.")] = None,
    threads: Annotated[int, typer.Option(min=1, max=256, help="Calls at a time.")] = 8,
    as_json: AsJson = False,
) -> None:
    """Have another model judge the answers of a run's evaluations.

    `rlx analyze judge run=DIR --url URL --model NAME`: the share of answers that it finds right, beside F1 and exact
    match. The environment variable RLX_JUDGE_KEY has the endpoint's key. Without a judge the column says so.
    """
    from dataclasses import asdict

    from rlx.commands.output import show_json, show_tables
    from rlx.commands.verdicts import judge_files, stored_evaluations, verdict_table
    from rlx.evaluation.verdicts import Judge
    from rlx.settings.check import ConfigError

    folder, rest = split_run(words)
    if folder is None or rest:
        raise ConfigError("run=: name the folder of a run and nothing else, as in rlx analyze judge run=DIR")
    if bool(url) != bool(model):
        raise ConfigError("--url and --model: give both, or none for a table without verdicts")
    chosen = Judge(url=url, model=model) if url else None
    shares = judge_files(folder, stored_evaluations(folder, evaluation), chosen, threads)
    if as_json:
        show_json(
            {name: {stat: asdict(estimate) for stat, estimate in figures.items()} for name, figures in shares.items()}
        )
    else:
        show_tables([verdict_table(shares, chosen)])
