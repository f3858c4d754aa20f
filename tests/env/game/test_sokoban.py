"""Sokoban: what is in the way stays, and the board shows a target under whatever stands on it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from rlx.env.game.sokoban import DIRECTIONS, Sokoban, describe
from rlx.env.game.sokoban_rooms import room_of
from rlx.types import Action, Step, Task

ENV = Sokoban()
ROWS = ["#######", "#PXO__#", "#_X___#", "#_O___#", "#######"]


def move(name: str) -> Action:
    return Action(kind="act", name=name, text="")


def said(step: Step) -> list[str]:
    return step.observation[0].text.split("\n")


def task_of(rows: list[str], max_turns: int = 20) -> Task:
    return describe(room_of(rows), len(rows), max_turns)


def test_a_game_by_hand() -> None:
    episode = ENV.start(task_of(ROWS))
    assert said(episode.opening()) == [" ".join(row) for row in ROWS]
    assert said(episode.step(move("up")))[0] == "a wall is in the way"
    assert said(episode.step(move("right"))) == [
        "pushed a box",
        "# # # # # # #",
        "# _ P * _ _ #",
        "# _ X _ _ _ #",
        "# _ O _ _ _ #",
        "# # # # # # #",
    ]
    step = episode.step(move("down"))
    assert (said(step), step.reward, step.success) == (["solved"], 1.0, True)


def test_targets_are_seen_under_player_and_box_and_come_back() -> None:
    episode = ENV.start(task_of(["######", "#POX_#", "#X__O#", "######"]))
    assert said(episode.step(move("right")))[:2] == ["moved right", "# # # # # #"]
    assert said(episode.step(move("right")))[2] == "# _ O P X #"
    assert said(episode.step(move("left")))[2] == "# _ Q _ X #"
    assert said(episode.step(move("up")))[0] == "a wall is in the way"


def test_a_box_stays_before_walls_and_boxes() -> None:
    episode = ENV.start(task_of(["########", "#PXX_OO#", "#X_____#", "#_____O#", "########"]))
    before = episode.drawn()
    assert said(episode.step(move("right")))[0] == "the box cannot move"
    assert episode.drawn() == before
    episode.step(move("down"))
    assert said(episode.step(move("down")))[0] == "the box cannot move"


def test_the_last_move_is_paid_by_the_boxes_on_targets() -> None:
    episode = ENV.start(task_of(ROWS, 2))
    episode.step(move("right"))
    step = episode.step(move("up"))
    assert (step.reward, step.done, step.truncated, step.success) == (0.5, True, True, False)


@pytest.mark.parametrize(
    ("name", "env"),
    [
        ("easy", Sokoban(max_turns=20)),
        ("hard", Sokoban(num_rows=8, num_columns=8, num_boxes=4, max_turns=50)),
        ("random", Sokoban(random=True)),
    ],
)
def test_gem_plays_the_same(gem: Any, name: str, env: Sokoban) -> None:
    for _, ours, theirs in gem.beside(env, f"game:Sokoban-v0-{name}", gem_state, gem_words):
        for step, answer in zip(ours, theirs):
            if step.observation[0].text.count("\n") > 1:
                board = [line for line in said(step) if line.startswith("#")]
                theirs_shows = [line for line in answer["suffix"].split("\n") if line.startswith("#")]
                assert [line.replace("Q", "P").replace("*", "√") for line in board] == theirs_shows
            for why, ours_says in {"cannot move": ("in the way", "cannot move"), "pushed a": ("pushed",)}.items():
                assert step.truncated or (why in answer["text"]) == any(one in said(step)[0] for one in ours_says)
            assert (said(step) == ["solved"]) == ("Congratulations" in answer["text"])


def gem_state(task: Task) -> dict[str, Any]:
    rows = task.data["rows"]
    places = [(down, row.index(one)) for down, row in enumerate(rows) for one in row if one in "PQ"]
    return {
        "room_fixed": [[{"#": 0, "O": 2, "*": 2, "Q": 2}.get(one, 1) for one in row] for row in rows],
        "room_state": [["#_O*XP".index(one.replace("Q", "P")) for one in row] for row in rows],
        "player_position": places[0],
        "num_boxes": sum(row.count("X") for row in rows),
        "max_turns": task.data["max_turns"],
    }


def gem_words(rng: Random, task: Task) -> list[str]:
    """Moves, of which many are in vain; in half of the games they solve it; sometimes one that cannot be read."""
    words = rng.choices(DIRECTIONS, k=task.data["max_turns"])
    if rng.random() < 0.5:
        words = [one.action.name for one in ENV.demonstrate(task, 0, ())]
    if rng.random() < 0.2:
        words[rng.randrange(len(words))] = rng.choice(["", "x", "up down", "1"])
    return words
