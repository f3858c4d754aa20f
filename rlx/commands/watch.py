"""`rlx status --watch`: the runs below a folder as they go on, on a terminal or as plain lines.

It imports nothing heavy, changes nothing, and reads a run again only if something in its folder changed.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from rlx.base.console import one_line
from rlx.base.table import Table, to_rich
from rlx.commands.status import row
from rlx.runs.find import runs_below
from rlx.runs.folder import LOG
from rlx.runs.mark import WATCHED, Jobs, Mark, mark_of
from rlx.runs.run import RECENT, StoredRun, read_run
from rlx.runs.single_files import last_lines
from rlx.runs.state import WAITING, State, job_of
from rlx.runs.track import is_number

SHOWN = ("reward/mean", "loss/value")
"""Metrics of which the first that a run has is shown."""
WIDTH = 16
"""Characters of a sparkline."""
BLOCKS, PLAIN = "▁▂▃▄▅▆▇█", "_.-=+*#@"
"""Heights of a sparkline, and those of a terminal without the first."""
SEARCH = 10.0
"""Seconds after which new runs are looked for."""
LOG_LINES = 1000
"""Last lines of a log in which a warning is looked for."""
WARNING = "warning: "
STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "
"""Begin of a log's entry. Further lines of an entry may hold text of a model and are not looked at."""
BEGAN = re.compile(STAMP + "began: ")
"""Entry that every start of the run writes first."""
REACHED = re.compile(STAMP + r"(?:train: (\d{1,18})/|resumed from .*step-(\d{1,18})$)")
WARNED = re.compile(rf"(?P<stamp>{STAMP}){WARNING}(?:step (?P<step>\d{{1,18}}): )?(?P<text>.*)")
FAILED = re.compile(STAMP + "ended by ")
ORDER: tuple[State, ...] = (*WAITING, "unreadable", "failed", "killed", "stopped", "finished")


@dataclass(frozen=True, kw_only=True)
class RunView:
    """State of one run, with its newest metrics and log lines."""

    run: StoredRun
    values: tuple[float, ...] = ()
    """Values of the shown metric, the newest last."""
    metric: str = ""
    line: str = ""
    """Last line of the log."""
    warning: str = ""
    """Last warning since the run's last start, with its step, unless it is older than the sparkline."""
    error: str = ""
    """Error that ended the run's last start."""


@dataclass
class Watcher:
    """Reader of the runs below a folder; it reads a run again only after a change."""

    folder: Path
    clock: Callable[[], float] = time.monotonic
    _jobs: Jobs = field(default_factory=Jobs)
    _known: dict[Path, tuple[Mark, RunView]] = field(default_factory=dict)
    _runs: list[Path] = field(default_factory=list)
    _searched: float = -math.inf

    def look(self) -> list[RunView]:
        """Return all runs: those at work first, then by name."""
        now = self.clock()
        if now - self._searched >= SEARCH:
            self._runs, self._searched = list(runs_below(self.folder)), now
        records = self._jobs.records(self._runs, now)
        for run in self._runs:
            mark = mark_of(run, records, (*WATCHED, LOG))
            if run not in self._known or self._known[run][0] != mark:
                self._known[run] = (mark, see(read_run(run, records.get(job_of(run)))))
        return sorted((self._known[run][1] for run in self._runs), key=lambda view: ORDER.index(view.run.state))


def see(run: StoredRun) -> RunView:
    """Read what else is shown of a run."""
    lines = run.last_metrics
    metric = next((name for name in SHOWN if any(is_number(line.get(name)) for line in lines)), "")
    values = tuple(float(line[metric]) for line in lines if metric and is_number(line.get(metric)))
    log = last_lines(run.folder / LOG, LOG_LINES)
    recent = last_execution(log)
    return RunView(
        run=run,
        values=values,
        metric=metric,
        line=one_line(log[-1]) if log else "",
        warning=last_warning(recent, run.step or 0),
        error=next((one_line(text) for text in reversed(recent) if FAILED.match(text)), ""),
    )


def last_execution(log: Sequence[str]) -> Sequence[str]:
    """Return the lines since the last start of the run."""
    begins = [index for index, text in enumerate(log) if BEGAN.match(text)]
    return log[begins[-1] :] if begins else log


def last_warning(recent: Sequence[str], now: int) -> str:
    """Return the last warning with its step; empty without one in the steps that the sparkline shows."""
    reached, warning = 0, ""
    for text in recent:
        if match := REACHED.match(text):
            reached = int(match[1] or match[2])
        elif match := WARNED.match(text):
            step = int(match["step"]) if match["step"] else reached
            warning = f"{match['stamp']}{WARNING}step {step}: {match['text']}" if now - step < RECENT else ""
    return one_line(warning)


def sparkline(values: Sequence[float], blocks: str = BLOCKS, width: int = WIDTH) -> str:
    """Draw values as heights between the smallest and the largest of them, at most `width`: means of equal shares."""
    num = min(width, len(values))
    shares = [values[index * len(values) // num : (index + 1) * len(values) // num] for index in range(num)]
    means = [math.fsum(share) / len(share) for share in shares]
    low, high = min(means, default=0.0), max(means, default=0.0)
    top = len(blocks) - 1
    return "".join(blocks[top // 2 if high == low else round((mean - low) / (high - low) * top)] for mean in means)


def value_cell(view: RunView, blocks: str) -> str:
    """Return the sparkline, the last value, and the metric's noun."""
    if not view.values:
        return ""
    return f"{sparkline(view.values, blocks)} {view.metric.partition('/')[0]} {view.values[-1]:.3f}"


def watch_table(runs: Sequence[RunView], folder: Path, blocks: str) -> Table:
    """Return a row per run, with the columns that any run fills."""
    header = ("run", "state", "step", "rate", "left", "trend", "job", "where")
    rows = [cells_of(view, folder, blocks) for view in runs]
    used = [column for column in range(len(header)) if column < 3 or any(cells[column] for cells in rows)]
    states = Counter(view.run.state for view in runs)
    title = ", ".join(f"{num} {state}" for state, num in states.items()) or "no run"
    chosen = tuple(tuple(cells[column] for column in used) for cells in rows)
    return Table(title=f"{title} in {one_line(str(folder))}", header=tuple(header[i] for i in used), rows=chosen)


def cells_of(view: RunView, folder: Path, blocks: str) -> tuple[str, ...]:
    *first, job, where = row(view.run, folder)
    return (*first, value_cell(view, blocks), job, where)


def notes_of(view: RunView) -> list[str]:
    """Return the error of a failed run, or the last warning and the last line of a running run."""
    if view.run.state == "failed":
        return [view.error or view.warning] if view.error or view.warning else []
    notes = (view.warning, view.line) if view.run.state in WAITING else ()
    return [text for text in notes if text]


def picture(runs: Sequence[RunView], folder: Path, blocks: str) -> RenderableType:
    """Return the table, and below it the notes of each run, a line each."""
    notes = [
        Text(f"{row(view.run, folder)[0]}: {note}", no_wrap=True, overflow="ellipsis", style=style_of(note))
        for view in runs
        for note in notes_of(view)
    ]
    return Group(to_rich(watch_table(runs, folder, blocks)), *notes)


def style_of(note: str) -> str:
    return "yellow" if WARNED.match(note) or FAILED.match(note) else "dim"


def plain_lines(runs: Sequence[RunView], folder: Path, blocks: str) -> Iterator[str]:
    """Yield a line for each run, and one for each of its notes."""
    for view in runs:
        yield ", ".join(cell for cell in cells_of(view, folder, blocks) if cell)
        yield from (f"  {note}" for note in notes_of(view))


def watch(watcher: Watcher, console: Console, *, interval: float, sleep: Callable[[float], Any] = time.sleep) -> None:
    """Show the runs until Ctrl-C: as a live table on a terminal, elsewhere as lines for the runs that changed."""
    blocks = BLOCKS if (console.encoding or "").lower().startswith("utf") else PLAIN
    show = show_live if console.is_terminal else show_plain
    try:
        show(watcher, console, blocks, lambda: sleep(interval))
    except KeyboardInterrupt:
        return


def show_live(watcher: Watcher, console: Console, blocks: str, wait: Callable[[], Any]) -> None:
    first = picture(watcher.look(), watcher.folder, blocks)
    with Live(first, console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
        while True:
            wait()
            live.update(picture(watcher.look(), watcher.folder, blocks), refresh=True)


def show_plain(watcher: Watcher, console: Console, blocks: str, wait: Callable[[], Any]) -> None:
    before: list[RunView] = []
    while True:
        runs = watcher.look()
        for line in plain_lines([view for view in runs if view not in before], watcher.folder, blocks):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        before = runs
        wait()
