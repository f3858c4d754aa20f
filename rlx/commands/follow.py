"""Commands that read many runs: states, gains, and metrics as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlx.commands.parts import AFTER, AsJson, Columns, Folder, show

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
def status(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Of runs, or of one.")] = Path("outputs"),
    as_json: AsJson = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show them as they go on, until Ctrl-C.")] = False,
    interval: Annotated[
        float | None,
        typer.Option("--every", min=0.1, max=86_400, help="Seconds between looks: 2, or 10 without a terminal."),
    ] = None,
) -> None:
    """The runs below a folder: state, step, rate, time left, job.

    --watch adds a sparkline of the reward, the last warning and the log's last line. Without a terminal, it prints
    lines on the runs that changed.
    """
    from rlx.commands.output import show_json, show_tables
    from rlx.commands.status import status_table, status_values

    if watch:
        watch_runs(folder, interval)
    elif as_json:
        show_json(status_values(folder))
    else:
        show_tables([status_table(folder)])


def watch_runs(folder: Path, interval: float | None) -> None:
    """Watch the runs below a folder, here and in SLURM, until Ctrl-C or SIGTERM."""
    import signal

    from rlx.base.console import ResultConsole
    from rlx.commands.watch import Watcher, watch

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does: the terminal gets its cursor back
    console = ResultConsole()
    watch(Watcher(folder), console, interval=interval or (2.0 if console.is_terminal else 10.0))


@follow_commands.command(rich_help_panel=AFTER)
def compare(
    ours: Folder,
    theirs: Annotated[Path | None, typer.Argument(exists=True, file_okay=False, help="Another, or its start.")] = None,
    columns: Columns = "",
    as_json: AsJson = False,
    table: Annotated[bool, typer.Option("--table", help="A row for each setting of a sweep's runs.")] = False,
    each: Annotated[bool, typer.Option("--each", help="With --table, a row per run, no means over seeds.")] = False,
) -> None:
    """Compare a run with another, or with its own start, by problem; or the runs of a sweep.

    Both are shown with the gain and 95% intervals. A folder of runs that differ in their seeds alone stands for their
    mean. With one folder: the run over its start and over the untrained model. With --table: the settings that vary
    in a sweep, and their results; --json has every run with all its figures.
    """
    from rlx.commands.output import show_json, show_tables

    if table:
        compare_sweep(ours, columns, each=each, as_json=as_json)
        return
    from rlx.evaluation.compare import find_gains, gain_tables, gain_values

    gains = find_gains(ours, theirs)
    if as_json:
        show_json([gain_values(gain) for gain in gains])
    else:
        show_tables([gain_table for gain in gains for gain_table in gain_tables(gain, columns)])


def compare_sweep(folder: Path, columns: str, *, each: bool, as_json: bool) -> None:
    """Show a table of a sweep's runs. Without `each`, runs that differ only in their seeds share one row of means."""
    from rlx.commands.output import show_json, show_tables
    from rlx.evaluation.sweep import read_sweep
    from rlx.evaluation.sweep_table import sweep_table, sweep_values

    members = read_sweep(folder)
    show_json(sweep_values(members)) if as_json else show_tables([sweep_table(members, columns, each=each)])
