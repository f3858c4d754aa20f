"""Pages: text stays text, pictures are images, and the policy allows one style and nothing else."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
from jinja2 import UndefinedError

from rlx.base.table import Table
from rlx.evaluation.picture import Panel, label_of, picture_svg
from rlx.view.report.build import report_files
from rlx.view.report.document import Document, Folded, Notes, Picture, Section, to_report_markdown
from rlx.view.report.page import FOLDER, environment, to_html
from tests.loops import for_each
from tests.report.run_folders import read_html

HOSTILE = "<script>alert(1)</script>\"'&\x1b[31m\u202eevil\ud800\uffff\n"


def page_of(text: str) -> str:
    return to_html(Document(title=text, lead=(text,), sections=(Section(title="S", blocks=(Notes(lines=(text,)),)),)))


@for_each("text", [HOSTILE, "</style><b>", "a" * 1_000_000, "&lt;", "\x00", "{{ 7 * 7 }}{% raw %}"])
def test_a_text_is_one_line_without_markup_or_control(text: str) -> None:
    found = page_of(text)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e\ud800-\udfff\uffff]", found)
    assert len(found) < 20_000
    read = read_html(found)
    assert not {"script", "b", "img"} & {*read.tags}
    assert read.tags.count("style") == 1
    assert read.text.count(label_of(text, 2000)) == 4
    found.encode()


def test_every_value_of_the_template_is_cleaned_and_escaped() -> None:
    """Markup that a template makes stays, a text in an attribute or in a list does not."""
    template = environment().from_string('<p title="{{ text }}">{{ text }}{{ [text] | join }}{{ 1 }}</p>')
    clean = "&lt;b &#34;\N{REPLACEMENT CHARACTER}&gt;"
    assert template.render(text='<b "\x1b>') == f'<p title="{clean}">{clean}{clean}1</p>'
    with pytest.raises(UndefinedError):
        environment().from_string("{{ missing }}").render()


def test_the_policy_allows_the_pages_own_style_and_pictures_and_nothing_else() -> None:
    read = read_html(page_of("t"))
    style = (FOLDER / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = [value for tag, name, value in read.attributes if (tag, name) == ("meta", "content") and "src" in value]
    allowed = ["img-src data:", f"style-src 'sha256-{digest}'"]
    assert policy.split("; ") == ["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"]
    assert f"<style>{style}</style>" in page_of("t"), "what the digest is of"
    assert "script" not in read.tags


def drawn(title: str) -> str:
    pytest.importorskip("matplotlib")

    def draw(axes: list[object]) -> list[tuple[object, str]]:
        (line,) = axes[0].plot([1, 2], [1, 2])  # type: ignore[attr-defined]
        return [(line, HOSTILE)]

    return picture_svg([Panel(title=title, draw=draw, num_labels=1)])  # type: ignore[arg-type]


def test_pictures_are_images_of_matplotlibs_own_text() -> None:
    """A browser runs no script of an image and loads nothing for it; its ids are its own."""
    svg = drawn(HOSTILE)
    pictures = tuple(Picture(name=name, title=HOSTILE, svg=svg) for name in ("a", "b"))
    document = Document(title=HOSTILE, lead=(), sections=(Section(title="S", blocks=pictures),))
    html = to_html(document)
    assert html.startswith("<!doctype html>")
    read = read_html(html)
    sources = [value for tag, name, value in read.attributes if (tag, name) == ("img", "src")]
    assert len(sources) == 2
    for source in sources:
        head, _, data = source.partition(",")
        assert head == "data:image/svg+xml;base64"
        assert base64.b64decode(data, validate=True).decode() == svg
    assert [value for _, name, value in read.attributes if name == "id"] == ["s"]
    assert not {"script", "svg"} & {*read.tags}
    assert report_files(document)["a.svg"] == svg


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
    assert set(report_files(document)) == {"report.html", "report.md"}
