"""Whatever a run's folder says, a report shows it as one line of text, in HTML, in Markdown and in pictures."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import assume, given, settings
from markdown_it import MarkdownIt

from rlx.base.console import one_line
from rlx.base.table import Table
from rlx.evaluation.picture import Panel, label_of, picture_svg
from rlx.runs.command import LONGEST as LONGEST_COMMAND
from rlx.view.report.document import Code, Document, Folded, Notes, Section, to_report_markdown
from rlx.view.report.page import to_html
from tests.hostile import TEXTS, dangers
from tests.report.run_folders import read_html

TAGS = {"h1", "h2", "h3", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "strong", "pre", "code"}


def document_of(text: str) -> Document:
    table = Table(title=text, header=(text, "b"), rows=((text, text),))
    code = Code(title=text, lines=(text, "rlx"))
    blocks = (Notes(lines=(text,)), table, Folded(title="More", blocks=(Notes(lines=(text,)), code)), code)
    return Document(title=text, lead=(text,), sections=(Section(title="S", blocks=blocks),))


@given(TEXTS)
def test_a_page_shows_a_text_as_a_line(text: str) -> None:
    html = to_html(document_of(text))
    read = read_html(html)
    assert dangers(html) <= {"\n"}
    assert {value for tag, name, value in read.attributes if name in ("href", "src")} == {"#s"}
    assert read.tags.count("style") == 1
    assert not {"script", "img"} & set(read.tags)
    shown = label_of(text, 2000)
    assert not shown or read.text.count(shown) >= 4
    assert read.text.count(f"{shown}\nrlx") == 2


@given(TEXTS)
def test_markdown_shows_a_text_as_a_line(text: str) -> None:
    assume(one_line(text))
    found = to_report_markdown(document_of(text))
    html = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(found)
    read = read_html(html)
    assert dangers(found) <= {"\n"}
    assert set(read.tags) <= TAGS
    assert read.tags.count("strong") == 1, "the table's title"
    assert [read.tags.count(tag) for tag in ("h1", "h2", "h3", "ul", "li", "table", "pre")] == [1, 1, 1, 2, 2, 1, 2]
    shown = label_of(text, LONGEST_COMMAND)
    assert read.text.count(f"{shown}\nrlx\n") == 2
    assert {name for _, name, _ in read.attributes} <= {"style"}, "alignment of a column"


@settings(max_examples=10)
@given(TEXTS)
def test_a_picture_shows_a_name_as_text(text: str) -> None:
    pytest.importorskip("matplotlib")
    panel = Panel(title=text, draw=lambda axes: [(axes[0].plot([1, 2], [1, 2])[0], text)], num_labels=1)
    svg = picture_svg([panel])
    tags = {node.tag.rpartition("}")[2] for node in ElementTree.fromstring(svg).iter()}
    assert not {"script", "a", "image", "foreignObject"} & tags
    assert dangers(svg) <= {"\n"}
    assert not re.search(r"=\"(?:javascript|data):", svg)
