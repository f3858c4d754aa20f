"""A report as values: sections of tables, pictures and notes, written as an HTML page or as Markdown with SVG files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rlx.evaluate.picture import label_of
from rlx.record.command import LONGEST as LONGEST_COMMAND
from rlx.report.html import Html, element, escaped, joined, page
from rlx.report.inline import inline
from rlx.report.style import CSS
from rlx.table import Table, markdown_cell, to_markdown

HTML, MARKDOWN = "report.html", "report.md"
NUMBER = re.compile(r"[-+–\d.,%]")
"""Start of a cell that is a number, or none."""
BEGIN = re.compile(r"^(?:\d{1,9}(?=[.)](?:\s|$))|(?=#{1,6}(?:\s|$)|[+-](?:\s|$)|---|\[))")
"""Begin of a block of Markdown, up to the character that needs a backslash."""
VERDICTS = {"yes": "good", "no": "bad", "supported": "good", "contradicted": "bad"}
"""Classes of cells that answer a question."""
SHORT = 36
"""Largest number of characters of a text that stays in one line."""
LONGEST = 600
"""Largest number of characters of a note."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """SVG text under a title."""

    name: str
    """Name of the file without its ending, and the start of its ids: a word of the program's own."""
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
    """Blocks that a reader opens, for those who ask: long lists."""

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


def files_of(document: Document) -> dict[str, str]:
    """Return the text of each file of a report, by its name."""
    pictures = {f"{one.name}.svg": one.svg for section in document.filled for one in pictures_in(section.blocks)}
    return {HTML: to_html(document), MARKDOWN: to_report_markdown(document), **pictures}


def pictures_in(blocks: Iterable[Block]) -> Iterator[Picture]:
    for block in blocks:
        if isinstance(block, Picture):
            yield block
        elif isinstance(block, Folded):
            yield from pictures_in(block.blocks)


def to_html(document: Document) -> str:
    """Write the page."""
    links = [element("a", one.title, attributes={"href": f"#{one.anchor}"}) for one in document.filled]
    head = [element("h1", document.title), *(element("p", line) for line in document.lead)]
    nav = element("nav", joined(links), attributes={"aria-label": "Sections"})
    sections = [section_html(section) for section in document.filled]
    return page(document.title, CSS, element("header", joined(head)), nav, element("main", joined(sections)))


def section_html(section: Section) -> Html:
    blocks = [block_html(block) for block in section.blocks if is_filled(block)]
    return element("section", joined([element("h2", section.title), *blocks]), attributes={"id": section.anchor})


def block_html(block: Block) -> Html:
    """Write one block."""
    match block:
        case Table():
            return table_html(block)
        case Picture():
            return element("figure", element("figcaption", block.title), inline(block.svg, block.name, block.title))
        case Notes():
            return element("ul", joined(element("li", line) for line in block.lines))
        case Code():
            lines = Html("\n".join(escaped(line, LONGEST_COMMAND) for line in block.lines))
            return element("div", element("pre", lines), attributes=wide(block.title))
        case Folded():
            inner = [block_html(one) for one in block.blocks if is_filled(one)]
            return element("details", element("summary", block.title), *inner)


def table_html(table: Table) -> Html:
    """Write a table that scrolls by itself where it is wider than the page."""
    words = [is_words([row[index] for row in table.rows]) for index in range(len(table.header))]
    columns = zip(table.header, words, strict=True)
    head = [element("th", name, attributes={"scope": "col", **aligned(is_text)}) for name, is_text in columns]
    body = [row_html(row, words) for row in table.rows]
    whole = element(
        "table", element("caption", table.title), element("thead", element("tr", *head)), element("tbody", joined(body))
    )
    return element("div", whole, attributes=wide(table.title))


def wide(title: str) -> dict[str, str]:
    """Return the attributes of an element that scrolls by itself where it is wider than the page."""
    return {"class": "wide", "tabindex": "0", "role": "region", "aria-label": title}


def is_words(cells: Sequence[str]) -> bool:
    """Tell whether a column holds text, which stands on the left, and no numbers."""
    return any(cell and not NUMBER.match(cell) for cell in cells if cell not in VERDICTS)


def aligned(words: bool) -> dict[str, str]:
    return {"class": "words"} if words else {}


def row_html(row: Sequence[str], words: Sequence[bool]) -> Html:
    first, *others = row
    cells = [cell_html(cell, is_text) for cell, is_text in zip(others, words[1:], strict=True)]
    short = {"class": "short"} if len(first) <= SHORT else {}
    return element("tr", element("th", first, attributes={"scope": "row", **short}), *cells)


def cell_html(cell: str, words: bool) -> Html:
    """Write a cell; an interval is smaller than its value."""
    value, gap, interval = cell.partition(" [")
    if gap and interval.endswith("]") and not words:
        small = element("span", f"[{interval}", attributes={"class": "interval"})
        return element("td", value, Html(" "), small)
    verdict = VERDICTS.get(cell)
    kind = verdict or " ".join(["words"] * words + ["short"] * (words and len(cell) <= SHORT))
    return element("td", cell, attributes={"class": kind} if kind else {})


def to_report_markdown(document: Document) -> str:
    """Write the Markdown."""
    parts = [f"# {markdown_cell(document.title)}", *(markdown_line(line) for line in document.lead)]
    parts += [text for section in document.filled for text in section_markdown(section)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def markdown_line(text: str) -> str:
    """Return a note that Markdown shows as it is, also where it begins as a heading, a list or a link's address."""
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
            inner = [text for one in block.blocks for text in block_markdown(one)]
            return [f"### {markdown_cell(block.title)}", *inner]


def fenced(lines: Sequence[str]) -> str:
    """Return a block of code below a fence that is longer than any in it."""
    longest = max(map(len, re.findall("`+", "\n".join(lines))), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence, *lines, fence])
