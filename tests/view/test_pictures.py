"""Pictures of stored episodes: drawn by the environment, and only by code that is trusted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.env.game.sudoku import Sudoku
from rlx.environment import Episode
from rlx.types import Action
from rlx.view import pictures
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
    assert ask(page) == {"pictures": [], "why": pictures.NONE}


def test_pictures_before_an_error_are_shown(sudoku: Path, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("no step")

    monkeypatch.setattr("rlx.env.game.sudoku.SudokuEpisode.play", fail)
    found = ask(page)
    assert (len(found["pictures"]), "no step" in found["why"]) == (1, True)


def test_a_replay_ends_after_its_time(sudoku: Path, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "SECONDS", -1.0)
    assert len(ask(page)["pictures"]) == 1
