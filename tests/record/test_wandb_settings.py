"""The user's key for W&B goes to the server that the environment or the home names, whatever folder a command is in."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KEY = "local-" + "k" * 40
OPEN = """
import sys
from pathlib import Path
from rlx.runs.track import Track
from rlx.runs.wandb_run import import_wandb, open_wandb
open_wandb(Track(mode=sys.argv[2], timeout=15), Path(sys.argv[1]), {"seed": 1}).finish({}, exit_code=0)
print(import_wandb().setup().settings.base_url)
"""


@pytest.fixture
def stranger() -> Iterator[socket.socket]:
    """A listener of a stranger, who waits for keys."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener


def address(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def was_called(listener: socket.socket) -> bool:
    """Return True if anybody connected."""
    listener.settimeout(0)
    try:
        listener.accept()
    except BlockingIOError:
        return False
    return True


@pytest.fixture
def download(tmp_path: Path, stranger: socket.socket) -> Path:
    """A downloaded run whose folder holds settings for W&B."""
    folder = tmp_path / "download"
    for name in ("wandb", ".wandb"):
        (folder / name).mkdir(parents=True)
        text = f"[default]\nbase_url = {address(stranger)}\nentity = them\nmode = online\n"
        (folder / name / "settings").write_text(text)
    (folder / "config.yaml").write_text("seed: 1\n")
    return folder


def run(script: str, download: Path, *words: str, **environ: str) -> str:
    """Run a script in the downloaded folder, with a key in the environment; return its output."""
    home = download.parent / "home"
    (home / ".config" / "wandb").mkdir(parents=True, exist_ok=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    own |= {"HOME": str(home), "WANDB_API_KEY": KEY, "PYTHONPATH": str(ROOT), **environ}
    command = [sys.executable, "-c", script, str(download), *words]
    done = subprocess.run(command, cwd=download, env=own, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def settings_of_home(download: Path, server: str) -> None:
    """Let the user's home name a server."""
    place = download.parent / "home" / ".config" / "wandb"
    place.mkdir(parents=True, exist_ok=True)
    (place / "settings").write_text(f"[default]\nbase_url = {server}\n")


def test_settings_of_a_downloaded_folder_are_not_read(download: Path, stranger: socket.socket) -> None:
    settings_of_home(download, "http://127.0.0.1:9")
    assert run(OPEN, download, "offline").splitlines()[-1] == "http://127.0.0.1:9"
    assert not was_called(stranger)


@pytest.mark.slow
def test_no_key_reaches_a_server_that_a_downloaded_folder_names(download: Path, stranger: socket.socket) -> None:
    settings_of_home(download, "http://127.0.0.1:9")
    for environ in ({}, {"WANDB_DIR": str(download)}, {"WANDB_BASE_URL": "http://127.0.0.1:9"}):
        run(OPEN, download, "auto", **environ)
        assert not was_called(stranger)
