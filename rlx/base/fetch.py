"""Downloads from a hub, each done once in a separate process that a signal ends at once; also text files.

`python -m rlx.base.fetch model NAME` downloads into the hub's cache and prints the folder. HF_HUB_OFFLINE, HF_HOME,
HF_TOKEN and HF_ENDPOINT have huggingface_hub's meaning.
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
"""Patterns of a repository's useful files: no pickles, no second copy of the weights."""
PATIENCE = 5.0
"""Seconds in which a hub must answer."""
TICK = 0.1
"""Seconds between checks for a request to stop."""


class FetchError(RuntimeError):
    """Failed download; the message is one line with the reason and the remedy."""

    exit_code = 2


downloaded: dict[tuple[str, Kind], Path] = {}
"""Folders that this process has downloaded, by name and kind."""


def open_text(name: str) -> TextIO:
    """Open a file as UTF-8. Raise OSError for a pipe, which may block, and for a device, which may be endless."""
    path = os.path.expanduser(name)
    if "\0" in path or (os.path.exists(path) and not os.path.isfile(path)):
        raise OSError(errno.EINVAL, "it is no file", path)
    return open(path, encoding="utf-8-sig")


def snapshot(name: str, kind: Kind, check: Callable[[], None] = lambda: None) -> Path:
    """Return the cached folder of a hub's model or data set; download it at the first call in a process. `check` is
    called meanwhile, and its exception ends the download."""
    if (name, kind) not in downloaded:
        downloaded[name, kind] = fetch_apart(name, kind, check)
    return downloaded[name, kind]


def revision(name: str, kind: Kind) -> str:
    """Return the local commit of a hub's model or data set: this process's, or the last one downloaded. Empty without
    one."""
    if (name, kind) in downloaded:
        return downloaded[name, kind].name
    from huggingface_hub.constants import HF_HUB_CACHE

    with suppress(OSError, UnicodeDecodeError):
        return (Path(HF_HUB_CACHE) / f"{kind}s--{name.replace('/', '--')}" / "refs" / "main").read_text().strip()
    return ""


def fetch_apart(name: str, kind: Kind, check: Callable[[], None]) -> Path:
    """Download in a child process."""
    bars = {} if sys.stderr.isatty() else {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    command = [sys.executable, "-m", "rlx.base.fetch", kind, name]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **bars})
    try:
        while child.poll() is None:
            check()
            with suppress(subprocess.TimeoutExpired):
                child.wait(TICK)
        result = parse_result(child.stdout.read() if child.stdout else b"")
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
    if "folder" not in result:
        why = result.get("error", "fetching it ended without a word")
        raise FetchError(f"{KEYS[kind]}={name}: {why}; {OR_ELSE[kind]}")
    return Path(str(result["folder"]))


KEYS = {"model": "model.path", "dataset": "env.hub"}
OR_ELSE = {"model": "without a hub, give a folder with model.path=DIR", "dataset": "without a hub, give a jsonl file"}


def parse_result(raw: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(raw.splitlines()[-1]))
    except (ValueError, IndexError, TypeError):
        return {}


def main(words: Sequence[str]) -> None:
    """Run the child. It ignores signals, which are for the run; a closed pipe or the run's death ends it."""
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
    """Download; return {"folder": …} or {"error": one line}."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()
    try:
        folder = snapshot_download(name, repo_type=kind, allow_patterns=WANTED[kind], etag_timeout=PATIENCE)
    except Exception as error:
        return {"error": explain(error)}
    return {"folder": folder}


def explain(error: Exception) -> str:
    """Return the reason of a failed download in a few words."""
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
