"""The table of 100,000 episodes: how long it takes to open and to filter, and how smoothly it scrolls.

Times are measured inside the page. They are budgets of the page's design, so this file alone asserts times."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.doors import episode_of, metrics_of, run_of, serving, table_of, turn_of

pytestmark = pytest.mark.browser
ROWS = 100_000
OPEN = 2000
FILTER = 200
FRAME = 50
"""Milliseconds; the mean time of a frame while the table scrolls."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    table = table_of(ROWS)
    doors = {
        "runs": lambda _: {"places": [], "runs": [run_of("big", num_episodes=ROWS)]},
        "metrics": lambda _: metrics_of(10),
        "episodes": lambda _: table,
        "episode": lambda query: episode_of([turn_of(["a", query["line"]])], line=int(query["line"])),
        "search": lambda query: {"rows": [*range(0, ROWS, 1000)], "indexed": ROWS, "of": ROWS},
    }
    with serving(doors) as found:
        yield found


def slack() -> float:
    """Return how many times longer a busy machine may take."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def num_shown(page: Any) -> int:
    return int(page.get_attribute("[role=grid]", "aria-rowcount")) - 1


def opened(screen: Any, address: str, query: str = "") -> Any:
    screen.open(f"{address}#/run/big/episodes{query}", ".list-body [role=row]")
    return screen.page


def test_opens_100_000_episodes_within_2_seconds(screen: Any, address: str) -> None:
    page = opened(screen, address)
    spent = page.evaluate("performance.now()")
    assert num_shown(page) == ROWS
    screen.shot("open")
    print(f"\n{ROWS} episodes opened in {spent:.0f} ms")
    assert spent < OPEN * slack()


@pytest.mark.parametrize("words", ["reward>0.5", "task:task-42", "turns>=3 failed>0 -status:truncated", "zzz"])
def test_filters_100_000_episodes_within_200_ms(screen: Any, address: str, words: str) -> None:
    page = opened(screen, address)
    spent = page.evaluate(
        """words => { const field = document.querySelector('[data-filter]'); const start = performance.now();
        field.value = words; field.dispatchEvent(new Event('input', {bubbles: true}));
        document.querySelector('.list').getBoundingClientRect(); return new Promise(done => setTimeout(() =>
        done(performance.now() - start))); }""",
        words,
    )
    print(f"\nfilter {words!r}: {spent:.0f} ms, {num_shown(page)} rows")
    assert num_shown(page) < ROWS
    assert spent < FILTER * slack()


def test_sorts_by_a_column(screen: Any, address: str) -> None:
    page = opened(screen, address)
    page.click("[role=columnheader] button:has-text('reward')")
    page.wait_for_selector("[role=columnheader][aria-sort=descending]")
    rows = page.query_selector_all(".list-body [role=row]:not([hidden])")
    shown = sorted(rows, key=lambda row: int(row.get_attribute("aria-rowindex")))
    assert [row.query_selector(".bar").inner_text() for row in shown[:3]] == ["1.00", "1.00", "1.00"]


def test_scrolls_smoothly(screen: Any, address: str) -> None:
    page = opened(screen, address)
    frames = page.evaluate(
        """async () => { const list = document.querySelector('.list'); const times = []; let last = performance.now();
        for (let i = 0; i < 60; i++) { list.scrollTop += 1500; await new Promise(requestAnimationFrame);
        const now = performance.now(); times.push(now - last); last = now; } return times; }"""
    )
    mean = sum(frames) / len(frames)
    print(f"\na frame takes {mean:.1f} ms on average and {max(frames):.0f} ms at most")
    assert page.locator(".list-body [role=row][aria-rowindex='3210']").count() == 1
    assert mean < FRAME * slack()


def test_keeps_few_elements_however_many_rows_there_are(screen: Any, address: str) -> None:
    page = opened(screen, address)
    assert page.locator(".list-body [role=row]").count() < 100


def test_finds_text_and_combines_it_with_a_filter(screen: Any, address: str) -> None:
    page = opened(screen, address)
    page.fill("[data-search]", "hello")
    page.wait_for_selector("[role=grid][aria-rowcount='101']")
    page.fill("[data-filter]", "step<=50")
    page.wait_for_selector("[role=grid][aria-rowcount='51']")
    assert "q=hello" in page.url
    assert "filter=step" in page.url


def test_says_which_words_of_a_filter_mean_nothing(screen: Any, address: str) -> None:
    page = opened(screen, address, "?filter=reward%3Emuch")
    page.wait_for_selector("[data-filter][aria-invalid=true]")
    assert num_shown(page) == ROWS


def test_goes_through_the_table_by_keyboard(screen: Any, address: str) -> None:
    page = opened(screen, address)
    screen.press("j", "j", "ArrowDown", "k", "x", "j", "x")
    page.wait_for_selector(".list-row.marked")
    assert page.get_attribute("[aria-selected=true]", "aria-rowindex") == "5"
    screen.press("/")
    assert page.evaluate("document.activeElement.hasAttribute('data-search')")
    screen.press("Escape", "c")
    page.wait_for_url("**/pair/step-1.jsonl/3/step-1.jsonl/4")
    page.wait_for_selector("h1:has-text('task-0')")


@pytest.mark.parametrize(
    "screen", [(360, 740, "light"), (768, 1024, "dark"), (2560, 1440, "light")], indirect=True, ids=str
)
def test_fits_every_width(screen: Any, address: str) -> None:
    page = opened(screen, address)
    screen.shot("table")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("[role=columnheader]:has-text('reward')").is_visible()
