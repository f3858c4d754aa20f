"""Replay stored trajectories: the same actions in a fresh episode give the same observations, rewards and outcome.

Given how one speaks it also checks the tokens: that the completion, decoded, means the stored action, and that every
context is made of the pieces that the protocol makes it of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlx.base.console import format_count, one_line
from rlx.environment import Environment
from rlx.environment.agents import brief, seen_in
from rlx.environment.world import (
    cost_of,
    give_luck,
    is_for_environment,
    only_legal,
    open_episode,
    part_of,
    parts_of,
    step_within,
)
from rlx.rollout.episode import bind
from rlx.rollout.speech import Speech
from rlx.runs.codec import common_prefix
from rlx.runs.store import Stored, StoreError, read, stored_files
from rlx.types import Step, Trajectory, Turn

MAX_LINES = 20
"""Mistakes listed by name; the rest are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A difference between a replay and what was stored."""

    file: str
    line: int
    task: str
    sample: int
    turn: int | None
    """Number of the turn, from 0; None if the end of the episode differs."""
    reason: str

    def __str__(self) -> str:
        place = "end" if self.turn is None else f"turn {self.turn}"
        return one_line(f"{self.file}:{self.line}: task {self.task}, sample {self.sample}, {place}: {self.reason}", 400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Result of a replay."""

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
        wrong = [one_line(text, 400) for text in (*self.unreadable, *map(str, self.mistakes[:MAX_LINES]))]
        listed, more = wrong[:MAX_LINES], len(self.mistakes) + len(self.unreadable) - len(wrong[:MAX_LINES])
        differences_text = f"{format_count(len(listed) + more, 'difference')} from what was stored"
        read = f"{format_count(self.num_trajectories, 'episode')}, {format_count(self.num_turns, 'turn')}"
        end = f"{read} in {format_count(self.num_files, 'file')}: {'all as stored' if self.ok else differences_text}"
        return "\n".join([*listed, *([f"and {more} more"] if more else []), end])


Difference = tuple[int | None, str]
"""The turn, and how it differs."""


def replay(
    folder: Path,
    env: Environment,
    *,
    speech: Speech | None = None,
) -> Report:
    """Replay every file of `folder`/trajectories through the run's environment; ValueError if there is none."""
    files = stored_files(folder)
    for part in parts_of(env).values():
        if not part.replayable:
            raise ValueError(f"env: {type(part).__name__} does not replay: the same actions may be answered otherwise")
    num_trajectories = num_turns = 0
    mistakes: list[Mistake] = []
    unreadable: list[str] = []
    for path in files:
        try:
            for stored in read(path):
                num_trajectories += 1
                num_turns += len(stored.trajectory.turns)
                mistakes += judge_stored(str(path.relative_to(folder)), stored, env, speech)
        except (StoreError, OSError) as error:
            unreadable.append(str(error))
    return Report(
        num_files=len(files),
        num_trajectories=num_trajectories,
        num_turns=num_turns,
        mistakes=tuple(mistakes),
        unreadable=tuple(unreadable),
    )


def judge_stored(file: str, stored: Stored, env: Environment, speech: Speech | None = None) -> list[Mistake]:
    """The mistakes of one line of a file."""
    trajectory = stored.trajectory
    return [
        Mistake(
            file=file, line=stored.line, task=trajectory.task.id, sample=trajectory.sample, turn=turn, reason=reason
        )
        for turn, reason in differences(stored, env, speech)
    ]


def differences(stored: Stored, env: Environment, speech: Speech | None) -> Iterator[Difference]:
    trajectory = stored.trajectory
    if trajectory.task.env not in parts_of(env):
        yield None, f"its environment {trajectory.task.env!r:.60} is none of the run's"
        return
    part = part_of(env, trajectory.task)
    rehearsal = rehearse(part, trajectory, part.max_rounds if stored.max_rounds is None else stored.max_rounds)
    yield from judge_outcome(part, trajectory, rehearsal)
    if speech is not None:
        yield from judge_tokens(part, trajectory, bind(env, speech, trajectory.task.env), rehearsal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """Answers of the environment now: its opening, and a step for every stored action until it ended or broke."""

    opening: Step
    steps: tuple[Step, ...]
    broke: str = ""


def rehearse(env: Environment, stored: Trajectory, max_rounds: int | None) -> Rehearsal:
    """Repeat the stored actions in a fresh episode."""
    opening = Step()
    steps: list[Step] = []
    passed, unanswered = 0, env.unanswered(stored.task)
    try:
        with open_episode(env, stored.task) as episode:
            opening = episode.opening()
            for turn in stored.turns:
                if steps and steps[-1].done:
                    break
                give_luck(episode, turn.luck)
                before = steps[-1] if steps else opening
                steps.append(step_within(episode, turn.action, passed, max_rounds, before, unanswered))
                passed += is_for_environment(turn.action)
    except Exception as error:
        return Rehearsal(opening=opening, steps=tuple(steps), broke=f"{type(error).__name__}: {error}")
    return Rehearsal(opening=opening, steps=tuple(steps))


def judge_outcome(env: Environment, stored: Trajectory, rehearsal: Rehearsal) -> Iterator[Difference]:
    """Yield answers of the environment that differ from the stored ones; an exception is one, and ends the replay."""
    acts = [rehearsal.opening.next_agent, *(step.next_agent for step in rehearsal.steps)]
    for index, (turn, step) in enumerate(zip(stored.turns, rehearsal.steps)):
        if turn.agent != acts[index]:
            yield index, f"agent {acts[index]!r}, stored {turn.agent!r}"
        yield from ((index, reason) for reason in judge_step(env, turn, step))
    if rehearsal.broke:
        yield min(len(rehearsal.steps), len(stored.turns) - 1), f"the environment raised {rehearsal.broke}"
    elif len(rehearsal.steps) < len(stored.turns):
        yield len(rehearsal.steps), f"the episode had ended, but {len(stored.turns)} turns are stored"
    else:
        yield from ((None, reason) for reason in judge_end(stored, rehearsal.steps[-1] if rehearsal.steps else Step()))


def judge_step(env: Environment, turn: Turn, step: Step) -> Iterator[str]:
    """Tell how a turn's answer differs. The policy's tokenizer counted tokens, so their count is taken as stored."""
    tool = replace(step.tool, num_tokens=turn.tool.num_tokens)
    reward = step.reward - cost_of(env, tool)
    if step.observation != turn.observation:
        yield f"observation {quote(step.observation)}, stored {quote(turn.observation)}"
    if tool != turn.tool:
        yield f"tool use {tool}, stored {turn.tool}"
    if dict(step.metrics) != dict(turn.metrics):
        yield f"metrics {dict(step.metrics)}, stored {dict(turn.metrics)}"
    if dict(step.rewards) != dict(turn.rewards):
        yield f"rewards {dict(step.rewards)}, stored {dict(turn.rewards)}"
    if dict(step.outcomes) != dict(turn.outcomes):
        yield f"outcomes {dict(step.outcomes)}, stored {dict(turn.outcomes)}"
    if step.invalid != turn.invalid:
        yield f"invalid {step.invalid}, stored {turn.invalid}"
    if reward != turn.reward:
        yield f"reward {reward!r}, stored {turn.reward!r}"


def judge_end(stored: Trajectory, last: Step) -> Iterator[str]:
    """Tell how the outcome differs. The context or an error cut an episode that the environment did not end."""
    status = ("truncated" if last.truncated else "done") if last.done else "context"
    success = last.done and bool(last.success)
    if stored.status not in (status, "error") or (stored.status == "error" and last.done):
        yield f"status {status}, stored {stored.status}"
    if success != stored.success:
        yield f"success {success}, stored {stored.success}"


def judge_tokens(env: Environment, stored: Trajectory, speech: Speech, rehearsal: Rehearsal) -> Iterator[Difference]:
    """Yield the places where tokens and meaning part: each turn's context, and the action of each completion."""
    legal = [rehearsal.opening.legal, *(step.legal for step in rehearsal.steps)]
    for index, turn in enumerate(stored.turns):
        may = legal[min(index, len(legal) - 1)]
        opening, past = seen_in(env, turn.agent, rehearsal.opening.observation, stored.turns[:index])
        task = brief(env, stored.task, turn.agent)
        action = only_legal(speech.hear(turn.completion, past), may)
        if action != turn.action:
            yield index, f"tokens mean {action.kind} {action.text!r}, stored {turn.action.kind} {turn.action.text!r}"
        context = speech.context(task, opening, past, legal=may)
        if context != turn.prompt_ids:
            same = common_prefix(context, turn.prompt_ids)
            stored_text, replayed_text = (speech.decode(ids[same : same + 40]) for ids in (turn.prompt_ids, context))
            yield index, f"the context goes on with {stored_text!r}, its pieces with {replayed_text!r}"


def quote(observation: tuple[Any, ...]) -> str:
    return repr("".join(part.text for part in observation))[:100]
