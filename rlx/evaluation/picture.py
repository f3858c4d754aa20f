"""Pictures of panels as SVG text. The same values give the same text, and no name in it is markup.

A panel has its legend below its axes, where the legend hides no data.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from math import ceil, isfinite
from typing import Any

from rlx.base.console import one_line
from rlx.runs.summary import Estimate

SALT = "rlx"
"""Salt of the ids in a picture. A fixed salt gives a fixed text."""
NOT_XML = re.compile("[\ufffe\uffff]")
"""Characters that XML forbids and that `one_line` leaves."""
MOST_ROWS = 10
"""Number of colours, and so the largest number of rows in a panel."""
ACROSS = 3
"""Largest number of panels beside each other."""
LEGEND_ROW = 0.17
"""Height of a row of the legend, in inches."""

Handles = Sequence[tuple[Any, str]]
"""Artists of a legend with their labels."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Part of a picture: a title, axes beside each other, and a legend below them."""

    title: str
    draw: Callable[[Sequence[Any]], Handles]
    """Function that draws into the axes and returns the legend's entries."""
    num_axes: int = 1
    num_labels: int = 0
    """Rows to reserve for the legend."""
    label_columns: int = 1
    """Columns of the legend."""
    width: float = 4.2
    """Inches."""
    height: float = 3.0
    """Inches without the legend."""


def label_of(name: str, limit: int = 60) -> str:
    """Return a name as one line of text that XML can hold."""
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", one_line(name, limit))


def colour_of(index: int) -> str:
    """Return the colour of the row with this index."""
    return f"C{index % MOST_ROWS}"


def picture_svg(panels: Sequence[Panel], *, shares_legend: bool = False) -> str:
    """Return the SVG text of these panels, with a legend each or one for all of them."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": SALT, "svg.fonttype": "none", "text.parse_math": False}), quiet_fonts():
        text = StringIO()
        figure_of_panels(panels, shares_legend=shares_legend).savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def figure_of_panels(panels: Sequence[Panel], *, shares_legend: bool = False) -> Any:
    """Return the matplotlib figure of these panels, at most three beside each other."""
    from matplotlib.figure import Figure

    num_rows = ceil(len(panels) / ACROSS)
    num_columns = ceil(len(panels) / num_rows)
    width = max(panel.width for panel in panels)
    height = max(panel.height + LEGEND_ROW * panel.num_labels * (not shares_legend) for panel in panels)
    shared = LEGEND_ROW * ceil(max(panel.num_labels for panel in panels) / num_columns) * shares_legend
    figure = Figure(figsize=(width * num_columns, height * num_rows + shared), layout="constrained")
    entries: dict[str, Any] = {}
    places = figure.subfigures(num_rows, num_columns, squeeze=False).flat
    for place, panel in zip(places, panels, strict=False):
        axes = place.subplots(1, panel.num_axes, squeeze=False)[0]
        for axis in axes:
            axis.tick_params(labelsize=7)
        handles = panel.draw(axes)
        place.suptitle(label_of(panel.title), fontsize=9)
        if shares_legend:
            entries |= {name: artist for artist, name in handles}
        elif handles:
            draw_legend(place, handles, panel.label_columns)
    if entries:
        draw_legend(figure, [(artist, name) for name, artist in entries.items()], num_columns)
    return figure


def draw_legend(place: Any, handles: Handles, num_columns: int = 1) -> None:
    """Draw the legend below a panel, or below all of them."""
    artists, labels = zip(*((artist, label_of(name)) for artist, name in handles), strict=True)
    place.legend(artists, labels, loc="outside lower center", fontsize=7, frameon=False, ncols=num_columns)


@contextmanager
def quiet_fonts() -> Iterator[None]:
    """Suppress the warning of a character without a glyph: the viewer's fonts draw the text."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def whiskers(estimates: Sequence[Estimate], scale: float = 1.0) -> list[list[float]]:
    """Return the lengths of error bars, down and up; 0 towards an end that nothing bounds."""
    down = [(estimate.value - estimate.low) * scale for estimate in estimates]
    up = [(estimate.high - estimate.value) * scale for estimate in estimates]
    return [[max(0.0, length) if isfinite(length) else 0.0 for length in lengths] for lengths in (down, up)]
