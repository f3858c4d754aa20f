"""An index folder: its pages, the files of its engine, and `index.json`, which is written last.

    {"format": 2, "engine": "tantivy", "num_pages": 3, "digest": "…", "files": {"pages.jsonl": 210, …}}

A folder without index.json is not finished. One of another format is refused, and so is one whose files do not have
the sizes that index.json names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlx.base.limits import MistakeError, near
from rlx.base.regular import is_regular, read_bounded, regular_files, write_aside

FORMAT = 2
ABOUT = "index.json"
ENGINES = ("bm25s", "tantivy")
AGAIN = "build it again with `rlx data build-index`"


@dataclass(frozen=True, kw_only=True)
class About:
    """Contents of index.json."""

    format: int = FORMAT
    engine: str
    num_pages: int
    digest: str
    """Digest of the pages."""
    files: Mapping[str, int]
    """Size of each file in bytes."""

    @property
    def edition(self) -> str:
        return f"{self.engine}-{self.format}-{self.digest}"


def read_about(folder: Path) -> About:
    """Return index.json of a whole index of this format; MistakeError says in one line what is wrong."""
    path = folder / ABOUT
    try:
        fields = json.loads(read_bounded(path))
    except FileNotFoundError:
        is_begun = is_regular(folder / "building.json")
        problem = "is not finished" if is_begun else "is no index folder: it has no index.json"
        raise MistakeError(f"{folder} {problem}; {AGAIN}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise MistakeError(f"{path} cannot be read ({one_line(error)}); {AGAIN}") from None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        theirs = fields.get("format") if isinstance(fields, dict) else None
        raise MistakeError(
            f"{folder} is an index of format {theirs!r:.40}, and this rlx reads format {FORMAT}; {AGAIN}"
        )
    about = parse_about(path, fields)
    try:
        present = set(regular_files(folder))
    except OSError as error:
        raise MistakeError(f"{error}; {AGAIN}") from None
    for name, size in about.files.items():
        check_file(folder / name, size, present)
    return about


def parse_about(path: Path, fields: dict[str, Any]) -> About:
    try:
        about = About(**fields)
        sizes = {name: size for name, size in about.files.items() if is_inside(name) and isinstance(size, int)}
        is_sound = isinstance(about.num_pages, int) and isinstance(about.digest, str)
        if is_sound and len(sizes) == len(about.files):
            if about.engine not in ENGINES:
                engine = str(about.engine)
                raise MistakeError(f"{path}: engine {engine!r:.40} is unknown{near(engine, ENGINES)}; {AGAIN}")
            return about
    except (TypeError, AttributeError):
        pass
    raise MistakeError(f"{path} is not as rlx writes it; {AGAIN}")


def is_inside(name: str) -> bool:
    return not os.path.isabs(name) and ".." not in Path(name).parts


def check_file(path: Path, size: int, present: Set[Path]) -> None:
    if path not in present:
        raise MistakeError(f"{path} is missing from the index; {AGAIN}")
    num_bytes = path.stat().st_size
    if num_bytes != size:
        problem = "it was cut short" if num_bytes < size else "it was changed"
        raise MistakeError(f"{path} has {num_bytes} bytes, and the index names {size}: {problem}; {AGAIN}")


def write_about(folder: Path, *, engine: str, num_pages: int, digest: str) -> About:
    """Write index.json for the files that the folder has now."""
    files = sizes_of(folder, all_files(folder))
    about = About(engine=engine, num_pages=num_pages, digest=digest, files=files)
    write_aside(folder / ABOUT, json.dumps(asdict(about), indent=1))
    return about


def all_files(folder: Path) -> list[Path]:
    skipped = (ABOUT, "building.json", "building.lock")
    return sorted(path for path in regular_files(folder) if path.name not in skipped and is_content(path))


def is_content(path: Path) -> bool:
    """Tell a file of the index from a lock, which tantivy leaves behind."""
    return not path.name.startswith(".tantivy-")


def sizes_of(folder: Path, files: Iterable[Path]) -> dict[str, int]:
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}


def one_line(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split())[:200] or type(error).__name__
