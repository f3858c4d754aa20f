from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from rlx.environment import Environment, Episode
from rlx.environment.world import step_within
from rlx.evaluation.replay import rehearse, replay
from rlx.protocol.history import History
from rlx.rollout.speech import Speech
from rlx.runs.store import save, step_path
from rlx.types import Action, Completion, Group, Move, Part, Step, Stop, Task, Text, ToolUse, Trajectory, Turn, Verb
from tests.errors import raises_naming


@dataclass(frozen=True, kw_only=True)
class Doubling(Environment):
    """Calls double a number, at most `max_rounds` times; the answer must be the last value."""

    max_rounds: int = 3
    price: float = 0.02

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return iter([Task(id="t", prompt=(), data={"number": 3})])

    def start(self, task: Task) -> Doubled:
        return Doubled(self, task.data["number"])

    def tool_cost(self, tool: ToolUse) -> float:
        return self.price * tool.num_calls + 0.001 * tool.num_tokens

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> list[Move]:
        return []


@dataclass
class Doubled(Episode):
    env: Doubling
    number: int

    def step(self, action: Action) -> Step:
        if action.kind == "answer":
            right = action.text == str(self.number)
            return Step(reward=float(right), done=True, success=right)
        self.number *= 2
        return Step(observation=(Text(str(self.number)),), tool=ToolUse(num_calls=1))


class Words(History):
    """The dialect of these tests: a token is a character, an observation is in brackets."""

    stops = ()
    tools = ("double",)

    def open(self, task: Task) -> str:
        return f"double {task.data['number']}:"

    def bind(self, tools: tuple[Verb, ...], actions: tuple[Verb, ...]) -> Words:
        return self

    def parse(self, text: str, stop: Stop) -> Action:
        return Action(kind="call", name="double", text="") if text == "d" else Action(kind="answer", text=text)

    def write(self, move: Move) -> str:
        return ""

    def render(self, observation: tuple[Part, ...]) -> str:
        return f"[{observation[0].text}]"


def ids(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


def decode(token_ids: Sequence[int]) -> str:
    return "".join(map(chr, token_ids))


SPEECH = Speech(dialect=Words(), encode=ids, decode=decode)


def play(env: Doubling, *said: str) -> Trajectory:
    task = next(env.tasks("test", 0))
    episode, turns, context, step = env.start(task), [], ids("double 3:"), Step()
    for text in said:
        action = Words().parse(text, "stop")
        step = step_within(episode, action, len(turns), env.max_rounds)
        told = ids(Words().render(step.observation)) if step.observation else ()
        tool = replace(step.tool, num_tokens=len(told))
        done = Completion(token_ids=ids(text), logprobs=(0.0,) * len(text), stop="stop")
        reward = step.reward - env.tool_cost(tool)
        turns.append(
            Turn(
                prompt_ids=context,
                completion=done,
                action=action,
                observation=step.observation,
                reward=reward,
                tool=tool,
            )
        )
        context = context + ids(text) + told
    status = "context" if not step.done else "truncated" if step.truncated else "done"
    return Trajectory(task=task, sample=1, turns=tuple(turns), status=status, success=bool(step.success))


ENV = Doubling()
GOOD = play(ENV, "d", "d", "12")


def kept(folder: Path, *trajectories: Trajectory, max_rounds: int = 3) -> Path:
    group = Group(task=trajectories[0].task, trajectories=trajectories)
    save(step_path(folder, 1), [group], max_rounds=max_rounds)
    return folder


def test_a_summary_is_no_turn_of_a_limit() -> None:
    whole = play(ENV, "d", "d", "d", "24")
    summary = replace(whole.turns[0], action=Action(kind="summary", text=""), observation=())
    turns = [one for turn in whole.turns for one in (summary, turn)]
    found = rehearse(ENV, replace(whole, turns=tuple(turns)), ENV.max_rounds)
    assert [step.observation for step in found.steps] == [turn.observation for turn in turns]
    assert found.steps[-1].success


def test_what_was_played_replays(tmp_path: Path) -> None:
    cut = play(ENV, "d", "d")
    over = play(ENV, "d", "d", "d", "d")
    failed = replace(play(ENV, "d"), status="error", error="boom")
    report = replay(kept(tmp_path, GOOD, cut, over, failed), ENV, speech=SPEECH)
    assert report.ok, str(report)
    assert (report.num_files, report.num_trajectories, report.num_turns) == (1, 4, 10)
    assert str(report) == "4 episodes, 10 turns in 1 file: all as stored"


def test_each_file_is_replayed_with_its_own_budget(tmp_path: Path) -> None:
    short = play(Doubling(max_rounds=1), "d", "d")
    assert replay(kept(tmp_path, short, max_rounds=1), ENV).ok
    assert not replay(kept(tmp_path, short, max_rounds=3), ENV).ok


def edit(turn: int, **changes: object) -> Trajectory:
    turns = list(GOOD.turns)
    turns[turn] = replace(turns[turn], **changes)  # type: ignore[arg-type]
    return replace(GOOD, turns=tuple(turns))


WRONG: dict[str, tuple[Trajectory, int | None, str]] = {
    "reward": (edit(1, reward=-0.021), 1, "reward"),
    "observation": (edit(0, observation=(Text("7"),)), 0, "observation '6', stored '7'"),
    "tool": (edit(0, tool=ToolUse(num_calls=1, num_failed=1, num_tokens=3)), 0, "tool use"),
    "invalid": (edit(1, invalid=True), 1, "invalid False, stored True"),
    "success": (replace(GOOD, success=False), None, "success True, stored False"),
    "status": (replace(GOOD, status="truncated"), None, "status done, stored truncated"),
    "error": (replace(GOOD, status="error"), None, "status done, stored error"),
    "unended": (replace(GOOD, turns=GOOD.turns[:2]), None, "status context, stored done"),
    "longer": (replace(GOOD, turns=(*GOOD.turns, GOOD.turns[2])), 3, "had ended"),
    "raises": (replace(GOOD, task=replace(GOOD.task, data={})), 0, "raised KeyError"),
    "environment": (replace(GOOD, task=replace(GOOD.task, env="other")), None, "'other' is none of the run's"),
}


@pytest.mark.parametrize(("trajectory", "turn", "what"), WRONG.values(), ids=WRONG.keys())
def test_a_difference_is_named_where_it_is(tmp_path: Path, trajectory: Trajectory, turn: int | None, what: str) -> None:
    report = replay(kept(tmp_path, GOOD, trajectory), ENV)
    assert not report.ok
    first = report.mistakes[0]
    assert (first.file, first.line, first.task, first.sample) == ("trajectories/step-000001.jsonl", 2, "t", 1)
    assert first.turn == turn
    assert what in first.reason


TOKENS: dict[str, tuple[Callable[[], Trajectory], int, str]] = {
    "completion": (
        lambda: edit(2, completion=Completion(token_ids=ids("13"), logprobs=(0.0, 0.0), stop="stop")),
        2,
        "mean",
    ),
    "context": (lambda: edit(1, prompt_ids=ids("double 3:d[5]")), 1, "goes on with '5]', its pieces with '6]'"),
}


@pytest.mark.parametrize(("make", "turn", "what"), TOKENS.values(), ids=TOKENS.keys())
def test_tokens_that_mean_something_else_are_found(
    tmp_path: Path, make: Callable[[], Trajectory], turn: int, what: str
) -> None:
    folder = kept(tmp_path, make())
    assert replay(folder, ENV).ok
    (mistake,) = replay(folder, ENV, speech=SPEECH).mistakes
    assert mistake.turn == turn
    assert what in mistake.reason


def test_a_report_is_short_and_obeyed_by_no_terminal(tmp_path: Path) -> None:
    evil = edit(0, observation=(Text("\x1b[2J" * 500 + "\n"),))
    report = replay(kept(tmp_path, *[evil] * 50), ENV)
    assert len(report.mistakes) == 50
    lines = str(report).splitlines()
    assert len(lines) == 22
    assert lines[-2] == "and 30 more"
    assert "\x1b" not in str(report)
    assert max(map(len, lines)) <= 400


def test_a_folder_without_trajectories_is_refused(tmp_path: Path) -> None:
    with raises_naming(ValueError, tmp_path, "trajectories"):
        replay(tmp_path, ENV)


def test_a_torn_file_is_named_and_the_others_are_still_replayed(tmp_path: Path) -> None:
    kept(tmp_path, GOOD)
    whole = step_path(tmp_path, 1).read_bytes()
    step_path(tmp_path, 0).write_bytes(whole + whole[:40])
    report = replay(tmp_path, ENV)
    assert not report.ok
    assert (report.num_trajectories, report.mistakes) == (2, ())
    assert "step-000000.jsonl:2: the line is cut short" in str(report)
