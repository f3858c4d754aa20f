"""BabyAI-Text for other trainers: GEM's ids and five values, vectors, states and copies."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import pytest
from gymnasium.error import ResetNeeded

import rlx.gym
from rlx.base.limits import MistakeError
from rlx.env.babyai.babyai import BabyAI
from rlx.env.babyai.layout import LEVELS
from rlx.settings.folders import config_folders, option_files
from rlx.types import Step, Text
from tests.errors import raises_naming
from tests.loops import for_each

IDS = [f"babyai:{name}{test}-v0" for name, level in LEVELS.items() for test in ("", "Test")[: 1 + level.has_test]]
SAID = ("turn left\n", "turn right\n", "go forward\n", "pick up\n", "drop\n", "toggle\n", "dance\n", "")


@pytest.fixture(autouse=True)
def _needs_minigrid() -> None:
    pytest.importorskip("minigrid")


def play(env: Any, texts: list[str]) -> list[tuple[Any, ...]]:
    """Return the five values of each turn, up to the end of the episode."""
    values = []
    for text in texts:
        values.append(env.step(text))
        if values[-1][2]:
            break
    return values


def turns(seed: int, num: int = 30) -> list[str]:
    return Random(seed).choices(SAID, k=num)


@for_each("env_id", IDS)
def test_every_level_has_an_id_of_gem(env_id: str) -> None:
    level, is_test = env_id[len("babyai:") : -len("-v0")].removesuffix("Test"), env_id.endswith("Test-v0")
    env = rlx.gym.make(env_id, protocol="direct", num_distractors=2, max_penalty=None)
    assert isinstance(env.world, BabyAI)
    assert (env.world.level, env.world.test_pairs, env.world.max_penalty) == (level, is_test, None)
    assert env.num_distractors == 2
    seen, info = env.reset(seed=3)
    assert seen.startswith("Your goal is to ")
    assert info["task"].startswith(f"{level}/")
    observation, reward, terminated, truncated, info = env.step("turn left\n")
    assert observation.startswith(("You carry", "You see"))
    assert (reward, terminated, truncated, info) == (0.0, False, False, {"metrics": {"invalid": 0.0}})


def test_every_option_has_an_id() -> None:
    named = {name for name in option_files("env", config_folders()) if name.startswith("babyai/")} - {
        "babyai/go_to_and_pick_up"
    }
    assert {rlx.gym.make(env_id).env_id for env_id in IDS} == {f"{name}-v0" for name in named}


def test_an_episode_has_five_values_from_its_start_to_its_end() -> None:
    """The episode's own steps are the reference: an expert's moves, said as a model would say them."""
    env = rlx.gym.make("babyai:GoTo-v0", protocol="direct", num_distractors=0)
    env.reset(seed=0)
    world: Any = env.world
    episode = world.start(env.task)
    for move in world.demonstrate(env.task, 0, ()):
        step: Step = episode.step(move.action)
        observation, reward, terminated, truncated, info = env.step(env.say(move.action))
        text = "\n".join(part.text for part in step.observation if isinstance(part, Text))
        assert observation.strip() == text
        assert (reward, terminated, truncated) == (step.reward, step.done, False)
    assert info["success"] is True
    assert info["status"] == "done"
    with pytest.raises(ResetNeeded):
        env.step("turn left\n")


def test_time_that_is_over_terminates_and_says_so() -> None:
    env = rlx.gym.make("babyai:PickUp-v0", protocol="direct")
    env.reset(seed=0)
    *before, last = play(env, ["drop\n"] * 70)
    assert len(before) == 63
    assert last[1:4] == (0.0, True, False)
    assert (last[4]["success"], last[4]["status"]) == (False, "truncated")


def test_an_invalid_turn_costs_its_penalty_and_five_end_the_episode() -> None:
    env = rlx.gym.make("babyai:GoTo-v0", protocol="direct", penalty=0.5)
    env.reset(seed=0)
    values = play(env, ["dance\n"] * 9)
    assert [value[1] for value in values] == [-0.5] * 5
    assert [value[2] for value in values] == [False] * 4 + [True]
    assert all(value[4]["invalid"] for value in values)


@for_each("env_id", IDS)
def test_states_and_copies_go_on_alike(env_id: str) -> None:
    env, other = (rlx.gym.make(env_id, protocol="direct", observation="history") for _ in range(2))
    env.reset(seed=4)
    if play(env, turns(0, 8))[-1][2]:
        return
    other.set_state(deepcopy(env.get_state()))
    copies = [deepcopy(env), env.spawn(same_state=True), other]
    expected = play(env, turns(1))
    assert [play(copy, turns(1)) for copy in copies] == [expected] * 3


def test_copies_have_the_same_rooms_to_come() -> None:
    env = rlx.gym.make("babyai:GoTo-v0")
    env.reset(seed=0)
    copy = deepcopy(env)
    assert [env.reset()[0] for _ in range(3)] == [copy.reset()[0] for _ in range(3)]


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_vector_plays_as_each_level_alone(asynchronous: bool) -> None:
    vector = rlx.gym.make_vec(IDS, protocol="direct", seed=7, asynchronous=asynchronous, autoreset="disabled")
    alone = [rlx.gym.make(env_id, protocol="direct", seed=7 + i) for i, env_id in enumerate(IDS)]
    seen, _ = vector.reset()
    assert list(seen) == [env.reset()[0] for env in alone]
    for text in ("turn left\n", "dance\n", "go forward\n"):
        told, rewards, ended, _, _ = vector.step([text] * len(IDS))
        own = [env.step(text) for env in alone]
        assert list(told) == [value[0] for value in own]
        assert list(rewards) == [value[1] for value in own]
        assert list(ended) == [value[2] for value in own]


def test_a_vector_goes_on_with_the_next_room() -> None:
    vector = rlx.gym.make_vec("babyai:GoTo-v0", 3, protocol="direct", num_distractors=0)
    seen, _ = vector.reset(seed=0)
    for _ in range(5):
        told, _, ended, _, infos = vector.step(["dance\n", "turn left\n", "dance\n"])
    assert list(ended) == [True, False, True]
    assert infos["final_obs"][0].startswith("Error: ")
    assert told[0].startswith("Your goal is to ")
    assert told[0] != seen[0]


def test_random_actions_are_valid() -> None:
    env = rlx.gym.make("babyai:GoTo-v0", protocol="direct")
    env.reset(seed=0)
    said = {env.sample_random_action() for _ in range(100)}
    assert said == set(SAID[:6])


def test_the_default_protocol_is_a_box() -> None:
    env = rlx.gym.make("babyai:GoTo-v0")
    env.reset(seed=0)
    assert env.step(r"I look around: \boxed{turn left}")[1] == 0.0
    assert env.step("turn left")[1] == -1.0


BAD: list[tuple[dict[str, Any], str]] = [
    ({"num_distractors": 13}, "env.num_distractors"),
    ({"num_distractors": 2.5}, "env.num_distractors"),
    ({"num_distractors": "many"}, "env.num_distractors"),
    ({"level": "GoTwo"}, "env.level"),
    ({"level": 3}, "env.level"),
    ({"penalty": -1}, "env.penalty"),
    ({"penalty": float("nan")}, "env.penalty"),
    ({"penalty": "dear"}, "env.penalty"),
    ({"max_penalty": float("inf")}, "env.max_penalty"),
    ({"max_invalid": 0}, "env.max_invalid"),
    ({"max_invalid": 1.5}, "env.max_invalid"),
    ({"max_penalty": "much"}, "env.max_penalty"),
    ({"noise": 2}, "env.noise"),
    ({"test_pairs": "maybe"}, "env.test_pairs"),
    ({"num_things": 3}, "env.num_things"),
    *(({"seed": seed}, "seed") for seed in ("a", 1.5, float("nan"), -1, True)),
    ({"level": "GoTo\x1b[31m\n\ud800"}, "env.level"),
    ({"level": "x" * 100_000}, "env.level"),
]


@for_each("keywords, key", BAD)
def test_impossible_keywords_are_refused_in_one_line_that_names_the_key(keywords: dict[str, Any], key: str) -> None:
    with raises_naming(MistakeError, key) as caught:
        rlx.gym.make("babyai:GoTo-v0", **keywords)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("env_id", ["babyai:GoTwo-v0", "babyai:GoTo-v0-hard", "babyai:"])
def test_unknown_levels_are_refused_with_names_near_them(env_id: str) -> None:
    with raises_naming(MistakeError, repr(env_id)):
        rlx.gym.make(env_id)
