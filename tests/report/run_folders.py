"""Run folders as training leaves them, small and without any training."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import yaml

from rlx.evaluation.figures import figures, gains, score
from rlx.runs.folder import MARK
from rlx.runs.provenance import Provenance
from rlx.runs.store import save
from rlx.runs.summary import Cost, Git, Summary, write_summary
from rlx.types import Action, Completion, Group, Task, Trajectory, Turn

CONFIG: dict[str, Any] = {
    "seed": 0,
    "steps": 4,
    "max_error_share": 0.25,
    "env": {"_target_": "rlx.env.countdown.countdown.Countdown", "lambda_call": 0.02},
    "algo": {"_target_": "rlx.algo.grpo.grpo", "num_prompts": 2},
    "hardware": {"device": "cpu", "num_processes": 1},
    "evaluate": {"num_tasks": 6, "num_samples": 2, "ks": [1, 2], "max_rounds": []},
}


def group_of(number: int, successes: Sequence[bool]) -> Group:
    task = Task(id=f"task-{number}", prompt=(), data={})
    said = Completion(token_ids=(5, 6), logprobs=(0.0, 0.0), stop="stop")
    turn = Turn(prompt_ids=(1, 2), completion=said, action=Action(kind="answer", text=""))
    episodes = [
        Trajectory(task=task, sample=index, turns=(turn,), status="done", success=won)
        for index, won in enumerate(successes)
    ]
    return Group(task=task, trajectories=tuple(episodes))


def groups_with(num_solved: int) -> list[Group]:
    """Six tasks of two samples, the first so many of them solved by both."""
    return [group_of(number, [number < num_solved] * 2) for number in range(6)]


def run_folder(
    folder: Path,
    *,
    seed: int = 0,
    changes: Mapping[str, Any] | None = None,
    solved: int = 3,
    num_steps: int = 4,
    metrics: Mapping[str, float] | None = None,
    note: str = "",
) -> Path:
    """Write a finished run whose policy solves so many of six tasks, and whose start solves one."""
    folder.mkdir(parents=True)
    config = CONFIG | {"seed": seed} | dict(changes or {})
    (folder / "config.yaml").write_text(MARK + yaml.safe_dump(config, sort_keys=False))
    (folder / "command.json").write_text(json.dumps({"words": ["env=countdown", f"seed={seed}"]}))
    write_steps(folder, num_steps, {"reward/mean": 0.5 + seed, **(metrics or {})})
    tables = {"eval": groups_with(solved), "start": groups_with(1)}
    for noun, groups in tables.items():
        save(folder / "trajectories" / f"{noun}-own.jsonl", groups, max_rounds=None)
    ours, start = ([score(group) for group in groups] for groups in tables.values())
    found = {**figures(start, ks=[1, 2], noun="start"), **figures(ours, ks=[1, 2]), **gains(ours, start, ks=[1, 2])}
    summary = Summary(
        status="finished",
        seed=seed,
        metrics=found,
        steps=num_steps,
        provenance=Provenance(packages={"rlx": "1.2.3", "torch": "2.0"}, interpreter="CPython 3.11"),
        git=Git(commit="0123456789abcdef", dirty=False),
        cost=Cost(tokens=1000, tool_calls=5, seconds=60.0, device_hours=0.5),
        notes=(note,) if note else (),
    )
    write_summary(folder / "summary.json", summary)
    return folder


def write_steps(folder: Path, num_steps: int, metrics: Mapping[str, float]) -> None:
    """Write a line for each step; the metrics rise by a hundredth a step."""
    plain = {
        "batch/groups": 4.0,
        "batch/episodes": 8.0,
        "batch/turns": 20.0,
        "update/selected_turns": 18.0,
        "update/turns": 15.0,
        "episode/errors": 0.25,
    }
    times = {
        "time/step": 10.0,
        "time/rollout": 6.0,
        "time/update": 3.0,
        "group/informative": 0.75,
        "episode/errors": 0.25,
    }
    lines = [
        {"step": step, **plain, **times, **{name: value + step / 100 for name, value in metrics.items()}}
        for step in range(1, num_steps + 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


class Reader(HTMLParser):
    """The elements, the attributes and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read_html(text: str) -> Reader:
    """Parse a page; every element that begins ends."""
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader
