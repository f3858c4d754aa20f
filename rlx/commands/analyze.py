"""`rlx analyze`: measurements of how algorithms assign credit, and of which turns matter.

Each command of the group is a function here. Heavy imports stand inside the commands, as in `rlx.cli`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rlx.commands.parts import MIXED, AsJson, Words, split_run
from rlx.limits import MANY

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
    from rlx.commands.credit import Settings, analyze_credit, credit_tables, credit_values
    from rlx.commands.output import show_json, show_tables

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
    draws: Annotated[int, typer.Option(min=2, max=1000, help="Turns that are sampled in each state.")] = 8,
    start: Annotated[bool, typer.Option("--start", help="Measure the policy that the run began with.")] = False,
    picture: Annotated[Path | None, typer.Option(help="Write a histogram and a box plot there (SVG).")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how much each turn of a run's policy changes the reward.

    `rlx analyze criticality run=DIR`: in each state of an episode, turns are sampled and greedy turns follow. The
    spread of the reward is the state's criticality (CARL, section 3.2). Other words change the run's settings.
    """
    from rlx.commands.criticality import (
        criticality_panel,
        criticality_tables,
        criticality_values,
        draw_criticality,
        figures_of,
        inspect_run,
    )
    from rlx.commands.output import show_json, show_tables
    from rlx.config.check import ConfigError
    from rlx.evaluate.criticality import Inspection

    folder, rest = split_run(words)
    if folder is None:
        raise ConfigError("run=: name the folder of a run, as in rlx analyze criticality run=DIR")
    if picture is not None and picture.exists():
        raise ConfigError(f"--picture {picture}: it exists already: choose another file")
    inspection = Inspection(num_tasks=tasks, num_draws=draws)
    states = inspect_run(folder, rest, inspection, start)
    figures = figures_of(states, inspection)
    if picture is not None:
        draw_criticality(picture, [criticality_panel(folder.name, states)])
    if as_json:
        show_json(criticality_values(states, figures, inspection))
    else:
        show_tables(criticality_tables({folder.name: figures}, inspection))
