"""`api/group`: all episodes of a task in a step, in short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from rlx.base.http import RefusedError
from rlx.runs.decode import Decode
from rlx.runs.rows import Row
from rlx.types import Turn
from rlx.view.episode import Line, notes_of, read_row, text_of
from rlx.view.limits import MOST_MEMBERS, dump, plain
from rlx.view.table import FileRows, members

SHORT = 200
"""Characters of a turn's text."""


def group_answer(file_rows: FileRows, group: int, decode: Decode | None) -> bytes:
    rows = list(islice(members(file_rows, group), MOST_MEMBERS + 1))
    if not rows:
        raise RefusedError(404, f"{file_rows.file.name} has no group {group}")
    episodes = [describe_member(file_rows, row, decode) for row in rows[:MOST_MEMBERS]]
    return dump({"members": episodes, "more": len(rows) > MOST_MEMBERS})


def describe_member(file_rows: FileRows, row: Row, decode: Decode | None) -> dict[str, Any]:
    """Describe an episode; for an unreadable episode, its row and the reason."""
    row_fields = {
        "line": row.line,
        "sample": row.sample,
        "parent": None if row.parent < 0 else row.parent,
        "reward": plain(row.reward),
        "success": bool(row.success),
        "spare": bool(row.spare),
    }
    try:
        line = read_row(file_rows.file, row)
        turns = [describe_turn(place, turn, line, decode) for place, turn in enumerate(line.episode.turns)]
    except RefusedError as error:
        return {**row_fields, "fork_turn": None, "fork_token": None, "turns": [], "damage": str(error)}
    fork = line.episode.fork
    left = {"fork_turn": fork.turn if fork else None, "fork_token": fork.token if fork else None}
    return {**row_fields, **left, "task": line.episode.task.id[:SHORT], "turns": turns}


def describe_turn(place: int, turn: Turn, line: Line, decode: Decode | None) -> dict[str, Any]:
    notes = notes_of(place, line.turns[place], len(turn.completion.token_ids))
    return {
        "agent": turn.agent,
        "kind": turn.action.kind,
        "name": turn.action.name,
        "text": text_of(turn, notes, decode)[:SHORT],
        "reward": plain(turn.reward),
        "tokens": len(turn.completion.token_ids),
        "advantage": mean(notes, "advantages"),
        "value": mean(notes, "values"),
        "trained": sum(value == 1 for value in notes.get("trained", ())),
        "entropy": mean(notes, "entropies"),
    }


def mean(notes: Mapping[str, Sequence[Any]], name: str) -> float | int | None:
    """Return the mean of a column over the tokens that have a value; None where none has."""
    values = [value for value in map(plain, notes.get(name, ())) if value is not None]
    return plain(sum(values) / len(values)) if values else None
