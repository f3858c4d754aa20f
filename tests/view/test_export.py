"""`rlx view --export`: chosen episodes as one file, whatever their texts are."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlx.base.limits import MistakeError
from rlx.cli import app
from rlx.commands import view
from rlx.view.export import build_page
from tests.view.conftest import episode, turn, write


class Blocks(HTMLParser):
    """The blocks of a page and the tags within it, as a browser reads them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.blocks: list[tuple[str, dict[str, str | None], str]] = []
        self.metas: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in ("script", "style"):
            self.blocks.append((tag, dict(attrs), ""))
        if tag == "meta":
            self.metas.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] and self.tags[-1] in ("script", "style") and data.strip():
            tag, attributes, text = self.blocks[-1]
            self.blocks[-1] = (tag, attributes, text + data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self.tags.append(f"/{tag}")


def export(run: Path, *words: str) -> tuple[Blocks, dict[str, Any]]:
    out = run.parent / "page.html"
    done = CliRunner().invoke(app, ["view", str(run), *words, "--export", str(out)])
    assert done.exit_code == 0, done.exception
    page = Blocks(out.read_text(encoding="utf-8"))
    (data,) = (text for _, attributes, text in page.blocks if attributes.get("id") == "rlx-data")
    return page, json.loads(data)


def test_chosen_episodes_are_in_the_page_with_their_groups(run: Path) -> None:
    _, data = export(run, "2", "--failed")
    file = "step-000002.jsonl"
    lines = {name for name in data if name.startswith("api/episode?")}
    assert lines == {f"api/episode?run=run&file={file}&line={line}" for line in (1, 2)}
    assert data[f"api/episode?run=run&file={file}&line=1"]["task"]["id"] == "a"
    assert len(data[f"api/group?run=run&file={file}&group=0"]["members"]) == 3
    assert data[f"api/pictures?run=run&file={file}&line=1"]["pictures"] == []


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["2", "--best"], {"3"}),
        (["2", "--line", "2"], {"2"}),
        (["2", "--sample", "1"], {"2"}),
        (["eval", "--task", "b"], {"1"}),
        ([], {"1", "2"}),
    ],
)
def test_episodes_are_chosen_by_the_words_of_show(run: Path, words: list[str], lines: set[str]) -> None:
    _, data = export(run, *words)
    assert {name.rpartition("=")[2] for name in data if name.startswith("api/episode?")} == lines


def test_the_page_runs_its_own_script_and_no_other(run: Path) -> None:
    page, _ = export(run)
    (policy,) = (one["content"] for one in page.metas if one.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "unsafe" not in policy
    allowed = set(re.findall(r"'(sha256-[^']+)'", policy))
    found = {hash_of(text) for tag, attributes, text in page.blocks if attributes.get("type") != "application/json"}
    assert found == allowed
    assert len(found) == 2
    assert not [attributes for _, attributes, _ in page.blocks if "src" in attributes]


def hash_of(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


EVIL = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\u2028\u2029",
    "\ud800",
    "\0\x1b[2J",
    "]]>",
    "&lt;/script>",
)


@pytest.mark.parametrize("text", EVIL)
def test_no_text_ends_the_block_of_data(run: Path, text: str) -> None:
    plain, _ = export(run)
    write(run / "trajectories" / "eval-8.jsonl", (episode(text, 0, turn(text, 1.0, text, kind="call")),))
    page, data = export(run)
    assert page.tags == plain.tags
    (told,) = (value for name, value in data.items() if name.startswith("api/episode?"))
    assert told["turns"][0]["observation"] == told["task"]["id"] == text


def test_mistakes_are_told_in_a_line(run: Path) -> None:
    out = run.parent / "page.html"
    for words in (
        [str(run), "--task", "none"],
        [str(run), "eval", "more"],
        [str(run.parent)],
        [str(run), "--line", "9"],
        [],
    ):
        done = CliRunner().invoke(app, ["view", *words, "--export", str(out)])
        assert done.exit_code
        assert done.exception is not None
        assert "\n" not in str(done.exception)
    assert not out.exists()


def test_a_page_that_is_not_as_it_is_built_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("page.html", "page.css", "page.js"):
        (tmp_path / name).write_text("<body></body>")
    monkeypatch.setattr("rlx.view.export.HERE", tmp_path)
    with pytest.raises(Exception, match="charset"):
        build_page({})


@pytest.mark.parametrize("choice", [["--failed"], ["--sample", "0"], ["--task", ""]])
def test_a_filter_of_episodes_without_export_starts_no_server(
    run: Path, choice: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "serve", lambda server: server.server_close())
    done = CliRunner().invoke(app, ["view", str(run), *choice])
    assert isinstance(done.exception, view.ViewError)
    assert "--export" in str(done.exception)


@pytest.mark.parametrize(
    ("words", "place"), [(["eval", "--line", "2"], "eval-8.jsonl/2"), (["eval", "--best"], "eval-8.jsonl/")]
)
def test_a_chosen_episode_is_where_the_page_begins(
    run: Path, words: list[str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "serve", lambda server: server.server_close())
    done = CliRunner().invoke(app, ["view", str(run), *words])
    assert done.exit_code == 0, done.exception
    assert re.search(rf"http://127.0.0.1:\d+/[\w-]+/#/run/[^/]+/episode/{place}", done.stdout)


@pytest.mark.parametrize("words", [["--line", "9999"], ["--best", "--task", "none"], ["eval", "more", "--best"]])
def test_an_episode_that_is_not_there_starts_no_server(
    run: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "serve", lambda server: server.server_close())
    done = CliRunner().invoke(app, ["view", str(run), *words])
    assert isinstance(done.exception, MistakeError)
    assert "\n" not in str(done.exception)
