"""Pages: text stays text, pictures hold what is allowed, and the policy allows one style and nothing else."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from rlx.evaluate.picture import Panel, picture_svg
from rlx.report.document import Document, Folded, Notes, Picture, Section, files_of, to_html, to_report_markdown
from rlx.report.html import Html, element, escaped, page
from rlx.report.inline import inline
from rlx.table import Table
from tests.report.run_folders import read_html

HOSTILE = "<script>alert(1)</script>\"'&\x1b[31m\u202eevil\ud800\uffff\n"


@pytest.mark.parametrize("text", [HOSTILE, "</style><b>", "a" * 1_000_000, "&lt;", "\x00"])
def test_a_text_is_one_line_without_markup_or_control(text: str) -> None:
    found = escaped(text)
    assert not re.search(r"[<>\"'\x00-\x1f\u202a-\u202e\ud800-\udfff\uffff]", found)
    assert len(found) < 3000
    found.encode()


def test_a_string_is_escaped_and_markup_is_not() -> None:
    assert element("p", "<b>", Html("<i>"), attributes={"title": '"'}).text == '<p title="&quot;">&lt;b&gt;<i></p>'
    assert element("meta", attributes={"charset": "utf-8"}).text == '<meta charset="utf-8">'


def test_the_policy_allows_the_pages_own_style_and_nothing_else() -> None:
    read = read_html(page("t", "p { color: red; }", element("p", "x")))
    digest = base64.b64encode(hashlib.sha256(b"p { color: red; }").digest()).decode()
    (policy,) = [value for tag, name, value in read.attributes if (tag, name) == ("meta", "content") and "src" in value]
    style = f"style-src 'sha256-{digest}'"
    assert policy.split("; ") == ["default-src 'none'", style, "base-uri 'none'", "form-action 'none'"]
    assert "script" not in read.tags


def test_a_picture_is_rebuilt_from_what_is_allowed() -> None:
    svg = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" onload="x()">
      <style>* {fill: red}</style><script>x()</script><metadata><a/></metadata><foreignObject><p/></foreignObject>
      <defs><path id="m1" d="M 0 0
      L 1 1" style="fill: #000000; stroke: #ffffff; position: fixed; stroke-width: 2"/></defs>
      <g clip-path="url(#c1)" style="fill: url(http://x)"><use xlink:href="#m1" x="1"/><use xlink:href="http://x"/></g>
      <text style="font-size: 7px; fill: #1f77b4">a &lt;b&gt; &amp;</text></svg>"""
    text = inline(svg, "one", "label").text
    read = read_html(text)
    assert read.tags == ["svg", "defs", "path", "g", "use", "use", "text"]
    assert "".join(read.text) == "a <b> &"
    found = {(tag, name): value for tag, name, value in read.attributes}
    assert found["path", "id"] == "one-m1"
    assert [found["path", key] for key in ("fill", "stroke", "stroke-width")] == ["currentColor", "none", "2"]
    assert (found["g", "clip-path"], found["g", "fill"]) == ("url(#one-c1)", "none")
    assert [value for tag, name, value in read.attributes if name == "href"] == ["#one-m1"]
    assert (found["text", "font-size"], found["text", "fill"]) == ("7px", "#1f77b4")
    assert not {name for _, name, _ in read.attributes} & {"style", "onload", "position"}
    assert (found["svg", "role"], found["svg", "aria-label"]) == ("img", "label")


def drawn(title: str) -> str:
    pytest.importorskip("matplotlib")

    def draw(axes: list[object]) -> list[tuple[object, str]]:
        (line,) = axes[0].plot([1, 2], [1, 2])  # type: ignore[attr-defined]
        return [(line, HOSTILE)]

    return picture_svg([Panel(title=title, draw=draw, num_labels=1)])  # type: ignore[arg-type]


def test_two_pictures_of_a_page_share_no_ids_and_their_names_are_text() -> None:
    svg = drawn(HOSTILE)
    pictures = tuple(Picture(name=name, title=HOSTILE, svg=svg) for name in ("a", "b"))
    read = read_html(to_html(Document(title=HOSTILE, lead=(), sections=(Section(title="S", blocks=pictures),))))
    ids = [value for _, name, value in read.attributes if name == "id"]
    links = [value[1:] for tag, name, value in read.attributes if (tag, name) == ("use", "href")]
    assert len(set(ids)) == len(ids) > 20
    assert set(links) <= set(ids)
    assert "script" not in read.tags


TABLE = Table(title="T", header=("run", "x", "why"), rows=(("a", "1.5 [1.0,2.0]", "it is"), ("b|c", "–", "no")))


def test_a_report_has_its_blocks_in_both_forms_and_no_empty_section() -> None:
    empty = Section(title="Nothing", blocks=(Table(title="", header=("a",), rows=()), Notes(lines=())))
    folded = Folded(title="More", blocks=(Notes(lines=("one *note*",)),))
    section = Section(title="Some things", blocks=(TABLE, folded, Folded(title="None", blocks=())))
    document = Document(title="Title", lead=("lead",), sections=(empty, section))
    read = read_html(to_html(document))
    assert [value for tag, name, value in read.attributes if (tag, name) == ("a", "href")] == ["#some-things"]
    assert read.tags.count("details") == 1
    assert {"1.5 ", "[1.0,2.0]", "b|c", "one *note*", "lead"} <= set(read.text)
    assert ("th", "class", "words") in read.attributes, "a column of words"
    assert ("td", "class", "bad") in read.attributes, "an answer"
    lines = to_report_markdown(document).splitlines()
    assert "## Some things" in lines
    assert "## Nothing" not in lines
    assert r"| b\|c | – | no |" in lines
    assert r"- one \*note\*" in lines
    assert set(files_of(document)) == {"report.html", "report.md"}
