"""A Trajectory as JSON and back, without loss; and a reader that trusts nothing.

A turn's prompt repeats the whole conversation, so it is stored as how many ids it shares with the turn before (its
prompt and completion) and the ids that follow. JSON has no infinities: a float that is not finite is a string.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, NoReturn, get_args

from rlx.types import Action, Completion, Fork, Part, Status, Stop, Task, Text, ToolUse, Trajectory, Turn

FORMAT = 2
"""Of stored trajectories and of run folders; 1 was before turns carried notes and runs chained warm starts."""

LARGEST_ID = 2**31 - 1
NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
KINDS = ("call", "act", "answer", "invalid")


Notes = Mapping[str, Sequence[Any]]
"""What training made of a turn: a column's value for each token of its completion, null where it has none."""
NUMBERS = ("advantages", "entropies", "values", "trained")
NOTES = ("pieces", *NUMBERS)
"""A token's text by itself; its advantage; the entropy of the policy at it and a critic's value of it, before the
update; 1 where the update learned from it, else 0."""


class CodecError(ValueError):
    """A value that is not what the format says; the message is one line that names it."""


def parse(raw: bytes) -> Any:
    """JSON by the letter, without NaN; CodecError for anything else."""
    try:
        return json.loads(raw, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not JSON: {type(error).__name__}") from None


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def to_json(trajectory: Trajectory) -> dict[str, Any]:
    """A JSON object with every field of the trajectory; fields at their defaults that say nothing are left out."""
    turns: list[dict[str, Any]] = []
    before: tuple[int, ...] = ()
    for turn in trajectory.turns:
        turns.append(turn_to_json(turn, before))
        before = turn.prompt_ids + turn.completion.token_ids
    task = trajectory.task
    return {
        "task": {
            "id": task.id,
            "prompt": [part.text for part in task.prompt],
            "data": dict(task.data),
            **({"env": task.env} if task.env else {}),
        },
        "sample": trajectory.sample,
        "status": trajectory.status,
        "success": trajectory.success,
        **({"error": trajectory.error} if trajectory.error else {}),
        **({"fork": fork_to_json(trajectory.fork)} if trajectory.fork else {}),
        "turns": turns,
    }


def fork_to_json(fork: Fork) -> dict[str, Any]:
    return {"parent": fork.parent, "turn": fork.turn, "token": fork.token, "forced": list(fork.forced)}


def turn_to_json(turn: Turn, before: tuple[int, ...]) -> dict[str, Any]:
    """`before` is the whole context at the end of the turn before."""
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(turn.prompt_ids, before)))
    done, tool = turn.completion, turn.tool
    return {
        "shared": shared,
        "prompt": list(turn.prompt_ids[shared:]),
        "tokens": list(done.token_ids),
        "logprobs": [float_to_json(value) for value in done.logprobs],
        **({"masks": list(done.mask_ids)} if done.mask_ids else {}),
        **({"chosen": list(done.chosen_ids)} if done.chosen_ids else {}),
        **({"watched": watched_to_json(done)} if done.watched else {}),
        "stop": done.stop,
        "version": done.version,
        "action": {"kind": turn.action.kind, "text": turn.action.text, "name": turn.action.name},
        "observation": [part.text for part in turn.observation],
        "reward": float_to_json(turn.reward),
        "tool": [tool.num_calls, tool.num_failed, tool.num_mismatches, tool.num_tokens],
        **({"lent": tool.name} if tool.name else {}),
        **({"metrics": {name: float_to_json(value) for name, value in turn.metrics.items()}} if turn.metrics else {}),
    }


def float_to_json(value: float) -> float | str:
    return float(value) if math.isfinite(value) else str(float(value))


def from_json(value: Any) -> Trajectory:
    """The trajectory, or CodecError with one line that names the field."""
    fields = record(value, "trajectory", ("task", "sample", "status", "success", "turns"), ("error", "fork"))
    turns: list[Turn] = []
    before: tuple[int, ...] = ()
    for index, stored in enumerate(listed(fields["turns"], "turns")):
        turns.append(turn_from_json(stored, before, f"turns[{index}]"))
        before = turns[-1].prompt_ids + turns[-1].completion.token_ids
    return Trajectory(
        task=task_from_json(fields["task"]),
        sample=whole(fields["sample"], "sample"),
        turns=tuple(turns),
        status=one_of(fields["status"], get_args(Status), "status"),
        success=flag(fields["success"], "success"),
        error=string(fields.get("error", ""), "error"),
        fork=fork_from_json(fields["fork"], turns) if "fork" in fields else None,
    )


def task_from_json(value: Any) -> Task:
    fields = record(value, "task", ("id", "prompt", "data"), ("env",))
    if not isinstance(fields["data"], dict):
        raise CodecError("task.data is not an object")
    return Task(
        id=string(fields["id"], "task.id"),
        prompt=parts(fields["prompt"], "task.prompt"),
        data=fields["data"],
        env=string(fields.get("env", ""), "task.env"),
    )


def fork_from_json(value: Any, turns: Sequence[Turn]) -> Fork:
    fields = record(value, "fork", ("parent", "turn", "token", "forced"))
    fork = Fork(
        parent=whole(fields["parent"], "fork.parent"),
        turn=whole(fields["turn"], "fork.turn"),
        token=whole(fields["token"], "fork.token"),
        forced=ids(fields["forced"], "fork.forced"),
    )
    if fork.turn < len(turns) and fork.num_given > len(turns[fork.turn].completion.token_ids):
        raise CodecError(f"fork gives turn {fork.turn} more tokens than it has")
    return fork


def turn_from_json(value: Any, before: tuple[int, ...], where: str) -> Turn:
    needed = ("shared", "prompt", "tokens", "logprobs", "stop", "version", "action", "observation", "reward", "tool")
    fields = record(value, where, needed, ("masks", "chosen", "watched", "lent", "metrics", *NOTES))
    shared = whole(fields["shared"], f"{where}.shared")
    if shared > len(before):
        raise CodecError(f"{where}.shared is {shared}, but the turn before has {len(before)} tokens")
    return Turn(
        prompt_ids=before[:shared] + ids(fields["prompt"], f"{where}.prompt"),
        completion=completion_from_json(fields, where),
        action=action_from_json(fields["action"], f"{where}.action"),
        observation=parts(fields["observation"], f"{where}.observation"),
        reward=number(fields["reward"], f"{where}.reward"),
        tool=replace(
            tool_from_json(fields["tool"], f"{where}.tool"), name=string(fields.get("lent", ""), f"{where}.lent")
        ),
        metrics=metrics_from_json(fields.get("metrics", {}), f"{where}.metrics"),
    )


def notes_from_json(value: Mapping[str, Any], num: int, where: str) -> Notes:
    """The notes of a stored turn of `num` tokens."""
    found = {name: listed(value[name], f"{where}.{name}") for name in NOTES if name in value}
    for name, column in found.items():
        if len(column) != num:
            raise CodecError(f"{where} has {num} tokens and {len(column)} {name}")
        for one in column:
            if name == "pieces":
                string(one, f"{where}.pieces")
            elif one is not None:
                number(one, f"{where}.{name}")
    return found


def completion_from_json(fields: Mapping[str, Any], where: str) -> Completion:
    tokens = ids(fields["tokens"], f"{where}.tokens")
    logprobs = tuple(number(value, f"{where}.logprobs") for value in listed(fields["logprobs"], f"{where}.logprobs"))
    masks, chosen = (ids(fields.get(name, []), f"{where}.{name}") for name in ("masks", "chosen"))
    watched = watched_from_json(fields.get("watched", []), f"{where}.watched")
    columns = (masks, chosen, watched)
    if len(logprobs) != len(tokens) or any(column and len(column) != len(tokens) for column in columns):
        raise CodecError(
            f"{where} has {len(tokens)} tokens, {len(logprobs)} logprobs, {len(masks)} masks, {len(chosen)} chosen "
            f"and {len(watched)} watched"
        )
    return Completion(
        token_ids=tokens,
        logprobs=logprobs,
        mask_ids=masks,
        chosen_ids=chosen,
        watched=watched,
        stop=one_of(fields["stop"], get_args(Stop), f"{where}.stop"),
        version=whole(fields["version"], f"{where}.version"),
    )


def watched_to_json(done: Completion) -> list[list[float | str]]:
    return [[float_to_json(value) for value in values] for values in done.watched]


def watched_from_json(value: Any, where: str) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(number(one, where) for one in listed(values, where)) for values in listed(value, where))


def action_from_json(value: Any, where: str) -> Action:
    fields = record(value, where, ("kind", "text", "name"))
    return Action(
        kind=one_of(fields["kind"], KINDS, f"{where}.kind"),
        text=string(fields["text"], f"{where}.text"),
        name=string(fields["name"], f"{where}.name"),
    )


def tool_from_json(value: Any, where: str) -> ToolUse:
    counts = [whole(count, where) for count in listed(value, where)]
    if len(counts) != 4:
        raise CodecError(f"{where} has {len(counts)} counts, not 4")
    return ToolUse(num_calls=counts[0], num_failed=counts[1], num_mismatches=counts[2], num_tokens=counts[3])


def metrics_from_json(value: Any, where: str) -> dict[str, float]:
    if not isinstance(value, dict):
        raise CodecError(f"{where} is not an object")
    return {name: number(one, where) for name, one in value.items()}


def parts(value: Any, where: str) -> tuple[Part, ...]:
    return tuple(Text(string(text, where)) for text in listed(value, where))


def ids(value: Any, where: str) -> tuple[int, ...]:
    return tuple(whole(number, where, LARGEST_ID) for number in listed(value, where))


def record(value: Any, where: str, needed: Sequence[str], allowed: Sequence[str] = ()) -> Mapping[str, Any]:
    """An object with all of `needed` and nothing that is not allowed."""
    if not isinstance(value, dict):
        raise CodecError(f"{where} is not an object")
    missing = [key for key in needed if key not in value]
    unknown = [key for key in value if key not in needed and key not in allowed]
    if missing or unknown:
        raise CodecError(
            f"{where} lacks {missing[0]!r}" if missing else f"{where} has an unknown key {unknown[0]!r:.60}"
        )
    return value


def listed(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise CodecError(f"{where} is not a list")
    return value


def string(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise CodecError(f"{where} is not a string")
    return value


def flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise CodecError(f"{where} is not true or false")
    return value


def whole(value: Any, where: str, largest: int = 2**63 - 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= largest:
        raise CodecError(f"{where} is not a whole number from 0 to {largest}")
    return value


def number(value: Any, where: str) -> float:
    if isinstance(value, str) and value in NOT_FINITE:
        return NOT_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CodecError(f"{where} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise CodecError(f"{where} is too large a number") from None


def one_of(value: Any, choices: Sequence[str], where: str) -> Any:
    if value not in choices:
        raise CodecError(f"{where} is not one of {', '.join(choices)}")
    return value
