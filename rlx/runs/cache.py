"""The cache: what runs keep for other runs, in folders named by a digest of everything that the content depends on.

warm/         warm starts, each a run folder
evaluations/  episodes of start policies
models/       models of packages
vllm/         configurations that vLLM compiles by
view/         indexes of files of episodes
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

WARM, EVALUATED, MODELS, VIEW = "warm", "evaluations", "models", "view"
KINDS = (WARM, EVALUATED, MODELS, "vllm", VIEW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that the cache holds."""

    kind: str
    path: Path
    write_time: datetime
    num_bytes: int


def cache_folder() -> Path:
    """Return the cache's folder: RLX_CACHE, or ~/.cache/rlx."""
    return Path(os.environ.get("RLX_CACHE") or Path.home() / ".cache" / "rlx")


def refusal() -> str:
    """Return why nothing can be written to the cache, in a few words; empty if it can be used. Makes its folders."""
    for kind in KINDS:
        folder = cache_folder() / kind
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".try-") as file:
                file.write(b"1")
        except OSError as error:
            return f"{folder} cannot be written ({error.strerror})"
    return ""


@functools.cache
def scratch_folder() -> Path:
    """Return a folder that ends with this process, for what the cache cannot take."""
    folder = tempfile.mkdtemp(prefix="rlx-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def time_of(path: Path) -> datetime:
    """Return when a file or folder was last written."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def in_words(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def entries() -> Iterator[Entry]:
    """Yield what the cache holds, oldest first within each kind; unfinished and damaged things too."""
    for kind in KINDS:
        folder = cache_folder() / kind
        paths = [path for path in folder.iterdir() if not path.name.startswith(".")] if folder.is_dir() else []
        for path in sorted(paths, key=lambda path: path.lstat().st_mtime):
            write_time = datetime.fromtimestamp(path.lstat().st_mtime, UTC)
            yield Entry(kind=kind, path=path, write_time=write_time, num_bytes=size_of(path))


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder; links count for themselves."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(size_of(child) for child in path.iterdir())
