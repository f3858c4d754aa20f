"""General benchmarks before and after training: scores by example, their paired differences, and the table of both.

    difference = mean over examples of (after - before)         each example is scored by both models

Intervals are those of `rlx/evaluate/intervals.py`, over examples. A figure that is no mean over examples (perplexity,
the mean of a group of benchmarks) has no interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlx.evaluate.intervals import METHOD, Ratio, difference, intervals, mean_of, share_of
from rlx.evaluate.tables import Column, estimate_cell
from rlx.limits import MANY, MistakeError, within
from rlx.runs.summary import Estimate
from rlx.table import Table

INTERVALS = f"{METHOD}; the problems are the examples, and differences are paired by example"


class BenchmarkError(MistakeError):
    """A benchmark that cannot be evaluated; the message is one line that says which, why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Benchmarks:
    """Benchmarks to evaluate, and their settings."""

    names: tuple[str, ...]
    """Names that lm-evaluation-harness knows, task files, or folders of task files."""
    limit: int | None = None
    """Examples of each benchmark, the first ones; null takes all."""
    shots: int | None = None
    """Examples with answers in a prompt; null takes each benchmark's own number."""
    batch_size: int = 8
    """Sequences of one forward pass: changes rounding alone."""
    code: bool = False
    """Let task files import code, and benchmarks run code that the model writes."""

    def __post_init__(self) -> None:
        if not self.names or not all(self.names):
            raise BenchmarkError("benchmark= needs a name, as in benchmark=arc_challenge,hellaswag")
        if len(set(self.names)) < len(self.names):
            raise BenchmarkError(f"benchmark={','.join(self.names):.200}: expected each name once")
        within(1, MANY, benchmark_limit=self.limit, benchmark_batch_size=self.batch_size)
        within(0, 1000, benchmark_shots=self.shots)


Key = tuple[str, str, str]
"""Benchmark, metric, and the filter of the model's answers that it scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One model's figure on one benchmark."""

    value: float
    examples: tuple[float, ...] | None = None
    """Values whose mean is the figure, an entry per example; None for other figures."""
    prompts: str = ""
    """Digest of the examples and their prompts."""


Scores = Mapping[Key, Score]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the table; without a model before training it has one value."""

    key: Key
    num: int | None
    """Examples; None for a figure that is no mean over them."""
    is_share: bool
    after: Estimate
    before: Estimate | None = None
    difference: Estimate | None = None


def rows_of(after: Scores, before: Scores | None, *, num_resamples: int, seed: int) -> list[Row]:
    """Return a row per figure, with paired differences where there are scores before training."""
    return list(_rows(after, before, num_resamples, seed))


def _rows(after: Scores, before: Scores | None, num_resamples: int, seed: int) -> Iterator[Row]:
    for key, mine in after.items():
        other = None if before is None else before[key]
        pair = [mine] if other is None else [mine, other]
        if other is not None and other.prompts != mine.prompts:
            raise BenchmarkError(f"benchmark={key[0]:.80}: its prompts differ between the models, so nothing is paired")
        if any(score.examples is None for score in pair):
            yield _plain_row(key, mine, other)
            continue
        values = [score.examples or () for score in pair]
        is_share = all(0 <= value <= 1 for each in values for value in each)
        ratios: list[Ratio] = [share_of(each) if is_share else mean_of(each) for each in values]
        found = intervals(ratios, num_resamples, seed)
        row = Row(key=key, num=len(values[0]), is_share=is_share, after=found[0])
        if other is not None:
            gap = difference(ratios[0], ratios[1], found[0], found[1])
            row = replace(row, before=found[1], difference=gap)
        yield row


def _plain_row(key: Key, mine: Score, other: Score | None) -> Row:
    gap = None if other is None else _exact(mine.value - other.value)
    before = None if other is None else _exact(other.value)
    return Row(key=key, num=None, is_share=False, after=_exact(mine.value), before=before, difference=gap)


def _exact(value: float) -> Estimate:
    """Return a figure without an interval."""
    return Estimate(value=value, low=value, high=value)


def benchmark_table(rows: Sequence[Row]) -> Table:
    """Return the table of all benchmarks; shares are in percent, their differences in points."""
    paired = any(row.before is not None for row in rows)
    title = "General benchmarks [95% interval over examples]" + "; differences are paired by example" * paired
    header = ("benchmark", "metric", "examples", *(("before", "after", "difference") if paired else ("value",)))
    return Table(title=title, header=header, rows=tuple(_cells(row, paired) for row in rows))


def _cells(row: Row, paired: bool) -> tuple[str, ...]:
    name, metric, _ = row.key
    column = Column(stat=metric, title=metric, percent=row.is_share, digits=1 if row.is_share else 3)
    first = (name, metric_name(row) + ", %" * row.is_share, "–" if row.num is None else str(row.num))
    after = estimate_cell(row.after, column)
    if not paired:
        return (*first, after)
    return (*first, estimate_cell(row.before, column), after, estimate_cell(row.difference, column, signed=True))


def metric_name(row: Row) -> str:
    """Return the metric, with the filter where the benchmark has one."""
    _, metric, chosen = row.key
    return metric if chosen == "none" else f"{metric} ({chosen})"


def row_json(row: Row) -> dict[str, Any]:
    """Return a row as a JSON object; infinities are for the writer to replace."""
    name, metric, chosen = row.key
    figures = {"before": row.before, "after": row.after, "difference": row.difference}
    ends = {
        noun: None if it is None else {"value": it.value, "low": it.low, "high": it.high}
        for noun, it in figures.items()
    }
    told = {"benchmark": name, "metric": metric, "filter": chosen, "examples": row.num, "is_share": row.is_share}
    return {**told, **ends, "interval": INTERVALS if row.num is not None else None}


def row_from_json(value: Mapping[str, Any]) -> Row:
    """Read what `row_json` wrote; KeyError, TypeError or ValueError for anything else."""

    def estimate(noun: str) -> Estimate | None:
        found = value[noun]
        if found is None:
            return None
        low, high = found["low"], found["high"]
        return Estimate(
            value=float(found["value"]),
            low=float("-inf") if low is None else float(low),
            high=float("inf") if high is None else float(high),
        )

    after = estimate("after")
    if after is None:
        raise ValueError("a row without a value")
    return Row(
        key=(str(value["benchmark"]), str(value["metric"]), str(value["filter"])),
        num=None if value["examples"] is None else int(value["examples"]),
        is_share=bool(value["is_share"]),
        after=after,
        before=estimate("before"),
        difference=estimate("difference"),
    )
