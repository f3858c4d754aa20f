"""Typed columns of a file of episodes, stored beside it as `.NAME.columns`: a row of fixed size for each line.

    magic, length of the header      8 + 4 bytes
    header, JSON                     bytes of the file that it covers, lines, names, damaged lines, checksum
    rows                             `Row`, one after the other

The checksum is of the beginning and the end of the covered bytes. A file that grew keeps its rows, and only the lines
that follow are parsed; a file that was cut back or replaced is read again. So are older files, which have no columns.
Nothing here trusts its input, as a run folder may come from anyone.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, get_args

from rlx.record.folder import ASIDE
from rlx.record.plain_yaml import read_bounded
from rlx.record.results import Earned, Measured, is_one, measured_in, results_of_agents, stored_earned
from rlx.record.sound import open_regular
from rlx.types import Status

MAGIC = b"rlxcols1"
LENGTH = struct.Struct("<I")
LARGEST = 2**31
"""Bytes of a file of columns."""
LONGEST = 2**26
"""Bytes of a line; a longer one counts as damaged."""
LONGEST_NAME = 300
"""Characters of a name; a longer one is cut and ends with its checksum."""
MOST_NAMED = 20
"""Damaged lines that are named; the others are counted."""
HEAD, TAIL = 4096, 65536
"""Bytes at the beginning and at the end of what is covered that the checksum is of."""
MORE = 8
"""Columns are written again once the new bytes are this part of the covered ones: 1/8."""
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError)
"""Errors that reading a line may raise that no run wrote."""
STATUSES: tuple[str, ...] = get_args(Status)
OTHERS = 63
"""Bit of `Row.replies` for metrics beyond the first 63."""

Progress = Callable[[int, int], None]
"""Function of the bytes that were read and of all."""


class Row(NamedTuple):
    """Columns of one episode."""

    at: int
    """Offset of its line."""
    size: int
    reward: float
    """Reward of the measured agent, and its `success`."""
    replies: int
    """Bits of the protocol's metrics that are above 0 in a turn (`Columns.replies`)."""
    line: int
    """Number of the line, from 1."""
    group: int
    sample: int
    parent: int
    """Sample that a fork left; -1: no fork."""
    task: int
    """Number of the name in `Columns.strings`; so is `env`."""
    env: int
    turns: int
    tokens: int
    """Tokens of completions."""
    own_tokens: int
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


FORMATS = "QQdQIIiiIIIIIIIIIIBBBB"
ROW = struct.Struct("<" + FORMATS)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Columns of a file, up to its last whole line."""

    state: tuple[int, int] = (-1, -1)
    """Size and time of the file when it was read."""
    covers: int = 0
    """Bytes of its whole lines."""
    lines: int = 0
    check: str = ""
    measured: str = ""
    """Agents by which rewards were chosen, where several act (`measure_of`)."""
    strings: tuple[str, ...] = ()
    """Names of tasks and environments."""
    replies: tuple[str, ...] = ()
    damaged: tuple[int, ...] = ()
    """Numbers of the first lines that cannot be read."""
    num_damaged: int = 0
    raw: bytes = b""
    """Rows, one after the other."""

    @property
    def num_rows(self) -> int:
        return len(self.raw) // ROW.size

    @property
    def is_torn(self) -> bool:
        """The file ends within a line: one being written, or one that was cut."""
        return self.state[0] > self.covers

    def rows(self) -> Iterator[Row]:
        return map(Row._make, ROW.iter_unpack(self.raw))

    def row(self, place: int) -> Row:
        return Row._make(ROW.unpack_from(self.raw, place * ROW.size))

    def name(self, number: int) -> str:
        return self.strings[number] if number < len(self.strings) else ""

    @cached_property
    def damage(self) -> str:
        """Return what cannot be read, in one line; empty where all can."""
        if not self.num_damaged:
            return ""
        named = ", ".join(map(str, self.damaged)) + ("…" if self.num_damaged > len(self.damaged) else "")
        return f"{self.num_damaged} of {self.lines} lines cannot be read: {named}"

    def find(self, line: int) -> Row | None:
        """Return the row of a line; None if the line has none."""
        low, high = 0, self.num_rows
        while low < high:
            middle = (low + high) // 2
            row = self.row(middle)
            if row.line == line:
                return row
            low, high = (middle + 1, high) if row.line < line else (low, middle)
        return None


class Builder:
    """Rows that are added to columns."""

    def __init__(self, start: Columns, measured: Callable[[], Measured]) -> None:
        self.start, self._find_measured = start, measured
        self.strings = {text: number for number, text in enumerate(start.strings)}
        self.replies = {text: number for number, text in enumerate(start.replies)}
        self.damaged, self.num_damaged = list(start.damaged), start.num_damaged
        self.covers, self.lines = start.covers, start.lines
        self.raw = bytearray(start.raw)

    @cached_property
    def measured(self) -> Measured:
        """Configuration is read only where several agents act."""
        return self._find_measured()

    def add(self, size: int, found: Callable[[], Any]) -> None:
        """Add the next line, of `size` bytes; `found` parses it."""
        self.lines += 1
        try:
            self.raw += ROW.pack(*self.row_of(found(), size))
        except (*UNREADABLE, struct.error):
            self.num_damaged += 1
            self.damaged += [self.lines] * (len(self.damaged) < MOST_NAMED)
        self.covers += size

    def row_of(self, line: Mapping[str, Any], size: int) -> Row:
        stored, group = line["trajectory"], line.get("group", 0)
        turns, fork = stored["turns"], stored.get("fork")
        reward, success, several = self.outcome(stored)
        tools = [turn["tool"] for turn in turns]
        replies = [name for turn in turns for name in above_zero(turn)]
        return Row(
            at=self.covers,
            size=size,
            reward=reward,
            replies=self.bits(replies),
            line=self.lines,
            group=clip(group),
            sample=signed(stored["sample"]),
            parent=-1 if fork is None else signed(fork["parent"]),
            task=self.number(str(stored["task"]["id"])),
            env=self.number(str(stored["task"].get("env", ""))),
            turns=clip(len(turns)),
            tokens=clip(sum(len(turn["tokens"]) for turn in turns)),
            own_tokens=clip(own_tokens(turns, fork)),
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
        found = next((result for result in results if result.agent == agent), results[0])
        return found.reward, found.success, True

    def number(self, text: str) -> int:
        return self.strings.setdefault(short_name(text), len(self.strings))

    def bits(self, names: Iterable[str]) -> int:
        found = 0
        for name in names:
            found |= 1 << min(self.replies.setdefault(short_name(name), len(self.replies)), OTHERS)
        return found

    def columns(self, state: tuple[int, int], check: str) -> Columns:
        known = "measured" in self.__dict__
        return Columns(
            state=state,
            covers=self.covers,
            lines=self.lines,
            check=check,
            measured=measure_of(self.measured) if known else self.start.measured,
            strings=tuple(self.strings),
            replies=tuple(self.replies)[:OTHERS],
            damaged=tuple(self.damaged),
            num_damaged=self.num_damaged,
            raw=bytes(self.raw),
        )


def above_zero(turn: Mapping[str, Any]) -> list[str]:
    return [str(name).rpartition("/")[2] for name, value in turn.get("reply", {}).items() if float(value) > 0]


def is_invalid(turn: Mapping[str, Any]) -> bool:
    return bool(turn.get("invalid", False)) or turn["action"]["kind"] == "invalid"


def num_trained(turn: Mapping[str, Any]) -> int:
    return sum(value == 1 for value in turn["trained"]) if "trained" in turn else 0


def own_tokens(turns: Sequence[Mapping[str, Any]], fork: Mapping[str, Any] | None) -> int:
    """Return the number of tokens that an episode sampled itself (`Trajectory.num_sampled`)."""
    if fork is None:
        return sum(len(turn["tokens"]) for turn in turns)
    own = turns[int(fork["turn"]) :]
    given = int(fork["token"]) + len(fork["forced"]) if own else 0
    return sum(len(turn["tokens"]) for turn in own) - given


def clip(value: Any) -> int:
    return min(max(int(value), 0), 2**32 - 1)


def signed(value: Any) -> int:
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


def columns_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.columns")


def read_columns(path: Path, progress: Progress | None = None, known: Columns | None = None) -> Columns:
    """Return the columns of a file as it is now, from `known` or stored ones where these hold; OSError if the file
    cannot be read. New ones are stored where the folder can be written."""
    with open_regular(path) as file:
        state = state_of(file)
        stored = known if known is not None else load_columns(path)
        if stored is not None and not holds(stored, path, file, state):
            stored = None if known is None else load_columns(path)
            stored = stored if stored is not None and holds(stored, path, file, state) else None
        if stored is not None and stored.state == state:
            return stored
        start = stored or Columns()
        found = extend(start, file, state, lambda: measured_in(path.parent.parent), progress)
    if found.covers - start.covers > start.covers // MORE:
        write_columns(path, found)
    return found


def holds(stored: Columns, path: Path, file: BinaryIO, state: tuple[int, int]) -> bool:
    """Return True if the file still begins with what the columns cover."""
    if stored.measured and stored.measured != measure_of(measured_in(path.parent.parent)):
        return False
    return stored.state == state or (stored.covers <= state[0] and check_of(file, stored.covers) == stored.check)


def extend(
    start: Columns,
    file: BinaryIO,
    state: tuple[int, int],
    measured: Callable[[], Measured],
    progress: Progress | None = None,
) -> Columns:
    """Return columns with the whole lines that follow those covered."""
    builder = Builder(start, measured)
    file.seek(start.covers)
    for raw, size in whole_lines(file, state[0] - start.covers):
        builder.add(size, lambda raw=raw: json.loads(raw))  # type: ignore[misc]
        if progress is not None:
            progress(builder.covers, state[0])
    return builder.columns(state, check_of(file, builder.covers))


def whole_lines(file: BinaryIO, left: int) -> Iterator[tuple[bytes, int]]:
    """Yield the whole lines of the next `left` bytes, with their sizes; empty bytes for a line that is too long."""
    while left > 0:
        raw = file.readline(min(left, LONGEST))
        size = len(raw)
        while raw and not raw.endswith(b"\n") and size < left:
            more = file.readline(min(left - size, LONGEST))
            size, raw = size + len(more), b"\n" if more.endswith(b"\n") else b"-" * bool(more)
        if not raw.endswith(b"\n"):
            return
        yield raw, size
        left -= size


def bytes_of(file: BinaryIO, row: Row) -> bytes:
    """Return the line of a row, with its newline; ValueError where the columns say what cannot be."""
    if row.size > LONGEST or row.at >= 2**63:
        raise ValueError(f"line {row.line} has {row.size:,} bytes")
    file.seek(row.at)
    return file.read(row.size)


def check_of(file: BinaryIO, covers: int) -> str:
    """Return a checksum of the beginning and the end of the covered bytes."""
    file.seek(0)
    head = file.read(min(HEAD, covers))
    file.seek(max(0, covers - TAIL))
    return hashlib.sha256(head + file.read(min(TAIL, covers))).hexdigest()[:32]


def state_of(file: BinaryIO) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def load_columns(path: Path) -> Columns | None:
    """Return the stored columns of a file; None where there are none that are whole."""
    try:
        data = read_bounded(columns_path(path), LARGEST)
        return columns_of(data)
    except (OSError, *UNREADABLE, struct.error):
        return None


def columns_of(data: bytes) -> Columns:
    (length,) = LENGTH.unpack_from(data, len(MAGIC))
    begin = len(MAGIC) + LENGTH.size
    header = json.loads(data[begin : begin + length])
    found = Columns(
        state=(int(header["state"][0]), int(header["state"][1])),
        covers=int(header["covers"]),
        lines=int(header["lines"]),
        check=str(header["check"]),
        measured=str(header["measured"]),
        strings=tuple(map(str, header["strings"])),
        replies=tuple(map(str, header["replies"])),
        damaged=tuple(map(int, header["damaged"]))[:MOST_NAMED],
        num_damaged=int(header["num_damaged"]),
        raw=data[begin + length :],
    )
    if data[: len(MAGIC)] != MAGIC or len(found.raw) != header["rows"] * ROW.size or found.covers < 0:
        raise ValueError("no columns")
    return found


def pack_columns(columns: Columns) -> bytes:
    header = json.dumps(asdict(replace(columns, raw=b"")) | {"raw": "", "rows": columns.num_rows}).encode()
    return MAGIC + LENGTH.pack(len(header)) + header + columns.raw


def write_columns(path: Path, columns: Columns) -> None:
    """Store the columns of a file beside it. Nothing happens if they cannot be written."""
    aside = columns_path(path).with_suffix(f".{secrets.token_hex(4)}{ASIDE}")
    with suppress(OSError):
        try:
            with open(aside, "xb") as file:
                file.write(pack_columns(columns))
            os.replace(aside, columns_path(path))
        finally:
            aside.unlink(missing_ok=True)


def save_columns(path: Path, lines: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
    """Store the columns of a file that was just written, from its lines' sizes and values."""
    builder = Builder(Columns(), lambda: measured_in(path.parent.parent))
    for size, value in lines:
        builder.add(size, lambda value=value: value)  # type: ignore[misc]
    with suppress(OSError), open_regular(path) as file:
        write_columns(path, builder.columns(state_of(file), check_of(file, builder.covers)))
