"""Commands that follow runs from outside: a live view, and metrics as CSV."""

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
    from rlx.commands.output import write_output

    text = csv_text(metric_rows(folders, [name for name in names.split(",") if name]))
    if file is None:
        show(text.rstrip("\n"))
    else:
        write_output(file, text)


@follow_commands.command(rich_help_panel=AFTER)
def watch(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Of runs, or of one.")] = Path("outputs"),
    interval: Annotated[
        float | None,
        typer.Option("--every", min=0.1, max=86_400, help="Seconds between looks: 2, or 10 without a terminal."),
    ] = None,
) -> None:
    """Watch the runs below a folder, here and in SLURM, until Ctrl-C.

    Shows state, step, rate, time left, a sparkline of the reward, the last warning and the log's last line. Without a
    terminal, it prints lines on the runs that changed.
    """
    import signal

    from rlx.base.console import ResultConsole
    from rlx.commands.watch import Watcher
    from rlx.commands.watch import watch as watch_runs

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does: the terminal gets its cursor back
    console = ResultConsole()
    watch_runs(Watcher(folder), console, every=interval or (2.0 if console.is_terminal else 10.0))
