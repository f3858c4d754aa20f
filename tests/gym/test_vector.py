"""Vectors: exact seeds whoever works, autoreset with the last observation, and a failure that stays where it is."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import rlx.gym
from rlx.base.fault import LostServiceError
from rlx.base.limits import MistakeError
from rlx.env.game.guess_the_number import GuessTheNumber
from rlx.environment import Environment, Episode, Pace
from rlx.gym.single import TextEnv
from rlx.gym.vector import TextVectorEnv
from rlx.protocol.direct import Direct
from rlx.types import Action, Step, Task, Text
from tests.errors import raises_naming
from tests.loops import for_each

GUESS = "game:GuessTheNumber-v0"


@dataclass(frozen=True)
class Count(Environment):
    """Says how many turns have passed; ends after `turns`, and does not take every word well."""

    pace: Pace = "inline"
    turns: int = 3
    seconds: float = 0.0

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        number = seed * 100
        while True:
            yield Task(id=str(number), prompt=(Text(f"task {number}"),), data={})
            number += 1

    def start(self, task: Task) -> CountEpisode:
        if task.id.endswith("66"):
            raise RuntimeError("no start")
        if task.id.endswith("67"):
            raise LostServiceError("no server")
        return CountEpisode(self)


@dataclass
class CountEpisode(Episode):
    env: Count
    turn: int = 0

    def step(self, action: Action) -> Step:
        time.sleep(self.env.seconds)
        self.turn += 1
        if action.text == "raise":
            raise RuntimeError("boom")
        if action.text == "lose":
            raise LostServiceError("no server")
        if action.text == "exit":
            raise SystemExit(3)
        if action.text == "nan":
            return Step(reward=float("nan"))
        if action.text == "nonsense":
            return None  # type: ignore[return-value]
        return Step(
            observation=(Text(f"{self.turn} {action.text}"),), reward=self.turn, done=self.turn == self.env.turns
        )


def vector(env: Count, num: int = 3, **keywords: Any) -> TextVectorEnv:
    return TextVectorEnv([TextEnv(env, Direct(), seed=i) for i in range(num)], **keywords)


def test_every_environment_has_the_stream_of_its_own_seed() -> None:
    first = rlx.gym.make_vec(GUESS, num_envs=3, seed=7)
    _, infos = first.reset()
    tasks = [next(GuessTheNumber().tasks("train", 7 + i)).key for i in range(3)]
    assert list(infos["task"]) == tasks
    assert list(first.reset(seed=7)[1]["task"]) == tasks
    assert list(first.reset(seed=[9, 8, 7])[1]["task"])[2] == tasks[0]
    again = [list(islice(GuessTheNumber().tasks("train", 9 - i), 2))[1].key for i in range(3)]
    assert list(first.reset()[1]["task"]) == again, "without a seed the streams go on"
    with raises_naming(MistakeError, "2 seeds", 3):
        first.reset(seed=[1, 2])


def test_names_take_turns_and_keywords_may_be_of_one_alone() -> None:
    envs = rlx.gym.make_vec([GUESS, "game:GuessTheNumber-v0-easy"], num_envs=4, vec_kwargs=[{}, {}, {"high": 9}, {}])
    assert [env.unwrapped.world.high for env in envs.envs] == [50, 10, 9, 10]  # type: ignore[attr-defined]
    assert rlx.gym.make_vec([GUESS, GUESS]).num_envs == 2
    assert envs.envs[1].unwrapped.world is envs.envs[3].unwrapped.world  # type: ignore[attr-defined]
    with raises_naming(MistakeError, "1 vec_kwargs", 2):
        rlx.gym.make_vec([GUESS, GUESS], vec_kwargs=[{}])
    with raises_naming(ValueError, "num_envs=0", 1):
        rlx.gym.make_vec(GUESS, num_envs=0)


def test_the_same_step_ends_an_episode_and_begins_the_next() -> None:
    envs = vector(Count(turns=2), 2)
    envs.reset(seed=1)
    assert envs.step(["a", "b"])[0] == ["1 a\n", "1 b\n"]
    observations, rewards, terminated, truncated, infos = envs.step(["c", "d"])
    assert observations == ["task 101\n", "task 201\n"]
    assert (list(rewards), list(terminated), list(truncated)) == ([2.0, 2.0], [True, True], [False, False])
    assert list(infos["final_obs"]) == ["2 c\n", "2 d\n"]
    assert list(infos["final_info"]["success"]) == [False, False]
    assert infos[1] == {"task": "201", "final_obs": "2 d\n", "final_info": {"success": False, "status": "done"}}
    assert envs.step(["e", "f"])[0] == ["1 e\n", "1 f\n"]


def test_observations_may_be_assigned_and_infos_sliced_as_in_gem() -> None:
    envs = vector(Count(turns=2), 3)
    first, _ = envs.reset(seed=1)
    seen, *_, infos = envs.step(["a", "b", "c"])
    for observations in (first, seen):
        observations[1] = envs.envs[1].reset()[0]
    assert first == ["task 100\n", "task 201\n", "task 300\n"]
    assert seen == ["1 a\n", "task 202\n", "1 c\n"]
    assert infos[:2] == [{}, {}]
    *_, infos = envs.step({2: "d", 1: "e"})
    assert [info.get("task") for info in infos[:2]] == ["301", None], "the episode that the trainer began goes on"
    assert infos[0:9:2] == [infos[0]]


def test_keywords_of_single_environments_reset_them_as_in_gem() -> None:
    envs = rlx.gym.make_vec(GUESS, num_envs=3, wrappers=rlx.gym.get_wrapper_fns("concat,episode_tracking"), seed=5)
    streams = [[task.key for task in islice(GuessTheNumber().tasks("train", 5 + i), 9)] for i in range(3)]
    _, infos = envs.reset(env0_kwargs={"idx": 7}, env2_kwargs={"idx": 2})
    assert list(infos["task"]) == [streams[0][7], streams[1][0], streams[2][2]]
    assert list(envs.reset()[1]["task"]) == [streams[0][8], streams[1][1], streams[2][3]], "each goes on behind it"
    assert list(envs.reset(idx=4)[1]["task"]) == [stream[4] for stream in streams]
    assert list(envs.reset(idx=[1, 0, 3])[1]["task"]) == [streams[0][1], streams[1][0], streams[2][3]]
    assert envs.reset(seed=9, env1_kwargs={"seed": 5})[1][1]["task"] == streams[0][0]
    for keywords, names in [
        ({"env3_kwargs": {}}, ("reset:", "'env3_kwargs'", "env0_kwargs", "env2_kwargs")),
        ({"index": 3}, ("reset:", "'index'", "env0_kwargs", "env2_kwargs")),
        ({"env0_kwargs": 3}, ("env0_kwargs=3",)),
        ({"env0_kwargs": {"ids": 3}}, ("env0_kwargs:", "'ids'", "idx")),
        ({"env0_kwargs": {"idx": -1}}, ("idx=-1", "Task")),
        ({"idx": [1]}, ("1 idx", 3)),
    ]:
        with raises_naming(MistakeError, *names):
            envs.reset(**keywords)


def test_the_next_step_begins_an_episode_with_an_action_that_is_ignored() -> None:
    envs = vector(Count(turns=1), 1, autoreset="next_step")
    envs.reset(seed=1)
    observations, *_, infos = envs.step(["a"])
    assert (observations, infos[0]) == (["1 a\n"], {"success": False, "status": "done"})
    observations, rewards, terminated, _, infos = envs.step(["b"])
    assert (observations, rewards[0], terminated[0], infos[0]) == (["task 101\n"], 0.0, False, {"task": "101"})
    assert envs.step(["c"])[0] == ["1 c\n"]


def test_without_autoreset_those_that_are_over_are_reset_by_a_mask() -> None:
    envs = vector(Count(turns=1), 2, autoreset="disabled")
    envs.reset(seed=1)
    envs.step({1: "a"})
    with raises_naming(ValueError, "reset_mask"):
        envs.step(["a", "a"])
    observations, infos = envs.reset(options={"reset_mask": np.array([False, True])})
    assert observations == ["task 100\n", "task 201\n"]
    assert (infos[0], infos[1]) == ({}, {"task": "201"})
    assert envs.step(["x", "y"])[0] == ["1 x\n", "1 y\n"]


def test_a_mapping_steps_only_whom_it_names() -> None:
    envs = vector(Count())
    envs.reset(seed=0)
    observations, rewards, *_ = envs.step({2: "a", 0: "b"})
    assert (observations, list(rewards)) == (["1 a\n", "1 b\n"], [1.0, 1.0])
    assert envs.step(["x"] * 3)[0] == ["2 x\n", "1 x\n", "2 x\n"]
    with raises_naming(MistakeError, "2 actions", 3):
        envs.step(["a", "b"])


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("raise", f"RuntimeError at {__file__}:"),
        ("exit", f"SystemExit at {__file__}:"),
        ("nonsense", "ValueError: env: turn 1 of Count is None: expected Step(observation=(Text(…),), …)"),
        ("nan", "ValueError: env: turn 1"),
    ],
)
@pytest.mark.parametrize("pace", ["inline", "live"])
def test_one_that_fails_ends_its_own_episode_alone(word: str, error: str, pace: Pace) -> None:
    envs = vector(Count(pace))
    envs.reset(seed=1)
    observations, rewards, terminated, truncated, infos = envs.step(["a", word, "b"])
    assert observations == ["1 a\n", "task 201\n", "1 b\n"]
    assert (list(rewards), list(terminated), list(truncated)) == ([1.0, 0.0, 1.0], [False] * 3, [False, True, False])
    assert infos[1]["final_info"]["error"].startswith(error)
    assert envs.step(["a", "b", "c"])[0] == ["2 a\n", "1 b\n", "2 c\n"]
    envs.close()


@pytest.mark.parametrize("pace", ["inline", "live"])
def test_a_lost_service_is_no_failure_of_an_episode_and_ends_the_loop(pace: Pace) -> None:
    envs = vector(Count(pace))
    envs.reset(seed=1)
    with raises_naming(LostServiceError, "no server"):
        envs.step(["a", "lose", "b"])
    with raises_naming(LostServiceError, "no server"):
        envs.reset(seed=[0, 1, 2], options={"task": [67, 3, 4]})
    envs.close()


def test_one_that_cannot_begin_tries_again() -> None:
    envs = vector(Count(turns=1), 2)
    observations, infos = envs.reset(seed=[0, 1], options={"task": [66, 3]})
    assert observations == ["", "task 103\n"]
    assert re.fullmatch(rf"RuntimeError at {__file__}:\d+: no start", infos[0]["error"])
    observations, _, terminated, truncated, infos = envs.step(["a", "b"])
    assert (observations[0], terminated[0], truncated[0]) == ("task 0\n", False, True)
    assert infos[0]["final_info"]["error"].startswith("ResetNeeded: ")


def test_what_a_caller_may_not_ask_is_raised() -> None:
    envs = rlx.gym.make_vec(GUESS, num_envs=2)
    with raises_naming(MistakeError, "options:", "'tsk'", "task"):
        envs.reset(options={"tsk": 1})
    with raises_naming(MistakeError, "1 tasks", 2):
        envs.reset(options={"task": [1]})
    with raises_naming(ValueError, "autoreset='sometimes'", "next_step", "same_step", "disabled"):
        rlx.gym.make_vec(GUESS, autoreset="sometimes")
    with raises_naming(ValueError, "num_threads=0", 1):
        rlx.gym.make_vec(GUESS, num_threads=0)


@for_each(
    "keywords, name",
    [
        ({"env_ids": 5}, "env_ids=5"),
        ({"num_envs": "3"}, "num_envs='3'"),
        ({"num_envs": 2.5}, "num_envs=2.5"),
        ({"num_envs": True}, "num_envs=True"),
        ({"num_envs": 10**6}, "num_envs=1000000"),
        ({"seed": None}, "seed=None"),
        ({"seed": [1, 2]}, "seed=[1, 2]"),
        ({"num_threads": 1.5}, "num_threads=1.5"),
        ({"wrappers": ["python_tool"]}, "wrappers='python_tool'"),
        ({"wrappers": "python_tool"}, "wrappers='python_tool'"),
        ({"wrappers": 5}, "wrappers=5"),
        ({"vec_kwargs": 5}, "vec_kwargs=5"),
        ({"vec_kwargs": {"high": 9}}, "vec_kwargs={'high': 9}"),
        ({"vec_kwargs": [None, {}]}, "vec_kwargs=None"),
        ({"autoreset": []}, "autoreset=[]"),
        ({"protocol": 5}, "protocol=5"),
    ],
)
def test_a_wrong_type_is_told_in_one_line(keywords: dict[str, Any], name: str) -> None:
    with raises_naming(ValueError, name):
        rlx.gym.make_vec(**{"env_ids": GUESS, "num_envs": 2, **keywords})


def test_options_and_actions_of_a_wrong_type_are_told_in_one_line() -> None:
    envs: Any = rlx.gym.make_vec(GUESS, num_envs=2)
    envs.reset(seed=0)
    with raises_naming(MistakeError, "options=5"):
        envs.reset(options=5)
    with raises_naming(MistakeError, "actions='ab'", 2):
        envs.step("ab")


def played(**keywords: Any) -> list[Any]:
    envs = vector(Count("live", seconds=0.001), 8, **keywords)
    told: list[Any] = [envs.reset(seed=3)[0]]
    told += [envs.step([f"{turn} {i}" for i in range(8)])[0] for turn in range(7)]
    envs.close()
    return told


def test_results_do_not_depend_on_how_many_threads_there_are() -> None:
    one, *others = (played(**keywords) for keywords in ({"asynchronous": False}, {"num_threads": 2}, {}))
    assert others == [one, one]


def test_there_are_no_more_threads_than_asked_for_and_none_for_what_is_fast() -> None:
    seen: list[str] = []

    class Telling(Count):
        def start(self, task: Task) -> CountEpisode:
            seen.append(threading.current_thread().name)
            time.sleep(0.002)
            return super().start(task)

    envs = vector(Telling("ticks"), 8, num_threads=2)
    envs.reset(seed=0)
    assert {name.rpartition("_")[0] for name in seen} == {"gym"}
    assert len(set(seen)) <= 2
    assert vector(Count("inline")).pool is None
    assert vector(Count("live"), asynchronous=False).pool is None
    envs.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("gym_")]


def test_gymnasiums_own_wrappers_go_around_it() -> None:
    envs: Any = RecordEpisodeStatistics(rlx.gym.make_vec(GUESS, num_envs=2, max_turns=2))
    envs.reset(seed=0)
    for _ in range(2):
        *_, infos = envs.step([r"\boxed{0}", r"\boxed{0}"])
    assert list(infos["episode"]["l"]) == [2, 2]


def test_what_it_returns_is_in_its_spaces() -> None:
    for view in ("last", "chat"):
        envs = rlx.gym.make_vec(GUESS, num_envs=3, observation=view)
        observations, _ = envs.reset(seed=0)
        assert observations in envs.observation_space
        assert envs.step(envs.action_space.sample())[0] in envs.observation_space


def test_what_no_agent_can_say_reaches_no_environment() -> None:
    vector = rlx.gym.make_vec(GUESS, num_envs=2)
    vector.reset(seed=0)
    before = [env.replies for env in vector.envs]  # type: ignore[attr-defined]
    for actions, names in [
        (["x", None], ("action", "NoneType")),
        ({5: "x"}, ("environment 5", "0 to 1")),
        ({-1: "x"}, ("environment -1",)),
        (None, ("actions=None", 2)),
    ]:
        with raises_naming(MistakeError, *names):
            vector.step(actions)  # type: ignore[arg-type]
    assert [env.replies for env in vector.envs] == before == [[], []]  # type: ignore[attr-defined]


def test_a_mask_has_a_place_for_each() -> None:
    vector = rlx.gym.make_vec(GUESS, num_envs=2)
    for mask in ([True], [True, False, True], 1):
        with raises_naming(MistakeError, "reset_mask", 2):
            vector.reset(options={"reset_mask": mask})


@pytest.mark.parametrize("pace", ["inline", "ticks"])
def test_closed_environments_say_so(pace: Pace) -> None:
    vector = TextVectorEnv([TextEnv(Count(pace=pace), Direct(), seed=i) for i in range(2)])
    vector.reset()
    vector.close()
    for work in (vector.reset, lambda: vector.step(["a", "b"])):
        with raises_naming(ClosedEnvironmentError, "closed"):
            work()
