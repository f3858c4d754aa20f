"""One row of numbers for each line of a file of episodes.

A line may come from anyone: what cannot be read becomes no row, and is counted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, get_args

from rlx.runs.results import Earned, Measured, is_one, results_of_agents, stored_earned
from rlx.types import Status

LONGEST_NAME = 300
"""Characters of a name; a longer one is cut and ends with its checksum."""
MOST_NAMED = 20
"""Damaged lines that are named; the others are counted."""
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError)
"""Errors that reading a line may raise that no run wrote."""
STATUSES: tuple[str, ...] = get_args(Status)
OTHERS = 62
"""Bit of `Row.replies` for metrics beyond the first 62. SQLite's integers have 63 bits beside their sign."""


class Row(NamedTuple):
    """Columns of one episode."""

    offset: int
    """Offset of its line."""
    size: int
    reward: float
    """Reward of the measured agent, and its `success`."""
    replies: int
    """Bits of the protocol's metrics that are above 0 in a turn (`Head.replies`)."""
    line: int
    """Number of the line, from 1."""
    group: int
    sample: int
    parent: int
    """Sample that a fork left; -1: no fork."""
    task: int
    """Number of the name in `Head.strings`; so is `env`."""
    env: int
    turns: int
    tokens: int
    """Tokens of completions."""
    new_tokens: int
    """The same, without what a fork replays or was forced to say."""
    calls: int
    failed: int
    """Failed tool calls."""
    invalid: int
    """Turns that are invalid."""
    only_action: int
    """Turns whose reply only states the action."""
    trained: int
    """Tokens that the update learned from; 0 where none was told of."""
    success: int
    status: int
    """Number in STATUSES."""
    spare: int
    several: int
    """1 if several agents act."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """State of a file up to its last whole line, with the names that its rows number."""

    state: tuple[int, int, int] = (-1, -1, -1)
    """Size, time of the last change and inode of the file when it was read."""
    covers: int = 0
    """Bytes of its whole lines."""
    lines: int = 0
    checksum: str = ""
    measured: str = ""
    """Agents by which rewards were chosen, where several act (`measure_of`)."""
    strings: tuple[str, ...] = ()
    """Names of tasks and environments."""
    replies: tuple[str, ...] = ()
    damaged: tuple[int, ...] = ()
    """Numbers of the first lines that cannot be read."""
    num_damaged: int = 0
    worded: int = 0
    """Number of the first lines, whose episodes' words are indexed."""

    @property
    def num_rows(self) -> int:
        return self.lines - self.num_damaged

    @property
    def is_torn(self) -> bool:
        """The file ends within a line, which is being written or was cut."""
        return self.state[0] > self.covers

    @property
    def damage(self) -> str:
        """Return what cannot be read, in one line; empty where all can."""
        if not self.num_damaged:
            return ""
        named = ", ".join(map(str, self.damaged)) + ("…" if self.num_damaged > len(self.damaged) else "")
        return f"{self.num_damaged} of {self.lines} lines cannot be read: {named}"


class Builder:
    """Rows of a file's lines, one after the other, from where an earlier head ends."""

    def __init__(self, measured: Callable[[], Measured], start: Head) -> None:
        self._find_measured, self.start = measured, start
        self.strings = {text: number for number, text in enumerate(start.strings)}
        self.replies = {text: number for number, text in enumerate(start.replies)}
        self.damaged, self.num_damaged = list(start.damaged), start.num_damaged
        self.covers, self.lines = start.covers, start.lines

    @cached_property
    def measured(self) -> Measured:
        """Configuration is read only where several agents act."""
        return self._find_measured()

    def head(self) -> Head:
        """Return the head of all rows so far."""
        has_measured = "measured" in self.__dict__
        return replace(
            self.start,
            covers=self.covers,
            lines=self.lines,
            measured=measure_of(self.measured) if has_measured else self.start.measured,
            strings=tuple(self.strings),
            replies=tuple(self.replies)[:OTHERS],
            damaged=tuple(self.damaged),
            num_damaged=self.num_damaged,
        )

    def rows(
        self, lines: Iterable[tuple[bytes, int]], num_bytes: int, progress: Callable[[int, int], None] | None = None
    ) -> Iterator[Row]:
        """Yield the rows of lines, which come with their sizes; a line that cannot be read is counted."""
        for raw, size in lines:
            self.lines += 1
            try:
                row = self.row_of(json.loads(raw), size)
            except UNREADABLE:
                self.num_damaged += 1
                self.damaged += [self.lines] * (len(self.damaged) < MOST_NAMED)
            else:
                yield row
            self.covers += size
            if progress is not None:
                progress(self.covers, num_bytes)

    def row_of(self, line: Mapping[str, Any], size: int) -> Row:
        stored, group = line["trajectory"], line.get("group", 0)
        turns, fork = stored["turns"], stored.get("fork")
        reward, success, several = self.outcome(stored)
        tools = [turn["tool"] for turn in turns]
        replies = [name for turn in turns for name in above_zero(turn)]
        return Row(
            offset=self.covers,
            size=size,
            reward=reward,
            replies=self.bits(replies),
            line=self.lines,
            group=clip(group),
            sample=read_signed(stored["sample"]),
            parent=-1 if fork is None else read_signed(fork["parent"]),
            task=self.number(str(stored["task"]["id"])),
            env=self.number(str(stored["task"].get("env", ""))),
            turns=clip(len(turns)),
            tokens=clip(sum(len(turn["tokens"]) for turn in turns)),
            new_tokens=clip(num_sampled(turns, fork)),
            calls=clip(sum(int(tool[0]) for tool in tools)),
            failed=clip(sum(int(tool[1]) for tool in tools)),
            invalid=sum(is_invalid(turn) for turn in turns),
            only_action=replies.count("only_action"),
            trained=clip(sum(map(num_trained, turns))),
            success=success,
            status=STATUSES.index(stored["status"]),
            spare=bool(stored.get("spare", False)),
            several=several,
        )

    def outcome(self, stored: Mapping[str, Any]) -> tuple[float, bool, bool]:
        """Return reward and success of the measured agent, and whether several act."""
        turns: Sequence[Mapping[str, Any]] = stored["turns"]
        success = bool(stored["success"])
        if not any("agent" in turn for turn in turns):
            return sum(float(turn["reward"]) for turn in turns), success, False
        earned: list[Earned] = [stored_earned(turn) for turn in turns]
        results = results_of_agents(earned, success)
        if is_one(results):
            return results[0].reward, success, False
        agent = self.measured.of(str(stored["task"].get("env", "")), results)
        chosen = next((result for result in results if result.agent == agent), results[0])
        return chosen.reward, chosen.success, True

    def number(self, text: str) -> int:
        return self.strings.setdefault(short_name(text), len(self.strings))

    def bits(self, names: Iterable[str]) -> int:
        bits = 0
        for name in names:
            bits |= 1 << min(self.replies.setdefault(short_name(name), len(self.replies)), OTHERS)
        return bits


def above_zero(turn: Mapping[str, Any]) -> list[str]:
    return [str(name).rpartition("/")[2] for name, value in turn.get("reply", {}).items() if float(value) > 0]


def is_invalid(turn: Mapping[str, Any]) -> bool:
    return bool(turn.get("invalid", False)) or turn["action"]["kind"] == "invalid"


def num_trained(turn: Mapping[str, Any]) -> int:
    return sum(value == 1 for value in turn["trained"]) if "trained" in turn else 0


def num_sampled(turns: Sequence[Mapping[str, Any]], fork: Mapping[str, Any] | None) -> int:
    """Return the number of tokens that an episode sampled itself (`Trajectory.num_sampled`)."""
    if fork is None:
        return sum(len(turn["tokens"]) for turn in turns)
    sampled = turns[int(fork["turn"]) :]
    num_given = int(fork["token"]) + len(fork["forced"]) if sampled else 0
    return sum(len(turn["tokens"]) for turn in sampled) - num_given


def clip(value: Any) -> int:
    return min(max(int(value), 0), 2**32 - 1)


def read_signed(value: Any) -> int:
    return min(max(int(value), 0), 2**31 - 1)


def short_name(text: str) -> str:
    """Return a name of bounded length: equal for equal texts, and for no others."""
    if len(text) <= LONGEST_NAME:
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{text[: LONGEST_NAME - 20]}… {digest}"


def measure_of(measured: Measured) -> str:
    """Return the agents that are measured as text, to compare."""
    return json.dumps([dict(measured.agents), sorted(measured.policies)], sort_keys=True)
