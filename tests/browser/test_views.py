"""Every view of the page renders, in both themes, for narrow and wide screens, by keyboard, and as axe wants it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.doors import episode_of, member_of, metrics_of, run_of, serving, table_of, turn_of

pytestmark = pytest.mark.browser
GRID = "wall wall wall\nwall key  wall\nwall  ^   wall"
THEMES = pytest.mark.parametrize(
    "screen", [(1440, 900, "light"), (1440, 900, "dark"), (360, 740, "light")], indirect=True, ids=str
)
RUNS = [
    *(run_of(f"seeds/{n}", seed=n, sweep="countdown tool_rloo", changed=9 - n) for n in range(3)),
    run_of("live", state="running", step=5, steps=9, left=100.0, figures={"pass@1": [0.7, 0.6, 0.8]}, changed=3),
    run_of("hurt", state="failed", damage=["metrics.jsonl: 2 of 9 lines cannot be read"]),
]


def words(text: str) -> list[str]:
    return [f"{word} " for word in text.split()]


def episode(query: Any) -> Any:
    line = int(query["line"])
    call = turn_of(words("let me compute"), kind="call", name="python", action="print(3)\n", observation="3\n")
    fork = {"parent": 0, "turn": 1, "token": 1, "num_forced": 1, "learned": False} if line == 2 else None
    last = turn_of(words("so it is" if line == 1 else "so not it"), kind="answer", name="", action="82", reward=1.0)
    move = turn_of(words("go forward"), name="forward", observation="You see a key.")
    times = {"queue": 0.5, "opening": 0.25, "turns": [[1.5, 0.25], [1.0, 0.0], [2.0, 0.0]][line == 2 :]}
    turns = [{**call, "replayed": line == 2}, move, last]
    return episode_of(turns, line=line, sample=line - 1, fork=fork, times=times)


def group(_: Any) -> Any:
    forks = [member_of(n, ["swap 1 2", f"swap 3 {n}", "done"], parent=0, fork_turn=1, fork_token=1) for n in (2, 3)]
    last = member_of(4, ["swap 1 2", "swap 3 3", f"swap 9 {4}"], parent=3, fork_turn=2, fork_token=0, reward=0.5)
    return {
        "members": [member_of(0, ["swap 1 2", "swap 3 4"]), member_of(1, ["swap 5 6"], success=False), *forks, last]
    }


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    table = table_of(64)
    steps = {"num": 5}

    def metrics(query: Any) -> Any:
        steps["num"] += query["run"] == "live"
        return metrics_of(steps["num"] if query["run"] == "live" else 60, int(query["from"]))

    doors = {
        "runs": lambda _: {"places": [], "runs": [{**run, "changed": steps["num"]} for run in RUNS]},
        "metrics": metrics,
        "config": lambda _: {"config": {"algo.clip": 0.2}, "summary": {}, "command": "rlx train", "results": "| a |"},
        "episodes": lambda _: table,
        "episode": episode,
        "group": group,
        "pictures": lambda _: {"pictures": [GRID] * 4, "why": ""},
    }
    with serving(doors) as found:
        yield found


VIEWS = {
    "runs": ("#/", ".chart .uplot"),
    "overview": ("#/run/live", ".time .uplot"),
    "episodes": ("#/run/live/episodes", ".list-body [role=row]"),
    "episode": ("#/run/live/episode/step-1.jsonl/1?shade=logprob", ".picture"),
    "group": ("#/run/live/group/step-1.jsonl/0", ".tree .node.selected"),
    "pair": ("#/run/live/pair/step-1.jsonl/1/step-1.jsonl/2", ".pair-row .turn"),
}


@THEMES
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_renders_and_is_accessible(screen: Any, address: str, view: str) -> None:
    place, ready = VIEWS[view]
    screen.open(address + place, ready)
    screen.page.wait_for_timeout(100)  # canvases are drawn in the next frame
    screen.shot(view)
    assert screen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert screen.problems() == []


def test_curves_of_seeds_are_one_line_with_a_band(screen: Any, address: str) -> None:
    screen.open(address + "#/", ".chart .uplot")
    screen.page.click(".run-group-head:has-text('countdown')")
    screen.page.wait_for_selector(".chart-key li:has-text('mean of 3 runs')")
    assert screen.page.locator(".chart-key li").count() == 1


FIGURES = {
    "shares": {"pass@1": [1.0, 1.0, 1.0]},
    "small": {"reward": [-2.345e-4, -9.876e-4, -1.234e-5]},
    "large": {"tokens": [123456.7, 98765.4, 234567.8]},
    "without an interval": {"part/of a mixture/reward": [-0.1234, None, None]},
}


@pytest.mark.parametrize(
    "screen", [(width, 900, "light") for width in (360, 390, 760, 1100, 1440)], indirect=True, ids=str
)
def test_a_figure_of_the_list_is_shown_with_its_whole_interval(screen: Any) -> None:
    runs = [run_of(f"{name} " * 5, figures=FIGURES[name], state="running", left=11_000.0) for name in FIGURES]
    with serving({"runs": lambda _: {"places": [], "runs": runs}, "metrics": lambda _: metrics_of(5)}) as found:
        screen.open(found + "#/", ".headline")
        screen.shot("figures")
        cut = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.textContent)"
        assert screen.page.eval_on_selector_all(".headline, .headline > *, .run-state > *", cut) == []
        assert screen.page.locator(".headline").first.inner_text().split() == ["100.0%", "100.0%", "–", "100.0%"]
        names = screen.page.locator(".run-name")
        assert min(names.nth(n).bounding_box()["width"] for n in range(len(runs))) > 100


def test_a_running_run_grows_by_itself(screen: Any, address: str) -> None:
    screen.open(address + "#/run/live", ".chart .uplot")
    label = screen.page.get_attribute(".chart-box", "aria-label")
    screen.page.wait_for_selector(f".chart-box:not([aria-label={label!r}])", timeout=5000)


def test_damage_is_named(screen: Any, address: str) -> None:
    screen.open(address + "#/run/hurt", ".notice li:has-text('2 of 9 lines')")


def test_a_token_says_its_numbers_on_hover_and_by_arrow(screen: Any, address: str) -> None:
    screen.open(address + "#/run/live/episode/step-1.jsonl/1", ".tokens .tok")
    screen.page.hover(".tokens .tok")
    screen.page.wait_for_selector(".tip dt:has-text('log-prob')")
    screen.shot("hover")
    screen.page.focus(".tokens")
    screen.press("ArrowRight", "ArrowRight")
    assert screen.page.inner_text(".tip .mono") == '"me "'


def test_the_time_of_an_episode_is_divided_among_its_stages(screen: Any, address: str) -> None:
    screen.open(address + "#/run/live/episode/step-1.jsonl/1", ".time-line")
    assert screen.page.inner_text(".time-line .label") == "5.5 s in all"
    assert screen.page.locator(".time-line li").nth(2).inner_text() == "generate 4.5 s"
    assert "1.5 s + 0.3 s" in screen.page.inner_text("#turn-0 .turn-figures")


def test_a_tool_call_is_folded_until_it_is_opened(screen: Any, address: str) -> None:
    screen.open(address + "#/run/live/episode/step-1.jsonl/1", ".call summary:has-text('python')")
    assert not screen.page.locator(".call-body").is_visible()
    screen.press("o")
    screen.page.wait_for_selector(".call-body", state="visible")
    assert screen.page.locator(".call-body .observation").is_visible()


def test_a_call_stays_open_when_pictures_come_later(screen: Any) -> None:
    are_drawn = threading.Event()

    def pictures(_: Any) -> Any:
        are_drawn.wait(30)
        return {"pictures": [GRID] * 4, "why": ""}

    with serving({"episode": episode, "pictures": pictures}) as found:
        screen.open(found + "#/run/live/episode/step-1.jsonl/1?turn=0", ".call summary:has-text('python')")
        screen.press("o")
        are_drawn.set()
        screen.page.wait_for_selector(".picture >> nth=3")
        assert screen.page.locator(".picture").count() == 4
        assert screen.page.locator(".call-body .observation").is_visible()
        assert screen.page.evaluate("document.activeElement.id") == "turn-0"
        assert screen.page.locator("#turn-0 .picture .label").inner_text() == "after turn 0"


def test_a_tree_is_walked_by_arrows(screen: Any, address: str) -> None:
    screen.open(address + "#/run/live/group/step-1.jsonl/0", ".tree .node.selected")
    screen.press("ArrowRight", "ArrowDown")
    assert screen.page.inner_text(".panel h2") == "Sample 2, turn 1"
    screen.press("Enter")
    screen.page.wait_for_url("**/episode/step-1.jsonl/3?turn=1")


def test_pictures_until_an_environment_was_stopped_are_shown_with_the_reason(screen: Any) -> None:
    doors = {"episode": episode, "pictures": lambda _: {"pictures": [GRID], "why": "it took longer than 10 s"}}
    with serving(doors) as found:
        screen.open(found + "#/run/live/episode/step-1.jsonl/1", "p:has-text('no more pictures: it took longer')")
        assert screen.page.locator(".picture").count() == 1


def test_a_run_is_opened_and_left_by_keyboard_alone(screen: Any, address: str) -> None:
    screen.open(address + "#/", ".run a:focus")
    first = screen.page.evaluate("document.activeElement.textContent")
    screen.press("j", "k", "Enter")
    screen.page.wait_for_selector(f"h1:has-text('{first}')")
    screen.press("e")
    screen.page.wait_for_selector(".list-body [role=row]")
    screen.press("j", "Enter")
    screen.page.wait_for_selector(".turn:not(.replayed)")
    screen.press("j", "j", "k", "s", "ArrowRight")
    screen.page.wait_for_selector(".pager:has-text('3 of 64')")
    screen.press("g")
    screen.page.wait_for_selector(".tree .node.selected")
    screen.press("Escape")
    screen.page.wait_for_selector(".list-body [aria-selected=true]")
    screen.press("Escape", "Escape")
    screen.page.wait_for_selector(".runs-list")


def test_keys_are_listed(screen: Any, address: str) -> None:
    screen.open(address + "#/run/live/episodes", ".list-body [role=row]")
    screen.press("?")
    screen.page.wait_for_selector("dialog[open] dt")
    screen.shot("keys")
    assert screen.problems() == []
    screen.press("Escape")
    assert screen.page.locator("dialog[open]").count() == 0


def test_the_theme_can_be_chosen(screen: Any, address: str) -> None:
    screen.open(address + "#/", ".run")
    light = screen.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    screen.press("t", "t")
    assert screen.page.get_attribute("html", "data-theme") == "dark"
    assert screen.page.evaluate("getComputedStyle(document.documentElement).backgroundColor") != light
    screen.page.reload()
    assert screen.page.get_attribute("html", "data-theme") == "dark"
