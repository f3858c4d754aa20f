"""Tasks and demonstration traces as rows one can read: what an agent is told, and how an expert would go about it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from rlx.dialect import Dialect
from rlx.environment import Environment
from rlx.expert import PlayedMove, demonstration
from rlx.limits import MistakeError
from rlx.protocol.history import first_prompt
from rlx.types import Task
from rlx.world import cost_of, dialect_of, open_episode, part_of

Row = dict[str, Any]


def build_rows(env: Environment, protocol: Dialect, split: str, seed: int, num: int) -> Iterator[Row]:
    """The first `num` tasks of a split, each with the expert's trace as text, turn by turn."""
    for task in islice(env.tasks(split, seed), num):
        dialect = dialect_of(env, protocol, task.env)
        yield {
            "id": task.key,
            "data": dict(task.data),
            **trace(part_of(env, task), dialect, task, seed),
        }


def trace(env: Environment, protocol: Dialect, task: Task, seed: int) -> Row:
    """The expert's turns, acted for real: every observation is the environment's answer."""
    prompt = protocol.open(task)
    try:
        with open_episode(env, task) as episode:
            prompt = first_prompt(protocol, task, episode.opening().observation)
        _, moves = demonstration(env, protocol, task, seed)
    except ValueError as error:
        return {"prompt": prompt, "turns": [], "error": str(error)}
    turns = [turn_of(shown, protocol) for shown in moves]
    reward = sum(shown.step.reward - cost_of(env, shown.step.tool) for shown in moves)
    return {
        "prompt": prompt,
        "turns": turns,
        "reward": round(reward, 6),
        "success": moves[-1].step.success if moves else None,
    }


def turn_of(shown: PlayedMove, protocol: Dialect) -> Row:
    observation = protocol.render(shown.step.observation) if shown.step.observation else ""
    return {"text": shown.text, "observation": observation, "action": asdict(shown.move.action)}


def show_row(row: Row) -> str:
    """One row for a person."""
    text = "".join(turn["text"] + turn["observation"] for turn in row["turns"])
    end = f"no demonstration: {row['error']}" if "error" in row else f"reward {row['reward']}, success {row['success']}"
    return f"--- {row['id']}\n{row['prompt']}{text}\n[{end}]"


def write_rows(rows: Iterable[Row], path: Path) -> int:
    """Write rows as JSON lines; the number of them."""
    num = 0
    if os.path.lexists(path):
        raise MistakeError(f"--out {path}: there is a file already: choose another name, or move it away")
    with open(path, "x", encoding="utf-8", errors="replace") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            num += 1
    return num
