"""`api/episodes`: the table of a run's episodes (`rlx.view.table`), or what came after the table of a mark.

The table is kept, so that a page that asks every second costs a look at the folder. Files that have no index yet are
read in the background.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np

from rlx.base.http import Answer, RefusedError
from rlx.runs.files import EpisodeFile, episode_files
from rlx.runs.index import Progress, open_index
from rlx.runs.rows import Head
from rlx.view.limits import dump
from rlx.view.places import find_file
from rlx.view.table import ROWS, FileRows, Table, pack

KIND = "application/octet-stream"
WAIT = 0.5
"""Seconds that a call waits for a folder to be read; then it tells how far that is."""
MOST_RUNS = 8
"""Runs whose tables stay in memory."""
MOST_FORMER = 4
"""Former tables of a run to which rows can be added."""


@dataclass
class Loaded:
    """Latest table of a run, and the job that reads a newer one."""

    table: Table = field(default_factory=Table)
    former: tuple[Table, ...] = ()
    job: Future[None] | None = None
    done: int = 0
    total: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class EpisodeTables:
    """Tables of episodes, by the folders of runs."""

    _loaded: OrderedDict[Path, Loaded] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2, thread_name_prefix="index"))

    def answer(self, folder: Path, caller_etag: str = "", mark: str = "") -> Answer:
        """Return the table, or the rows after the table of a mark; 304 or 204 without new rows, 202 during a read."""
        table = self.current(folder)
        if table is None:
            loaded = self.loaded(folder)
            return Answer(dump({"indexing": {"done": loaded.done, "of": loaded.total}}), status=202)
        etag = f'"{table.etag}"'
        if mark:
            return self.added(folder, table, mark)
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        if caller_etag == etag:
            return Answer(b"", status=304, kind=KIND, headers=headers)
        return Answer(table.body, kind=KIND, headers=headers)

    def added(self, folder: Path, table: Table, mark: str) -> Answer:
        """Return the rows after the table of a mark; the full table if that table was discarded."""
        headers = {"ETag": f'"{table.etag}"'}
        if mark == table.etag:
            return Answer(b"", status=204, kind=KIND, headers=headers)
        base = next((earlier for earlier in self.loaded(folder).former if earlier.etag == mark), None)
        return Answer(table.body if base is None else pack(table, base), kind=KIND, headers=headers)

    def current(self, folder: Path) -> Table | None:
        """Return the table of a run as its files are now; None while they are read."""
        files, damage = episode_files(folder)
        etag, loaded = etag_of(files, damage), self.loaded(folder)
        with loaded.lock:
            if loaded.table.etag == etag:
                return loaded.table
            if loaded.job is None or loaded.job.done():
                loaded.job = self._pool.submit(load, loaded, files, etag)
            job = loaded.job
        try:
            job.result(WAIT)
        except FutureTimeout:
            return None
        return loaded.table

    def loaded(self, folder: Path) -> Loaded:
        with self._lock:
            loaded = self._loaded.pop(folder, None) or Loaded()
            self._loaded[folder] = loaded
            while len(self._loaded) > MOST_RUNS:
                self._loaded.popitem(last=False)
            return loaded

    def file(self, folder: Path, name: str) -> FileRows:
        """Return the rows of one file of a run, by its name."""
        file = find_file(folder, name)
        earlier = next(
            (file_rows for file_rows in self.loaded(folder).table.files if file_rows.file.name == name), None
        )
        fresh_rows = read_file(file, earlier, None)
        if fresh_rows.damage and not len(fresh_rows.rows):
            raise RefusedError(422, fresh_rows.damage)
        return fresh_rows


def etag_of(files: Sequence[EpisodeFile], damage: Sequence[str]) -> str:
    """Return a digest of the files' names and states."""
    state_text = repr([(file.name, file.state) for file in files]) + repr(damage)
    return hashlib.sha256(state_text.encode()).hexdigest()[:24]


def load(loaded: Loaded, files: Sequence[EpisodeFile], etag: str) -> None:
    """Read the rows of all files."""
    earlier = {file_rows.file.name: file_rows for file_rows in loaded.table.files}
    before, loaded.total = 0, sum(file.state[0] for file in files)
    rows_of_files = []
    for file in files:

        def progress(done: int, _: int, before: int = before) -> None:
            loaded.done = before + done

        rows_of_files.append(read_file(file, earlier.get(file.name), progress))
        before += file.state[0]
        loaded.done = before
    if loaded.table.etag:
        loaded.former = (*loaded.former, replace(loaded.table))[-MOST_FORMER:]  # without its bytes
    strings = dict.fromkeys(chain(loaded.table.strings, *(file_rows.head.strings for file_rows in rows_of_files)))
    loaded.table = Table(etag, rows_of_files, list(strings))


def read_file(file: EpisodeFile, earlier: FileRows | None, progress: Progress | None) -> FileRows:
    if earlier is not None and earlier.file == file and not earlier.damage:
        return earlier
    try:
        with open_index(file.path, progress) as index:
            rows, head = np.fromiter(index.rows(), ROWS, index.head.num_rows), index.head
    except OSError as error:
        return FileRows(file, Head(), np.zeros(0, ROWS), f"{file.name}: {error.strerror}")
    torn = "its last line is cut short" if head.is_torn and not file.is_partial else ""
    return FileRows(file, head, rows, "; ".join(filter(None, (head.damage, torn))))
