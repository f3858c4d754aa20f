"""Read fenced blocks of code, and text between two marks, out of what a model wrote: any text, in linear time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import dedent
from typing import NamedTuple

FENCE = re.compile(r"(?P<first>^[^\S\n]*)?```(?P<label>[\w+#.-]*)(?P<last>[^\S\n]*(?=\n|\Z))?", re.MULTILINE)
PYTHON = ("python", "py", "python3")


class Block(NamedTuple):
    """A closed block."""

    label: str
    code: str
    end: int
    """Place after its closing fence."""


def blocks_in(text: str) -> Iterator[Block]:
    """Yield the closed blocks in order.

    A fence opens a block if it ends its line and either begins it or has a label. Inside a block a labelled one begins
    the block anew, since models repeat the opening; any other closes it.
    """
    label, start = "", -1
    for fence in FENCE.finditer(text):
        opens = fence["last"] is not None and (fence["label"] or (start < 0 and fence["first"] is not None))
        if opens:
            label, start = fence["label"].lower(), fence.end()
        elif start >= 0:
            yield Block(
                label, dedent(text[start : fence.start()]).strip(), fence.start() + len(fence["first"] or "") + 3
            )
            start = -1


def last_block(text: str, labels: tuple[str, ...] = PYTHON) -> str | None:
    """Return the last block with one of these labels, else the last of all; None where there is none."""
    code_by_match = {block.label in labels: block.code for block in blocks_in(text)}
    return code_by_match.get(True, code_by_match.get(False))


def unfence(text: str) -> str:
    """Return the code of a text that is a fenced block and nothing else; any other text as it is."""
    stripped = text.strip()
    if not stripped.startswith("```"):
        return text
    block = next(blocks_in(stripped), None)
    return block.code if block is not None and block.end == len(stripped) else text


def last_between(text: str, opening: str, closing: str) -> str | None:
    """Return what stands between the last opening before the last closing, and the closing that follows it."""
    before, closed, _ = text.rpartition(closing)
    _, opened, rest = before.rpartition(opening)
    return rest.partition(closing)[0] if closed and opened else None
