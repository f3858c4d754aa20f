"""`rlx view`: a local web page of runs, until it is stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from rlx.commands.parts import show
from rlx.limits import MistakeError
from rlx.view.server import ViewServer, open_view


class ViewError(MistakeError):
    """The page cannot be shown; the message is one line."""


def serve_view(folders: Sequence[Path], port: int) -> None:
    """Print the page's address, and answer until an interrupt."""
    try:
        server = open_view(folders, port)
    except OSError as error:
        raise ViewError(f"--port {port}: {error.strerror}; port 0 takes a free one") from None

    def stop(signum: int, frame: FrameType | None) -> None:
        threading.Thread(target=server.shutdown, daemon=True).start()

    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, stop)
    show(f"{server.url}\nCtrl-C ends it; the address holds a secret, so whoever has it can read these runs")
    serve(server)


def serve(server: ViewServer) -> None:
    try:
        server.serve_forever(poll_interval=0.1)
    finally:
        server.server_close()
