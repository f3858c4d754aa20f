"""`rlx analyze`: measurements of how an algorithm assigns credit. Each command of the group is a function here.

Heavy imports stand inside the commands, as in `rlx.cli`.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rlx.commands.parts import MIXED, AsJson, Words
from rlx.limits import MANY

analyze = typer.Typer()


@analyze.callback(invoke_without_command=True)
def overview(ctx: typer.Context) -> None:
    """Measure how algorithms assign credit to turns."""
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
