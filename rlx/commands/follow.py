"""The commands that follow runs from outside: their metrics as CSV, and the upload of what W&B recorded offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlx.commands.parts import AFTER, show

follow_commands = typer.Typer()


@follow_commands.command(rich_help_panel=AFTER)
def metrics(
    folders: Annotated[list[Path], typer.Argument(exists=True, file_okay=False, help="Of runs, or of one.")],
    names: Annotated[str, typer.Option("--names", help="Such as reward/mean,success/mean; all if not said.")] = "",
    file: Annotated[Path | None, typer.Option("--csv", dir_okay=False, help="Write there, not on the screen.")] = None,
) -> None:
    """The metrics of runs as CSV: a line per run, step and metric."""
    from rlx.commands.metrics import csv_text, metric_rows
    from rlx.record.folder import write_aside

    text = csv_text(metric_rows(folders, [name for name in names.split(",") if name]))
    if file is None:
        show(text.rstrip("\n"))
    else:
        write_aside(file, text)


@follow_commands.command(rich_help_panel=AFTER)
def sync(
    folders: Annotated[list[Path] | None, typer.Argument(exists=True, file_okay=False, help="Of runs.")] = None,
) -> None:
    """Upload the runs below folders that W&B recorded offline.

    Below outputs/ if no folder is named. A running run is left for later, and nothing is uploaded twice. Exit code 1 if
    an upload failed: the same command tries it again.
    """
    from rlx.commands.sync import sync as sync_folders

    failed = False
    for run in sync_folders(folders or [Path("outputs")]):
        show(run.text)
        failed = failed or run.failed
    raise typer.Exit(int(failed))
