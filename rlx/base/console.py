"""Screen output: progress with rate and remaining time, and text without control characters.

A terminal shows bars; other outputs (a log file, a batch job) get a plain line at intervals. All text from a model or a
data set passes through `clean` first.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Task as Row
from rich.text import Text

from rlx.base.regular import open_to_append, require_regular

CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    r"\U000e0000-\U000e0fff]"
)
"""Pattern of control characters and of characters that hide or reorder text; newline and tab stay."""

Advance = Callable[..., None]
"""Function of a bar: `advance(n)` adds n; `advance(n, note="...")` also sets the text beside the bar."""


def clean(text: str) -> str:
    """Replace every character that a terminal would obey."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def clean_value(value: Any) -> Any:
    """Clean every text in a JSON value."""
    if isinstance(value, Mapping):
        return {clean(str(key)): clean_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [clean_value(inner) for inner in value]
    return clean(value) if isinstance(value, str) else value


def one_line(text: str, limit: int = 200) -> str:
    """Clean a text, put it on one line, and cut it to `limit` characters."""
    line = " ".join(clean(text[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def duration(seconds: float) -> str:
    """Format seconds: 12 s, 3 min 5 s, 2 h 4 min."""
    total_seconds = round(seconds)
    if total_seconds < 60:
        return f"{total_seconds} s"
    if total_seconds < 3600:
        return f"{total_seconds // 60} min {total_seconds % 60} s"
    return f"{total_seconds // 3600} h {total_seconds % 3600 // 60} min"


def hang(head: str, text: str, width: int = 80) -> list[str]:
    """Wrap a text beside a heading, with further lines below its first."""
    wrap_options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head), **wrap_options) or [
        head.rstrip()
    ]


def format_count(num: int, noun: str) -> str:
    """Format a count with its noun: 1 run, 2 runs."""
    return f"{num:,} {noun}" if num == 1 else f"{num:,} {noun}s"


class Rate(ProgressColumn):
    """Column of the rate per second."""

    def render(self, task: Row) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.3g} {task.fields['unit']}/s", style="cyan")


class RunConsole(Console):
    """Console of a run. After a lost reader (a closed pipe, a lost terminal, a full disk) it is silent and the run
    continues."""

    def print(self, *objects: Any, **settings: Any) -> None:
        try:
            super().print(*objects, **settings)
        except OSError:
            self.quiet = True

    def on_broken_pipe(self) -> None:
        self.quiet = True


class ResultConsole(Console):
    """Console of a command whose only result is its output: a lost reader ends the command."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@dataclass
class Screen:
    """Output of a run to its user. Each process has one; bars may be nested."""

    console: Console = field(default_factory=lambda: RunConsole(stderr=True))
    interval: float = 10.0
    """Seconds between plain lines without a terminal."""
    silent: bool = False
    """Flag of every rank but the first: print nothing."""
    log: Path | None = None
    """File that receives every printed line with its time."""
    _bars: Progress | None = None
    _depth: int = 0

    def say(self, text: str) -> None:
        """Print a line literally: no markup, no control characters."""
        if not self.silent:
            self.console.print(clean(text), markup=False, highlight=False, soft_wrap=True)
            self.note(text)

    def show(self, table: RenderableType) -> None:
        """Print a drawing, such as a table with literal cells."""
        if not self.silent:
            self.console.print(table)
            self.note(draw_text(table))

    def note(self, text: str) -> None:
        """Append to the log alone. An unwritable log is ignored."""
        if self.log is None or self.silent:
            return
        with suppress(OSError), open_to_append(self.log) as file:
            line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {clean(text).rstrip()}\n"
            file.write(line.encode("utf-8", "replace"))

    @contextmanager
    def logged(self, log: Path) -> Iterator[None]:
        """Log the output, and an error that ends the block, while the block lasts. OSError where the log is a link, or
        no regular file: a folder may come from anyone."""
        require_regular(log)
        before, self.log = self.log, log
        self.note(f"began: {shlex.join(sys.orig_argv[1:])}")
        try:
            yield
        except BaseException as error:
            self.note(f"ended by {type(error).__name__}: {one_line(str(error), 600)}")
            raise
        finally:
            self.log = before

    @contextmanager
    def bar(self, label: str, total: int, unit: str = "steps", done: int = 0) -> Iterator[Advance]:
        """Show the progress of `total` things while the block lasts; `done` of them are finished already."""
        if self.silent:
            yield lambda count=1, note="": None
        elif self.console.is_terminal:
            with self._drawn(label, total, unit, done) as advance:
                yield advance
        else:
            plain = Plain(
                speak=self.say, interval=self.interval, label=label, total=total, unit=unit, first=done, done=done
            )
            yield plain.advance
            plain.tell()

    @contextmanager
    def _drawn(self, label: str, total: int, unit: str, done: int) -> Iterator[Advance]:
        """Draw a bar among the others. rich allows one live display, so the outermost block owns it."""
        bars = self._bars or bars_on(self.console)
        if self._bars is None:
            bars.start()
        self._bars, self._depth = bars, self._depth + 1
        row = bars.add_task(one_line(label, 40), total=total, completed=done, unit=unit, note="")
        plain = Plain(self.note, self.interval, label=label, total=total, unit=unit, first=done, done=done)

        def advance(count: int = 1, note: str | None = None) -> None:
            bars.advance(row, count)
            plain.advance(count, note)
            if note is not None:
                bars.update(row, note=one_line(note, 60))

        try:
            yield advance
            plain.tell()
        finally:
            self._depth -= 1
            if self._depth:
                bars.remove_task(row)
            else:
                bars.stop()
                self._bars = None


def draw_text(table: RenderableType) -> str:
    """Return a table as text that begins on a new line."""
    console = Console(file=io.StringIO(), width=100, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return "\n" + capture.get()


def bars_on(console: Console) -> Progress:
    """Return the columns label, bar, count, rate, remaining time and note. No column interprets markup."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[note]}", markup=False),
        console=console,
        refresh_per_second=4,
    )


@dataclass
class Plain:
    """Progress as plain lines at intervals."""

    speak: Callable[[str], None]
    interval: float
    """Seconds between lines."""
    label: str
    total: int
    unit: str
    first: int
    done: int
    note: str = ""
    began: float = field(default_factory=time.monotonic)
    last_line: float = field(default_factory=time.monotonic)

    def advance(self, count: int = 1, note: str | None = None) -> None:
        self.done += count
        self.note = self.note if note is None else note
        if time.monotonic() - self.last_line >= self.interval:
            self.tell()

    def tell(self) -> None:
        self.last_line = time.monotonic()
        self.speak(plain_line(self.label, self.done, self.total, self.unit, self.rate(), self.note))

    def rate(self) -> float:
        return (self.done - self.first) / max(time.monotonic() - self.began, 1e-9)


def plain_line(label: str, done: int, total: int, unit: str, rate: float, note: str = "") -> str:
    """Format a progress line: `train: 12/100 steps, 0.8 steps/s, 1 min 50 s left, reward 0.43`."""
    parts = [f"{one_line(label, 60)}: {done}/{total} {unit}"]
    if rate > 0:
        parts.append(f"{rate:.3g} {unit}/s")
        if done < total:
            parts.append(f"{duration((total - done) / rate)} left")
    return ", ".join(parts + ([one_line(note, 100)] if note else []))
