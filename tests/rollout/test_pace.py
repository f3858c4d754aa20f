"""How an environment's answers are waited for: at once, in ticks, or when they come. No clock is read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from rlx.environment import Environment, Episode, Pace
from rlx.rollout.play import Rollout
from rlx.runs.times import EpisodeTimes
from rlx.types import Action, Sampling, Start, Step, Task, Text, Trajectory
from tests.errors import raises_naming

HERE = threading.get_ident


@dataclass(frozen=True)
class Hooked(Environment):
    """So many turns, each of which does what the test says."""

    pace: Pace = "ticks"
    turns: int = 2
    hook: Callable[[str, int], None] = lambda task, turn: None
    threads: dict[str, set[int]] = field(default_factory=lambda: {"start": set(), "step": set(), "parse": set()})
    started: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        yield from (Task(id=str(i), prompt=(Text(f"{i}:"),), data={}) for i in range(100))

    def start(self, task: Task) -> Turns:
        self.threads["start"].add(HERE())
        self.started.append(task.id)
        return Turns(self, task)


@dataclass
class Turns(Episode):
    env: Hooked
    task: Task
    turn: int = 0

    def step(self, action: Action) -> Step:
        self.env.threads["step"].add(HERE())
        self.turn += 1
        self.env.hook(self.task.id, self.turn)
        done = self.turn == self.env.turns
        return Step(observation=() if done else (Text("!"),), done=done, success=done)

    def close(self) -> None:
        self.env.closed.append(self.task.id)


@pytest.fixture
def build(qwen2: Any, tokenizer: Any, kit: Any) -> Any:
    def build(env: Hooked, **settings: Any) -> Rollout:
        engine = kit.watched(kit.engine(qwen2, tokenizer, num_slots=64))
        speech = kit.aloud(tokenizer)

        def decode(ids: Any) -> str:
            env.threads["parse"].add(HERE())
            return tokenizer.decode(ids)

        sampling = Sampling(max_new_tokens=3, max_context=100)
        return Rollout(
            **{"env": env, "speech": replace(speech, decode=decode), "engine": engine, "sampling": sampling} | settings
        )

    return build


def starts(num: int) -> list[Start]:
    return [Start(task=task, sample=0) for task, _ in zip(Hooked().tasks("train", 0), range(num))]


def said(episodes: list[Trajectory]) -> list[list[tuple[int, ...]]]:
    return [[turn.completion.token_ids for turn in episode.turns] for episode in episodes]


def test_inline_steps_take_neither_a_thread_nor_a_tick(build: Any) -> None:
    inline = build(Hooked(pace="inline"), tool_ticks=5)
    episodes = inline.play(starts(3))
    assert {thread for threads in inline.env.threads.values() for thread in threads} == {HERE()}
    assert inline.engine.busy == [3] * 6
    ticks = build(Hooked(), tool_ticks=5)
    assert said(ticks.play(starts(3))) == said(episodes)
    assert ticks.engine.busy == [3] * 3 + [0] * 5 + [3] * 3 + [0] * 5


@pytest.mark.parametrize("pace", ["ticks", "live"])
def test_start_step_and_parsing_are_not_the_engine_thread_s_work(build: Any, pace: Pace) -> None:
    rollout = build(Hooked(pace=pace))
    assert {episode.status for episode in rollout.play(starts(20))} == {"done"}
    assert all(threads and HERE() not in threads for threads in rollout.env.threads.values())


@pytest.mark.parametrize("pace", ["ticks", "live"])
def test_there_is_a_thread_for_every_episode_that_waits(build: Any, pace: Pace) -> None:
    together = threading.Barrier(64)
    env = Hooked(pace=pace, hook=lambda task, turn: together.wait(timeout=600) and None)
    episodes = build(env).play(starts(64))
    assert {episode.status for episode in episodes} == {"done"}


def test_a_live_answer_is_taken_when_it_comes_and_holds_nobody_up(build: Any) -> None:
    others = threading.Semaphore(0)

    def hook(task: str, turn: int) -> None:
        if task == "0":
            assert all(others.acquire(timeout=600) for _ in range(6))
        else:
            others.release()

    episodes = build(Hooked(pace="live", turns=1, hook=hook)).play(starts(7))
    assert {episode.status for episode in episodes} == {"done"}


def test_starts_ahead_of_their_turn_change_no_schedule(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, late = build(Hooked(), num_live=3), build(Hooked(), num_live=3)
    episodes = ahead.play(starts(9))
    monkeypatch.setattr("rlx.rollout.scheduler.AHEAD", 0)
    assert said(late.play(starts(9))) == said(episodes)
    assert late.engine.busy == ahead.engine.busy
    assert max(late.engine.busy) == 3


def test_episodes_that_were_started_ahead_are_closed_when_nobody_plays_them(build: Any) -> None:
    env = Hooked()
    rollout = build(env, num_live=2)

    def interrupt() -> None:
        if rollout.engine.busy:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace(rollout, check=interrupt).play(starts(9))
    assert len(env.started) > 2
    assert sorted(env.closed) == sorted(env.started)


@pytest.mark.parametrize("pace", ["inline", "ticks", "live"])
def test_every_episode_has_the_times_of_its_turns(build: Any, pace: Pace) -> None:
    noted: list[EpisodeTimes] = []
    build(Hooked(pace=pace, turns=3), num_live=2, timed=noted.append).play(starts(5))
    assert sorted(times.task for times in noted) == ["0", "1", "2", "3", "4"]
    assert {len(times.turns) for times in noted} == {3}
    assert all(turn.generate > 0 and turn.environment >= 0 for times in noted for turn in times.turns)
    by_task = {times.task: times for times in noted}
    assert min(by_task[task].queue for task in "234") > max(by_task[task].queue for task in "01")


def test_a_pace_that_is_none_is_refused(build: Any) -> None:
    with raises_naming(ValueError, "env.pace=fast", "inline", "ticks", "live"):
        build(Hooked(pace="fast")).play(starts(1))  # type: ignore[arg-type]
