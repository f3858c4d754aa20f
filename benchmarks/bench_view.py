"""Time in which `rlx view` answers, by the number of episodes of a run.

    python benchmarks/bench_view.py                        6,000, 25,000 and 100,000 episodes, 64 in each group
    python benchmarks/bench_view.py --episodes 1000 4000   other numbers

An episode has 8 turns of 16 tokens with advantages and entropies, some 6 kB. Times are wall times, the best of some
repeats. `first` reads a folder that has no indexes, and `ratio_of_json` compares it with parsing the same lines and
nothing more. `opened` is the first answer of a server that has just started, with the indexes there. `same` is the
answer to a page that asks again when nothing changed; `step` is the table after a file was added. An exponent of 1
means that twice the episodes take twice the time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from math import log
from pathlib import Path
from typing import Any

from rlx.runs.index import places_of
from rlx.runs.store import save_lines, step_path, value_of
from rlx.types import Action, Completion, Fork, Task, Text, ToolUse, Trajectory, Turn
from rlx.view.server import ViewServer, open_view

GROUP, FILE = 64, 1024
"""Episodes of a group, and of a file."""
REPEATS = 3
TOKENS = 16


def turn(number: int) -> Turn:
    completion = Completion(token_ids=tuple(range(500, 500 + TOKENS)), logprobs=(-0.123456789,) * TOKENS, stop="stop")
    return Turn(
        prompt_ids=tuple(range(10 + (TOKENS + 6) * number)),
        completion=completion,
        action=Action(kind="call", text="((93 * 41) * 26)", name="python"),
        observation=(Text("99138"),),
        reward=-0.02,
        tool=ToolUse(num_calls=1, num_tokens=6),
    )


TURNS = tuple(map(turn, range(8)))
NOTES: list[dict[str, Any]] = [
    {
        "pieces": ["piece "] * TOKENS,
        "advantages": [0.148571431636] * TOKENS,
        "entropies": [0.2064804993569] * TOKENS,
        "trained": [1.0] * TOKENS,
    }
] * len(TURNS)


def values(first: int, num: int) -> Iterator[dict[str, Any]]:
    """Yield episodes, a quarter of which are forks."""
    for number in range(first, first + num):
        group, sample = divmod(number, GROUP)
        task = Task(id=f"{group},93,26=78", prompt=(Text("Make 78."),), data={"target": 78})
        fork = Fork(parent=sample - 1, turn=4, token=3) if sample % 4 == 3 else None
        episode = Trajectory(task=task, sample=sample, turns=TURNS, status="done", success=number % 3 == 0, fork=fork)
        yield value_of(group, 8, episode, NOTES)


def write_run(folder: Path, num: int) -> None:
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("model: {path: nano}\n")
    (folder / "metrics.jsonl").write_text('{"step": 1}\n')
    for step, first in enumerate(range(0, num, FILE), start=1):
        add_step(folder, step, first, min(FILE, num - first))


def add_step(folder: Path, step: int, first: int, num: int) -> None:
    save_lines(step_path(folder, step), list(values(first, num)))


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


@contextmanager
def serving(folder: Path) -> Iterator[ViewServer]:
    server = open_view([folder])
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def ask(server: ViewServer, tag: str = "") -> tuple[str, int]:
    """Ask for the table until it is there; its ETag and bytes."""
    connection = HTTPConnection("127.0.0.1", server.server_address[1])
    while True:
        path = f"/{server.secret}/api/episodes?run=run"
        connection.request("GET", path, headers={"If-None-Match": tag} if tag else {})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 202:
            connection.close()
            return answer.headers["ETag"], len(body)
        time.sleep(0.02)


def parse_all(folder: Path) -> None:
    for file in sorted((folder / "trajectories").glob("*.jsonl")):
        with open(file, "rb") as lines:
            for line in lines:
                json.loads(line)


def forget(folder: Path) -> None:
    """Remove the indexes of the files of episodes."""
    for file in (folder / "trajectories").glob("*.jsonl"):
        places_of(file)[0].unlink(missing_ok=True)


def fresh(folder: Path) -> float:
    """Seconds until a server that has just started has answered."""
    with serving(folder) as server:
        return seconds(lambda: ask(server))


def first_answer(folder: Path) -> float:
    forget(folder)
    return fresh(folder)


def measure(folder: Path, num: int) -> dict[str, Any]:
    write_run(folder, num)
    files = list((folder / "trajectories").glob("*.jsonl"))
    opened = min(fresh(folder) for _ in range(REPEATS))
    parsed = min(seconds(lambda: parse_all(folder)) for _ in range(REPEATS))
    first = min(first_answer(folder) for _ in range(REPEATS))
    with serving(folder) as server:
        tag, num_bytes = ask(server)
        same = min(seconds(lambda: ask(server, tag)) for _ in range(10 * REPEATS))
        add_step(folder, len(files) + 1, num, GROUP)
        step = seconds(lambda: ask(server, tag))
    return {
        "episodes": num,
        "megabytes": sum(file.stat().st_size for file in files) / 1e6,
        "index_megabytes": sum(places_of(file)[0].stat().st_size for file in files) / 1e6,
        "answer_megabytes": num_bytes / 1e6,
        "first_s": first,
        "ratio_of_json": first / parsed,
        "opened_s": opened,
        "ratio_opened_to_first": opened / first,
        "same_s": same,
        "step_s": step,
    }


def exponent(rows: list[dict[str, Any]], name: str) -> float:
    """Return b of time = a episodes^b between the smallest and the largest run."""
    return log(rows[-1][name] / rows[0][name]) / log(rows[-1]["episodes"] / rows[0]["episodes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, nargs="+", default=[6_000, 25_000, 100_000])
    words = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        os.environ["RLX_CACHE"] = f"{place}/cache"
        for num in sorted(words.episodes):
            rows.append(measure(Path(place) / str(num) / "run", num))
            print(json.dumps({name: round(value, 4) for name, value in rows[-1].items()}), flush=True)
    names = ("first_s", "opened_s", "same_s", "step_s") if len(rows) > 1 else ()
    json.dump({"exponents": {name: round(exponent(rows, name), 2) for name in names}}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
