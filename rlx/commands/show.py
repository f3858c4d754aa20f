"""`rlx show`: stored episodes as a person would read them. A file is read line by line, and nothing heavy is imported.

What a model, a tool or a task wrote is shown as it is, but for what a terminal would obey.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from rlx.base.console import clean, format_count, one_line
from rlx.commands.by_agent import (
    describe_end,
    describe_rewards,
    name_of,
)
from rlx.commands.find import StoredLine, Wanted, find_file, pick, read_line, scan
from rlx.commands.tokens import LEGEND, describe_tokens
from rlx.runs.codec import whose
from rlx.runs.decode import Decode, find_decoder
from rlx.runs.form import CodecError
from rlx.runs.store import StoreError, parse_line
from rlx.types import CUT, Fork, Trajectory, Turn

WIDTH = 80


def show_episodes(
    place: Path,
    label: str,
    wanted: Wanted,
    *,
    index: int = 1,
    by: str = "",
    listed: bool = False,
    line: int | None = None,
    tokens: bool = False,
) -> Iterator[str]:
    """One episode of a run or of a file, or a line for each."""
    file = place if place.is_file() else find_file(place, label)
    if listed:
        yield from map(describe_line, scan(file, wanted))
        return
    stored_line = pick(file, wanted, index=index, by=by) if line is None else read_line(file, line)
    yield describe_episode(file, stored_line, find_decoder(file.parent.parent), tokens=tokens)


def describe_line(line: StoredLine) -> str:
    """One episode of a list."""
    turns = format_count(line.num_turns, "turn")
    sample_text = f"/{line.sample}" if line.parent is None else f"/{line.sample}, a fork of {line.parent}"
    alone = f"{outcome_of(line, line.success):<9}  {line.reward:>7.3f}"
    each = ", ".join(
        f"{one_line(result.agent, 30)} {outcome_of(line, result.success)} {result.reward:.3f}"
        for result in line.results
    )
    prefix = f"{line.number:>6}  {each or alone}  {turns:<8}  "
    return prefix + one_line(line.task, max(4, min(30, WIDTH - len(prefix) - len(sample_text)))) + sample_text


def outcome_of(line: StoredLine, success: bool) -> str:
    return "solved" if success else line.status if line.status != "done" else "failed"


def describe_episode(file: Path, line: StoredLine, decode: Decode | None, *, tokens: bool = False) -> str:
    """An episode: its task, what the agent saw and did in each turn, and what came of it."""
    try:
        episode = parse_line(line.raw, line.number).trajectory
        stored = json.loads(line.raw)["trajectory"]["turns"] if tokens else []
        below = [
            describe_tokens(turn, f"turns[{i}]", whose(turn["tokens"], i, episode.fork))
            for i, turn in enumerate(stored)
        ]
    except CodecError as error:
        raise StoreError(f"{file}:{line.number}: {error}") from None
    parts = [heading(file, line, episode), *openings(episode, decode)]
    for index, turn in enumerate(episode.turns):
        reader = episode.turns[index + 1].agent if index + 1 < len(episode.turns) else ""
        parts.append(describe_turn(index, turn, episode.fork, decode, below[index] if below else "", reader))
    parts += [LEGEND] * bool(below)
    return "\n\n".join(part for part in [*parts, *([f"error: {one_line(episode.error)}"] * bool(episode.error))])


def heading(file: Path, line: StoredLine, episode: Trajectory) -> str:
    how = "" if episode.status == "done" else f" ({episode.status})"
    counts = totals(episode.turns, episode.num_tokens)
    title = f"{file.name}, episode {line.number}: task {one_line(episode.task.id, 60)}, sample {episode.sample}"
    end = describe_end(episode.turns, episode.success, how, counts)
    return "\n".join([textwrap.fill(title, WIDTH), end, *describe_fork(episode)])


def totals(turns: Sequence[Turn], num_tokens: int) -> str:
    num_calls = sum(turn.tool.num_calls for turn in turns)
    amounts = {"turn": len(turns), "tool call": num_calls, "token": num_tokens}
    return ", ".join(format_count(num, noun) for noun, num in amounts.items())


def describe_fork(episode: Trajectory) -> Iterator[str]:
    """Describe the place where an episode left another, and how much of what is counted is its own."""
    fork = episode.fork
    if fork is None:
        return
    where = (
        f"in turn {fork.turn + 1} after {format_count(fork.token, 'token')}"
        if fork.token
        else f"at turn {fork.turn + 1}"
    )
    forced = f", {format_count(len(fork.forced), 'token')} forced" if fork.forced else ""
    yield f"a fork of sample {fork.parent}, left {where}{forced}"
    yield f"its own: {totals(episode.new_turns, episode.num_sampled)}; the rest is replayed or forced"


def openings(episode: Trajectory, decode: Decode | None) -> Iterator[str]:
    """Yield the text that each agent was given before its first turn: the prompt's own tokens, or the task where they
    cannot be decoded."""
    if decode is None or not episode.turns:
        yield block("task", "".join(part.text for part in episode.task.prompt))
        return
    for agent in dict.fromkeys(turn.agent for turn in episode.turns):
        first = next(turn for turn in episode.turns if turn.agent == agent)
        yield block(name_of("prompt", agent), decode(first.prompt_ids))


def describe_turn(
    index: int, turn: Turn, fork: Fork | None, decode: Decode | None, below: str = "", reader: str = ""
) -> str:
    """`below` is what follows the turn's text; `reader` is the agent that reads the observation."""
    action = turn.action
    named = f"call {one_line(action.name, 30)}" if action.kind == "call" else action.kind
    stop = turn.completion.stop
    ended = "" if stop == "stop" else f", {'cut off' if stop in CUT else 'ended'} by {stop}"
    again = ", replayed" if fork and index < fork.turn else ""
    measured = "".join(f", {one_line(name.rpartition('/')[2], 30)} {value:g}" for name, value in turn.reply.items())
    name = name_of(f"turn {index + 1}", turn.agent)
    title = f"{name}: {named}, {describe_rewards(turn)}{measured}{ended}{again}"
    parts = [
        *([block(title, action.text)] if decode is None else describe_completion(title, index, turn, fork, decode)),
        *([below] * bool(below)),
    ]
    if turn.observation:
        parts.append(block(name_of("observation", reader), "".join(part.text for part in turn.observation)))
    return "\n".join(parts)


def describe_completion(title: str, index: int, turn: Turn, fork: Fork | None, decode: Decode) -> Iterator[str]:
    """Yield a turn's text. Split the turn in which a fork left its parent: replayed, forced and sampled tokens."""
    ids = turn.completion.token_ids
    if fork is None or index != fork.turn or not fork.num_prefix:
        yield block(title, decode(ids))
        return
    yield title
    for name, pairs in groupby(zip(whose(ids, index, fork), ids), key=itemgetter(0)):
        yield block(name or "its own", decode([token for _, token in pairs]))


def block(title: str, text: str) -> str:
    """A title, and text below it: wrapped, its own lines kept."""
    lines = [
        row
        for line in clean(text).strip("\n").split("\n")
        for row in textwrap.wrap(line, WIDTH - 2, **WRAP_OPTIONS) or [""]
    ]
    return "\n".join([title, *(f"  {line}".rstrip() for line in lines)])


WRAP_OPTIONS: dict[str, Any] = {"replace_whitespace": False, "break_on_hyphens": False}
"""A tool's output is shown with the spaces it has between its words."""
