"""A run's folder: one writer at a time, one configuration for its whole life.

config.yaml     the resolved configuration
metrics.jsonl   a line a step
summary.json    final figures, cost, versions
trajectories/   what the agent saw and did
checkpoints/    step-N folders
ranks/          where each process is
wandb/          W&B's own files
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from rlx.lock import HeldError, hold

FREE_KEYS = ("steps", "track", "hardware")
"""What may differ when a run is resumed: its length, who is told, and on what it runs, which changes rounding."""
DERIVED = "model.recipe."
"""What other keys have taken their values from, under their own names."""
BOUND_KEYS = ("hardware.staleness", "hardware.importance_cap")
"""Of the free ones, what does change the run."""
ASIDE = ".part"
"""The end of the name of a file that is not whole yet."""


class FolderError(Exception):
    """The run folder cannot be used as asked; the message is one line with the remedy."""

    exit_code = 2


def write_aside(path: Path, text: str) -> None:
    """Write a file so that it is never seen half written; where it cannot be, the error names it. Several may write the
    same at once, as jobs that share a cache do: each writes aside under a name of its own, and the last stands."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}{ASIDE}")
    try:
        with open(aside, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise OSError(error.errno, f"{path} could not be written: {error.strerror}", str(path)) from error


def digest_of(value: Any) -> str:
    """A stable short name for a JSON value: equal values, equal names."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} as {"a.b": 1}."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """`key: old -> new` for every key whose value differs, but for FREE_KEYS."""
    before, after = flatten(old), flatten(new)
    return [
        f"{key}: {before.get(key)} -> {after.get(key)}"
        for key in sorted(before.keys() | after.keys())
        if (key in BOUND_KEYS or not is_free(key)) and before.get(key) != after.get(key)
    ]


def is_free(key: str) -> bool:
    return key.split(".")[0] in FREE_KEYS or key.startswith(DERIVED)


def claim_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Write config.yaml, or refuse when the folder already belongs to another configuration."""
    path = folder / "config.yaml"
    plain = json.loads(json.dumps(config))
    if path.exists():
        changed = differences(yaml.safe_load(path.read_text(encoding="utf-8")) or {}, plain)
        if changed:
            raise FolderError(
                f"{folder} holds a run with another configuration ({'; '.join(changed[:3])}): "
                "repeat its command to resume it, or choose another hydra.run.dir"
            )
    write_aside(path, yaml.safe_dump(plain, sort_keys=False))


def clear_asides(folder: Path) -> None:
    """Remove what a kill left half written in the folder of a run, which one process alone writes."""
    for aside in (*folder.glob(f".*{ASIDE}"), *folder.glob(f"trajectories/.*{ASIDE}")):
        aside.unlink(missing_ok=True)


@contextmanager
def open_folder(folder: Path, config: Mapping[str, Any], *, wait: bool = False) -> Iterator[Path]:
    """The folder, locked against a second run for as long as this one lives; `wait` for the other instead."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(hold(folder / ".lock", wait=wait))
        except HeldError as error:
            remedy = "wait for it, or choose another hydra.run.dir"
            raise FolderError(f"{folder} is in use by another run ({error}): {remedy}") from None
        clear_asides(folder)
        claim_config(folder, config)
        yield folder
