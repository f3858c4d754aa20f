"""Replay stored trajectories: the same actions in a fresh episode give the same observations, rewards and outcome.

Given a protocol and a decoder it also checks the tokens: that the completion, decoded, means the stored action, and
that what was appended to the context is the stored observation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlx.console import counted, one_line
from rlx.record.store import Stored, StoreError, read, stored_files
from rlx.rollout.episode import hear, step_within
from rlx.types import Dialect, Environment, Step, Trajectory, Turn
from rlx.world import cost_of, dialect_of, open_episode, part_of, rounds_of

Decode = Callable[[Sequence[int]], str]
MOST_SHOWN = 20
"""Mistakes listed by name; the rest are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """Where a replay differs from what was stored."""

    file: str
    line: int
    task: str
    sample: int
    turn: int | None
    """From 0; None where it is the episode's end that differs."""
    what: str

    def __str__(self) -> str:
        place = "end" if self.turn is None else f"turn {self.turn}"
        return one_line(f"{self.file}:{self.line}: task {self.task}, sample {self.sample}, {place}: {self.what}", 400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of a replay."""

    num_files: int
    num_trajectories: int
    num_turns: int
    mistakes: tuple[Mistake, ...]
    unreadable: tuple[str, ...] = ()
    """`file:line: why`, where the rest of a file could not be read."""

    @property
    def ok(self) -> bool:
        return not self.mistakes and not self.unreadable

    def __str__(self) -> str:
        wrong = [one_line(text, 400) for text in (*self.unreadable, *map(str, self.mistakes[:MOST_SHOWN]))]
        shown, more = wrong[:MOST_SHOWN], len(self.mistakes) + len(self.unreadable) - len(wrong[:MOST_SHOWN])
        found = f"{counted(len(shown) + more, 'difference')} from what was stored"
        read = f"{counted(self.num_trajectories, 'episode')}, {counted(self.num_turns, 'turn')}"
        end = f"{read} in {counted(self.num_files, 'file')}: {'all as stored' if self.ok else found}"
        return "\n".join([*shown, *([f"and {more} more"] if more else []), end])


Found = tuple[int | None, str]
"""The turn, and how it differs."""


def replay(
    folder: Path,
    env: Environment,
    *,
    dialect: Dialect | None = None,
    decode: Decode | None = None,
    progress: Callable[[int], Any] = lambda done: None,
) -> Report:
    """Replay every file of `folder`/trajectories through the run's environment; ValueError if there is none."""
    files = stored_files(folder)
    num_trajectories = num_turns = 0
    mistakes: list[Mistake] = []
    unreadable: list[str] = []
    for path in files:
        try:
            for stored in read(path):
                num_trajectories += 1
                num_turns += len(stored.trajectory.turns)
                mistakes += judge_stored(str(path.relative_to(folder)), stored, env, dialect, decode)
                progress(1)
        except (StoreError, OSError) as error:
            unreadable.append(str(error))
    return Report(
        num_files=len(files),
        num_trajectories=num_trajectories,
        num_turns=num_turns,
        mistakes=tuple(mistakes),
        unreadable=tuple(unreadable),
    )


def judge_stored(
    file: str, stored: Stored, env: Environment, dialect: Dialect | None = None, decode: Decode | None = None
) -> list[Mistake]:
    """The mistakes of one line of a file."""
    one = stored.trajectory
    part = part_of(env, one.task)
    found = list(judge_outcome(part, one, rounds_of(part) if stored.max_rounds is None else stored.max_rounds))
    if dialect is not None and decode is not None:
        found += judge_tokens(one, dialect_of(env, dialect, one.task.env), decode)
    return [
        Mistake(file=file, line=stored.line, task=one.task.id, sample=one.sample, turn=turn, what=what)
        for turn, what in found
    ]


def judge_outcome(env: Environment, stored: Trajectory, max_rounds: int | None) -> Iterator[Found]:
    """Where the environment answers otherwise than it did; an exception is a mistake, and ends the replay."""
    last, index = Step(), 0
    try:
        with open_episode(env, stored.task) as episode:
            for index, turn in enumerate(stored.turns):
                if last.done:
                    yield index, f"the episode had ended, but {len(stored.turns)} turns are stored"
                    return
                last = step_within(episode, turn.action, index, max_rounds)
                yield from ((index, what) for what in judge_step(env, turn, last))
    except Exception as error:
        yield index, f"the environment raised {type(error).__name__}: {error}"
        return
    yield from ((None, what) for what in judge_end(stored, last))


def judge_step(env: Environment, turn: Turn, step: Step) -> Iterator[str]:
    """How a turn's answer differs. Tokens were counted by the policy's tokenizer, so their count is taken as stored."""
    tool = replace(step.tool, num_tokens=turn.tool.num_tokens)
    reward = step.reward - cost_of(env, tool)
    if step.observation != turn.observation:
        yield f"observation {shown(step.observation)}, stored {shown(turn.observation)}"
    if tool != turn.tool:
        yield f"tool use {tool}, stored {turn.tool}"
    if dict(step.metrics) != dict(turn.metrics):
        yield f"metrics {dict(step.metrics)}, stored {dict(turn.metrics)}"
    if reward != turn.reward:
        yield f"reward {reward!r}, stored {turn.reward!r}"


def judge_end(stored: Trajectory, last: Step) -> Iterator[str]:
    """How the outcome differs. An episode that the environment did not end was cut by the context, or by an error."""
    status = ("truncated" if last.truncated else "done") if last.done else "truncated"
    success = last.done and bool(last.success)
    if stored.status not in (status, "error") or (stored.status == "error" and last.done):
        yield f"status {status}, stored {stored.status}"
    if success != stored.success:
        yield f"success {success}, stored {stored.success}"


def judge_tokens(stored: Trajectory, dialect: Dialect, decode: Decode) -> Iterator[Found]:
    """Where tokens and meaning part: each completion's action, and each observation's text in the context after it."""
    for index, turn in enumerate(stored.turns):
        action = hear(dialect, decode, turn.completion)
        if action != turn.action:
            yield index, f"tokens mean {action.kind} {action.text!r}, stored {turn.action.kind} {turn.action.text!r}"
        before = turn.prompt_ids + turn.completion.token_ids
        after = stored.turns[index + 1].prompt_ids if index + 1 < len(stored.turns) else ()
        if turn.observation and after[: len(before)] == before:
            told, rendered = decode(after[len(before) :]), dialect.render(turn.observation)
            if told != rendered:
                yield index, f"the context was told {told!r}, the observation is {rendered!r}"


def shown(observation: tuple[Any, ...]) -> str:
    return repr("".join(part.text for part in observation))[:100]
