"""Take the docs' pictures of `rlx view` from real runs, with Chromium.

python -m scripts.pictures outputs             # into docs/pictures
python -m scripts.pictures outputs --out DIR

Each picture needs a run of some kind below the folder, as SHOTS says. One that has no run is left out, and named.
"""

from __future__ import annotations

import argparse
import shutil
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

from rlx.runs.files import episode_files
from rlx.runs.rows import Row
from rlx.view.server import ViewServer, open_view

OUT = Path(__file__).resolve().parents[1] / "docs" / "pictures"
LARGEST = 200_000
"""Bytes of a picture."""
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@dataclass(frozen=True, kw_only=True)
class Shot:
    """A picture: file name, algorithm of the run, and view of the run."""

    name: str
    algo: str = ""
    """Beginning of the run's algorithm; empty for any."""
    view: str
    """runs, overview, episodes, episode, group or pair."""
    query: str = ""
    theme: str = "light"
    ready: str
    """Selector of an element that is there when the view is."""
    height: int = 760
    keys: Sequence[str] = ()


SHOTS = (
    Shot(name="runs", view="runs", ready=".chart .uplot"),
    Shot(name="overview", algo="tool_rloo", view="overview", ready=".chart .uplot", theme="dark"),
    Shot(name="episodes", view="episodes", query="sort=-reward", ready=".list-body .good"),
    Shot(
        name="tokens", algo="tool_rloo", view="episode", query="shade=logprob", ready=".turn:not(.replayed)", keys=["o"]
    ),
    Shot(name="tree", algo="carl", view="group", query="shade=entropy", ready=".tree .selected"),
    Shot(name="twins", algo="earl", view="pair", query="shade=advantage", ready=".pair-row .turn", height=560),
    Shot(name="grid", algo="nested_ppo", view="episode", query="shade=logprob", ready=".picture", theme="dark"),
)


def forks(rows: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """Yield each fork with its parent, the ones of different reward first."""
    all_rows = list(rows)
    places = {(row.group, row.sample): row for row in all_rows}
    pairs = [(places[row.group, row.parent], row) for row in all_rows if (row.group, row.parent) in places]
    yield from sorted(pairs, key=lambda pair: pair[0].reward == pair[1].reward)


def liveliest_group(rows: Sequence[Row]) -> int:
    """Return the group whose rewards differ most, with the most forks among equals."""
    rewards, num_forks = defaultdict(set), Counter(row.group for row in rows if row.parent >= 0)
    for row in rows:
        rewards[row.group].add(row.reward)
    return max(rewards, key=lambda group: (len(rewards[group]), num_forks[group]))


def place_of(server: ViewServer, shot: Shot, run: str) -> str | None:
    """Return the address of what a picture shows, below the page's; None where the run has no such thing."""
    home = f"run/{quote(run, '')}"
    tails = {"runs": "", "overview": home, "episodes": f"{home}/episodes"}
    if shot.view in tails:
        return f"#/{tails[shot.view]}?{shot.query}"
    folder = server.view.places.find(run)
    names = [file.name for file in episode_files(folder)[0] if file.kind == "train"]
    if not names:
        return None
    table = server.view.tables.file(folder, names[-1])
    rows = list(map(table.row, range(len(table.rows))))
    start = f"#/{home}/{shot.view}/{quote(names[-1], '')}"
    if shot.view == "group":
        return f"{start}/{liveliest_group(rows)}?{shot.query}"
    if shot.view == "pair":
        pair = next(forks(rows), None)
        return pair and f"{start}/{pair[0].line}/{quote(names[-1], '')}/{pair[1].line}?{shot.query}"
    best = max(rows, key=lambda row: (row.success, row.turns if row.turns <= 12 else -row.turns))
    return f"{start}/{best.line}?{shot.query}"


def take(page: Page, address: str, shot: Shot, out: Path) -> int:
    """Save one picture, and return its bytes."""
    page.goto(address)
    page.wait_for_selector(shot.ready)
    for key in shot.keys:
        page.keyboard.press(key)
    page.wait_for_timeout(500)  # canvases and pictures of the environment come later
    page.evaluate("document.activeElement?.blur()")
    file = out / f"{shot.name}.png"
    page.screenshot(path=file)
    return file.stat().st_size


@contextmanager
def serving(folder: Path) -> Iterator[ViewServer]:
    server = open_view([folder])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def find_run(runs: Sequence[dict[str, Any]], shot: Shot) -> str | None:
    """Return the id of the longest run of a picture's algorithm."""
    fitting = [run for run in runs if str(run["algo"]).startswith(shot.algo)]
    return max(fitting, key=lambda run: run["step"] or 0)["id"] if fitting else None


def main(folder: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with serving(folder) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page()
        page.goto(server.url)
        runs = page.evaluate("fetch('api/runs').then(answer => answer.json())")["runs"]
        for shot in SHOTS:
            run = find_run(runs, shot)
            place = place_of(server, shot, run) if run else None
            if place is None:
                print(f"{shot.name}: no run of {shot.algo or 'any kind'} with such episodes")
                continue
            context = browser.new_context(viewport={"width": 1280, "height": shot.height}, color_scheme=shot.theme)
            size = take(context.new_page(), server.url + place, shot, out)
            context.close()
            print(f"{shot.name}.png: {size / 1000:.0f} kB{' (too large)' if size > LARGEST else ''}")
        browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Take the docs' pictures of rlx view")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    words = parser.parse_args()
    main(words.folder, words.out)
