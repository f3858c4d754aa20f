"""A server with the doors of `rlx view` and invented data: quick to make, as large or as hostile as a test wants."""

from __future__ import annotations

import json
import random
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np

PAGE = Path(__file__).parents[2] / "rlx" / "view"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
BUILT = {
    "": ("page.html", "text/html"),
    "page.js": ("page.js", "text/javascript"),
    "page.css": ("page.css", "text/css"),
}
NAMES = {"reward/mean": 0.6, "loss/value": -0.1, "time/rollout": 3.0, "time/update": 2.0, "time/step": 5.5}

Query = Mapping[str, str]
Door = Callable[[Query], Any]
"""An answer to a query: bytes as they are, anything else as JSON."""


@contextmanager
def serving(doors: Mapping[str, Door]) -> Iterator[str]:
    """Serve the built page and doors; yield the address."""

    class Call(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Stay silent."""

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            name = parts.path.removeprefix("/secret/")
            if name in BUILT:
                file, kind = BUILT[name]
                self.answer((PAGE / file).read_bytes(), kind)
            elif (door := doors.get(name.removeprefix("api/"))) is None:
                self.answer(b'{"error": "there is no such door"}', "application/json", status=404)
            else:
                found = door(dict(parse_qsl(parts.query)))
                is_raw = isinstance(found, bytes)
                self.answer(found if is_raw else json.dumps(found).encode(), "application/json")

        def answer(self, body: bytes, kind: str, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("ETag", f'"{len(body)}"')
            self.send_header("Cache-Control", "no-cache")
            self.end_headers()
            with suppress(OSError):  # a browser that has gone on
                self.wfile.write(body)

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Stay silent: a browser drops connections as it likes."""

    server = Quiet(("127.0.0.1", 0), Call)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/secret/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def run_of(name: str, **values: Any) -> dict[str, Any]:
    """Describe a run as `api/runs` does."""
    known = {"id": name, "name": name, "state": "ended", "step": 60, "steps": 60, "seconds": 2.0, "left": None}
    told = {"where": "", "env": "countdown", "algo": "tool_rloo", "model": "nano", "seed": 0, "sweep": "", "changed": 0}
    return {**known, **told, "figures": {}, "num_episodes": 64, "damage": [], **values}


def metrics_of(steps: int, first: int = 0, names: Mapping[str, float] | None = None, seed: int = 0) -> dict[str, Any]:
    """Make metrics of steps after `first`."""
    chance = random.Random(seed)
    wanted = names or NAMES
    columns = {name: [value * (1 + 0.2 * chance.random()) for _ in range(steps)] for name, value in wanted.items()}
    told = {"steps": [*range(first + 1, steps + 1)], "columns": {name: ys[first:] for name, ys in columns.items()}}
    return {"end": steps, "mark": "m", "reset": False, **told}


def table_of(rows: int, tasks: list[str] | None = None) -> bytes:
    """Make the bytes of `api/episodes`, with groups of 8 in files of 1000."""
    chance = np.random.default_rng(0)
    place = np.arange(rows)
    strings = [*(tasks or [f"task-{number}" for number in range(500)]), "countdown"]
    reward = np.round(chance.random(rows) * 1.2 - 0.2, 2)
    parent = np.where(place % 8 > 5, 0, -1)
    some = {"turns": 9, "tokens": 400, "new_tokens": 400, "calls": 5, "failed": 3, "invalid": 2, "only_action": 2}
    columns: dict[str, tuple[str, Any]] = {
        "file": ("u4", place // 1000),
        "line": ("u4", place % 1000 + 1),
        "group": ("u4", place % 1000 // 8),
        "sample": ("i4", place % 8),
        "parent": ("i4", parent),
        "task": ("u4", place // 8 % (len(strings) - 1)),
        "env": ("u4", np.full(rows, len(strings) - 1)),
        "reward": ("f4", reward),
        "success": ("u1", reward > 0.5),
        "status": ("u1", np.where(place % 10 == 0, 1, 0)),
        **{name: ("u4", chance.integers(0, most, rows)) for name, most in some.items()},
        "forks": ("u4", np.where(place % 8 == 0, 2, 0)),
        "trained": ("u4", chance.integers(0, 300, rows)),
    }
    sizes = np.bincount(place // 1000) if rows else np.zeros(0, int)
    files = [
        {"name": f"step-{i + 1}.jsonl", "kind": "train", "step": i + 1, "first": 1000 * i, "rows": int(n), "damage": ""}
        for i, n in enumerate(sizes)
    ]
    return packed(rows, files, strings, columns)


def packed(rows: int, files: list[Any], strings: list[str], columns: Mapping[str, tuple[str, Any]]) -> bytes:
    """Pack columns as the page reads them."""
    data, told = b"", []
    for name, (kind, values) in columns.items():
        told.append({"name": name, "type": kind, "at": len(data)})
        raw = np.asarray(values).astype(f"<{kind}").tobytes()
        data += raw + bytes(-len(raw) % 8)
    header = json.dumps({"rows": rows, "files": files, "strings": strings, "columns": told}).encode()
    header += b" " * (-(12 + len(header)) % 8)
    return b"rlxview1" + struct.pack("<I", len(header)) + header + data


def turn_of(pieces: list[str], **values: Any) -> dict[str, Any]:
    """Describe a turn as `api/episode` does; every token has every number."""
    chance = random.Random("".join(pieces[:20]).encode("utf-8", "replace"))
    num = len(pieces)
    tokens = {
        "pieces": pieces,
        "logprobs": [-2 * chance.random() for _ in pieces],
        "entropies": [chance.random() for _ in pieces],
        "advantages": [chance.random() - 0.5] * num,
        "values": [chance.random() for _ in pieces],
        "trained": [i % 3 > 0 for i in range(num)],
        "masked": [i % 2 == 0 for i in range(num)],
        "origin": None,
    }
    tool = {"name": "", "calls": 0, "failed": 0, "mismatches": 0, "tokens": 0}
    known = {"agent": "", "kind": "act", "name": "move", "text": "".join(pieces), "action": "", "reward": 0.0}
    told = {"rewards": {}, "outcomes": {}, "invalid": False, "stop": "stop", "version": 3, "num_context": 40}
    more = {"tool": tool, "observation": "", "metrics": {}, "reply": {}, "replayed": False, "tokens": tokens}
    return {**known, **told, **more, **values}


def episode_of(turns: list[Any], **values: Any) -> dict[str, Any]:
    """Describe an episode as `api/episode` does."""
    task = {"id": "task-0", "env": "countdown", "goal": "Reach 82 with 3, 25 and 7."}
    known = {"task": task, "file": "step-1.jsonl", "line": 1, "group": 0, "sample": 0, "status": "done"}
    told = {"success": True, "reward": 1.0, "error": "", "spare": False, "fork": None, "agents": []}
    text = "Use 3, 25 and 7 to make 82."
    return {**known, **told, "openings": [{"agent": "", "text": text}], "turns": turns, "neighbours": [1, 2], **values}


def member_of(sample: int, texts: list[str], **values: Any) -> dict[str, Any]:
    """Describe a member of a group as `api/group` does."""
    number = {"reward": 0, "tokens": 6, "advantage": 0.3, "value": 0.4, "entropy": 0.2}
    turns = [
        {"agent": "", "kind": "act", "name": "swap", "text": text, "trained": 6 * (i % 2), **number}
        for i, text in enumerate(texts)
    ]
    told = {"line": sample + 1, "sample": sample, "parent": None, "fork_turn": None, "fork_token": None}
    return {**told, "reward": 1.0, "success": True, "spare": False, "turns": turns, **values}
