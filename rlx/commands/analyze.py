"""`rlx analyze`: measurements of how an algorithm assigns credit. Each command of the group is a function here.

Heavy imports stand inside the commands, as in `rlx.cli`.
"""

from __future__ import annotations

import typer

analyze = typer.Typer()


@analyze.callback(invoke_without_command=True)
def overview(ctx: typer.Context) -> None:
    """Measure how algorithms assign credit to turns."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())
