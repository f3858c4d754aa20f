"""BabyAI-Text: rooms, missions, rewards, penalties, and minigrid's expert."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import islice, product
from random import Random
from typing import Any

import pytest

import rlx.gym
from rlx.base.limits import MistakeError
from rlx.env.babyai import grid
from rlx.env.babyai.babyai import BabyAI, BabyAIEpisode
from rlx.env.babyai.layout import COLOURS, DOOR_X, HELD_OUT, KINDS, LEVELS, Layout, draw_layout, layout_of
from rlx.env.babyai.text import find
from rlx.environment.world import dialect_of, reward_range_of
from rlx.protocol.direct import Direct
from rlx.protocol.final_answer import FinalAnswer
from rlx.protocol.tags import Tags
from rlx.types import Action, Move, Step, Task, Text
from tests.errors import raises_naming
from tests.loops import for_each

LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE = (Action(kind="act", name=name, text="") for name in grid.ACTIONS)
NONSENSE = Action(kind="invalid", text="say something else")
VARIANTS = [(name, held_out) for name, level in LEVELS.items() for held_out in (False, True)[: 1 + level.has_test]]
FURTHER = ("GoToRedBall", "GoToRedBallGrey", "GoToRedBlueBall", "PickupDist", "UnlockPickup")


@pytest.fixture(autouse=True)
def _needs_minigrid() -> None:
    pytest.importorskip("minigrid")


def layout(
    order: str,
    *targets: tuple[str, str],
    agent: tuple[int, int, int],
    things: Sequence[tuple[str, str, int, int]],
    door: tuple[str, int, int] | None = None,
) -> Layout:
    levels = [name for name, level in LEVELS.items() if order in level.orders]
    return Layout(levels[0], agent, tuple(things), door, order, targets)


def begin(start: Layout, **keys: Any) -> BabyAIEpisode:
    return BabyAIEpisode(start, BabyAI(level=start.level, **keys))


def play(episode: BabyAIEpisode, *actions: Action) -> list[Step]:
    return [episode.step(action) for action in actions]


def lines(step: Step) -> list[str]:
    return step.observation[-1].text.split("\n")


def tasks(num: int, seed: int = 0, split: str = "train", **keys: Any) -> Iterator[Task]:
    return islice(BabyAI(**keys).tasks(split, seed), num)


KEY, BOX, OTHER_BOX = ("blue", "key", 4, 4), ("red", "box", 6, 6), ("red", "box", 2, 6)
BLUE_KEY, RED_BOX = ("blue", "key"), ("red", "box")
START = (1, 1, 0)

BALL = layout("go to", ("red", "ball"), agent=(2, 4, 0), things=[("red", "ball", 5, 2), ("blue", "box", 2, 1)])
"""
# # # # # # # #
# . b . . . . #      b: blue box
# . . . . r . #      r: red ball
# . . . . . . #
# . > . . . . #      the agent looks right
# . . . . . . #
# . . . . . . #
# # # # # # # #
"""


VIEWS = [
    (
        [],
        """
        You see a wall 5 steps forward
        You see a wall 3 steps right
        You see a blue box 3 steps left
        You see a red ball 2 steps left and 3 steps forward
        """,
    ),
    (
        [LEFT],
        """
        You see a wall 2 steps left
        You see a blue box 3 steps forward
        You see a red ball 3 steps right and 2 steps forward
        """,
    ),
    (
        [LEFT, LEFT],
        """
        You see a wall 2 steps forward
        You see a wall 3 steps left
        You see a blue box 3 steps right
        """,
    ),
    (
        [RIGHT],
        """
        You see a wall 3 steps forward
        You see a wall 2 steps right
        """,
    ),
    (
        [FORWARD],
        """
        You see a wall 4 steps forward
        You see a wall 3 steps right
        You see a red ball 2 steps left and 2 steps forward
        """,
    ),
    (
        [LEFT, FORWARD, FORWARD, PICK_UP],
        """
        You carry a blue box
        You see a wall 2 steps forward
        You see a wall 2 steps left
        You see a red ball 3 steps right
        """,
    ),
    (
        [LEFT, FORWARD, FORWARD, PICK_UP, RIGHT, DROP],
        """
        You see a wall 2 steps left
        You see a red ball 3 steps forward
        You see a blue box 1 step forward
        """,
    ),
]


@for_each("turns, text", VIEWS)
def test_a_room_is_seen_from_where_the_agent_stands(turns: list[Action], text: str) -> None:
    episode = begin(BALL)
    seen = [episode.opening(), *play(episode, *turns)]
    assert lines(seen[-1]) == [line.strip() for line in text.strip().splitlines()]


@for_each("x, y", product(range(1, 7), range(1, 7)))
def test_the_walls_of_an_empty_room_are_as_far_as_they_are(x: int, y: int) -> None:
    """Walls ahead are seen at any distance in a room, those aside up to three steps."""
    to_right, to_bottom, to_left, to_top = 7 - x, 7 - y, x, y
    ways = [
        (to_right, to_top, to_bottom),
        (to_bottom, to_right, to_left),
        (to_left, to_bottom, to_top),
        (to_top, to_left, to_right),
    ]
    for direction, (ahead, left, right) in enumerate(ways):
        told = [f"You see a wall {ahead} step{'s' if ahead > 1 else ''} forward"]
        told += [f"You see a wall {left} step{'s' if left > 1 else ''} left"] if left <= 3 else []
        told += [f"You see a wall {right} step{'s' if right > 1 else ''} right"] if right <= 3 else []
        room = grid.Room(layout("open", ("", "door"), agent=(x, y, direction), things=[], door=("blue", 7, 7)))
        assert [line for line in room.lines() if "door" not in line] == told


def test_a_door_is_locked_then_open_and_untold_from_within() -> None:
    start = layout("open", ("", "door"), agent=(5, 3, 0), things=[("blue", "key", 5, 4)], door=("blue", 7, 3))
    episode = begin(start)
    assert lines(episode.opening()) == [
        "You see a wall 3 steps left",
        "You see a locked blue door 2 steps forward",
        "You see a blue key 1 step right",
    ]
    steps = play(episode, RIGHT, PICK_UP, LEFT, FORWARD)
    assert lines(steps[-1])[0] == "You carry a blue key"
    assert "You see a locked blue door 1 step forward" in lines(steps[-1])
    last = episode.step(TOGGLE)
    assert "You see a open blue door 1 step forward" in lines(last)
    assert (last.done, last.success, last.reward) == (True, True, pytest.approx(1 - 0.9 * 5 / 128))
    within = grid.Room(start)
    for name in ("turn_right", "pick_up", "turn_left", "go_forward", "toggle", "go_forward"):
        within.act(name)
    assert within.lines() == ["You carry a blue key", "You see a wall 1 step left", "You see a wall 1 step right"]


def test_a_mission_is_rewarded_less_the_later_it_is_fulfilled() -> None:
    *_, last = play(begin(BALL), FORWARD, FORWARD, FORWARD, LEFT, FORWARD)
    assert (last.done, last.truncated, last.success) == (True, False, True)
    assert last.reward == pytest.approx(1 - 0.9 * 5 / 64)


@for_each(
    "level, max_steps",
    [
        *[("GoTo", 64), ("PickUp", 64), ("Open", 128), ("PutNext", 128), ("PickUpSeqGoTo", 128)],
        *[("GoToRedBall", 64), ("PickupDist", 64), ("UnlockPickup", 128)],
    ],
)
def test_time_is_over_after_the_steps_of_the_level(level: str, max_steps: int) -> None:
    task = next(tasks(1, level=level))
    episode = BabyAI(level=level).start(task)
    *steps, last = play(episode, *[DROP] * max_steps)
    assert not any(step.done for step in steps)
    assert (last.done, last.truncated, last.success, last.reward) == (True, True, False, 0.0)
    assert task.data["max_steps"] == episode.room.max_steps == max_steps


def test_an_invalid_turn_costs_its_penalty_and_no_time() -> None:
    episode = begin(BALL)
    before = episode.opening().observation
    bad = [
        episode.step(action)
        for action in (NONSENSE, Action(kind="answer", text="go forward"), Action(kind="act", name="done", text=""))
    ]
    assert [step.reward for step in bad] == [-1.0] * 3
    assert all(step.observation[1:] == before and step.metrics == {"invalid": 1.0} for step in bad)
    assert bad[0].observation[0] == Text("Error: say something else")
    *_, last = play(episode, FORWARD, FORWARD, FORWARD, LEFT, FORWARD)
    assert last.reward == pytest.approx(1 - 0.9 * 5 / 64)


def test_five_invalid_turns_in_a_row_end_an_episode() -> None:
    steps = play(begin(BALL), *[NONSENSE] * 4, LEFT, *[NONSENSE] * 5)
    assert [step.done for step in steps] == [False] * 9 + [True]
    assert (steps[-1].success, steps[-1].truncated) == (False, False)


def test_the_sum_of_penalties_is_limited() -> None:
    episode, expected = begin(BALL, max_penalty=2.5), [-1.0, -1.0, -0.5, 0.0]
    for reward in expected:
        assert [episode.step(action).reward for action in (NONSENSE, LEFT)] == [reward, 0.0]
    assert reward_range_of(BabyAI(max_penalty=2.5)) == (-2.5, 1.0)
    assert reward_range_of(BabyAI(max_penalty=None)) == (-257.0, 1.0)


@for_each(
    "start, mission",
    [
        (BALL, "go to the red ball"),
        (layout("go to", RED_BOX, agent=START, things=[BOX, OTHER_BOX]), "go to a red box"),
        (layout("pick up", BLUE_KEY, agent=START, things=[KEY]), "pick up the blue key"),
        (layout("open", ("", "door"), agent=START, things=[KEY], door=("blue", 7, 3)), "open the door"),
        (layout("open", ("blue", "door"), agent=START, things=[KEY], door=("blue", 7, 3)), "open the blue door"),
        (layout("pick up", ("red", ""), agent=START, things=[KEY, BOX]), "pick up the red object"),
        (layout("pick up", ("", "box"), agent=START, things=[BOX, OTHER_BOX]), "pick up a box"),
        (
            layout("put next", BLUE_KEY, RED_BOX, agent=START, things=[KEY, BOX, OTHER_BOX]),
            "put the blue key next to a red box",
        ),
        (
            layout("then", BLUE_KEY, RED_BOX, agent=START, things=[KEY, BOX]),
            "pick up the blue key, then go to the red box",
        ),
        (
            layout("after", BLUE_KEY, RED_BOX, agent=START, things=[KEY, BOX]),
            "go to the red box after you pick up the blue key",
        ),
    ],
)
def test_a_mission_names_its_things_as_minigrid_does(start: Layout, mission: str) -> None:
    assert start.mission == mission == grid.Room(start).level.mission
    assert start == layout_of(json.loads(json.dumps(start.as_json())))


def test_things_are_put_next_to_each_other() -> None:
    things = [("blue", "key", 3, 2), ("red", "box", 6, 2)]
    *_, last = play(
        begin(layout("put next", ("blue", "key"), ("red", "box"), agent=(2, 2, 0), things=things)),
        PICK_UP,
        FORWARD,
        FORWARD,
        DROP,
    )
    assert (last.success, last.reward) == (True, pytest.approx(1 - 0.9 * 4 / 128))


@for_each("level, held_out", VARIANTS)
def test_equal_actions_give_equal_episodes(level: str, held_out: bool) -> None:
    env, rng = BabyAI(level=level, test_pairs=held_out), Random(0)
    for task in islice(env.tasks("train", 1), 10):
        actions = rng.choices((LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE, NONSENSE), k=40)
        stored = Task(id=task.id, prompt=task.prompt, data=json.loads(json.dumps(task.data)))
        first, second = (env.start(one) for one in (task, stored))
        assert first.opening() == second.opening()
        assert play(first, *actions) == play(second, *actions)


@for_each("level, held_out", VARIANTS)
def test_splits_never_overlap_and_a_seed_repeats_its_tasks(level: str, held_out: bool) -> None:
    keys = {"level": level, "test_pairs": held_out}
    test = [task.id for task in tasks(100, split="test", **keys)]
    assert len(set(test)) == 100
    assert test == [task.id for task in tasks(100, seed=7, split="test", **keys)]
    assert not {task.id for task in tasks(300, **keys)} & set(test)
    assert list(tasks(20, **keys)) == list(tasks(20, **keys))
    assert next(tasks(1, **keys)) != next(tasks(1, seed=1, **keys))


@for_each("level, held_out", VARIANTS)
def test_held_out_pairs_are_in_all_missions_of_the_test_levels_and_no_others(level: str, held_out: bool) -> None:
    """The held-out pairs: yellow box, red key, red door, green ball, grey door."""
    for task in tasks(100, level=level, test_pairs=held_out):
        pairs = ("yellow box", "red key", "red door", "green ball", "grey door")
        found = [pair in task.data["goal"] for pair in pairs]
        assert any(found) == held_out
        assert all((tuple(pair) in HELD_OUT) == held_out for pair in task.data["targets"])


@pytest.mark.parametrize("num_distractors", [0, 3, 5, 8])
@pytest.mark.parametrize(
    ("level", "num_others"),
    [
        *[("GoTo", 1), ("PickUp", 1), ("Open", 1), ("PutNext", 2), ("PickUpSeqGoTo", 2)],
        *[("GoToRedBall", 1), ("GoToRedBallGrey", 1), ("GoToRedBlueBall", 1), ("PickupDist", 1), ("UnlockPickup", 2)],
    ],
)
def test_a_room_has_the_things_of_its_mission_and_distractors(
    level: str, num_others: int, num_distractors: int
) -> None:
    for task in tasks(20, level=level, num_distractors=num_distractors):
        places = {tuple(thing[2:]) for thing in task.data["things"]}
        assert len(places) == len(task.data["things"]) == num_distractors + num_others
        x, y, _ = task.data["agent"]
        assert (x, y) not in places
        if level != "UnlockPickup":  # minigrid's own check goes through no locked door
            assert grid.Room(layout_of(task.data)).level.check_objs_reachable(raise_exc=False)


@for_each("num_distractors, level", product([0, 3, 5], ["GoTo", "PickUp"]))
def test_the_expert_fulfils_fifty_missions(level: str, num_distractors: int) -> None:
    env = BabyAI(level=level, num_distractors=num_distractors)
    for seed, task in enumerate(env.tasks("train", 0)):
        if seed == 50:
            break
        steps = play(env.start(task), *[move.action for move in env.demonstrate(task, seed, ())])
        assert steps[-1].success, task.id


@pytest.mark.parametrize(
    "num", [20, pytest.param(500, marks=pytest.mark.slow)], ids=["twenty seeds", "five hundred seeds"]
)
@pytest.mark.parametrize("level", FURTHER)
def test_the_expert_fulfils_missions_of_further_levels(level: str, num: int) -> None:
    env = BabyAI(level=level)
    for seed in range(num):
        task = next(env.tasks("train", seed))
        moves = list(env.demonstrate(task, seed, ()))
        *_, last = play(env.start(task), *[move.action for move in moves])
        assert last.success, (seed, task.id)
        assert all(len(move.thought.split()) <= 10 for move in moves)


def test_missions_of_further_levels_are_those_of_minigrid() -> None:
    """Classes of these names in minigrid, whose missions are these with any number of distractors."""
    balls, others = ("red ball", "blue ball"), ("grey ball", "grey box", "grey key")
    for level, allowed in (("GoToRedBall", balls[:1]), ("GoToRedBallGrey", balls[:1]), ("GoToRedBlueBall", balls)):
        for task in tasks(50, level=level):
            assert re.fullmatch(f"go to (the|a) ({'|'.join(allowed)})", task.data["goal"])
            things = [" ".join(thing[:2]) for thing in task.data["things"]]
            if level == "GoToRedBallGrey":
                assert set(things) - {"red ball"} <= set(others)
            if level == "GoToRedBlueBall":
                assert len([one for one in things if one in balls]) == 1
    named = {task.data["goal"] for task in tasks(300, level="PickupDist")}
    colours = [f"{article} {colour} object" for article in ("the", "a") for colour in COLOURS]
    kinds = [f"{article} {kind}" for article in ("the", "a") for kind in KINDS]
    assert named == {f"pick up {one}" for one in (*colours, *kinds)}


def test_a_box_lies_behind_a_locked_door_and_its_key_before() -> None:
    for task in tasks(50, level="UnlockPickup"):
        start = layout_of(task.data)
        assert start.door is not None
        own = start.agent[0] // DOOR_X
        *near, box = start.objects
        assert start.targets == (box[:2],)
        assert box[1] == "box"
        assert box[2] // DOOR_X == 1 - own
        assert all(thing[2] // DOOR_X == own for thing in near)
        assert (start.door[0], "key") in {thing[:2] for thing in near}


def test_the_expert_thinks_of_the_key_then_the_door_then_the_box() -> None:
    task = next(tasks(1, level="UnlockPickup", num_distractors=0))
    start = layout_of(task.data)
    assert start.door is not None
    thoughts = [move.thought for move in BabyAI(level="UnlockPickup").demonstrate(task, 0, ())]
    box = " ".join(start.targets[0])
    named = [next(one for one in ("key", "door", box) if f"{one}:" in said or f"{one}." in said) for said in thoughts]
    assert list(dict.fromkeys(named)) == ["key", "door", box]


@pytest.mark.parametrize(
    ("lines", "thought"),
    [
        (["You see a wall 1 step left", "You see a red box 1 step forward"], "The red box: 1 step forward."),
        (["You see a red door 1 step left", "You see a blue key 1 step forward"], "I do not see the red object."),
    ],
)
def test_a_thing_of_a_colour_is_found_whatever_it_is(lines: list[str], thought: str) -> None:
    assert find(lines, "red", "") == thought


@pytest.mark.parametrize("level", ["Open", "PutNext", "PickUpSeqGoTo"])
def test_the_expert_fulfils_missions_of_two_parts(level: str) -> None:
    env = BabyAI(level=level, noise=0.3)
    for task in islice(env.tasks("train", 0), 10):
        steps = play(env.start(task), *[move.action for move in env.demonstrate(task, 0, ())])
        assert steps[-1].success, task.id


def test_a_noisy_expert_shows_how_to_drop_a_wrong_thing() -> None:
    env = BabyAI(level="PickUp", num_distractors=5, noise=0.5, num_noisy=20)
    shown = [move.action for task in islice(env.tasks("train", 0), 20) for move in env.demonstrate(task, 0, ())]
    assert DROP in shown
    assert TOGGLE not in shown


@pytest.mark.parametrize(
    ("level", "order", "thoughts"),
    [
        (
            "PutNext",
            "put next",
            [
                "The blue key: 2 steps forward.",
                "The blue key: 1 step forward.",
                "The red box: 4 steps forward.",
                "The red box: 3 steps forward.",
                "The red box: 2 steps forward.",
            ],
        ),
        (
            "PickUpSeqGoTo",
            "then",
            [
                "The blue key: 2 steps forward.",
                "The blue key: 1 step forward.",
                "The red box: 4 steps forward.",
                "The red box: 4 steps forward.",
                "I do not see the red box.",
            ],
        ),
    ],
)
def test_the_expert_thinks_of_where_the_wanted_thing_is(level: str, order: str, thoughts: list[str]) -> None:
    """After the sequence's first part minigrid's expert drops the key and walks around it."""
    things = [("blue", "key", 3, 2), ("red", "box", 6, 2)]
    start = layout(order, ("blue", "key"), ("red", "box"), agent=(1, 2, 0), things=things)
    moves = BabyAI(level=level).demonstrate(Task(id="1", prompt=(), data=start.as_json()), 0, ())
    assert [move.thought for move in islice(moves, 5)] == thoughts


def test_a_failure_of_the_expert_names_level_and_seed() -> None:
    start = layout("open", ("", "door"), agent=(1, 1, 0), things=[], door=("blue", 7, 3))
    with raises_naming(ValueError, "env:", "minigrid's expert", "level Open", "seed 3", "task 1"):
        list(BabyAI(level="Open").demonstrate(Task(id="1", prompt=(), data=start.as_json()), 3, ()))


@pytest.mark.parametrize("protocol", [Direct(), Tags()])
def test_actions_of_two_words_are_written_and_read(protocol: Direct | Tags) -> None:
    dialect = dialect_of(BabyAI(), protocol)
    for action in (LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE):
        assert dialect.parse(dialect.write(Move(thought="", action=action)), "stop") == action
    if protocol == Direct():
        assert dialect.write(Move(thought="", action=LEFT)) == "turn left\n"
        assert dialect.parse("tourne à gauche", "stop").kind == "invalid"
        assert dialect.parse("", "stop").kind == "invalid"


def test_the_gym_serves_a_level_by_its_name_alone_and_in_a_vector() -> None:
    env = rlx.gym.make("babyai:GoTo-v0", protocol="direct")
    seen, _ = env.reset(seed=0)
    assert seen.startswith("Your goal is to go to ")
    assert env.step("turn left\n")[1:4] == (0.0, False, False)
    assert env.step("dance\n")[1:4] == (-1.0, False, False)
    vector = rlx.gym.make_vec("babyai:PickUpTest-v0", 2, protocol="direct")
    vector.reset(seed=0)
    _, rewards, ended, _, _ = vector.step(["go forward\n", "done\n"])
    assert list(rewards) == [0.0, -1.0]
    assert not any(ended)


def test_a_picture_shows_the_whole_room() -> None:
    assert begin(BALL).picture().split("\n")[:8] == [
        "## ## ## ## ## ## ## ##",
        "## .  bx .  .  .  .  ##",
        "## .  .  .  .  ro .  ##",
        "## .  .  .  .  .  .  ##",
        "## .  >  .  .  .  .  ##",
        "## .  .  .  .  .  .  ##",
        "## .  .  .  .  .  .  ##",
        "## ## ## ## ## ## ## ##",
    ]
    assert begin(BALL).room.frame().shape == (256, 256, 3)


@for_each(
    "keys, place",
    [
        ({"level": "GoTwo"}, "level=GoTwo"),
        ({"level": "OpenRedDoor"}, "level=OpenRedDoor"),
        ({"level": "PickupDist", "test_pairs": True}, "test_pairs=True"),
        ({"penalty": float("nan")}, "penalty=nan"),
        ({"penalty": float("inf")}, "penalty=inf"),
        ({"noise": float("nan")}, "noise=nan"),
        ({"num_noisy": -1}, "num_noisy=-1"),
        ({"num_distractors": 13}, "num_distractors=13"),
        ({"num_distractors": -1}, "num_distractors=-1"),
        ({"penalty": -1.0}, "penalty=-1.0"),
        ({"max_penalty": float("nan")}, "max_penalty=nan"),
        ({"max_invalid": 0}, "max_invalid=0"),
        ({"noise": 1.5}, "noise=1.5"),
        ({"num_test": 0}, "num_test=0"),
    ],
)
def test_impossible_values_are_refused(keys: dict[str, Any], place: str) -> None:
    with raises_naming(ValueError, place):
        BabyAI(**keys)


def test_distractors_that_do_not_fit_are_refused() -> None:
    with raises_naming(ValueError, "env:", "GoTo", "num_distractors=36"):
        draw_layout(Random(0), "GoTo", 36, is_test=False)


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minigrid.envs.babyai.core.roomgrid_level", None)
    for cached in (grid.package, grid.level_class):
        cached.cache_clear()
    with raises_naming(MistakeError, "env:", "minigrid", "pip install 'rlx[babyai]'"):
        BabyAI().check_inputs()


def test_the_penalties_of_an_untrained_agent_are_bounded_over_a_whole_episode() -> None:
    """Four invalid turns for each valid one, to the limit of turns: 256 of them, which cost 10 in all."""
    episode, steps = begin(BALL), list[Step]()
    while not (steps and steps[-1].done):
        steps += play(episode, *[NONSENSE] * 4, LEFT)
    assert [step.invalid for step in steps] == [True, True, True, True, False] * 64
    assert sum(step.reward for step in steps) == reward_range_of(BabyAI())[0] == -10.0
    assert steps[-1].truncated


def test_protocols_tell_the_goal_in_their_own_words() -> None:
    task = next(tasks(1))
    told = Direct(instruction="Reach: {goal}!").bind((), BabyAI.actions).open(task)
    assert told == f"Reach: {task.data['goal']}!\n"
    assert task.prompt[0].text == f"Your goal is to {task.data['goal']}."


def test_a_gym_shows_the_correction_and_hides_the_invalid_turn() -> None:
    form = FinalAnswer(instruction="{goal}\n{actions}", sanitise=True, correction="One of: {actions}.")
    env = rlx.gym.make("babyai:GoTo-v0", protocol=form, observation="history", seed=3)
    first, info = env.reset()
    second, reward, *_, info = env.step("what?")
    actions = "turn left, turn right, go forward, pick up, drop, toggle"
    assert second == f"{first}Generated invalid action\nOne of: {actions}.\n"
    assert (reward, info["invalid"]) == (-1.0, f"end with 'final answer: X', where X is one of: {actions}")
    env = rlx.gym.make("babyai:GoTo-v0", protocol=form, observation="last", seed=3)
    env.reset()
    assert env.step("what?")[0] == f"One of: {actions}.\n"
