"""Columns that a person chooses for a table: any figure of an evaluation, any metric of training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rlx.base.limits import MistakeError, near
from rlx.evaluation.tables import ERRORS, TOOL_USE, TURNS, Column, pass_columns

FIXED = {column.stat: column for column in (*TOOL_USE, TURNS, ERRORS)}


class ColumnError(MistakeError):
    """A column that no run has; the message is one line that says which there are."""


def chosen_columns(asked: str, known: Iterable[str]) -> tuple[Column, ...]:
    """Return the columns of a list such as `pass@1,episode/tokens,reward/mean`; `eval/` may be left out."""
    names = list(dict.fromkeys(known))
    return tuple(chosen_column(name.strip(), names) for name in asked.split(",") if name.strip())


def chosen_column(name: str, known: Sequence[str]) -> Column:
    """Return the column of a figure's whole name, of one of an evaluation, or of the one that ends so."""
    ends = [one for one in known if one.endswith(f"/{name}")]
    found = [one for one in (f"eval/{name}", name) if one in known] or (ends if len(ends) == 1 else [])
    if not found:
        raise ColumnError(f"--columns: no run has {name!r}{near(name, ends or known)}")
    return column_of(found[0].removeprefix("eval/"))


def column_of(stat: str) -> Column:
    """Return a figure's usual column, or a plain one titled by its name."""
    shares = {column.stat: column for column in pass_columns([f"eval/{stat}"])}
    return (FIXED | shares).get(stat) or Column(stat=stat, title=stat, digits=3)
