"""A stored turn, token by token: the text, the policy's numbers and training's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rlx.base.console import one_line
from rlx.runs.codec import NUMBERS, notes_from_json

WIDTHS = {"log-prob": 9, "advantage": 10, "entropy": 9, "value": 9, "trained": 9}
LEFT = 31
"""Columns for a token's text."""
LEGEND = """\
trained: whether the update learned from a token; blank where none was told of
it. Replayed: said and trained by the episode that was left. Forced: chosen by
no policy, and trained only where the algorithm says so."""


def describe_tokens(stored: Mapping[str, Any], where: str, whose: Sequence[str]) -> str:
    """Describe a turn, a line per token. Raise CodecError for notes in another form than a run's."""
    ids, num = stored["tokens"], len(stored["tokens"])
    notes = notes_from_json(stored, num, where)
    pieces = notes.get("pieces", [f"id {token}" for token in ids])
    columns = [stored["logprobs"], *(notes.get(name, [None] * num) for name in NUMBERS)]
    head = f"  {'token':<{LEFT}}" + "".join(f"{name:>{width}}" for name, width in WIDTHS.items())
    return "\n".join([head, *(describe_token(*row) for row in zip(pieces, whose, *columns, strict=True))])


def describe_token(piece: str, whose: str, *numbers: Any) -> str:
    *values, trained = numbers
    cells = [*(f"{value:.3f}" if isinstance(value, (int, float)) else "" for value in values)]
    cells.append(whose or ("" if trained is None else "yes" if trained else "no"))
    text = one_line(json.dumps(piece, ensure_ascii=False), LEFT - 2)
    return f"  {text:<{LEFT}}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS.values(), strict=True))
