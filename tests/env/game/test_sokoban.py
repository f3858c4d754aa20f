"""Sokoban: what is in the way stays, and the board shows a target under whatever stands on it."""

from __future__ import annotations

from rlx.env.game.sokoban import Sokoban, describe
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
