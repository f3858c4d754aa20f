"""Columns that a person chooses for a table: any figure of an evaluation, any metric of training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rlx.base.limits import MistakeError, near
from rlx.evaluation.tables import ERRORS, TOOL_USE, TURNS, Column, pass_columns

FIXED = {column.stat: column for column in (*TOOL_USE, TURNS, ERRORS)}


class ColumnError(MistakeError):
    """Request for a column that no run has; the message names the columns of the runs in one line."""


def chosen_columns(text: str, figure_names: Iterable[str]) -> tuple[Column, ...]:
    """Return the columns of a list such as `pass@1,episode/tokens,reward/mean`; `eval/` may be left out."""
    names = list(dict.fromkeys(figure_names))
    return tuple(chosen_column(name.strip(), names) for name in text.split(",") if name.strip())


def chosen_column(name: str, figure_names: Sequence[str]) -> Column:
    """Return the column of a figure by its full name, its name without `eval/`, or its unique ending."""
    ends = [full_name for full_name in figure_names if full_name.endswith(f"/{name}")]
    exact = [full_name for full_name in (f"eval/{name}", name) if full_name in figure_names]
    matches = exact or (ends if len(ends) == 1 else [])
    if not matches:
        raise ColumnError(f"--columns: no run has {name!r}{near(name, ends or figure_names)}")
    return column_of(matches[0].removeprefix("eval/"))


def column_of(stat: str) -> Column:
    """Return a figure's usual column, or a plain one titled by its name."""
    shares = {column.stat: column for column in pass_columns([f"eval/{stat}"])}
    return (FIXED | shares).get(stat) or Column(stat=stat, title=stat, digits=3)
