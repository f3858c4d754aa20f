"""`api/episode`: one episode, turn by turn and token by token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from rlx.base.http import RefusedError
from rlx.base.regular import open_regular
from rlx.runs.codec import NUMBERS, notes_from_json, whose
from rlx.runs.decode import Decode
from rlx.runs.files import EpisodeFile
from rlx.runs.form import CodecError, parse
from rlx.runs.index import bytes_of
from rlx.runs.results import is_one, read_earned, results_of_agents
from rlx.runs.rows import UNREADABLE, Row
from rlx.runs.store import Stored, parse_line
from rlx.runs.times import read_times
from rlx.types import Trajectory, Turn
from rlx.view.limits import MOST_MEMBERS, MOST_TEXT, MOST_TOKENS, bounded, dump, plain
from rlx.view.table import Array, FileRows, group_of, members

SAME_START = ("task", "env", "sample")
"""Columns in which a repeated start equals the first."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A stored episode, with the parsed JSON of its turns."""

    stored: Stored
    turns: Sequence[Mapping[str, Any]]

    @property
    def episode(self) -> Trajectory:
        return self.stored.trajectory


def read_line(file_rows: FileRows, number: int) -> Line:
    """Return the episode of a line; raise RefusedError if the line cannot be read."""
    row = file_rows.find(number)
    if row is None:
        problem = "cannot be read" if 0 < number <= file_rows.head.lines else "is not there"
        raise RefusedError(404, f"{file_rows.file.name}: line {number} {problem}")
    return read_row(file_rows.file, row)


def read_row(file: EpisodeFile, row: Row) -> Line:
    try:
        with open_regular(file.path) as source:
            raw = bytes_of(source, row)
        return Line(stored=parse_line(raw, row.line), turns=parse(raw)["trajectory"]["turns"])
    except OSError as error:
        raise RefusedError(422, f"{file.name}: {error.strerror}") from None
    except (CodecError, *UNREADABLE) as error:
        raise RefusedError(422, f"{file.name}:{row.line}: {error}") from None


def episode_answer(file_rows: FileRows, number: int, decode: Decode | None) -> bytes:
    line = read_line(file_rows, number)
    times = times_of(file_rows, number, line.episode)
    group = group_of(file_rows, number)
    near = [member.line for member in islice(members(file_rows, group), MOST_MEMBERS)]
    return dump(
        {
            **describe_episode(line, decode),
            "file": file_rows.file.name,
            "group": group,
            "neighbours": near,
            "times": times,
        }
    )


def times_of(file_rows: FileRows, number: int, episode: Trajectory) -> dict[str, Any] | None:
    """Return the seconds that a training episode spent waiting, for each turn that it sampled; None without."""
    folder = file_rows.file.path.parent.parent
    if file_rows.file.step is None:
        return None
    key = (episode.task.key, episode.sample, repeat_of(file_rows.rows, number))
    try:
        times = read_times(folder, file_rows.file.step).get(key)
    except OSError:
        return None
    if times is None or len(times.turns) != len(episode.new_turns):
        return None
    turns = [[plain(turn.generate), plain(turn.environment)] for turn in times.turns]
    return {"queue": plain(times.queue), "opening": plain(times.opening), "turns": turns}


def repeat_of(rows: Array, number: int) -> int:
    """Return the number of earlier lines with the task and sample of a line: episodes are stored in the order in which
    they were asked for."""
    (row,) = rows[rows["line"] == number]
    is_same = (rows["line"] < number) & np.logical_and.reduce([rows[name] == row[name] for name in SAME_START])
    return int(is_same.sum())


def describe_episode(line: Line, decode: Decode | None) -> dict[str, Any]:
    episode = line.episode
    results = results_of_agents([read_earned(turn) for turn in episode.turns], episode.success)
    return {
        "task": {"id": episode.task.id[:MOST_TEXT], "env": episode.task.env[:200], "goal": goal_of(episode)},
        "line": line.stored.line,
        "sample": episode.sample,
        "status": episode.status,
        "success": episode.success,
        "reward": plain(episode.reward),
        "error": episode.error[:MOST_TEXT],
        "spare": episode.spare,
        "fork": fork_of(episode),
        "agents": []
        if is_one(results)
        else [{"agent": result.agent, "reward": plain(result.reward), "success": result.success} for result in results],
        "openings": openings(episode, decode),
        "turns": [
            describe_turn(place, turn, line.turns[place], episode, decode) for place, turn in enumerate(episode.turns)
        ],
    }


def goal_of(episode: Trajectory) -> str:
    goal = episode.task.data.get("goal")
    return goal[:MOST_TEXT] if isinstance(goal, str) else ""


def fork_of(episode: Trajectory) -> dict[str, Any] | None:
    fork = episode.fork
    if fork is None:
        return None
    origin = {"parent": fork.parent, "turn": fork.turn, "token": fork.token}
    return {**origin, "num_forced": len(fork.forced), "learned": fork.learned}


def openings(episode: Trajectory, decode: Decode | None) -> list[dict[str, Any]]:
    """Return the text that each agent was given before its first turn: the prompt's own tokens, or the task where they
    cannot be decoded."""
    if decode is None or not episode.turns:
        return [{"agent": "", **texts(text=joined(episode.task.prompt) + joined(episode.opening))}]
    opening_texts = []
    for agent in dict.fromkeys(turn.agent for turn in episode.turns):
        first = next(turn for turn in episode.turns if turn.agent == agent)
        opening_texts.append({"agent": agent, **texts(text=decoded(first.prompt_ids, decode))})
    return opening_texts


def decoded(ids: Sequence[int], decode: Decode) -> str:
    """Decode ids that may be of another tokenizer."""
    try:
        return decode(ids)
    except Exception:  # the library's errors have no type of their own
        return ""


def joined(parts: Sequence[Any]) -> str:
    return "".join(part.text for part in parts)


def texts(**values: str) -> dict[str, Any]:
    """Return texts of bounded length, and in `cut` the number of characters left out of each that is longer."""
    cut = {name: len(text) - MOST_TEXT for name, text in values.items() if len(text) > MOST_TEXT}
    return {**{name: text[:MOST_TEXT] for name, text in values.items()}, **({"cut": cut} if cut else {})}


def describe_turn(
    place: int, turn: Turn, stored: Mapping[str, Any], episode: Trajectory, decode: Decode | None
) -> dict[str, Any]:
    notes = notes_of(place, stored, len(turn.completion.token_ids))
    tool = turn.tool
    return {
        "agent": turn.agent,
        "kind": turn.action.kind,
        "name": turn.action.name,
        **texts(text=text_of(turn, notes, decode), action=turn.action.text, observation=joined(turn.observation)),
        "reward": plain(turn.reward),
        "rewards": bounded(dict(turn.rewards)),
        "outcomes": bounded(dict(turn.outcomes)),
        "invalid": turn.is_invalid,
        "stop": turn.completion.stop,
        "version": plain(turn.completion.version),
        "num_context": len(turn.prompt_ids),
        "tool": {
            "name": tool.name,
            "calls": plain(tool.num_calls),
            "failed": plain(tool.num_failed),
            "mismatches": plain(tool.num_mismatches),
            "tokens": plain(tool.num_tokens),
        },
        "metrics": bounded(dict(turn.metrics)),
        "reply": bounded(dict(turn.reply)),
        "replayed": episode.fork is not None and place < episode.fork.turn,
        "tokens": tokens_of(place, turn, notes, episode, decode),
    }


def notes_of(place: int, stored: Mapping[str, Any], num: int) -> Mapping[str, Sequence[Any]]:
    try:
        return notes_from_json(stored, num, f"turns[{place}]")
    except CodecError as error:
        raise RefusedError(422, str(error)) from None


def text_of(turn: Turn, notes: Mapping[str, Sequence[Any]], decode: Decode | None) -> str:
    """Return the completion's text; the action's where its tokens cannot be decoded."""
    if "pieces" in notes:
        return "".join(notes["pieces"])
    return turn.action.text if decode is None else decoded(turn.completion.token_ids, decode)


def tokens_of(
    place: int, turn: Turn, notes: Mapping[str, Sequence[Any]], episode: Trajectory, decode: Decode | None
) -> dict[str, Any]:
    """Return a turn's tokens as columns, which are null where nothing was told."""
    ids = turn.completion.token_ids[:MOST_TOKENS]
    owners, masks = whose(ids, place, episode.fork), turn.completion.mask_ids[:MOST_TOKENS]
    cut = len(turn.completion.token_ids) - len(ids)
    return {
        "pieces": pieces_of(ids, notes, decode),
        "logprobs": numbers(turn.completion.logprobs),
        **{name: numbers(notes[name]) if name in notes else None for name in NUMBERS},
        "masked": [mask != 0 for mask in masks] if masks else None,
        "origin": list(owners) if any(owners) else None,
        **({"cut": cut} if cut else {}),
    }


def numbers(column: Sequence[Any]) -> list[float | int | None]:
    return [plain(value) for value in column[:MOST_TOKENS]]


def pieces_of(ids: Sequence[int], notes: Mapping[str, Sequence[Any]], decode: Decode | None) -> list[str]:
    if "pieces" in notes:
        return [piece[:MOST_TEXT] for piece in notes["pieces"][:MOST_TOKENS]]
    return [f"⟨{token}⟩" if decode is None else decoded([token], decode) for token in ids]
