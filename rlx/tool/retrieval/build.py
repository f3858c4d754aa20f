"""Build an index folder from a jsonl file of pages; the same call continues a killed build.

    building.json   {"settings": {…}, "num_pages": 40000, "source": 8812345, "digest": "…", "is_read": false}

Pages are copied first, block by block; building.json says after each block how far the copy is. Then the engine adds
the pages, which keeps its own count. index.json is written last and building.json goes.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from rlx.base.limits import MistakeError
from rlx.base.regular import open_to_append, read_bounded, write_aside
from rlx.tool.retrieval.folder import ABOUT, ENGINES, FORMAT, About, one_line, read_about, write_about
from rlx.tool.retrieval.page import Retriever
from rlx.tool.retrieval.source import page_of, read_fields
from rlx.tool.retrieval.store import BEGINS, PAGES, PageStore, line_of, write_urls

BUILDING, LOCK = "building.json", "building.lock"
BLOCK = 20_000
"""Pages after which a build writes how far it is."""
Tell = Callable[[str, int, int], None]
"""Progress: name of the stage, what is done, what there is."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that an index follows from, beside the pages themselves."""

    engine: str
    pages: str
    """Path of the file."""
    size: int
    changed: int
    """Time of the file's last change, in nanoseconds."""
    format: int = FORMAT


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Contents of building.json."""

    settings: Settings
    num_pages: int = 0
    source: int = 0
    """Bytes of the file that are copied."""
    num_lines: int = 0
    copied: int = 0
    """Bytes of the copy."""
    digest: str = ""
    is_read: bool = False


def build_index(pages: Path, folder: Path, *, engine: str, tell: Tell) -> About:
    """Build the index, or finish the one that a killed build began with the same settings."""
    check_engine(engine)
    settings = settings_of(pages, engine)
    if os.path.lexists(folder / ABOUT):
        raise MistakeError(f"{folder} has an index already; choose another folder, or remove it: rm -r {folder}")
    progress = begin(folder, settings)
    with lock(folder):
        progress = copy_pages(folder, progress, tell)
        store = PageStore(folder)
        if engine == "bm25s":
            from rlx.tool.retrieval.memory import save_engine

            tell("words", 0, len(store))
            save_engine(folder, store)
        else:
            from rlx.tool.retrieval.ondisk import add_pages

            add_pages(folder, store, 5 * BLOCK, lambda done: tell("words", done, len(store)))
        store.close()
        about = write_about(folder, engine=engine, num_pages=progress.num_pages, digest=progress.digest)
        (folder / BUILDING).unlink()
    (folder / LOCK).unlink()
    return about


def check_engine(engine: str) -> None:
    if engine not in ENGINES:
        raise MistakeError(f"--engine {engine!r:.40}: expected one of {', '.join(ENGINES)}")
    if find_spec(engine) is None:
        raise MistakeError(f"--engine {engine}: its package is missing: pip install 'rlx[retrieval]'")


def settings_of(pages: Path, engine: str) -> Settings:
    try:
        status = pages.stat()
        if not pages.is_file():
            raise OSError("it is no file")
    except OSError as error:
        raise MistakeError(f"{pages}: {one_line(error)}") from None
    path = str(pages.resolve())
    return Settings(engine=engine, pages=path, size=status.st_size, changed=status.st_mtime_ns)


def begin(folder: Path, settings: Settings) -> Progress:
    """Return the progress in a folder that a build began, or make the folder; refuse any other."""
    path = folder / BUILDING
    if not os.path.lexists(path):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise MistakeError(f"{folder} is there and is no index; choose a new folder, as nothing is overwritten")
        folder.mkdir(parents=True, exist_ok=True)
        keep(folder, Progress(settings=settings))
    try:
        fields = json.loads(read_bounded(path))
        progress = Progress(**{**fields, "settings": Settings(**fields["settings"])})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise MistakeError(f"{path} cannot be read ({one_line(error)}); remove the folder: rm -r {folder}") from None
    if progress.settings != settings:
        was, now = asdict(progress.settings), asdict(settings)
        changed = ", ".join(f"{key} {was[key]}, now {now[key]}" for key in now if was[key] != now[key])
        raise MistakeError(f"{folder} has another unfinished index ({changed:.200}); remove it: rm -r {folder}")
    return progress


def keep(folder: Path, progress: Progress) -> Progress:
    write_aside(folder / BUILDING, json.dumps(asdict(progress)))
    return progress


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    with open_to_append(folder / LOCK) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise MistakeError(f"{folder}: another process is building this index; wait for it") from None
        yield


def copy_pages(folder: Path, progress: Progress, tell: Tell) -> Progress:
    """Copy what is not copied yet. The digest is a chain over blocks, so that it can go on too."""
    if progress.is_read:
        return progress
    path = Path(progress.settings.pages)
    with open(path, "rb") as source, open_to_append(folder / PAGES) as copy, open_to_append(folder / BEGINS) as begins:
        source.seek(progress.source)
        copy.truncate(progress.copied)
        begins.truncate(8 * progress.num_pages)
        while True:
            before = progress
            progress = copy_block(path, source, copy, begins, progress)
            if progress.num_lines == before.num_lines:
                break
            keep(folder, progress)
            tell("pages", progress.source, progress.settings.size)
        if not progress.num_pages:
            raise MistakeError(f"{path}: it has no pages")
        begins.write(np.int64(progress.copied).tobytes())
    write_urls(folder)
    return keep(folder, replace(progress, is_read=True))


def copy_block(path: Path, source: BinaryIO, copy: BinaryIO, begins: BinaryIO, progress: Progress) -> Progress:
    """Copy the next lines; the same progress at the end of the file."""
    lines: list[bytes] = []
    where: list[int] = []
    num_bytes = 0
    num_lines, num_read = progress.num_lines, 0
    for raw in islice(source, BLOCK):
        num_lines, num_read = num_lines + 1, num_read + len(raw)
        try:
            text = raw.decode("utf-8-sig" if num_lines == 1 else "utf-8")
        except UnicodeDecodeError:
            raise MistakeError(f"{path}: line {num_lines} is not text in UTF-8") from None
        if text.strip():
            number = progress.num_pages + len(lines)
            lines.append(line_of(page_of(read_fields(f"{path}: line {num_lines}", text), number)))
            where.append(progress.copied + num_bytes)
            num_bytes += len(lines[-1])
    data = b"".join(lines)
    copy.write(data)
    begins.write(np.array(where, np.int64).tobytes())
    for file in (copy, begins):
        file.flush()
        os.fsync(file.fileno())
    return replace(
        progress,
        num_pages=progress.num_pages + len(lines),
        source=progress.source + num_read,
        num_lines=num_lines,
        copied=progress.copied + num_bytes,
        digest=sha256(progress.digest.encode() + data).hexdigest()[:16] if lines else progress.digest,
    )


def open_index(folder: Path) -> Retriever:
    """Open a whole index as a Retriever; MistakeError says in one line why it cannot be."""
    about = read_about(folder)
    if find_spec(about.engine) is None:
        raise MistakeError(f"{folder} needs the engine {about.engine}: pip install 'rlx[retrieval]'")
    try:
        if about.engine == "bm25s":
            from rlx.tool.retrieval.memory import FolderRetriever

            return FolderRetriever(folder, about.edition)
        from rlx.tool.retrieval.ondisk import DiskRetriever

        return DiskRetriever(folder, about.edition)
    except (ValueError, OSError, RuntimeError, AttributeError) as error:
        if isinstance(error, MistakeError):
            raise
        raise MistakeError(f"{folder} is damaged ({one_line(error)}); build it again") from error
