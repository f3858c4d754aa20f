"""A page with its data inside needs no server: answers are named as the doors and their queries are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.doors import PAGE, episode_of, member_of, turn_of

pytestmark = pytest.mark.browser
HOSTILE = "</script><script>document.title = 'owned'</script><!--"
PLACE = {"run": "a/b", "file": "step-1.jsonl"}


def named(door: str, **query: Any) -> str:
    return f"api/{door}?" + "&".join(f"{key}={value}" for key, value in query.items())


def exported(answers: dict[str, Any]) -> str:
    """Put the built files and the data into one page."""
    page = (PAGE / "page.html").read_text()
    data = json.dumps(answers).replace("<", "\\u003c")
    style, script = (PAGE / "page.css").read_text(), (PAGE / "page.js").read_text()
    page = page.replace('<link rel="stylesheet" href="page.css">', f"<style>{style}</style>")
    page = page.replace('<script src="page.js" defer></script>', "")
    end = f'<script type="application/json" id="rlx-data">{data}</script><script>{script}</script></body>'
    return page.replace("</body>", end)


@pytest.fixture
def address(tmp_path: Path) -> str:
    one = episode_of([turn_of(["one ", HOSTILE], observation=HOSTILE)])
    other = episode_of([turn_of(["one ", "more"])], line=2, sample=1)
    answers = {
        named("episode", **PLACE, line=1): one,
        named("episode", **PLACE, line=2): other,
        named("group", **PLACE, group=0): {"members": [member_of(0, ["one"]), member_of(1, ["one"])]},
        named("pictures", **PLACE, line=1): {"pictures": ["GRID", "GRID"], "why": ""},
    }
    file = tmp_path / "page.html"
    file.write_text(exported(answers))
    return file.as_uri()


def test_exported_episodes_are_listed_and_shown(screen: Any, address: str) -> None:
    screen.open(address, ".export-list li >> nth=1")
    screen.shot("list")
    screen.press("j", "Enter")
    screen.page.wait_for_selector(".picture pre:has-text('GRID')")
    assert screen.page.locator(".tokens .tok").nth(1).inner_text() == HOSTILE
    screen.press("g")
    screen.page.wait_for_selector(".tree .node.selected")
    screen.open(f"{address}#/run/a%2Fb/pair/step-1.jsonl/1/step-1.jsonl/2", ".pair-row .turn")
    assert "owned" not in screen.page.title()


def test_what_was_not_exported_says_so(screen: Any, address: str) -> None:
    screen.open(f"{address}#/run/a%2Fb/episode/step-1.jsonl/7", "[role=alert]")


def test_the_built_script_can_stand_inside_a_page() -> None:
    assert not re.search(r"</script|<!--", (PAGE / "page.js").read_text(), re.IGNORECASE)
