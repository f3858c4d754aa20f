"""Episodes against a scripted engine and a small counting environment: no model, no clock."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from wandb.sdk.lib.exit_hooks import ExitHooks

from rlx.base.stream import stream_of
from rlx.environment import Environment, Episode
from rlx.protocol.history import History
from rlx.rollout.measure import describe
from rlx.rollout.play import Rollout
from rlx.rollout.speech import Speech
from rlx.types import Action, Completion, Move, Request, Sampling, Start, Step, Stop, Task, Text, ToolUse, Verb
from tests.errors import raises_naming


@dataclass(frozen=True)
class Echo(Environment):
    """Says back what it hears, `rounds` times; raises on the word `boom`; slow on the word `slow`."""

    max_rounds: int = 3

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        yield from (Task(id=f"{split}{i}", prompt=(Text(f"task{i}"),), data={}) for i in range(100))

    def start(self, task: Task) -> EchoEpisode:
        return EchoEpisode(self.max_rounds)

    def tool_cost(self, tool: ToolUse) -> float:
        return 0.5 * tool.num_calls + 0.01 * tool.num_tokens

    def demonstrate(self, task: Task, seed: int, tools: tuple[str, ...]) -> Iterator[Move]:
        yield Move(thought="t", action=Action(kind="call", name="echo", text="hi"))
        yield Move(thought="t", action=Action(kind="answer", text="bye"))


class EchoEpisode(Episode):
    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def step(self, action: Action) -> Step:
        if action.text == "boom":
            raise RuntimeError("the environment broke")
        if action.text == "exit":
            sys.exit("enough")
        if action.text == "slow":
            time.sleep(0.05)
        if action.kind == "answer":
            return Step(reward=1.0, done=True, success=True)
        self.rounds -= 1
        done = self.rounds <= 0
        return Step(observation=(Text(action.text),), done=done, truncated=done, tool=ToolUse(num_calls=1))


class Words(History):
    """`!word` is an answer, any other word a call."""

    stops = ()
    tools = ("echo",)

    def open(self, task: Task) -> str:
        return task.prompt[0].text

    def bind(self, tools: tuple[Verb, ...], actions: tuple[Verb, ...]) -> Words:
        return self

    def parse(self, text: str, stop: Stop) -> Action:
        return (
            Action(kind="answer", text=text[1:])
            if text.startswith("!")
            else Action(kind="call", name="echo", text=text)
        )

    def write(self, move: Move) -> str:
        return ("!" if move.action.kind == "answer" else "") + move.action.text

    def render(self, observation: tuple[Text, ...]) -> str:
        return "".join(part.text for part in observation)


@dataclass
class Script:
    """An engine that answers each session's n-th request with its n-th word, one decoded character a tick."""

    words: Mapping[int, list[str]]
    asked: list[Request] = field(default_factory=list)
    waiting: list[tuple[int, Request, Completion]] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    rests: int = 0
    tick: int = 0
    log: list[tuple[int, int]] = field(default_factory=list)

    def load(self, weights: Mapping[str, Any], version: int) -> None: ...

    def add(self, request: Request) -> None:
        turn = sum(other.session == request.session for other in self.asked)
        word = self.words[request.session][turn]
        ids = tuple(map(ord, word))
        self.asked.append(request)
        self.log.append((self.tick, request.session))
        completion = Completion(token_ids=ids, logprobs=(-1.0,) * len(ids), stop="stop")
        self.waiting.append((self.tick + len(ids), request, completion))

    def step(self) -> list[tuple[Request, Completion]]:
        self.tick += 1
        ready = [(r, c) for due, r, c in self.waiting if due <= self.tick]
        self.waiting = [entry for entry in self.waiting if entry[0] > self.tick]
        return ready

    def release(self, session: int) -> None:
        self.released.append(session)

    def rest(self, keep: bool = True) -> None:
        self.rests += 1


def letters(text: str) -> list[int]:
    return [ord(letter) for letter in text]


SPEECH = Speech(dialect=Words(), encode=letters, decode=lambda ids: "".join(map(chr, ids)))


def rollout(engine: Script, **settings: Any) -> Rollout:
    return Rollout(
        **{"env": Echo(), "speech": SPEECH, "engine": engine, "sampling": Sampling(max_context=64)} | settings
    )


def starts(num: int) -> list[Start]:
    return [Start(task=task, sample=0) for task, _ in zip(Echo().tasks("train", 0), range(num))]


def test_an_episode_is_its_turns_with_rewards_less_their_cost() -> None:
    engine = Script({0: ["ab", "!c"]})
    (episode,) = rollout(engine).play(starts(1))
    assert (episode.status, episode.success) == ("done", True)
    assert [turn.action.text for turn in episode.turns] == ["ab", "c"]
    assert [turn.reward for turn in episode.turns] == [-0.5 - 0.02, 1.0]
    assert episode.tool == ToolUse(num_calls=1, num_tokens=2)


def test_a_context_is_what_came_before_token_for_token() -> None:
    engine = Script({0: ["ab", "!c"]})
    rollout(engine).play(starts(1))
    assert [request.prompt_ids for request in engine.asked] == [tuple(map(ord, "task0")), tuple(map(ord, "task0abab"))]


def test_a_broken_environment_ends_its_own_episode_only() -> None:
    first, second = rollout(Script({0: ["boom"], 1: ["!c"]})).play(starts(2))
    assert first.status == "error"
    assert re.fullmatch(rf"RuntimeError at {__file__}:\d+: the environment broke", first.error)
    assert second.status == "done"


def test_a_limit_of_turns_truncates_and_the_contexts_end_cuts_off() -> None:
    assert rollout(Script({0: ["a"] * 3})).play(starts(1))[0].status == "truncated"
    short = rollout(Script({0: ["a"] * 9}), env=Echo(max_rounds=9), sampling=Sampling(max_context=8)).play(starts(1))[0]
    assert (short.status, len(short.turns)) == ("context", 2)
    assert describe(short)["episode/truncated"]


def test_the_schedule_does_not_depend_on_how_long_a_tool_takes() -> None:
    slow, fast = Script({0: ["slow", "!x"], 1: ["abcd", "!x"]}), Script({0: ["abcd", "!x"], 1: ["abcd", "!x"]})
    rollout(slow, tool_ticks=3).play(starts(2))
    rollout(fast, tool_ticks=3).play(starts(2))
    assert slow.log == fast.log == [(0, 0), (0, 1), (7, 0), (7, 1)]


def test_a_prefix_is_replayed_and_the_episode_goes_on_from_it() -> None:
    (whole,) = rollout(Script({0: ["ab", "cd", "!e"]})).play(starts(1))
    engine = Script({0: ["cd", "!e"]})
    (again,) = rollout(engine).play([Start(task=whole.task, sample=0, prefix=whole.turns[:1])])
    assert again == whole


def test_streams_are_keyed_by_what_they_are_for() -> None:
    engine = Script({0: ["a", "!c"], 1: ["!c"]})
    task = next(Echo().tasks("train", 0))
    rollout(engine, stream=(7, 3)).play([Start(task=task, sample=0), Start(task=task, sample=1)])
    streams = [request.stream for request in engine.asked]
    assert streams == [stream_of(7, 3, task.id, 0, 0), stream_of(7, 3, task.id, 1, 0), stream_of(7, 3, task.id, 0, 1)]
    assert len(set(streams)) == 3


def test_a_demonstration_acts_for_real() -> None:
    (episode,) = rollout(Script({})).demonstrate([next(Echo().tasks("train", 0))])
    assert episode.turns[0].observation == (Text("hi"),)
    assert episode.turns[1].prompt_ids == tuple(map(ord, "task0hihi"))
    assert episode.success


def test_an_interrupt_leaves_no_session_behind() -> None:
    engine = Script({0: ["abc"], 1: ["abc"]})

    def interrupt() -> None:
        if engine.tick == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rollout(engine, check=interrupt).play(starts(2))
    assert sorted(engine.released) == [0, 1]


def test_an_engine_that_was_prepared_rests_though_there_was_nothing_to_play() -> None:
    engine = Script({})
    assert rollout(engine, prepare=lambda: engine.load({}, 1)).play([]) == []
    assert engine.rests == 1


def test_no_more_episodes_are_under_way_than_may_be_and_their_order_does_not_matter() -> None:
    words = {session: ["ab"] * (session % 3) + ["!c"] for session in range(9)}
    one, all_at_once = Script(words), Script(words)
    assert rollout(one, num_live=2).play(starts(9)) == rollout(all_at_once, num_live=9).play(starts(9))
    begun = [
        (tick, session)
        for tick, session in one.log
        if one.log.index((tick, session)) == min(i for i, entry in enumerate(one.log) if entry[1] == session)
    ]
    assert [session for _, session in begun] == list(range(9))
    assert sum(tick == 0 for tick, _ in begun) == 2


@pytest.mark.parametrize("is_tracked", [False, True])
def test_an_environment_that_would_end_the_program_ends_its_episode(
    is_tracked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_tracked:
        hooks = ExitHooks()
        hooks._orig_exit = sys.exit
        monkeypatch.setattr(sys, "exit", hooks.exit)
    first, second = rollout(Script({0: ["exit"], 1: ["!c"]})).play(starts(2))
    assert (first.status, second.status) == ("error", "done")
    assert first.error.startswith(f"SystemExit at {__file__}:")


def test_many_episodes_that_fail_at_once_are_all_told() -> None:
    class Broken(Echo):
        def start(self, task: Task) -> EchoEpisode:
            raise RuntimeError("no such task")

    played = rollout(Script({}), env=Broken(), num_live=1).play(starts(90) * 30)
    assert {episode.status for episode in played} == {"error"}
    assert len(played) == 2700


def two_groups_of_one_task() -> list[Start]:
    task = next(Echo().tasks("train", 0))
    return [Start(task=task, sample=sample) for _ in range(2) for sample in range(2)]


def streams_asked(*plays: Sequence[Start]) -> list[int]:
    """The streams of first turns when one rollout plays these, one list after another."""
    engine = Script({session: ["!c"] * len(plays) for session in range(4)})
    player = rollout(engine, stream=(7, 3))
    for played in plays:
        player.play(played)
    return [request.stream for request in engine.asked]


def test_groups_of_one_task_have_streams_of_their_own() -> None:
    first, second, third, fourth = streams_asked(two_groups_of_one_task())
    assert [first, second] == [stream_of(7, 3, "train0", sample, 0) for sample in range(2)]
    assert [third, fourth] == [stream_of(7, 3, "train0", sample, 0, 1) for sample in range(2)]


def test_a_task_that_repeats_has_the_same_streams_played_at_once_or_group_by_group() -> None:
    starts = two_groups_of_one_task()
    assert streams_asked(starts[:2], starts[2:]) == streams_asked(starts)


def test_demonstrations_of_one_task_have_streams_of_their_own() -> None:
    class Seeds(Echo):
        def demonstrate(self, task: Task, seed: int, tools: tuple[str, ...]) -> Iterator[Move]:
            yield Move(thought="t", action=Action(kind="answer", text=str(seed)))

    task = next(Echo().tasks("train", 0))
    first, second = rollout(Script({}), env=Seeds()).demonstrate([task, task])
    assert first.turns[0].action != second.turns[0].action


class Door(Echo):
    """Says what it opens with, and remembers how often it was closed."""

    def __init__(self, replayable: bool = True) -> None:
        super().__init__()
        object.__setattr__(self, "closed", [])
        object.__setattr__(self, "replayable", replayable)

    def start(self, task: Task) -> EchoEpisode:
        closed = self.closed  # type: ignore[attr-defined]

        class Episode(EchoEpisode):
            def opening(self) -> Step:
                return Step(observation=(Text("!"),))

            def close(self) -> None:
                closed.append(task.id)

        return Episode(self.max_rounds)


def test_an_opening_is_read_before_the_first_turn() -> None:
    engine = Script({0: ["ab", "!c"]})
    (one,) = rollout(engine, env=Door()).play(starts(1))
    assert one.opening == (Text("!"),)
    assert [request.prompt_ids for request in engine.asked] == [
        tuple(map(ord, "task0!")),
        tuple(map(ord, "task0!abab")),
    ]


@pytest.mark.parametrize("words", [["!c"], ["boom"], ["a", "a", "a"]])
def test_an_episode_is_closed_once_however_it_ends(words: list[str]) -> None:
    env = Door()
    rollout(Script({0: words}), env=env).play(starts(1))
    assert env.closed == ["train0"]  # type: ignore[attr-defined]


def test_an_interrupt_closes_what_was_under_way() -> None:
    env, engine, ticks = Door(), Script({0: ["slow", "!c"], 1: ["abcdef"]}), iter(range(99))

    def interrupt() -> None:
        if next(ticks) == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rollout(engine, env=env, check=interrupt).play(starts(2))
    assert sorted(env.closed) == ["train0", "train1"]  # type: ignore[attr-defined]
    rollout(Script({}), env=env).demonstrate(list(Echo().tasks("train", 0))[:1])
    assert len(env.closed) == 3  # type: ignore[attr-defined]


def test_what_needs_replay_refuses_an_environment_that_does_not(tmp_path: Any) -> None:
    (whole,) = rollout(Script({0: ["ab", "cd", "!e"]})).play(starts(1))
    again = Start(task=whole.task, sample=0, prefix=whole.turns[:1])
    with raises_naming(ValueError, "env:", "Door", "task train0", "turn 1"):
        rollout(Script({0: ["cd", "!e"]}), env=Door(replayable=False)).play([again])


def test_an_environment_that_answers_otherwise_ends_its_episode_as_an_error() -> None:
    (whole,) = rollout(Script({0: ["ab", "cd", "!e"]})).play(starts(1))
    other = replace(whole.turns[0], observation=(Text("never"),))
    (episode,) = rollout(Script({0: ["cd"]})).play([Start(task=whole.task, sample=0, prefix=(other,))])
    assert episode.error == "ValueError: the environment does not replay: turn 0 was answered otherwise"
