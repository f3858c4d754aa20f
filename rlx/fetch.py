"""What a run takes from a hub: fetched once, in a process of its own, which a signal ends at once; and from a file.

`python -m rlx.fetch model NAME` fetches into the hub's own cache and prints where; HF_HUB_OFFLINE, HF_HOME, HF_TOKEN
and HF_ENDPOINT are huggingface_hub's.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TextIO

Kind = Literal["model", "dataset"]

WANTED = {
    "model": ["*.json", "model*.safetensors", "actions.safetensors", "*.model", "*.txt", "*.jinja"],
    "dataset": None,
}
"""Files of a repository that are of use: no pickles, no second copy of the weights."""
PATIENCE = 5.0
"""Seconds in which a hub must answer."""
TICK = 0.1
"""Seconds between looks at whether the run has been asked to stop."""


class FetchError(RuntimeError):
    """What a hub does not give; the message is one line that says why and what to do."""

    exit_code = 2


found: dict[tuple[str, Kind], Path] = {}
"""What this process has asked for."""


def open_text(name: str) -> TextIO:
    """A file in UTF-8. OSError for a pipe, which would be waited for, and for a device, which may have no end."""
    path = os.path.expanduser(name)
    if "\0" in path or (os.path.exists(path) and not os.path.isfile(path)):
        raise OSError(errno.EINVAL, "it is no file", path)
    return open(path, encoding="utf-8-sig")


def snapshot(name: str, kind: Kind, check: Callable[[], None] = lambda: None) -> Path:
    """The folder of a hub's model or data set in the cache, fetched if need be; asked for once by a process. `check` is
    called all the while, and what it raises ends the fetching."""
    if (name, kind) not in found:
        found[name, kind] = fetch_apart(name, kind, check)
    return found[name, kind]


def revision(name: str, kind: Kind) -> str:
    """The commit of a hub's model or data set that is here: what this process asked for, or what was fetched last.
    Empty where nothing was."""
    if (name, kind) in found:
        return found[name, kind].name
    from huggingface_hub.constants import HF_HUB_CACHE

    with suppress(OSError, UnicodeDecodeError):
        return (Path(HF_HUB_CACHE) / f"{kind}s--{name.replace('/', '--')}" / "refs" / "main").read_text().strip()
    return ""


def fetch_apart(name: str, kind: Kind, check: Callable[[], None]) -> Path:
    """Have a child fetch it."""
    bars = {} if sys.stderr.isatty() else {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    command = [sys.executable, "-m", "rlx.fetch", kind, name]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **bars})
    try:
        while child.poll() is None:
            check()
            with suppress(subprocess.TimeoutExpired):
                child.wait(TICK)
        said = said_by(child.stdout.read() if child.stdout else b"")
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
    if "folder" not in said:
        why = said.get("error", "fetching it ended without a word")
        raise FetchError(f"{KEYS[kind]}={name}: {why}; {OR_ELSE[kind]}")
    return Path(str(said["folder"]))


KEYS = {"model": "model.path", "dataset": "env.hub"}
OR_ELSE = {"model": "without a hub, give a folder with model.path=DIR", "dataset": "without a hub, give a jsonl file"}


def said_by(raw: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(raw.splitlines()[-1]))
    except (ValueError, IndexError, TypeError):
        return {}


def main(words: Sequence[str]) -> None:
    """The child. Signals are for the run, which says by closing the pipe, or by dying, when this may go."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(signum, signal.SIG_IGN)
    threading.Thread(target=outlive, daemon=True).start()
    kind, name = words
    print(json.dumps(fetch(name, kind)), flush=True)
    os._exit(0)  # threads that fetch would be waited for


def outlive() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def fetch(name: str, kind: str) -> dict[str, str]:
    """{"folder": …} or {"error": one line}."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()
    try:
        folder = snapshot_download(name, repo_type=kind, allow_patterns=WANTED[kind], etag_timeout=PATIENCE)
    except Exception as error:
        return {"error": explain(error)}
    return {"folder": folder}


def explain(error: Exception) -> str:
    """Why, in few words."""
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    if isinstance(error, HFValidationError):
        return "that is no owner/name of a hub"
    if isinstance(error, GatedRepoError):
        return "the hub gives it only to those who have asked there; log in with `hf auth login`"
    if isinstance(error, RepositoryNotFoundError):
        return "the hub has no such repository, or it is private: log in with `hf auth login`"
    if isinstance(error, LocalEntryNotFoundError):
        why = "HF_HUB_OFFLINE is set" if HF_HUB_OFFLINE else "the hub cannot be reached"
        return f"{why}, and it was not fetched before"
    return " ".join(str(error).split())[:200] or type(error).__name__


if __name__ == "__main__":
    main(sys.argv[1:])
