"""A run's folder: one writer at a time, the same configuration to the end.

    config.yaml     the resolved configuration
    metrics.jsonl   a line a step
    command.json    the command and its words, for `rlx resume` and reports
    summary.json    final figures, cost, provenance
    run.json        cost and warnings before the first checkpoint
    trajectories/   what the agent saw and did
    times/          seconds that its episodes took
    checkpoints/    step-N folders
    ranks/          where each process is
    wandb/          W&B's own files
    tensorboard/    TensorBoard's event files, if asked for

Only FREE_KEYS of the configuration may change when a run is resumed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from rlx.base.limits import to_text
from rlx.base.regular import ASIDE, inside, read_bounded, regular_files, require_regular, write_aside
from rlx.runs.codec import FORMAT
from rlx.runs.lock import HeldError, hold
from rlx.runs.plain_yaml import PlainError, read_plain
from rlx.runs.single_files import read_json, set_aside

FREE_KEYS = ("steps", "track", "hardware", "checkpoint", "objective")
"""Keys that may differ when a run is resumed: length, tracking, hardware (which changes rounding), checkpoints, and the
objective of a sweep."""
JUDGING_KEYS = ("evaluate",)
"""Keys that may differ too while the run is not finished: no weight depends on them."""
DERIVED = "model.recipe."
"""Keys whose values other keys have taken, under their own names."""
BOUND_KEYS = ("hardware.staleness", "hardware.importance_cap")
"""Exceptions among the free keys: these change the run."""
CONFIG, METRICS, SUMMARY, RESULTS = "config.yaml", "metrics.jsonl", "summary.json", "results.md"
LOCK, LOG, COMMAND = ".lock", "log.txt", "command.json"
TRAJECTORIES, CHECKPOINTS, EVALUATIONS, RANKS, LOGS = "trajectories", "checkpoints", "evaluations", "ranks", "logs"
TENSORBOARD, WANDB, FAILED = "tensorboard", "wandb", "failed"
STEP = "step-"
"""Start of the name of a checkpoint, or of a file of training episodes."""
RESTORE = "restore it, or choose another hydra.run.dir"
MARK = f"# A run of rlx, format {FORMAT}\n"
"""The first line of config.yaml."""
BEFORE_CONFIG = (LOCK, LOG, LOGS, RANKS, "multirun.yaml", "rlx.log", ".hydra", ".submitit")
"""Names that a run's folder may hold before its configuration is written."""
HYDRAS = (".hydra", "multirun.yaml", "rlx.log")
"""Names that Hydra writes to before a run's own code begins."""
HIDDEN = re.compile(r"\.(clock-|nfs).*|\..*\.part")


class FolderError(Exception):
    """The run folder cannot be used as asked; the message is one line with the remedy."""

    exit_code = 2


def steps_in(checkpoints: Path) -> list[int]:
    """List the steps of the checkpoints in a folder, by their names, in order."""
    names = (path.name.removeprefix(STEP) for path in checkpoints.glob(f"{STEP}*"))
    return sorted(int(name) for name in names if name.isdecimal())


def digest_of(value: Any) -> str:
    """A stable short name for a JSON value: equal values, equal names."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return {"a": {"b": 1}} as {"a.b": 1}; an empty mapping is as none."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def differences(old: Mapping[str, Any], new: Mapping[str, Any], free: Sequence[str] = FREE_KEYS) -> list[str]:
    """`key: old -> new` for every key whose value differs, but for those below `free`."""
    before, after = flatten(old), flatten(new)
    return [
        f"{key}: {before.get(key)} -> {after.get(key)}"
        for key in sorted(before.keys() | after.keys())
        if (key in BOUND_KEYS or not is_free(key, free)) and before.get(key) != after.get(key)
    ]


def is_free(key: str, free: Sequence[str]) -> bool:
    return key.split(".")[0] in free or key.startswith(DERIVED)


def read_config(folder: Path) -> dict[str, Any]:
    """Read the configuration that `claim_config` wrote. FolderError if it is damaged."""
    path = folder / CONFIG
    try:
        tree = read_plain(path)
    except OSError as error:
        raise FolderError(f"{path} cannot be read ({error.strerror}); {RESTORE}") from None
    except PlainError as error:
        raise FolderError(f"{path} is no configuration of a run: {error}; {RESTORE}") from None
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise FolderError(f"{path} is damaged ({type(error).__name__}); {RESTORE}") from None
    if not isinstance(tree, dict):
        raise FolderError(f"{path} does not hold a configuration; {RESTORE}")
    return tree


def version_hint(folder: Path) -> str:
    """Return the end of an error about a configuration of another format; empty for one of this format."""
    try:
        first = read_bounded(folder / CONFIG)[: len(MARK)].decode(errors="replace")
    except OSError:
        return ""
    if first == MARK:
        return ""
    return f" (another version of rlx wrote it, before format {FORMAT}: use that version, which summary.json names)"


def claim_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Write config.yaml, or refuse when the folder already belongs to another configuration. A finished
    run keeps its own, as the record of its settings."""
    path = folder / CONFIG
    plain = json.loads(json.dumps(config))
    if os.path.lexists(path):
        old = read_config(folder)
        done = is_finished(folder, old, plain)
        refuse_differences(folder, old, plain, done=done)
        if done:
            return
        refuse_fewer_steps(folder, plain.get("steps"))
    write_aside(path, MARK + yaml.safe_dump(plain, sort_keys=False))


def refuse_differences(folder: Path, old: Mapping[str, Any], new: Mapping[str, Any], *, done: bool) -> None:
    """Refuse a change of a key that the run's steps depend on, and in a finished run of one that its figures do."""
    changed = differences(old, new, (*FREE_KEYS, *JUDGING_KEYS))
    if changed:
        raise FolderError(
            f"{folder} holds a run with another configuration ({'; '.join(changed[:3])}): "
            f"`rlx resume {folder}` goes on with that run, or choose another hydra.run.dir{version_hint(folder)}"
        )
    judged = differences(old, new) if done else []
    if judged:
        raise FolderError(
            f"{folder} is finished, and was evaluated otherwise ({'; '.join(judged[:3])}): "
            f"`rlx eval run={folder}` with the new words evaluates its checkpoint again, in a folder of its own"
        )


def refuse_fewer_steps(folder: Path, steps: Any) -> None:
    """Refuse a configuration that ends before the newest checkpoint, while the folder still has the one that it had."""
    newest = max(steps_in(inside(folder, CHECKPOINTS)), default=0)
    if isinstance(steps, int) and steps < newest:
        checkpoint = inside(folder, CHECKPOINTS) / f"{STEP}{newest}"
        raise FolderError(
            f"steps={steps}: {checkpoint} is past that; give steps={newest} or more, or choose another hydra.run.dir"
        )


def is_finished(folder: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Check in the summary that the run is finished and as long as the new configuration asks."""
    summary = read_json(folder / SUMMARY)
    return summary.get("status") == "finished" and (summary.get("steps") or old.get("steps")) == new.get("steps")


def clear_asides(folder: Path) -> None:
    """Remove what a kill left half written in the folder of a run, which one process alone writes."""
    for aside in (*folder.glob(f".*{ASIDE}"), *inside(folder, TRAJECTORIES).glob(f".*{ASIDE}")):
        aside.unlink(missing_ok=True)


@contextmanager
def open_folder(
    folder: Path,
    config: Mapping[str, Any],
    *,
    wait: bool = False,
    waiting: Callable[[str], None] | None = None,
    mend: Callable[[str], None] | None = None,
) -> Iterator[Path]:
    """Lock a folder against a second run to the end of this one; `wait` for the other instead. With `mend`, as in a
    cache, another configuration is moved aside, and `mend` gets a message."""
    if mend is None and folder.is_dir():
        refuse_other(folder)
    with hold_folder(folder, "choose another hydra.run.dir", wait=wait, waiting=waiting):
        clear_asides(folder)
        try:
            claim_config(folder, config)
        except FolderError as error:
            if mend is None:
                raise
            mend(f"{error.args[0].partition(';')[0]}: made again; what was there is now {set_aside(folder / CONFIG)}")
            claim_config(folder, config)
        yield folder


@contextmanager
def hold_folder(
    folder: Path, remedy: str, *, wait: bool = False, waiting: Callable[[str], None] | None = None
) -> Iterator[None]:
    """A folder in which nobody else works as long as the block lasts; FolderError where somebody does."""
    make_folder(folder)
    with ExitStack() as stack:
        try:
            stack.enter_context(hold(folder / LOCK, wait=wait, waiting=waiting))
        except HeldError as error:
            raise FolderError(f"{folder} is in use by another run ({error}): wait for it, or {remedy}") from None
        yield


def refuse_other(folder: Path) -> None:
    """Refuse a folder that holds something and is no run: its files may have the names of a run's own."""
    if os.path.lexists(folder / CONFIG):
        return
    other = sorted(name for name in os.listdir(folder) if name not in BEFORE_CONFIG and not HIDDEN.fullmatch(name))
    if other:
        raise FolderError(
            f"{folder} holds {other[0]:.80} and is no run, as it has no {CONFIG}: "
            "choose another hydra.run.dir, new or empty"
        )


def exists(path: Path) -> bool:
    """Return whether something is there, a link to nothing too; OSError for a name that nothing can have."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except ValueError as error:  # a null character, which only a program can name
        raise OSError(errno.EINVAL, str(error)) from None
    return True


def refuse_place(folder: Path) -> None:
    """Refuse a place in which no run can be, before anything is made there."""
    try:
        present = exists(folder) and os.stat(folder)
        if present and not folder.is_dir():
            raise FolderError(f"{folder} is a file, where a run's folder should be: choose another place")
        if present:
            refuse_other(folder)
        above = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
        if not above.is_dir():
            raise FolderError(f"{above} is a file, where a folder should be: choose another place for {folder}")
        if not os.access(above, os.W_OK | os.X_OK):
            raise FolderError(f"{above} cannot be written: choose another place for {folder}")
    except OSError as error:
        fault = "is a link to nothing" if os.path.islink(folder) else f"cannot be a folder ({error.strerror})"
        raise FolderError(f"{to_text(folder)} {fault}: choose another place") from None
    refuse_irregular(folder)


def refuse_irregular(folder: Path) -> None:
    """Refuse a folder in which Hydra would write through a link, or into a pipe: it opens what is there."""
    for name in HYDRAS:
        path = inside(folder, name)
        for _ in regular_files(path):
            pass
        if not path.is_dir():
            require_regular(path)


def reserve_folder(folder: str) -> str:
    """Make a new folder for a run, with a number behind its name where another run has taken that: two that start
    together get two."""
    make_folder(Path(folder).parent)
    names = (folder if number == 1 else f"{folder}-{number}" for number in count(1))
    return next(name for name in names if is_new(Path(name)))


def is_new(folder: Path) -> bool:
    """Make a folder, which one process alone can do; false where something is there already."""
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    except OSError as error:
        raise FolderError(f"{folder} cannot be a folder ({error.strerror}): choose another place") from None
    return True


def make_folder(folder: Path) -> None:
    """FolderError where something else is in its place, or in that of a folder above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(f"{folder} cannot be a folder ({error.strerror}): choose another place") from None
