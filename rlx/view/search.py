"""`api/search`: episodes by the words of their prompts, completions and observations.

The words are added in the background to the indexes of a run's files, one file after the other.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rlx.base.http import RefusedError
from rlx.runs.decode import Decode
from rlx.runs.index import add_words, open_index
from rlx.runs.rows import Row
from rlx.view.episode import joined, notes_of, read_row, text_of
from rlx.view.episodes import EpisodeTables
from rlx.view.limits import MOST_TEXT, dump
from rlx.view.table import FileRows, Table

WAIT = 0.3
"""Seconds that a call waits for the index."""
MOST_FOUND = 1_000_000
LONGEST = 1000
"""Characters of a question."""
WORD = re.compile(r'"([^"]*)"?|([^\s"]+)')
NO_TEXT = re.compile("[\ud800-\udfff\0]")
"""Characters that SQLite cannot take."""


@dataclass
class Search:
    """Work on the words of one run."""

    thread: threading.Thread | None = None
    done: str = ""
    """ETag of the table that is indexed."""
    why: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Searches:
    """Searches of runs, by their folders."""

    tables: EpisodeTables
    decoder: Callable[[Path], Decode | None]
    _searches: dict[Path, Search] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, folder: Path, question: str) -> bytes:
        """Return the rows of `api/episodes` that have all words, among those that are indexed so far."""
        match, table = match_of(question), self.tables.current(folder)
        if table is None:
            return dump({"rows": [], "indexed": 0, "of": 1, "etag": ""})
        with self._lock:
            search = self._searches.setdefault(folder, Search())
        self.begin(search, table, folder)
        if search.why:
            raise RefusedError(503, search.why)
        return dump(matching_rows(table, match))

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


def match_of(question: str) -> str:
    """Return the question in FTS5's terms: words by their beginnings, and phrases within quotes; RefusedError where
    nothing is asked."""
    parts = [(phrase, False) if phrase else (word, True) for phrase, word in WORD.findall(question[:LONGEST])]
    texts = [(NO_TEXT.sub(" ", text), is_word) for text, is_word in parts]
    terms = [f'"{text}"' + "*" * is_word for text, is_word in texts if any(map(str.isalnum, text))]
    if not terms:
        raise RefusedError(400, "q has no word to look for")
    return " ".join(terms)


def matching_rows(table: Table, match: str) -> dict[str, Any]:
    """Return the rows that match, with how many rows are indexed."""
    matching: list[int] = []
    first = indexed = 0
    for part in table.files:
        with suppress(OSError), open_index(part.file.path) as index:
            lines = part.rows["line"]
            worded = lines[lines <= index.head.worded]
            places = np.flatnonzero(np.isin(worded, index.matches(match)))
            indexed += len(worded)
            matching += (first + places).tolist()
        first += len(part.rows)
    return {"rows": matching[:MOST_FOUND], "indexed": indexed, "of": first, "etag": table.etag}


def index_table(search: Search, table: Table, decode: Decode | None) -> None:
    """Index the words of every file of a run."""
    search.why = ""
    for part in table.files:
        try:
            add_words(part.file.path, partial(words_of, part, decode))
        except (sqlite3.Error, OSError) as error:
            search.why = f"the words of {part.file.name} cannot be indexed: {error}"
    search.done = "" if search.why else table.etag


def words_of(part: FileRows, decode: Decode | None, row: Row) -> Sequence[str]:
    """Return the prompt, the completions and the observations of an episode; nothing of one that cannot be read."""
    try:
        line = read_row(part.file, row)
    except RefusedError:
        return "", "", ""
    episode = line.episode
    completions = [
        text_of(turn, notes_of(place, line.turns[place], len(turn.completion.token_ids)), decode)
        for place, turn in enumerate(episode.turns)
    ]
    observed = [joined(turn.observation) for turn in episode.turns]
    texts = (joined(episode.task.prompt) + "\n" + joined(episode.opening), "\n".join(completions), "\n".join(observed))
    return [NO_TEXT.sub(" ", text[:MOST_TEXT]) for text in texts]
