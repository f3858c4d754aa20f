"""The page over the real server, on run folders as runs leave them: large, live, cut back and damaged."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.types import Text
from tests.browser.test_table import OPEN, slack
from tests.view.conftest import Page, episode, serving, turn, unpack, write, write_run

pytestmark = pytest.mark.browser
FILES, GROUPS = 100, 125


def address(page: Page, place: str) -> str:
    return f"{page.server.url}#/run/{place}"


def append(run: Path, step: int) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": step, "loss/value": float(step), "time/step": 2.0}) + "\n")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A run of 100,000 episodes: 100 files of 125 groups of 8."""
    run = write_run(tmp_path_factory.mktemp("outputs") / "large")
    shutil.rmtree(place := run / "trajectories")
    first = place / "step-000001.jsonl"
    tasks = [tuple(episode(f"{task}", sample, turn("x", sample / 8)) for sample in range(8)) for task in range(GROUPS)]
    write(first, *tasks)
    for number in range(2, FILES + 1):
        for path in (first, *place.glob(f".{first.name}.*")):
            shutil.copy(path, path.with_name(path.name.replace("000001", f"{number:06}")))
    with serving(run.parent) as page:
        yield page


def test_opens_a_folder_of_100_000_episodes_within_2_seconds(screen: Any, large: Page) -> None:
    screen.open(address(large, "large/episodes"), ".list-body [role=row]")
    spent = screen.page.evaluate("performance.now()")
    print(f"\na folder of {FILES * GROUPS * 8} episodes opened in {spent:.0f} ms")
    assert screen.page.get_attribute("[role=grid]", "aria-rowcount") == str(FILES * GROUPS * 8 + 1)
    assert spent < OPEN * slack()


def test_every_view_shows_a_real_folder(screen: Any, tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    with serving(tmp_path) as page:
        screen.open(f"{page.server.url}#/", ".chart .uplot")
        screen.open(address(page, "run"), ".figure-value:has-text('50.0%')")
        screen.page.wait_for_selector(".results:has-text('# Results')")
        screen.open(address(page, "run/episodes"), ".list-body [role=row]:has-text('0 → 2')")
        screen.open(address(page, "run/episode/step-000002.jsonl/3?shade=advantage"), ".turn:not(.replayed) .tok.p3")
        assert screen.page.locator("details.common .turn").count() == 1
        screen.page.wait_for_selector("p:has-text('no pictures')")
        screen.open(address(page, "run/group/step-000002.jsonl/0"), ".tree .link.fork")
        screen.open(address(page, "run/pair/step-000002.jsonl/1/step-000002.jsonl/3"), ".pair-row .turn")


def test_a_step_appears_by_itself_and_a_cut_begins_anew(screen: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    with serving(tmp_path) as page:
        screen.open(address(page, "run"), ".chart-box[aria-label*='at step 3']")
        append(run, 4)
        screen.page.wait_for_selector(".chart-box[aria-label*='at step 4']", timeout=5000)
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
        (run / "metrics.jsonl").write_text("".join(lines[:1]))
        append(run, 2)
        screen.page.wait_for_selector(".chart-box[aria-label*='loss/value 2 at step 2']", timeout=5000)


def test_a_new_file_of_episodes_appears_by_itself(screen: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    with serving(tmp_path) as page:
        screen.open(address(page, "run/episodes"), "[role=grid][aria-rowcount='6']")
        screen.press("End", "x")
        with screen.page.expect_response(lambda reply: "mark=" in reply.url and reply.status == 200) as added:
            write(run / "trajectories" / "step-000003.jsonl", (episode("d", 0, turn("y")),))
        assert unpack(added.value.body())["sent"] == 1
        screen.page.wait_for_selector("[role=grid][aria-rowcount='7']", timeout=10_000)
        rows = [screen.page.inner_text(f"[role=row][aria-rowindex='{place}']").split() for place in range(2, 8)]
        assert [row[1] for row in rows] == ["a", "a", "a", "d", "b", "c"]
        assert screen.page.get_attribute("[aria-selected=true]", "aria-rowindex") == "7"
        assert screen.page.get_attribute(".marked", "aria-rowindex") == "7"


def test_an_episode_is_compared_with_the_same_sample_of_another_run(screen: Any, tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    other = write_run(tmp_path / "a" / "<b>other", seed=1)
    first = replace(episode("b", 0).task, prompt=(Text("Another prompt."),))
    told = [replace(episode("b", sample, turn(f"text of {sample}", 0.5)), task=first) for sample in (1, 0)]
    write(other / "trajectories" / "eval-8.jsonl", (episode("c", 0),), tuple(told))
    with serving(tmp_path) as page:
        screen.open(address(page, "run/episode/eval-8.jsonl/1"), ".turn")
        screen.press("c")
        screen.page.wait_for_selector(".others:has-text('no other episode')")
        screen.page.select_option(".others select", "a/<b>other")
        screen.page.wait_for_selector(".others a >> nth=1")
        links = screen.page.locator(".others a").all_inner_texts()
        assert [link.split(" · ")[1] for link in links] == ["sample 0", "sample 1"]
        screen.shot("choice")
        assert screen.problems() == []
        screen.page.click(".others a")
        screen.page.wait_for_selector(".pair-row .turn")
        screen.shot("pair")
        assert screen.page.locator(".pair-head strong").all_inner_texts() == [
            "run · eval-8.jsonl 1",
            "a/<b>other · eval-8.jsonl 3",
        ]
        assert screen.page.locator(".pair-row .turn").count() == 2
        assert "text of 0" in screen.page.inner_text(".pair-body")
        openings = screen.page.locator(".pair-row >> nth=0").inner_text()
        assert "Solve b." in openings
        assert "Another prompt." in openings
        screen.press("s")
        screen.page.wait_for_url("**/pair/eval-8.jsonl/1/a%2F%3Cb%3Eother/eval-8.jsonl/3?shade=*")
        screen.page.reload()
        screen.page.wait_for_selector(".pair-head:has-text('other')")
        screen.page.click(".pair-head a >> nth=1")
        screen.page.wait_for_selector("h1:has-text('b')")
        screen.page.wait_for_url("**/run/a%2F%3Cb%3Eother/episode/eval-8.jsonl/3")


def test_what_is_damaged_is_named_and_the_rest_is_shown(screen: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    file = run / "trajectories" / "step-000002.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + b"{broken}\n" + lines[2])
    append(run, 4)
    with (run / "metrics.jsonl").open("a") as metrics:
        metrics.write("no json\n")
    with serving(tmp_path) as page:
        screen.open(address(page, "run"), ".notice li:has-text('metrics.jsonl')")
        screen.open(address(page, "run/episodes"), ".notice li:has-text('step-000002.jsonl')")
        assert screen.page.get_attribute("[role=grid]", "aria-rowcount") == "5"


def test_words_of_episodes_are_found(screen: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))
    write_run(tmp_path / "runs" / "run")
    with serving(tmp_path / "runs") as page:
        screen.open(address(page, "run/episodes"), "[role=grid][aria-rowcount='6']")
        screen.page.fill("[data-search]", "observation")
        screen.page.wait_for_selector("[role=grid][aria-rowcount='4']", timeout=10_000)


def test_pictures_are_taken_of_the_runs_that_there_are(browser: Any, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "run")
    words = [sys.executable, "-m", "scripts.pictures", str(tmp_path / "runs"), "--out", str(tmp_path)]
    done = subprocess.run(words, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert {path.stem for path in tmp_path.glob("*.png")} == {"runs", "overview", "episodes", "tokens"}
    assert "tree: no run of carl" in done.stdout
