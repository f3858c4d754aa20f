"""Atomic checkpoints: each is complete or absent.

`step-N/` is written as `.step-N.partial/`, with the checksums of its files in `checksums.json`. It is flushed to the
disk and then renamed. A crash leaves either the new checkpoint or the ones before it. `index.json` names those that
should exist.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError

from rlx.base.regular import (
    IrregularError,
    inside,
    make_inside,
    open_regular,
    read_bounded,
    regular_files,
    too_large,
    write_aside,
)
from rlx.hardware.pulse import nothing
from rlx.runs.folder import STEP, steps_in

MANIFEST, INDEX = "checksums.json", "index.json"
LARGEST_JSON = 2**28
"""Bytes of a checkpoint's file of JSON; the largest is its tokenizer's."""


class CheckpointError(OSError):
    """Failure to write a checkpoint. Those before it are intact."""


def write_checkpoint(
    folder: Path, step: int, write: Callable[[Path], None], *, keep: int = 2, progress: Callable[[], None] = nothing
) -> Path:
    """Let `write` fill a folder and publish it as `folder/step-N`. The newest `keep` checkpoints stay. `progress` is
    called after each file that is read again."""
    final, aside = folder / f"{STEP}{step}", folder / f".{STEP}{step}.partial"
    try:
        make_inside(folder.parent, folder.name)
        sweep(folder)
        aside.mkdir()
        write(aside)
        put(aside / MANIFEST, {name: digest(aside / name, progress) for name in files(aside)})
        flush_tree(aside, progress)
        replace_folder(aside, final)
        write_steps(folder, prune(folder, keep))
    except (OSError, SafetensorError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        good, _ = newest_good(folder)
        fallback = f"the last good one is {good}" if good else "there is none before it"
        raise CheckpointError(f"checkpoint {final} could not be written ({error}); {fallback}") from error
    return final


def newest_good(folder: Path, progress: Callable[[], None] = nothing) -> tuple[Path | None, list[str]]:
    """Return the newest intact checkpoint, and a warning for each newer, damaged one."""
    warnings: list[str] = []
    for step in sorted({*steps_in(folder), *list_checkpoints(folder)}, reverse=True):
        problems = faults(folder / f"{STEP}{step}", progress)
        if not problems:
            return folder / f"{STEP}{step}", warnings
        warnings.append(f"checkpoint {folder / f'{STEP}{step}'} is skipped: {'; '.join(problems)}")
    return None, warnings


def faults(checkpoint: Path, progress: Callable[[], None] = nothing) -> list[str]:
    """List the faults of a checkpoint, file by file."""
    try:
        if not inside(checkpoint.parent, checkpoint.name).is_dir():
            return ["it is missing"]
        present = set(files(checkpoint))
        for name in present:
            require_small(checkpoint / name)
    except IrregularError as error:
        return [str(error)]
    try:
        manifest = {str(name): (int(size), str(sha)) for name, (size, sha) in read(checkpoint / MANIFEST).items()}
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return [f"{MANIFEST} is missing or unreadable"]
    problems = [fault(checkpoint, name, expected, name in present, progress) for name, expected in manifest.items()]
    return [each for each in problems if each]


def weights_of(checkpoint: Path) -> str:
    """Return the checksum of the manifest, which holds the checksums of all files."""
    return digest(checkpoint / MANIFEST)[1]


def fault(checkpoint: Path, name: str, expected: tuple[int, str], present: bool, progress: Callable[[], None]) -> str:
    if not present:
        return f"{name} is missing"
    size = (checkpoint / name).stat().st_size
    if size != expected[0]:
        return f"{name} has {size} bytes of {expected[0]}"
    return "" if digest(checkpoint / name, progress) == expected else f"{name} was altered"


def files(folder: Path) -> list[str]:
    """List all files but the manifest, by relative path."""
    paths = (path.relative_to(folder).as_posix() for path in regular_files(folder))
    return sorted(name for name in paths if name != MANIFEST)


def require_small(path: Path) -> None:
    """Refuse a file of JSON, which a loader parses at once, of more than LARGEST_JSON bytes."""
    if path.suffix == ".json" and path.stat().st_size > LARGEST_JSON:
        raise too_large(path, LARGEST_JSON)


def digest(path: Path, progress: Callable[[], None] = nothing) -> tuple[int, str]:
    with open_regular(path) as file:
        entry = os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()
    progress()
    return entry


def put(path: Path, value: object) -> None:
    """Write JSON, whole or not at all, and flush it to the disk."""
    write_aside(path, json.dumps(value, indent=1) + "\n")


def read(path: Path) -> dict[str, tuple[int, str]]:
    return json.loads(read_bounded(path, LARGEST_JSON))


def flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_tree(folder: Path, progress: Callable[[], None] = nothing) -> None:
    for path in (*regular_files(folder), *(Path(place) for place, _, _ in os.walk(folder))):
        flush(path)
        progress()


def replace_folder(aside: Path, final: Path) -> None:
    """Rename `aside` to `final`. A checkpoint of the same step, from before a resume, is moved away first."""
    old = final.with_name(f".{final.name}.old")
    if final.exists():
        final.rename(old)
    aside.rename(final)
    flush(final.parent)
    shutil.rmtree(old, ignore_errors=True)


def list_checkpoints(folder: Path) -> list[int]:
    try:
        return [int(step) for step in json.loads(read_bounded(folder / INDEX))]
    except (OSError, ValueError, TypeError, RecursionError):
        return []


def prune(folder: Path, keep: int) -> list[int]:
    """Delete all but the last `keep` checkpoints; return the remaining steps."""
    present = steps_in(folder)
    for step in present[: -max(1, keep)]:
        shutil.rmtree(folder / f"{STEP}{step}")
    return present[-max(1, keep) :]


def write_steps(folder: Path, steps: list[int]) -> None:
    put(folder / INDEX, steps)
    flush(folder)


def sweep(folder: Path) -> None:
    """Remove the half-written folders of a killed run, and restore the checkpoint that it had moved away."""
    for old in folder.glob(f".{STEP}*.old"):
        final = old.with_name(old.name.removeprefix(".").removesuffix(".old"))
        shutil.rmtree(old) if final.exists() else old.rename(final)
    for aside in folder.glob(f".{STEP}*.partial"):
        shutil.rmtree(aside)
