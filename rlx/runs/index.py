"""The index of a file of episodes: an SQLite file with a row for each episode, and their words once they are searched.

An index is derived from its file: nothing needs it, and it is made again when it is missing, stale or damaged. It
stands in rlx's cache, never in the run's folder, because a run folder may come from anyone: SQLite does not parse bytes
of strangers, and no row of a stranger's index is shown. An index never changes: one process writes a new one aside and
renames it, and readers take no locks, as NFS and Lustre may have none.

    head       one row of JSON (`Head`): state and checksum of the file, names, damaged lines
    episodes   a row for each line that can be read (`Row`), by the line's number
    words      full text of the episodes of the first `Head.worded` lines, by the same number

The checksum is of the beginning and the end of the covered bytes. A file that grew keeps its rows, and only the lines
that follow are parsed; a file that was cut back or replaced is read again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from rlx.base.regular import ASIDE, LONGEST, open_regular
from rlx.runs.cache import VIEW, cache_folder, scratch_folder
from rlx.runs.results import measured_in
from rlx.runs.rows import UNREADABLE, Builder, Head, Row, measure_of

VERSION = 1
"""Number of the tables and of what their columns mean; an index with another one is made again."""
SKIPPED = 2**30
"""Bytes of a line after which the rest of its file is not read."""
HEAD, TAIL = 4096, 65536
"""Bytes at the beginning and at the end of what is covered that the checksum is of."""
COLUMNS = ", ".join(f'"{name}"' for name in Row._fields)
INSERT = f"INSERT INTO episodes({COLUMNS}) VALUES({', '.join('?' * len(Row._fields))})"
TABLES = f"""
PRAGMA user_version = {VERSION};
CREATE TABLE head(value TEXT);
CREATE TABLE episodes({COLUMNS}, PRIMARY KEY(line)) WITHOUT ROWID;
"""
WORDS = "CREATE VIRTUAL TABLE words USING fts5(prompt, said, seen, content='', tokenize='unicode61')"
Progress = Callable[[int, int], None]
"""Function of the bytes that were read and of all."""
DAMAGED = (sqlite3.Error, *UNREADABLE)
"""Errors of reading a damaged index."""


@dataclass(frozen=True, kw_only=True)
class EpisodeIndex:
    """An open index."""

    place: Path
    head: Head
    base: sqlite3.Connection

    def rows(self, first: int = 1, last: int = 2**62) -> Iterator[Row]:
        """Yield the rows of some lines."""
        query = f"SELECT {COLUMNS} FROM episodes WHERE line BETWEEN ? AND ? ORDER BY line"
        return map(row_of, self.base.execute(query, (first, last)))

    def find(self, line: int) -> Row | None:
        """Return the row of a line; None if the line has none."""
        return next(self.rows(line, line), None)

    def matches(self, terms: str) -> list[int]:
        """Return the lines whose words match FTS5's terms."""
        lines = self.base.execute("SELECT rowid FROM words WHERE words MATCH ?", (terms,)) if self.head.worded else ()
        return [line for (line,) in lines]


def row_of(values: Iterable[Any]) -> Row:
    """Return a row of the table, in which SQLite has NULL for a reward that is no number."""
    row: Row = Row._make(values)
    return row if row.reward is not None else row._replace(reward=math.nan)


@contextmanager
def open_index(path: Path, progress: Progress | None = None) -> Iterator[EpisodeIndex]:
    """Open the index of a file as it is now, which is made or extended first where it has to be; OSError if the file
    cannot be read."""
    with open_regular(path) as file:
        index = current_index(path, file, progress)
    with closing(index.base):
        try:
            yield index
        except sqlite3.OperationalError as error:
            raise OSError(0, f"its index cannot be used: {error}", str(path)) from None
        except sqlite3.Error as error:
            index.place.unlink(missing_ok=True)
            raise OSError(0, f"its index was damaged and is removed ({error}): try again", str(path)) from None


def current_index(path: Path, file: BinaryIO, progress: Progress | None) -> EpisodeIndex:
    """Return the index of an open file as it is now, made in the first place that can be written."""
    stored, (*others, last) = stored_index(path, file), places_of(path)
    if stored is not None:
        return stored
    for place in others:
        try:
            return renew(path, file, place, progress)
        except sqlite3.Error:
            place.unlink(missing_ok=True)
        except OSError:
            continue
    try:
        return renew(path, file, last, progress)
    except sqlite3.Error as error:
        raise OSError(0, f"its index cannot be written: {error}", str(path)) from None


def stored_index(path: Path, file: BinaryIO) -> EpisodeIndex | None:
    """Return the index of an open file as it is now; None where none is current."""
    for place in places_of(path):
        index = load_index(place)
        if index is not None and index.head.state == state_of(file) and has_measure(index.head, path):
            return index
        if index is not None:
            index.base.close()
    return None


def places_of(path: Path) -> list[Path]:
    """Return the places of a file's index, best first. A file under way will vanish, so its index ends with this
    process."""
    folder, name = (digest_of(str(text)) for text in (path.parent.resolve(), path.name))
    bases = [cache_folder()] * path.name.endswith(".jsonl") + [scratch_folder()]
    return [base.absolute() / VIEW / folder / f"{name}.sqlite" for base in bases]


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:24]


def renew(path: Path, file: BinaryIO, place: Path, progress: Progress | None) -> EpisodeIndex:
    """Make the index at a place, or extend it by the lines that follow those covered, and open it."""
    state, stored = state_of(file), load_index(place)
    with nullcontext() if stored is None else closing(stored.base):
        old = stored if stored is not None and holds(stored.head, path, file) else None
        with writing(place, old) as base:
            start = Head() if old is None else old.head
            builder = Builder(lambda: measured_in(path.parent.parent), start)
            file.seek(start.covers)
            base.executemany(INSERT, builder.rows(complete_lines(file, state[0] - start.covers), state[0], progress))
            write_head(base, replace(builder.head(), state=state, checksum=checksum_of(file, builder.covers)))
    return require_index(place)


def add_words(path: Path, words: Callable[[Row], Sequence[str]]) -> None:
    """Index the words of a file's episodes: prompt, completions and observations of each row."""
    with open_index(path) as index:
        if index.head.worded == index.head.lines:
            return
        with writing(index.place, index) as base:
            if not index.head.worded:
                base.execute(WORDS)
            texts = ((row.line, *words(row)) for row in index.rows(index.head.worded + 1))
            base.executemany("INSERT INTO words(rowid, prompt, said, seen) VALUES(?, ?, ?, ?)", texts)
            write_head(base, replace(index.head, worded=index.head.lines))


@contextmanager
def writing(place: Path, start: EpisodeIndex | None) -> Iterator[sqlite3.Connection]:
    """Write an index, empty or a copy at first, and put it in its place at the end of the block."""
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = place.with_name(f".{place.name}.{secrets.token_hex(4)}{ASIDE}")
    try:
        with closing(sqlite3.connect(f"{aside.as_uri()}?nolock=1", uri=True, isolation_level=None)) as base:
            if start is not None:
                start.base.backup(base)
            base.execute("PRAGMA journal_mode = OFF")
            base.execute("PRAGMA synchronous = OFF")
            if start is None:
                base.executescript(TABLES)
            base.execute("BEGIN")
            yield base
            base.execute("COMMIT")
        with open_regular(aside) as file:
            os.fsync(file.fileno())
        os.replace(aside, place)
    finally:
        aside.unlink(missing_ok=True)


def write_head(base: sqlite3.Connection, head: Head) -> None:
    base.execute("DELETE FROM head")
    base.execute("INSERT INTO head VALUES(?)", (json.dumps(asdict(head)),))


def load_index(place: Path) -> EpisodeIndex | None:
    """Open the index at a place; None where there is none that can be read."""
    try:
        return require_index(place)
    except DAMAGED:
        return None


def require_index(place: Path) -> EpisodeIndex:
    base = sqlite3.connect(f"{place.as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
    try:
        (version,) = base.execute("PRAGMA user_version").fetchone()
        (text,) = base.execute("SELECT value FROM head").fetchone()
        if version != VERSION:
            raise sqlite3.DatabaseError(f"its version is {version}")
        fields: dict[str, Any] = json.loads(text)
        fields |= {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        return EpisodeIndex(place=place, head=Head(**fields), base=base)
    except BaseException:
        base.close()
        raise


def has_measure(head: Head, path: Path) -> bool:
    """Return True if the rewards of rows are those of the agent that is measured now."""
    return not head.measured or head.measured == measure_of(measured_in(path.parent.parent))


def holds(head: Head, path: Path, file: BinaryIO) -> bool:
    """Return True if the file still begins with what an index covers."""
    is_same = head.covers <= state_of(file)[0] and checksum_of(file, head.covers) == head.checksum
    return is_same and has_measure(head, path)


def num_lines_of(path: Path) -> int | None:
    """Return the number of a file's lines from its index; None unless that is current."""
    with suppress(OSError), open_regular(path) as file:
        index = stored_index(path, file)
        if index is not None:
            index.base.close()
            return index.head.lines
    return None


def complete_lines(file: BinaryIO, left: int) -> Iterator[tuple[bytes, int]]:
    """Yield the complete lines of the next `left` bytes, with their sizes; `-` for a line that is too long. Stop at a
    line that does not end within SKIPPED bytes."""
    while left > 0:
        raw = file.readline(min(left, LONGEST))
        size, end = len(raw), raw[-1:]
        while end not in (b"", b"\n") and size < min(left, SKIPPED):
            more = file.readline(min(left - size, LONGEST))
            size, raw, end = size + len(more), b"-\n", more[-1:]
        if end != b"\n":
            return
        yield raw, size
        left -= size


def bytes_of(file: BinaryIO, row: Row) -> bytes:
    """Return the line of a row, with its newline; ValueError for a size beyond that of any line."""
    if row.size > LONGEST:
        raise ValueError(f"line {row.line} has {row.size:,} bytes")
    file.seek(row.offset)
    return file.read(row.size)


def checksum_of(file: BinaryIO, covers: int) -> str:
    """Return a checksum of the beginning and the end of the covered bytes."""
    file.seek(0)
    head = file.read(min(HEAD, covers))
    file.seek(max(0, covers - TAIL))
    return hashlib.sha256(head + file.read(min(TAIL, covers))).hexdigest()[:32]


def state_of(file: BinaryIO) -> tuple[int, int, int]:
    """Return the size, the time of the last change and the inode of an open file."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ino
