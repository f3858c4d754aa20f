"""HTML page of a report: the template page.html.jinja with page.css, one file without scripts or requests.

Every value of the template becomes one line of text without control characters, and is escaped. Only this module makes
markup: the style, the base64 text of a picture and the lines of a command.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from rlx.base.table import Table
from rlx.evaluation.picture import label_of
from rlx.runs.command import LONGEST as LONGEST_COMMAND
from rlx.view.report.document import Document, is_filled

FOLDER = Path(__file__).parent
LONGEST = 2000
"""Largest number of characters of a text."""
NUMBER = re.compile(r"[-+–\d.,%]")
"""Start of a cell that is a number, or none."""
VERDICTS = {"yes": "good", "no": "bad", "supported": "good", "contradicted": "bad"}
"""Classes of cells that answer a question."""
SHORT = 36
"""Largest number of characters of a text that stays in one line."""


class Cell(NamedTuple):
    """Cell of a table; an interval is smaller than its value."""

    value: str
    interval: str
    kind: str
    """Class of the element."""


def to_html(document: Document) -> str:
    """Return the page of a report."""
    css = (FOLDER / "page.css").read_text(encoding="utf-8")
    template = environment().get_template("page.html.jinja")
    return str(template.render(document=document, css=Markup(css), policy=policy_of(css)))


@cache
def environment() -> Any:
    """Return the templates, whose every value is cleaned and escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, finalize=text_line, undefined=StrictUndefined
    )
    templates.filters.update(
        kind=lambda block: type(block).__name__,
        text_columns=text_columns,
        cell=cell_of,
        data_uri=data_uri,
        commands=command_lines,
    )
    templates.tests.update(filled=is_filled, short=lambda text: len(text) <= SHORT)
    return templates


def text_line(value: object) -> str:
    """Return a value as one line without characters that hide or reorder text; markup stays."""
    return value if isinstance(value, Markup) else label_of(str(value), LONGEST)


def command_lines(lines: Sequence[str]) -> Markup:
    """Return commands, a line each, in the length of a shell's command."""
    return Markup("\n").join(escape(label_of(line, LONGEST_COMMAND)) for line in lines)


def data_uri(svg: str) -> Markup:
    """Return a picture as the address of an image, which runs no script and shares no ids with the page."""
    return Markup("data:image/svg+xml;base64,") + base64.b64encode(svg.encode()).decode()


def policy_of(css: str) -> Markup:
    """Return a content security policy for this style and the page's pictures: no script, no request, no form."""
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    style = f"style-src 'sha256-{digest}'"
    return escape(f"default-src 'none'; img-src data:; {style}; base-uri 'none'; form-action 'none'")


def text_columns(table: Table) -> list[bool]:
    """Return a flag for each column: it holds text, which stands on the left, and no numbers."""
    columns = [[row[index] for row in table.rows] for index in range(len(table.header))]
    return [any(cell and not NUMBER.match(cell) for cell in cells if cell not in VERDICTS) for cells in columns]


def cell_of(text: str, is_text: bool) -> Cell:
    """Return the parts of a cell."""
    value, gap, interval = text.partition(" [")
    if gap and interval.endswith("]") and not is_text:
        return Cell(value=value, interval=f"[{interval}", kind="")
    kind = VERDICTS.get(text) or " ".join(["words"] * is_text + ["short"] * (is_text and len(text) <= SHORT))
    return Cell(value=text, interval="", kind=kind)
