"""Pictures of stored episodes: drawn by the environment, and only by code that is trusted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from rlx.env.game.sudoku import Sudoku
from rlx.environment import Episode
from rlx.runs.store import load
from rlx.tool.contain.box import end_all
from rlx.types import Action
from rlx.view import drawing, pictures
from tests.view.conftest import Page, episode, turn, write

ENV = Sudoku(size=4, clues=8, max_turns=10)
KEYS = {"_target_": "rlx.env.game.sudoku.Sudoku", "size": 4, "clues": 8, "max_turns": 10}
FILE = "eval-8.jsonl"


@pytest.fixture
def sudoku(run: Path) -> Path:
    """A run whose evaluation has an episode of sudoku, of two turns."""
    task = next(iter(ENV.tasks("train", 0)))
    turns = [replace(turn(text), action=Action(kind="act", name="fill", text=text)) for text in ("1 1 9", "9 9 9")]
    write(run / "trajectories" / FILE, (replace(episode("a", 0, *turns), task=task),))
    configure(run, KEYS)
    return run


def configure(run: Path, env: Any) -> None:
    (run / "config.yaml").write_text(json.dumps({"env": env}))


def ask(page: Page) -> Any:
    return page.api("pictures", run="run", file=FILE, line=1)


def test_an_episode_is_drawn_after_its_opening_and_each_turn(sudoku: Path, page: Page) -> None:
    found = ask(page)
    assert found["why"] == ""
    assert len(found["pictures"]) == 3
    assert found["pictures"][0].startswith("c: 1 2 | 3 4\n1: ")


@pytest.mark.parametrize(
    "env",
    [
        {"_target_": "os.system", "command": "touch harmed"},
        {"_target_": "rlx.env.game.sudoku.Sudoku", "size": 5},
        {"_target_": "rlx.env.countdown.countdown.Countdown"},
        {"parts": {"x": KEYS}, "_target_": "rlx.env.mixed.mixed.Mixed"},
        "text",
        None,
    ],
)
def test_why_there_is_no_picture_is_told_and_nothing_untrusted_runs(
    sudoku: Path, page: Page, env: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sudoku)
    configure(sudoku, env)
    found = ask(page)
    assert found["pictures"] == []
    assert found["why"]
    assert not (sudoku / "harmed").exists()


def test_a_run_without_a_configuration_has_no_pictures(sudoku: Path, page: Page) -> None:
    (sudoku / "config.yaml").unlink()
    assert ask(page)["pictures"] == []


def test_an_environment_that_draws_nothing_is_not_stepped(
    sudoku: Path, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlx.env.game.sudoku.SudokuEpisode.picture", Episode.picture)
    monkeypatch.setattr("rlx.env.game.sudoku.SudokuEpisode.opening", None)
    assert list(drawing.replay(ENV, load(sudoku / "trajectories" / FILE)[0].trajectories[0], None)) == []


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer than a reader's patience."""
    monkeypatch.setattr(pictures, "SECONDS", 60.0)


WILD = """
import time
from rlx.tool.contain.box import end_all
from rlx.env.game.sudoku import Sudoku, SudokuEpisode


class Wild(Sudoku):
    def start(self, task):
        return WildEpisode(task.data["puzzle"], task.data["solution"], task.data["max_turns"])


class WildEpisode(SudokuEpisode):
    num_drawn = 0

    def picture(self):
        self.num_drawn += 1
        if self.num_drawn > 1:
            %s
        return "first"
"""


@pytest.fixture
def wild(sudoku: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """`wild("…")`: the run's environment, which the user trusts, does this in place of its second picture."""
    (tmp_path / "conf" / "env").mkdir(parents=True)
    (tmp_path / "conf" / "env" / "wild.yaml").write_text("_target_: wild.Wild\n")
    monkeypatch.setenv("RLX_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.syspath_prepend(str(tmp_path))

    def write_module(harm: str) -> None:
        (tmp_path / "wild.py").write_text(WILD % harm)
        configure(sudoku, KEYS | {"_target_": "wild.Wild"})

    end_all()  # the next server has the paths and variables of this test
    yield write_module
    end_all()


HARMS = {
    "raise ZeroDivisionError('no picture')": "no picture",
    "time.sleep(10**6)": "longer than",
    "bytearray(2**33)": "MemoryError",
    "import os; os._exit(0)": "ended",
    "import signal, os; os.kill(os.getpid(), signal.SIGSEGV)": "ended",
}


def limit_seconds(monkeypatch: pytest.MonkeyPatch, *, first: float, second: float) -> None:
    """Limit the time of the first picture and of the second, by a clock that only the server's questions move."""
    monkeypatch.setattr(pictures, "SECONDS", first)
    times = chain([0.0, 0.0], repeat(first - second))
    monkeypatch.setattr(pictures, "monotonic", lambda: next(times))


@pytest.mark.parametrize("harm", HARMS)
def test_a_wild_environment_ends_alone_and_its_pictures_until_then_are_shown(
    page: Page, wild: Callable[[str], None], harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wild(harm)
    limit_seconds(monkeypatch, first=60, second=1 if "longer" in HARMS[harm] else 60)
    found = ask(page)
    assert found["pictures"] == ["first"], found["why"]
    assert HARMS[harm] in found["why"]
    assert page.api("runs")["runs"][0]["id"] == "run"


def is_alive(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_a_page_answers_while_an_environment_hangs_and_kills_it_then(
    page: Page, wild: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    wild(f"import os; open({str(mark)!r}, 'w').write(str(os.getpid()))\n            while True: pass")
    limit_seconds(monkeypatch, first=60, second=10)
    with ThreadPoolExecutor() as pool:
        hanging = pool.submit(ask, page)
        while not (mark.exists() and mark.read_text()) and not hanging.done():
            time.sleep(0.01)
        assert is_alive(int(mark.read_text()))
        assert page.api("episode", run="run", file=FILE, line=1)["turns"]
        assert not hanging.done()
        assert "longer than" in hanging.result()["why"]
    until = time.monotonic() + 600
    while is_alive(int(mark.read_text())) and time.monotonic() < until:
        time.sleep(0.01)
    assert not is_alive(int(mark.read_text()))


def test_long_pictures_are_cut(page: Page, wild: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MOST_PICTURED", 1_500_000)
    wild("return 'x' * 10**8")
    found = ask(page)
    assert [len(picture) for picture in found["pictures"]] == [5, 10**6, 10**6]
    assert "1,500,000" in found["why"]
