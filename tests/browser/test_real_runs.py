"""Trees, twins, grids and shaded tokens of runs that were trained a step for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlx.runs.store import load, step_path
from rlx.types import Trajectory
from tests.view.conftest import Page, serving

pytestmark = pytest.mark.browser
FILE = "step-000001.jsonl"


@pytest.fixture(scope="module")
def page(real_runs: Path) -> Iterator[Page]:
    with serving(real_runs) as found:
        yield found


def address(page: Page, place: str) -> str:
    return f"{page.server.url}#/run/{place}"


def groups_of(runs: Path, name: str) -> list[tuple[Trajectory, ...]]:
    """Return the episodes of a run's step, whose lines are in this order."""
    return [group.trajectories for group in load(step_path(runs / name, 1))]


def num_own(episode: Trajectory) -> int:
    return len(episode.turns) - (episode.fork.turn if episode.fork else 0)


@pytest.mark.parametrize("name", ["carl", "earl"])
def test_a_tree_has_a_box_for_each_turn_and_hangs_forks_on_the_turn_that_they_follow(
    screen: Any, page: Page, real_runs: Path, name: str
) -> None:
    members = groups_of(real_runs, name)[0]
    screen.open(address(page, f"{name}/group/{FILE}/0"), ".tree .node.selected")
    screen.shot(name)
    assert screen.page.locator(".tree .node").count() == sum(map(num_own, members))
    assert screen.page.locator(".tree .link.fork").count() == sum(one.fork is not None for one in members) > 0
    told = page.api("group", run=name, file=FILE, group=0)["members"]
    own = [turn for one in told for turn in one["turns"][one["fork_turn"] or 0 :]]
    assert screen.page.locator(".tree .is-trained").count() == sum(turn["trained"] > 0 for turn in own) > 0
    shaded = screen.page.locator(".tree .is-trained[class*=' p'], .tree .is-trained[class*=' n']").count()
    assert (shaded > 0) == (len({one.reward for one in members}) > 1)


def test_a_bar_of_the_histogram_fades_the_other_episodes(screen: Any, page: Page, real_runs: Path) -> None:
    members = groups_of(real_runs, "carl")[0]
    screen.open(address(page, f"carl/group/{FILE}/0"), ".tree .node.selected")
    bars = screen.page.locator(".reward-bar")
    assert bars.count() == len({one.reward for one in members}) > 1
    bars.last.click()
    assert 0 < screen.page.locator(".tree .node.faded").count() < sum(map(num_own, members))


def test_a_twin_stands_beside_its_parent_from_where_its_forced_tokens_begin(
    screen: Any, page: Page, real_runs: Path
) -> None:
    members = groups_of(real_runs, "earl")[0]
    place, twin = next((place, one) for place, one in enumerate(members) if one.fork)
    assert twin.fork is not None
    assert twin.fork.forced
    parent = next(n for n, one in enumerate(members) if one.sample == twin.fork.parent)
    screen.open(address(page, f"earl/pair/{FILE}/{parent + 1}/{FILE}/{place + 1}"), ".pair-row .turn")
    screen.shot("twins")
    where = f"They diverge in turn {twin.fork.turn}, at token {twin.fork.token}."
    assert where in screen.page.inner_text(".page-head")
    assert screen.page.locator("details.common .turn").count() == twin.fork.turn
    assert screen.page.locator(".pair-row .tok.split").count() == 2


def test_forced_tokens_of_a_twin_are_marked(screen: Any, page: Page, real_runs: Path) -> None:
    place, twin = next((place, one) for place, one in enumerate(groups_of(real_runs, "earl")[0]) if one.fork)
    screen.open(address(page, f"earl/episode/{FILE}/{place + 1}?shade=origin"), ".turn:not(.replayed) .tok.o-forced")
    assert twin.fork is not None
    assert screen.page.locator(".tok.o-forced").count() == len(twin.fork.forced)


def test_a_grid_is_drawn_beside_every_turn(screen: Any, page: Page, real_runs: Path) -> None:
    episode = groups_of(real_runs, "babyai")[0][0]
    screen.open(address(page, f"babyai/episode/{FILE}/1?shade=value"), ".picture pre")
    screen.shot("grid")
    pictures = screen.page.locator(".picture pre").all_inner_texts()
    assert len(pictures) == len(episode.turns) + 1
    assert all(picture.startswith("## ## ##") for picture in pictures)
    assert screen.page.locator(".tok[class*=' p'], .tok[class*=' n']").count() > 0


def test_tokens_are_shaded_by_every_column_that_the_run_wrote(screen: Any, page: Page, real_runs: Path) -> None:
    episode = groups_of(real_runs, "tool_rloo")[0][0]
    screen.open(address(page, f"tool_rloo/episode/{FILE}/1?shade=none"), ".tokens .tok")
    assert screen.page.locator(".tokens .tok").count() == sum(len(turn.completion.token_ids) for turn in episode.turns)
    assert screen.page.locator(".tok[class*=' ']").count() == 0
    for shade, shaded in (("log-prob", " q"), ("entropy", " q"), ("advantage", " n"), ("trained", " on")):
        screen.page.click(f".shade-place label:has-text('{shade}')")
        screen.page.wait_for_selector(f".tok[class*='{shaded}']")
        screen.shot(shade)
    told = page.api("episode", run="tool_rloo", file=FILE, line=1)["turns"]
    assert screen.page.locator(".tok.on").count() == sum(turn["tokens"]["trained"].count(1) for turn in told)
    assert "shade=trained" in screen.page.url
