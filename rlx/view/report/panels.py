"""Panels of a reproduction's pictures: pass@k against k, bars, distributions and a frontier.

A filled mark is measured here, with its 95% interval. A hollow one of the same colour is published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlx.base.table import MISSING
from rlx.evaluation.picture import Handles, Panel, colour_of, label_of, whiskers
from rlx.evaluation.tables import (
    ERRORS,
    OF_PART,
    TOOL_USE,
    TURNS,
    Column,
    Published,
    number_cell,
    of_part,
    pass_columns,
    title_of,
)
from rlx.runs.summary import Estimate
from rlx.view.report.pictures import Bars, Distribution, Frontier, PassCurves

Rows = Mapping[str, Mapping[str, Estimate]]
"""Figures of each row, by the names `eval/stat`."""
Handle = tuple[Any, str]
PUBLISHED = "published"
"""Label of hollow marks in a legend."""
ASIDE = 0.03
"""Distance between the points of two rows at the same k, in powers of two: their intervals would hide each other."""
NUM_BINS = 40
"""Largest number of bins of a histogram."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Values of a figure over the chosen episodes of a row."""

    values: tuple[float, ...]
    num_episodes: int
    """Number of episodes, chosen or not."""


def axis_of(stat: str) -> Column:
    """Return the title, the scale and the digits of a figure on an axis."""
    fixed = {column.stat: column for column in (*TOOL_USE, TURNS, ERRORS)}
    match = OF_PART.fullmatch(f"eval/{stat}")
    if stat in fixed:
        return fixed[stat]
    if match:
        part_column = of_part(match[2])
        return replace(part_column, stat=stat, title=f"{match[1]} {part_column.title}{', %' * part_column.percent}")
    if passes := pass_columns([f"eval/{stat}"]):
        return replace(passes[0], title=f"{passes[0].title}, %")
    return Column(stat=stat, title=title_of(stat), digits=2)


def value_in(figures: Mapping[str, Estimate], stat: str) -> Estimate | None:
    return figures.get(f"eval/{stat}")


def scale_of(column: Column) -> float:
    return 100.0 if column.percent else 1.0


def pass_panel(title: str, picture: PassCurves, rows: Rows, published: Published, ks: Sequence[int]) -> Panel:
    """Return the panel of pass@k in percent against k; k has the places of its logarithm."""

    def draw(axes: Sequence[Any]) -> Handles:
        (ax,) = axes
        handles: list[Handle] = []
        for index, row in enumerate(picture.rows):
            estimates = {k: x for k in ks if (x := value_in(rows[row], picture.name_of(k))) is not None}
            drawn = ax.errorbar(
                [k * 2 ** (ASIDE * (index - (len(picture.rows) - 1) / 2)) for k in estimates],
                [x.value * 100 for x in estimates.values()],
                yerr=whiskers([*estimates.values()], 100),
                color=colour_of(index),
                marker="o",
                markersize=3.5,
                linewidth=1.4,
                elinewidth=0.9,
                capsize=2,
            )
            handles.append((drawn, row if estimates else f"{row} ({MISSING})"))
        papers = [draw_published(ax, index, picture, published.get(row, {}), ks) for index, row in pairs(picture.rows)]
        ax.set_xscale("log", base=2)
        ax.set_xticks(ks, [str(k) for k in ks], minor=False)
        ax.set_xlabel("k", fontsize=8)
        ax.set_ylabel(label_of(f"{picture.part} Pass@k, %".strip()), fontsize=8)
        return [*handles, *published_handle(any(papers), linestyle=":")]

    return Panel(title=title, draw=draw, num_labels=len(picture.rows) + 1)


def draw_published(
    axes: Any, index: int, picture: PassCurves, printed: Mapping[str, Sequence[float]], ks: Sequence[int]
) -> bool:
    """Draw the published values of a row, a line for each agent of the paper; return whether there are some."""
    names = {k: picture.name_of(k) for k in ks if picture.name_of(k) in printed}
    for values in zip(*(printed[name] for name in names.values()), strict=False):
        points = [100 * value for value in values]
        axes.plot([*names], points, ":o", color=colour_of(index), markersize=4.5, markerfacecolor="none", linewidth=1)
    return bool(names)


def pairs(rows: Sequence[str]) -> list[tuple[int, str]]:
    return list(enumerate(rows))


def published_handle(is_there: bool, linestyle: Literal["none", ":"] = "none") -> Handles:
    """Return the legend's entry for published values, where some are drawn."""
    from matplotlib.lines import Line2D

    style: dict[str, Any] = {"marker": "o", "markersize": 4.5, "markerfacecolor": "none"}
    mark = Line2D([], [], color="0.3", linestyle=linestyle, linewidth=1, **style)
    return [(mark, PUBLISHED)] if is_there else []


def bars_panel(title: str, picture: Bars, rows: Rows, published: Published) -> Panel:
    """Return the panel of bars: axes for each figure, a bar for each row, and the published one beside it."""

    def draw(axes: Sequence[Any]) -> Handles:
        from matplotlib.patches import Patch

        for ax, stat in zip(axes, picture.figures, strict=True):
            draw_bars(ax, axis_of(stat), [rows[row] for row in picture.rows], papers_of(picture, published, stat))
        handles = [(Patch(color=colour_of(index)), row) for index, row in pairs(picture.rows)]
        hollow = Patch(facecolor="none", edgecolor="0.3", hatch="////", linewidth=0.8)
        is_there = any(values for stat in picture.figures for values in papers_of(picture, published, stat))
        return [*handles, *([(hollow, PUBLISHED)] if is_there else [])]

    num = len(picture.figures)
    each = 0.5 + 0.42 * len(picture.rows)
    return Panel(
        title=title,
        draw=draw,
        num_axes=num,
        num_labels=len(picture.rows) + 1,
        width=max(4.2, num * max(1.5, each)),
    )


def papers_of(picture: Bars, published: Published, stat: str) -> list[Sequence[float]]:
    """Return the published values of each row, one for each agent of the paper."""
    return [published.get(row, {}).get(stat, ()) for row in picture.rows]


def draw_bars(
    axes: Any, column: Column, rows: Sequence[Mapping[str, Estimate]], papers: Sequence[Sequence[float]]
) -> None:
    """Draw one figure of all rows, with the value above each bar."""
    scale, has_papers = scale_of(column), any(papers)
    width = 0.4 if has_papers else 0.7
    for index, (figures, printed) in enumerate(zip(rows, papers, strict=True)):
        x, estimate = index - (width / 2 if has_papers else 0), value_in(figures, column.stat)
        if estimate is None:
            write_above(axes, x, 0.0, MISSING)
        else:
            axes.bar(x, estimate.value * scale, width, color=colour_of(index))
            ends = whiskers([estimate], scale)
            axes.errorbar(x, estimate.value * scale, yerr=ends, color="0.2", elinewidth=0.9, capsize=2)
            write_above(axes, x, estimate.value * scale, number_cell(estimate.value, column))
        for paper in printed:
            place = index + width / 2
            style: dict[str, Any] = {"facecolor": "none", "edgecolor": colour_of(index), "hatch": "////"}
            axes.bar(place, paper * scale, width, linewidth=0.8, **style)
            write_above(axes, place, paper * scale, number_cell(paper, column))
    axes.axhline(0, color="0.2", linewidth=0.6)
    axes.margins(y=0.14)
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.set_xticks([])
    axes.set_title(label_of(column.title, 24), fontsize=8)


def write_above(axes: Any, x: float, height: float, text: str) -> None:
    """Write a value above a bar, over the interval's line."""
    back = {"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.85}
    style: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 6, "bbox": back}
    axes.annotate(text, (x, max(0.0, height)), xytext=(0, 2), textcoords="offset points", **style)


def distribution_panel(title: str, picture: Distribution, samples: Mapping[str, Sample]) -> Panel:
    """Return the panel of a distribution: a lane for each row, whose heights are shares of the row's own episodes."""

    def draw(axes: Sequence[Any]) -> Handles:
        (ax,) = axes
        edges = bin_edges([value for row in picture.rows for value in samples[row].values])
        shares = [shares_in(samples[row].values, edges) for row in picture.rows]
        highest = max((float(share.max()) for share in shares), default=0.0) or 1.0
        names = []
        for index, (row, share) in enumerate(zip(picture.rows, shares, strict=True)):
            floor, values = -float(index), samples[row].values
            heights = floor + 0.85 * share / highest
            ax.stairs(heights, edges, baseline=floor, fill=True, color=colour_of(index), alpha=0.7)
            if values:
                middle = float(np.median(values))
                ax.plot([middle, middle], [floor, floor + 0.9], color="0.1", linewidth=1.2)
            names.append(f"{label_of(row, 34)}\n{count_text(samples[row])}")
        ax.set_yticks([-float(index) for index in range(len(names))], names, fontsize=7, va="bottom")
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(0.85 - len(names), 1.0)
        ax.set_xlabel(label_of(axis_label(picture)), fontsize=8)
        return []

    return Panel(title=title, draw=draw, width=5.6, height=1.1 + 0.55 * len(picture.rows))


def count_text(sample: Sample) -> str:
    """Return the number of episodes of a sample, and its median."""
    count = f"{len(sample.values):,} of {sample.num_episodes:,}"
    return f"{count}, median {np.median(sample.values):.4g}" if sample.values else count


def axis_label(picture: Distribution) -> str:
    """Return what the horizontal axis of a distribution shows."""
    names = {"episode/tokens": "tokens", "episode/turns": "turns", "tool/calls": "calls"}
    suffix = " of a correct episode" if picture.correct else " of an episode"
    return names.get(picture.figure, picture.figure) + suffix


def bin_edges(values: Sequence[float]) -> NDArray[np.float64]:
    """Return the edges of at most NUM_BINS bins: of whole numbers, each bin holds as many; of others, equal parts."""
    if not values:
        return np.array([0.0, 1.0])
    low, high = min(values), max(values)
    if low == high:
        return np.array([low - 0.5, low + 0.5])
    if all(float(value).is_integer() for value in values):
        size = -(-int(high - low + 1) // NUM_BINS)
        return np.arange(low - 0.5, high + 0.5 + size, size)
    return np.linspace(low, high, NUM_BINS + 1)


def shares_in(values: Sequence[float], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of the values in each bin; zeros where there are none."""
    counts, _ = np.histogram(values, bins=edges)
    return np.asarray(counts / max(1, len(values)), dtype=np.float64)


def frontier_panel(title: str, picture: Frontier, rows: Rows, published: Published) -> Panel:
    """Return the panel of one figure against another, with both intervals, and a line through the chosen rows."""
    across, up = axis_of(picture.across), axis_of(picture.up)

    def place(row: str) -> tuple[Estimate, Estimate] | None:
        x, y = value_in(rows[row], picture.across), value_in(rows[row], picture.up)
        return None if x is None or y is None else (x, y)

    def draw(axes: Sequence[Any]) -> Handles:
        (ax,) = axes
        line = [point for row in picture.line if (point := place(row)) is not None]
        if line:
            points = [(x.value * scale_of(across), y.value * scale_of(up)) for x, y in line]
            ax.plot(*zip(*points, strict=True), color="0.6", linewidth=1, zorder=1)
        handles: list[Handle] = []
        for index, row in pairs(picture.rows):
            point = place(row)
            drawn = draw_point(ax, index, across, up, point)
            handles.append((drawn, row if point else f"{row} ({MISSING})"))
        papers = [(index, published.get(row, {})) for index, row in pairs(picture.rows)]
        both = [(index, values) for index, values in papers if picture.across in values and picture.up in values]
        for index, values in both:
            for x, y in zip(values[picture.across], values[picture.up], strict=False):
                place_of_paper = (x * scale_of(across), y * scale_of(up))
                ax.plot(*place_of_paper, "o", color=colour_of(index), markersize=6, markerfacecolor="none")
        ax.set_xlabel(label_of(across.title), fontsize=8)
        ax.set_ylabel(label_of(up.title), fontsize=8)
        return [*handles, *published_handle(bool(both))]

    return Panel(title=title, draw=draw, num_labels=len(picture.rows) + 1)


def draw_point(axes: Any, index: int, across: Column, up: Column, point: tuple[Estimate, Estimate] | None) -> Any:
    """Draw the mark of a row; without a value the mark is in the legend alone."""
    x = [] if point is None else [point[0].value * scale_of(across)]
    height = [] if point is None else [point[1].value * scale_of(up)]
    errors: dict[str, Any] = (
        {}
        if point is None
        else {"xerr": whiskers([point[0]], scale_of(across)), "yerr": whiskers([point[1]], scale_of(up))}
    )
    style: dict[str, Any] = {"fmt": "o", "markersize": 4.5, "elinewidth": 0.9, "capsize": 2}
    return axes.errorbar(x, height, color=colour_of(index), **errors, **style)
