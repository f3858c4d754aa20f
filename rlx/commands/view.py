"""`rlx view`: a local web page of runs, until it is stopped; or chosen episodes as one file."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from types import FrameType
from urllib.parse import quote

from rlx.base.console import format_count, one_line
from rlx.base.limits import MistakeError
from rlx.base.regular import inside
from rlx.commands.find import Wanted, find_file, pick, read_line, scan
from rlx.commands.output import write_output
from rlx.commands.parts import show
from rlx.runs.folder import TRAJECTORIES
from rlx.view.export import export_page
from rlx.view.places import Places
from rlx.view.server import ViewServer, open_view

MOST = 200
"""Episodes of one exported page."""


class ViewError(MistakeError):
    """The page cannot be shown; the message is one line."""


def find_folders(places: Sequence[str]) -> list[Path]:
    """Return the folders that were named."""
    for place in places:
        if not Path(place).is_dir():
            raise ViewError(f"{one_line(place)} is no folder")
    return [Path(place) for place in places]


def split_places(places: Sequence[str]) -> tuple[Path, str]:
    """Return the run and the name of a file of its episodes, of which some are chosen."""
    if not 1 <= len(places) <= 2:
        raise ViewError("--export, --best, --worst and --line take one run: rlx view DIR [STEP]")
    (folder,) = find_folders(places[:1])
    return folder, "".join(places[1:])


def refuse_filters(wanted: Wanted) -> None:
    """Refuse filters without --export: the page shows all episodes, and filters them itself."""
    if wanted != Wanted():
        raise ViewError("a filter of episodes needs --export FILE.html; the page itself has filters")


def place_of_episode(folder: Path, label: str, wanted: Wanted, *, by: str, line: int | None) -> str:
    """Return the fragment of the page's address for one episode, in the form of scripts/page/src/route.js."""
    file = stored_file(folder, label)
    stored_line = read_line(file, line) if line is not None else pick(file, wanted, by=by)
    run = Places([folder]).id_of(folder)
    if run is None:
        raise ViewError(f"{one_line(str(folder))} is no run")
    parts = (run, "episode", file.name, str(stored_line.number))
    return "#/run/" + "/".join(quote(part, safe="") for part in parts)


def serve_view(folders: Sequence[Path], port: int, place: str = "") -> None:
    """Print the page's address, with a place on the page, and answer until an interrupt."""
    try:
        server = open_view(folders, port)
    except OSError as error:
        raise ViewError(f"--port {port}: {error.strerror}; port 0 takes a free one") from None

    def stop(signum: int, frame: FrameType | None) -> None:
        threading.Thread(target=server.shutdown, daemon=True).start()

    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, stop)
    show(f"{server.url}{place}\nCtrl-C ends it; the address holds a secret, so whoever has it can read these runs")
    serve(server)


def serve(server: ViewServer) -> None:
    try:
        server.serve_forever(poll_interval=0.1)
    finally:
        server.server_close()


def stored_file(folder: Path, label: str) -> Path:
    """Return a file of episodes; OSError where it is a link."""
    return inside(folder, TRAJECTORIES, find_file(folder, label).name)


def export_episodes(folder: Path, label: str, wanted: Wanted, *, by: str, line: int | None, out: Path) -> str:
    """Write chosen episodes of a file into one page, and return what was written."""
    file = stored_file(folder, label)
    if line is not None:
        lines = [line]
    elif by:
        lines = [pick(file, wanted, by=by).number]
    else:
        lines = [stored_line.number for stored_line in islice(scan(file, wanted), MOST + 1)]
    if not 1 <= len(lines) <= MOST:
        few = f"more than {MOST} episodes" if lines else "no such episode"
        raise ViewError(f"{file.name} has {few}: choose with --task, --sample, --failed, --best or --line")
    text = export_page(folder, file.name, lines)
    write_output(out, text)
    return f"{format_count(len(lines), 'episode')} in {one_line(str(out))}, {len(text) / 1e6:.1f} MB"
