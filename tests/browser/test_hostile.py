"""Text of models, pages and strangers' folders stays plain text, whatever it contains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.doors import episode_of, member_of, metrics_of, run_of, serving, table_of, turn_of

pytestmark = pytest.mark.browser
HTML = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script></script><b>bold</b>"
HIDDEN = "a\u202eb\u2066c\u200bd\x1b[31me\x00f\ud800g\U000e0041h\u2028i"
SEEN = "a⟨RLO⟩b⟨LRI⟩c⟨ZWSP⟩d␛[31me␀f�g⟨U+E0041⟩h⟨LS⟩i"
LONG = "x" * 1_000_000
ALL = HTML + HIDDEN


def turn(text: str) -> Any:
    values = {"kind": "call", "name": ALL, "action": text, "observation": text, "agent": ALL}
    return turn_of([text, "\n", HIDDEN], **values, metrics={ALL: 1.0}, reply={ALL: 1.0}, stop=ALL)


def episode(query: Any) -> Any:
    text = LONG if query["line"] == "2" else ALL
    fork = {"parent": 0, "turn": 0, "token": 0, "num_forced": 0, "learned": False}
    task = {"id": text[:3000], "env": ALL, "goal": text}
    values = {"task": task, "error": text, "fork": fork, "status": ALL, "openings": [{"agent": ALL, "text": text}]}
    return episode_of([turn(text), turn_of([text], kind="answer", action=text)], **values)


RUN = run_of(ALL[:60], state=ALL, env=ALL, algo=ALL, model=ALL, where=ALL, damage=[ALL], figures={ALL: [0.5, 0.4, 0.6]})


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    doors = {
        "runs": lambda _: {"places": [], "runs": [{**RUN, "id": "bad"}, {**RUN, "id": HTML, "sweep": ALL}]},
        "metrics": lambda _: metrics_of(5, names={ALL: 1.0, "time/" + ALL: 2.0, LONG: 3.0}),
        "config": lambda _: {"config": {ALL: ALL, "long": LONG}, "summary": {}, "command": ALL, "results": ALL},
        "episodes": lambda _: table_of(16, tasks=[ALL, LONG]),
        "episode": episode,
        "group": lambda _: {"members": [member_of(0, [ALL, HIDDEN]), member_of(1, [LONG[:200]])]},
        "pictures": lambda _: {"pictures": [ALL, LONG, ALL], "why": ALL},
    }
    with serving(doors) as found:
        yield found


PLACES = {
    "runs": ("#/", ".chart .uplot"),
    "overview": ("#/run/bad", ".config dt"),
    "episodes": ("#/run/bad/episodes", ".list-body [role=row]"),
    "episode": ("#/run/bad/episode/step-1.jsonl/1", ".picture"),
    "long episode": ("#/run/bad/episode/step-1.jsonl/2", ".picture"),
    "group": ("#/run/bad/group/step-1.jsonl/0", ".tree .node"),
    "pair": ("#/run/bad/pair/step-1.jsonl/1/step-1.jsonl/2", ".pair-row .turn"),
}


@pytest.mark.parametrize("place", PLACES)
def test_nothing_of_a_text_becomes_an_element(screen: Any, address: str, place: str) -> None:
    hash_, ready = PLACES[place]
    screen.open(address + hash_, ready)
    page = screen.page
    screen.shot(place)
    assert page.locator("main img, main script, main b, main iframe").count() == 0
    assert "owned" not in page.title().replace(HTML, "")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shown = page.evaluate("document.body.textContent")
    assert not set(shown) & set("\u202e\u2066\u200b\x1b\x00\ud800\U000e0041\u2028")
    assert "owned" in shown or place == "group"


def test_hidden_characters_are_shown_as_symbols(screen: Any, address: str) -> None:
    screen.open(address + "#/run/bad/episode/step-1.jsonl/1", ".tokens .tok")
    assert screen.page.locator(".tokens .tok").nth(2).text_content() == SEEN


def test_a_long_text_is_cut_until_it_is_wanted(screen: Any, address: str) -> None:
    screen.open(address + "#/run/bad/episode/step-1.jsonl/2", ".observation button.more")
    text = screen.page.locator(".observation .text").first
    assert len(text.text_content()) < 5000
    screen.page.locator(".observation button.more").first.click()
    assert len(text.text_content()) == len(LONG)


def test_a_place_that_is_none_says_so(screen: Any, address: str) -> None:
    screen.open(address + "#/run/%E0%A4%A/nowhere/" + "x" * 500, ".empty a")
    screen.open(address + "#/run/" + "<b>x", "[role=alert]")
    assert "<b>x" in screen.page.inner_text("[role=alert]")
