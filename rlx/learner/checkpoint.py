"""Checkpoints that are whole or are not there.

`step-N/` is written aside as `.step-N.partial/`, listed with checksums in its `checksums.json`, flushed to the disk
and then renamed, so a crash leaves either the new checkpoint or the ones before it. `index.json` names those that
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

from rlx.hardware.pulse import nothing
from rlx.record.folder import STEP, steps_in

MANIFEST, INDEX = "checksums.json", "index.json"


class CheckpointError(OSError):
    """A checkpoint could not be written; those before it stand."""


def write_checkpoint(
    folder: Path, step: int, write: Callable[[Path], None], *, keep: int = 2, progress: Callable[[], None] = nothing
) -> Path:
    """Have `write` fill a folder and make it `folder/step-N`; of older ones keep the last `keep` in all. `progress` is
    called after each file that is read again."""
    final, aside = folder / f"{STEP}{step}", folder / f".{STEP}{step}.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        aside.mkdir()
        write(aside)
        put(aside / MANIFEST, {name: digest(aside / name, progress) for name in files(aside)})
        flush_tree(aside, progress)
        replace_folder(aside, final)
        list_kept(folder, prune(folder, keep))
    except (OSError, SafetensorError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        good, _ = newest_good(folder)
        kept = f"the last good one is {good}" if good else "there is none before it"
        raise CheckpointError(f"checkpoint {final} could not be written ({error}); {kept}") from error
    return final


def newest_good(folder: Path, progress: Callable[[], None] = nothing) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that is as it was written, and a line for each newer one that is not."""
    warnings: list[str] = []
    for step in sorted({*steps_in(folder), *listed(folder)}, reverse=True):
        found = faults(folder / f"{STEP}{step}", progress)
        if not found:
            return folder / f"{STEP}{step}", warnings
        warnings.append(f"checkpoint {folder / f'{STEP}{step}'} is skipped: {'; '.join(found)}")
    return None, warnings


def faults(checkpoint: Path, progress: Callable[[], None] = nothing) -> list[str]:
    """What is wrong with it, file by file; empty if nothing is."""
    if not checkpoint.is_dir():
        return ["it is missing"]
    try:
        manifest = {str(name): (int(size), str(sha)) for name, (size, sha) in read(checkpoint / MANIFEST).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return [f"{MANIFEST} is missing or unreadable"]
    present = set(files(checkpoint))
    found = [fault(checkpoint, name, expected, name in present, progress) for name, expected in manifest.items()]
    return [each for each in found if each]


def weights_of(checkpoint: Path) -> str:
    """The checksum of its manifest, which has those of all its files."""
    return digest(checkpoint / MANIFEST)[1]


def fault(checkpoint: Path, name: str, expected: tuple[int, str], present: bool, progress: Callable[[], None]) -> str:
    if not present:
        return f"{name} is missing"
    size = (checkpoint / name).stat().st_size
    if size != expected[0]:
        return f"{name} has {size} bytes of {expected[0]}"
    return "" if digest(checkpoint / name, progress) == expected else f"{name} was altered"


def files(folder: Path) -> list[str]:
    """Everything in it but the manifest, by relative path."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in found if name != MANIFEST)


def digest(path: Path, progress: Callable[[], None] = nothing) -> tuple[int, str]:
    with path.open("rb") as file:
        found = path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
    progress()
    return found


def put(path: Path, value: object) -> None:
    """Write JSON and see it onto the disk."""
    path.write_text(json.dumps(value, indent=1) + "\n")
    flush(path)


def read(path: Path) -> dict[str, tuple[int, str]]:
    return json.loads(path.read_text())


def flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_tree(folder: Path, progress: Callable[[], None] = nothing) -> None:
    for path in (*folder.rglob("*"), folder):
        flush(path)
        progress()


def replace_folder(aside: Path, final: Path) -> None:
    """Rename into place; one of the same step, from before a resume, makes way first."""
    old = final.with_name(f".{final.name}.old")
    if final.exists():
        final.rename(old)
    aside.rename(final)
    flush(final.parent)
    shutil.rmtree(old, ignore_errors=True)


def listed(folder: Path) -> list[int]:
    try:
        return [int(step) for step in json.loads((folder / INDEX).read_text())]
    except (OSError, ValueError, TypeError):
        return []


def prune(folder: Path, keep: int) -> list[int]:
    """Delete all but the last `keep`; the steps that stay."""
    present = steps_in(folder)
    for step in present[: -max(1, keep)]:
        shutil.rmtree(folder / f"{STEP}{step}")
    return present[-max(1, keep) :]


def list_kept(folder: Path, kept: list[int]) -> None:
    aside = folder / f".{INDEX}.partial"
    put(aside, kept)
    aside.replace(folder / INDEX)
    flush(folder)


def sweep(folder: Path) -> None:
    """Remove what a killed run left half written; put back what it had moved out of the way."""
    for old in folder.glob(f".{STEP}*.old"):
        final = old.with_name(old.name.removeprefix(".").removesuffix(".old"))
        shutil.rmtree(old) if final.exists() else old.rename(final)
    for aside in folder.glob(f".{STEP}*.partial"):
        shutil.rmtree(aside)
