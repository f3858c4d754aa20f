"""A Trajectory as JSON and back, without loss; and a reader that trusts nothing.

A turn's prompt repeats the whole conversation. So it is stored as the number of ids that it shares with the turn before
(its prompt and completion), and the ids that follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, get_args

from rlx.runs.form import (
    FLAG,
    IDS,
    NATURAL,
    NUMBER,
    NUMBERED,
    STRING,
    CodecError,
    Form,
    counted,
    flag,
    float_to_json,
    ids,
    made,
    many,
    named,
    natural,
    number,
    one_of,
    record,
    require_list,
    require_map,
    string,
)
from rlx.types import Action, Completion, Fork, Status, Stop, Task, Text, ToolUse, Trajectory, Turn

FORMAT = 2
"""Number of the format of stored trajectories and run folders. 1 was before turns carried notes and runs chained warm
starts."""

KINDS = ("call", "act", "answer", "invalid", "summary")


Notes = Mapping[str, Sequence[Any]]
"""Results of training for a turn: a column's value for each token of its completion, null where it has none."""
NUMBERS = ("advantages", "entropies", "values", "trained")
NOTES = ("pieces", *NUMBERS)
"""A token's text by itself; its advantage; the entropy of the policy at it and a critic's value of it, before the
update; 1 where the update learned from it, else 0."""


def completion_of(**columns: Any) -> Completion:
    """Build a completion; ValueError where a column that is there has not one value for each token."""
    done = Completion(**columns)
    lengths = [len(done.logprobs), *(len(c) for c in (done.mask_ids, done.chosen_ids, done.watched) if c)]
    if any(length != len(done.token_ids) for length in lengths):
        raise ValueError(f"{len(done.token_ids)} tokens, and columns of {', '.join(map(str, lengths))}")
    return done


TEXTS = many(Form(attrgetter("text"), lambda value, where: Text(string(value, where))))
COMPLETION_KEYS = {
    "tokens": IDS.of("token_ids"),
    "logprobs": NUMBERED,
    "masks": IDS.of("mask_ids").unless(()),
    "chosen": IDS.of("chosen_ids").unless(()),
    "watched": many(NUMBERED).unless(()),
    "stop": one_of(get_args(Stop)),
    "version": NATURAL,
}
COMPLETION = made(completion_of, **COMPLETION_KEYS)
METRICS = named(NUMBER)
OUTCOMES = named(FLAG)
ACTION = made(Action, kind=one_of(KINDS), text=STRING, name=STRING)
TOOL = counted(ToolUse, "num_calls", "num_failed", "num_mismatches", "num_tokens", rare="num_stopped")
TASK = made(Task, id=STRING, prompt=TEXTS, data=Form(dict, require_map), env=STRING.unless(""))
FORK = made(Fork, parent=NATURAL, turn=NATURAL, token=NATURAL, forced=IDS, learned=FLAG.unless(False))


def to_json(trajectory: Trajectory) -> dict[str, Any]:
    """A JSON object with every field of the trajectory; fields at their defaults that say nothing are left out."""
    turns: list[dict[str, Any]] = []
    before: tuple[int, ...] = ()
    for turn in trajectory.turns:
        turns.append(turn_to_json(turn, before))
        before = turn.prompt_ids + turn.completion.token_ids
    return {
        "task": TASK.write(trajectory.task),
        "sample": trajectory.sample,
        "status": trajectory.status,
        "success": trajectory.success,
        **({"error": trajectory.error} if trajectory.error else {}),
        **({"fork": FORK.write(trajectory.fork)} if trajectory.fork else {}),
        **({"opening": TEXTS.write(trajectory.opening)} if trajectory.opening else {}),
        **({"spare": True} if trajectory.spare else {}),
        "turns": turns,
    }


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Return the number of equal leading ids. Compare the full length first: one sequence is usually a prefix."""
    same, end = 0, min(len(a), len(b))
    middle = end
    while same < end:
        if list(a[same:middle]) == list(b[same:middle]):
            same = middle
        else:
            end = middle - 1
        middle = (same + end + 1) // 2
    return same


def turn_to_json(turn: Turn, before: tuple[int, ...]) -> dict[str, Any]:
    """`before` is the whole context at the end of the turn before."""
    shared = common_prefix(before, turn.prompt_ids)
    return {
        "shared": shared,
        "prompt": list(turn.prompt_ids[shared:]),
        **COMPLETION.write(turn.completion),
        "action": ACTION.write(turn.action),
        "observation": TEXTS.write(turn.observation),
        "reward": float_to_json(turn.reward),
        "tool": TOOL.write(turn.tool),
        **({"lent": turn.tool.name} if turn.tool.name else {}),
        **({"metrics": METRICS.write(turn.metrics)} if turn.metrics else {}),
        **({"luck": turn.luck} if turn.luck else {}),
        **({"invalid": True} if turn.invalid else {}),
        **({"agent": turn.agent} if turn.agent else {}),
        **({"rewards": METRICS.write(turn.rewards)} if turn.rewards else {}),
        **({"outcomes": dict(turn.outcomes)} if turn.outcomes else {}),
        **({"reply": METRICS.write(turn.reply)} if turn.reply else {}),
    }


def from_json(value: Any) -> Trajectory:
    """The trajectory, or CodecError with one line that names the field."""
    fields = record(
        value, "trajectory", ("task", "sample", "status", "success", "turns"), ("error", "fork", "opening", "spare")
    )
    turns: list[Turn] = []
    before: tuple[int, ...] = ()
    for index, stored in enumerate(require_list(fields["turns"], "turns")):
        turns.append(turn_from_json(stored, before, f"turns[{index}]"))
        before = turns[-1].prompt_ids + turns[-1].completion.token_ids
    return Trajectory(
        task=TASK.read(fields["task"], "task"),
        sample=natural(fields["sample"], "sample"),
        turns=tuple(turns),
        status=one_of(get_args(Status)).read(fields["status"], "status"),
        success=flag(fields["success"], "success"),
        error=string(fields.get("error", ""), "error"),
        fork=fork_from_json(fields["fork"], turns) if "fork" in fields else None,
        opening=TEXTS.read(fields.get("opening", []), "opening"),
        spare=flag(fields.get("spare", False), "spare"),
    )


def fork_from_json(value: Any, turns: Sequence[Turn]) -> Fork:
    fork: Fork = FORK.read(value, "fork")
    if fork.turn < len(turns) and fork.num_prefix > len(turns[fork.turn].completion.token_ids):
        raise CodecError(f"fork gives turn {fork.turn} more tokens than it has")
    return fork


def turn_from_json(value: Any, before: tuple[int, ...], where: str) -> Turn:
    needed = ("shared", "prompt", "tokens", "logprobs", "stop", "version", "action", "observation", "reward", "tool")
    fields = record(
        value,
        where,
        needed,
        (
            "masks",
            "chosen",
            "watched",
            "lent",
            "metrics",
            "luck",
            "invalid",
            "agent",
            "rewards",
            "outcomes",
            "reply",
            *NOTES,
        ),
    )
    shared = natural(fields["shared"], f"{where}.shared")
    if shared > len(before):
        raise CodecError(f"{where}.shared is {shared}, but the turn before has {len(before)} tokens")
    return Turn(
        prompt_ids=before[:shared] + ids(fields["prompt"], f"{where}.prompt"),
        completion=COMPLETION.read({key: fields[key] for key in COMPLETION_KEYS if key in fields}, where),
        action=ACTION.read(fields["action"], f"{where}.action"),
        observation=TEXTS.read(fields["observation"], f"{where}.observation"),
        reward=number(fields["reward"], f"{where}.reward"),
        tool=replace(TOOL.read(fields["tool"], f"{where}.tool"), name=string(fields.get("lent", ""), f"{where}.lent")),
        metrics=METRICS.read(fields.get("metrics", {}), f"{where}.metrics"),
        luck=natural(fields.get("luck", 0), f"{where}.luck"),
        invalid=flag(fields.get("invalid", False), f"{where}.invalid"),
        agent=string(fields.get("agent", ""), f"{where}.agent"),
        rewards=METRICS.read(fields.get("rewards", {}), f"{where}.rewards"),
        outcomes=OUTCOMES.read(fields.get("outcomes", {}), f"{where}.outcomes"),
        reply=METRICS.read(fields.get("reply", {}), f"{where}.reply"),
    )


def whose(ids: Sequence[int], turn: int, fork: Fork | None) -> list[str]:
    """Label each token of a turn: `replayed` or `forced` by a fork; empty for the episode's sampled tokens."""
    if fork is None or turn > fork.turn:
        return [""] * len(ids)
    if turn < fork.turn:
        return ["replayed"] * len(ids)
    return ["replayed"] * fork.token + ["forced"] * len(fork.forced) + [""] * (len(ids) - fork.num_prefix)


def notes_from_json(value: Mapping[str, Any], num: int, where: str) -> Notes:
    """The notes of a stored turn of `num` tokens."""
    columns = {name: require_list(value[name], f"{where}.{name}") for name in NOTES if name in value}
    for name, column in columns.items():
        if len(column) != num:
            raise CodecError(f"{where} has {num} tokens and {len(column)} {name}")
        for entry in column:
            if name == "pieces":
                string(entry, f"{where}.pieces")
            elif entry is not None:
                number(entry, f"{where}.{name}")
    return columns
