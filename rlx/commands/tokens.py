"""A stored turn token by token: its text, and what the policy and training made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rlx.console import one_line
from rlx.record.codec import NUMBERS, notes_from_json

WIDTHS = {"log-prob": 9, "advantage": 10, "entropy": 9, "value": 9, "trained": 8}
LEFT = 32
"""Characters of a token's text."""


def describe_tokens(stored: Mapping[str, Any], where: str) -> str:
    """A line a token; CodecError where the notes are not as a run writes them."""
    ids, num = stored["tokens"], len(stored["tokens"])
    notes = notes_from_json(stored, num, where)
    pieces = notes.get("pieces", [f"id {token}" for token in ids])
    columns = [stored["logprobs"], *(notes.get(name, [None] * num) for name in NUMBERS)]
    head = f"  {'token':<{LEFT}}" + "".join(f"{name:>{width}}" for name, width in WIDTHS.items())
    return "\n".join([head, *(describe_token(*row) for row in zip(pieces, *columns, strict=True))])


def describe_token(piece: str, *numbers: Any) -> str:
    *known, trained = numbers
    cells = [*(f"{value:.3f}" if isinstance(value, (int, float)) else "" for value in known)]
    cells.append("" if trained is None else "yes" if trained else "no")
    shown = one_line(json.dumps(piece, ensure_ascii=False), LEFT - 2)
    return f"  {shown:<{LEFT}}" + "".join(
        f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS.values(), strict=True)
    )
