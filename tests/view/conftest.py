"""A run's folder as a run leaves it, without a model, and a server of it."""

from __future__ import annotations

import json
import math
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from rlx.runs.folder import MARK
from rlx.runs.store import save
from rlx.runs.summary import Estimate, Summary, write_summary
from rlx.types import Action, Completion, Fork, Group, Task, Text, ToolUse, Trajectory, Turn
from rlx.view.server import ViewServer, open_view

SIZES = {"u1": "B", "u4": "I", "i4": "i", "f4": "f"}


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Page:
    """A browser without a screen."""

    server: ViewServer

    def get(self, path: str, headers: dict[str, str] | None = None, method: str = "GET", **query: Any) -> Reply:
        words = f"?{urlencode(query, errors='surrogatepass')}" if query else ""
        return self.raw(f"/{self.server.secret}/{path}{words}", headers, method)

    def raw(self, path: str, headers: dict[str, str] | None = None, method: str = "GET") -> Reply:
        connection = HTTPConnection("127.0.0.1", self.server.server_address[1], timeout=150)
        try:
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            return Reply(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def api(self, door: str, **query: Any) -> Any:
        reply = self.get(f"api/{door}", **query)
        assert reply.status == 200, reply.body
        return reply.value

    def table(self, run: str) -> dict[str, Any]:
        reply = self.get("api/episodes", run=run)
        while reply.status == 202:
            reply = self.get("api/episodes", run=run)
        assert reply.status == 200, reply.body
        return unpack(reply.body)


def unpack(body: bytes) -> dict[str, Any]:
    """Read the table of episodes as the page does."""
    assert body[:8] == b"rlxview1"
    (length,) = struct.unpack_from("<I", body, 8)
    header, data = json.loads(body[12 : 12 + length]), 12 + length
    assert data % 8 == 0
    columns = {}
    for column in header["columns"]:
        assert column["at"] % 8 == 0
        form = f"<{header['sent']}{SIZES[column['type']]}"
        columns[column["name"]] = list(struct.unpack_from(form, body, data + column["at"]))
    return {**header, **columns}


def turn(
    text: str, reward: float = 0.0, observation: str = "", kind: str = "answer", num: int = 3, **more: Any
) -> Turn:
    return Turn(
        prompt_ids=(500, 501),
        completion=Completion(token_ids=tuple(range(502, 502 + num)), logprobs=(-0.5,) * num, stop="stop"),
        action=Action(kind=kind, text=text, name="python" if kind == "call" else ""),  # type: ignore[arg-type]
        observation=(Text(observation),) if observation else (),
        reward=reward,
        tool=ToolUse(num_calls=int(kind == "call")),
        **more,
    )


def episode(task: str, sample: int, *turns: Turn, success: bool = False, **more: Any) -> Trajectory:
    told = Task(id=task, prompt=(Text(f"Solve {task}."),), data={"goal": f"goal of {task}"})
    return Trajectory(task=told, sample=sample, turns=turns, status="done", success=success, **more)


def write(file: Path, *groups: tuple[Trajectory, ...]) -> None:
    save(file, [Group(task=members[0].task, trajectories=members) for members in groups], max_rounds=8)


NOTES: dict[str, list[Any]] = {
    "pieces": ["one ", "two ", "three"],
    "advantages": [0.25, None, -0.75],
    "entropies": [1.5, 0.0, 0.5],
    "values": [None, None, 1.0],
    "trained": [1.0, 0.0, 1.0],
}


def write_run(folder: Path, steps: int = 3, seed: int = 0) -> Path:
    """A run of three steps: a training file with a group that has a fork, and an evaluation."""
    call = turn("1 + 1", -0.02, "the observation", kind="call")
    left = episode("a", 2, call, turn("3", 1.0, kind="answer"), success=True)
    fork = replace(left, fork=Fork(parent=0, turn=1, token=1, forced=(503,)))
    group = Group(task=left.task, trajectories=(episode("a", 0, call, turn("x")), episode("a", 1, call), fork))
    notes = [[[NOTES] * len(one.turns) for one in group.trajectories]]
    place = folder / "trajectories"
    save(place / "step-000002.jsonl", [group], max_rounds=8, notes=notes)
    write(place / "eval-8.jsonl", (episode("b", 0, turn("2", 1.0), success=True),), (episode("c", 0),))
    lines = [json.dumps({"step": step, "loss/value": step / 2, "time/step": 2.0}) for step in range(1, steps + 1)]
    (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (folder / "config.yaml").write_text(
        f"{MARK}seed: {seed}\nsteps: {steps}\nenv: {{_target_: a.b.Env}}\nmodel: {{path: nowhere}}\n"
    )
    (folder / "command.json").write_text(json.dumps({"words": ["env=countdown", "algo=tool_rloo"]}))
    figures = {
        "eval/pass@1": Estimate(value=0.5, low=0.25, high=math.nan),
        "start/pass@1": Estimate(value=0.0, low=0.0, high=0.0),
    }
    write_summary(folder / "summary.json", Summary(status="finished", seed=seed, metrics=figures))
    (folder / "results.md").write_text("# Results\n")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "outputs" / "run")


@pytest.fixture
def page(run: Path) -> Iterator[Page]:
    with serving(run.parent) as found:
        yield found


@contextmanager
def serving(*folders: Path) -> Iterator[Page]:
    """Serve runs below folders while the block lasts."""
    server = open_view(folders)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield Page(server)
    finally:
        server.shutdown()
        server.server_close()
