"""`api/search`: episodes by the words of their prompts, completions and observations.

The words of a run are indexed in the background, in SQLite's FTS5, in a file of rlx's cache that is named by the run's
folder. A file of episodes that was cut back or replaced is indexed anew, under a new number; what was indexed under its
former number is passed over, and the index begins anew once most of it is. Several processes may share an index: each
adds the rows that follow those of the last batch.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlx.base.http import RefusedError
from rlx.base.regular import open_regular
from rlx.runs.cache import VIEW, cache_folder, scratch_folder
from rlx.runs.columns import check_of
from rlx.runs.decode import Decode
from rlx.view.episode import joined, notes_of, read_row, text_of
from rlx.view.episodes import EpisodeTables
from rlx.view.limits import MOST_TEXT, dump
from rlx.view.table import FileColumns, Table

BITS = 32
"""Low bits of a document's number: the number of its row in its file."""
BATCH = 200
"""Episodes of a transaction."""
WAIT = 0.3
"""Seconds that a call waits for the index."""
MOST_FOUND = 1_000_000
LONGEST = 1000
"""Characters of a question."""
MOST_WASTE = 2
"""An index with this many times the run's episodes begins anew."""
TABLES = """
CREATE TABLE IF NOT EXISTS files(number INTEGER PRIMARY KEY, name TEXT, rows INTEGER, covers INTEGER, mark TEXT);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(prompt, said, seen, content='', tokenize='unicode61');
"""
WORD = re.compile(r'"([^"]*)"?|([^\s"]+)')
NO_TEXT = re.compile("[\ud800-\udfff\0]")
"""Characters that SQLite cannot take."""


@dataclass
class Search:
    """Index of one run."""

    path: Path
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Number and indexed rows of each file, by its name."""
    thread: threading.Thread | None = None
    done: str = ""
    """ETag of the table that is indexed, or that could not be."""
    why: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Searches:
    """Indexes of runs, by their folders."""

    tables: EpisodeTables
    decoder: Callable[[Path], Decode | None]
    _found: dict[Path, Search] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, folder: Path, question: str) -> bytes:
        """Return the rows of `api/episodes` that have all words, among those that are indexed so far."""
        match, table = match_of(question), self.tables.current(folder)
        if table is None:
            return dump({"rows": [], "indexed": 0, "of": 1, "etag": ""})
        with self._lock:
            search = self._found.setdefault(folder, Search(path=index_path(folder)))
        self.begin(search, table, folder)
        if search.why:
            raise RefusedError(503, search.why)
        return dump(matching_rows(search, table, match))

    def begin(self, search: Search, table: Table, folder: Path) -> None:
        """Index what is not indexed, and wait a little for it."""
        with search.lock:
            is_busy = search.thread is not None and search.thread.is_alive()
            if not is_busy and search.done != table.etag:
                work = (search, table, self.decoder(folder))
                search.thread = threading.Thread(target=index_table, args=work, name="words", daemon=True)
                search.thread.start()
        if search.thread is not None:
            search.thread.join(WAIT)


def index_path(folder: Path) -> Path:
    """Return the place of a run's index: in the cache, or where that cannot be written, with this process."""
    name = hashlib.sha256(str(folder.resolve()).encode(errors="surrogateescape")).hexdigest()[:24]
    for base in (cache_folder(), scratch_folder()):
        path = base / VIEW / name / "words.sqlite"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            drop_damaged(path)
        except (OSError, sqlite3.Error):
            continue
        return path
    raise RefusedError(503, "no index of words can be written")


def drop_damaged(path: Path) -> None:
    """Try an index, and remove a file that is none."""
    try:
        with opened(path) as base:
            base.execute("UPDATE files SET name = name WHERE number = 0")
    except sqlite3.OperationalError:  # it cannot be written
        raise
    except sqlite3.DatabaseError:
        path.unlink()


def match_of(question: str) -> str:
    """Return the question in FTS5's terms: words by their beginnings, and phrases within quotes; RefusedError where
    nothing is asked."""
    found = [(phrase, False) if phrase else (word, True) for phrase, word in WORD.findall(question[:LONGEST])]
    terms = [(NO_TEXT.sub(" ", text), is_word) for text, is_word in found]
    asked = [f'"{text}"' + "*" * is_word for text, is_word in terms if any(map(str.isalnum, text))]
    if not asked:
        raise RefusedError(400, "q has no word to look for")
    return " ".join(asked)


def matching_rows(search: Search, table: Table, match: str) -> dict[str, Any]:
    """Return the rows that match, with how many rows are indexed."""
    files = {}
    first = indexed = 0
    for one in table.files:
        number, rows = search.files.get(one.file.name, (0, 0))
        rows = min(rows, one.columns.num_rows)
        files[number] = (first, rows)
        first, indexed = first + one.columns.num_rows, indexed + rows
    with opened(search.path) as base:
        hits = base.execute(f"SELECT rowid FROM words WHERE words MATCH ? LIMIT {MOST_FOUND}", (match,)).fetchall()
    placed = ((files.get(hit >> BITS, (0, 0)), hit & (1 << BITS) - 1) for (hit,) in hits)
    found = sorted(begin + place for (begin, rows), place in placed if place < rows)
    return {"rows": found, "indexed": indexed, "of": first, "etag": table.etag}


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open an index, in which a transaction is begun by hand."""
    with closing(sqlite3.connect(path, timeout=30.0, isolation_level=None)) as base:
        base.executescript(TABLES)
        yield base


def index_table(search: Search, table: Table, decode: Decode | None) -> None:
    """Index every file of a run."""
    try:
        with opened(search.path) as base:
            base.execute("PRAGMA synchronous = OFF")
            drop_waste(base, table)
            for one in table.files:
                while index_batch(base, search, one, decode):
                    pass
        search.why = ""
    except (sqlite3.Error, OSError) as error:
        search.why = f"the index of words cannot be used: {error}"
    search.done = table.etag


def drop_waste(base: sqlite3.Connection, table: Table) -> None:
    """Begin anew where most of an index is of files that are no more."""
    (stored,) = base.execute("SELECT coalesce(sum(rows), 0) FROM files").fetchone()
    if stored > MOST_WASTE * sum(one.columns.num_rows for one in table.files) + BATCH:
        base.executescript("DROP TABLE files; DROP TABLE words;" + TABLES)


def index_batch(base: sqlite3.Connection, search: Search, one: FileColumns, decode: Decode | None) -> bool:
    """Index the next episodes of a file; False if there are no more."""
    base.execute("BEGIN IMMEDIATE")
    try:
        number, done = indexed_of(base, one)
        rows = range(done, min(done + BATCH, one.columns.num_rows))
        for place in rows:
            add_words(base, number << BITS | place, one, place, decode)
        if rows:
            note_rows(base, number, one, rows.stop)
        base.execute("COMMIT")
    except BaseException:
        base.execute("ROLLBACK")
        raise
    search.files[one.file.name] = (number, rows.stop)
    return bool(rows)


def indexed_of(base: sqlite3.Connection, one: FileColumns) -> tuple[int, int]:
    """Return the number of a file and its rows that are indexed; a new number where the file is not what it was."""
    query = "SELECT number, rows, covers, mark FROM files WHERE name = ? ORDER BY number DESC LIMIT 1"
    found = base.execute(query, (one.file.name,)).fetchone()
    if found is not None and found[1] <= one.columns.num_rows and mark_of(one, found[2]) == found[3]:
        return found[0], found[1]
    cursor = base.execute(
        "INSERT INTO files(name, rows, covers, mark) VALUES(?, 0, 0, ?)", (one.file.name, mark_of(one, 0))
    )
    return int(cursor.lastrowid or 0), 0


def note_rows(base: sqlite3.Connection, number: int, one: FileColumns, rows: int) -> None:
    last = one.columns.row(rows - 1)
    values = (rows, last.at + last.size, mark_of(one, last.at + last.size), number)
    base.execute("UPDATE files SET rows = ?, covers = ?, mark = ? WHERE number = ?", values)


def mark_of(one: FileColumns, covers: int) -> str:
    with open_regular(one.file.path) as file:
        return check_of(file, covers)


def add_words(base: sqlite3.Connection, number: int, one: FileColumns, place: int, decode: Decode | None) -> None:
    """Index one episode; nothing of one that cannot be read."""
    try:
        texts = words_of(one, place, decode)
    except RefusedError:
        return
    safe = [NO_TEXT.sub(" ", text[:MOST_TEXT]) for text in texts]
    base.execute("INSERT INTO words(rowid, prompt, said, seen) VALUES(?, ?, ?, ?)", (number, *safe))


def words_of(one: FileColumns, place: int, decode: Decode | None) -> Sequence[str]:
    line = read_row(one.file, one.columns.row(place))
    episode = line.episode
    said = [
        text_of(turn, notes_of(at, line.turns[at], len(turn.completion.token_ids)), decode)
        for at, turn in enumerate(episode.turns)
    ]
    seen = [joined(turn.observation) for turn in episode.turns]
    return joined(episode.task.prompt) + "\n" + joined(episode.opening), "\n".join(said), "\n".join(seen)
