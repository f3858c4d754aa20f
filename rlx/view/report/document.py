"""A report as values: sections of tables, pictures and notes, written as an HTML page or as Markdown with SVG files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rlx.base.table import Table, markdown_cell, to_markdown
from rlx.evaluation.picture import label_of
from rlx.runs.command import LONGEST as LONGEST_COMMAND

HTML, MARKDOWN = "report.html", "report.md"
BEGIN = re.compile(r"^(?:\d{1,9}(?=[.)](?:\s|$))|(?=#{1,6}(?:\s|$)|[+-](?:\s|$)|---|\[))")
"""Begin of a block of Markdown, up to the character that needs a backslash."""
LONGEST = 600
"""Largest number of characters of a note."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """SVG text under a title."""

    name: str
    """Name of the file without its ending: a word of the program's own."""
    title: str
    svg: str


@dataclass(frozen=True, kw_only=True)
class Notes:
    """Sentences, one a line."""

    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Code:
    """Lines to copy into a shell."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Folded:
    """Blocks under a title, folded until the reader opens them: long lists."""

    title: str
    blocks: tuple[Block, ...]


Block = Table | Picture | Notes | Code | Folded


@dataclass(frozen=True, kw_only=True)
class Section:
    """Part of a report under a heading."""

    title: str
    blocks: tuple[Block, ...]

    @property
    def anchor(self) -> str:
        """Return the name that links use; titles are the program's own words."""
        return "-".join(self.title.lower().split())


@dataclass(frozen=True, kw_only=True)
class Document:
    """A whole report."""

    title: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def filled(self) -> tuple[Section, ...]:
        """Return the sections that hold something."""
        return tuple(section for section in self.sections if any(map(is_filled, section.blocks)))


def is_filled(block: Block) -> bool:
    """Tell whether a block shows anything."""
    match block:
        case Table():
            return bool(block.rows)
        case Notes() | Code():
            return bool(block.lines)
        case Folded():
            return any(map(is_filled, block.blocks))
        case Picture():
            return True


def pictures_in(blocks: Iterable[Block]) -> Iterator[Picture]:
    for block in blocks:
        if isinstance(block, Picture):
            yield block
        elif isinstance(block, Folded):
            yield from pictures_in(block.blocks)


def to_report_markdown(document: Document) -> str:
    """Write the Markdown."""
    parts = [f"# {markdown_cell(document.title)}", *(markdown_line(line) for line in document.lead)]
    parts += [text for section in document.filled for text in section_markdown(section)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def markdown_line(text: str) -> str:
    """Escape a note, so that Markdown makes no heading, list or link address of its start."""
    return BEGIN.sub(r"\g<0>\\", markdown_cell(text, LONGEST))


def section_markdown(section: Section) -> list[str]:
    return [f"## {section.title}", *(text for block in section.blocks for text in block_markdown(block))]


def block_markdown(block: Block) -> list[str]:
    """Write one block, a paragraph each."""
    if not is_filled(block):
        return []
    match block:
        case Table():
            return [to_markdown(block)]
        case Picture():
            title = markdown_cell(block.title).replace("[", r"\[").replace("]", r"\]")
            return [f"![{title}]({block.name}.svg)"]
        case Notes():
            return ["\n".join(f"- {markdown_line(line)}" for line in block.lines)]
        case Code():
            return [fenced([label_of(line, LONGEST_COMMAND) for line in block.lines])]
        case Folded():
            inner = [text for child_block in block.blocks for text in block_markdown(child_block)]
            return [f"### {markdown_cell(block.title)}", *inner]


def fenced(lines: Sequence[str]) -> str:
    """Return a block of code below a fence that is longer than any in it."""
    longest = max(map(len, re.findall("`+", "\n".join(lines))), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence, *lines, fence])
