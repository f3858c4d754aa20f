"""Tasks and demonstration traces as rows one can read: what an agent is told, and how an expert would go about it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from rlx.base.limits import MistakeError
from rlx.environment import Environment
from rlx.environment.agents import brief, episode_of_agent, is_alone, spans
from rlx.environment.dialect import Dialect
from rlx.environment.expert import PlayedMove, demonstration
from rlx.environment.world import cost_of, dialect_of, open_episode, part_of
from rlx.protocol.history import first_prompt
from rlx.rollout.episode import turn_of
from rlx.types import Action, Completion, Part, Task, Trajectory

Row = dict[str, Any]


def build_rows(env: Environment, protocol: Dialect, split: str, seed: int, num: int) -> Iterator[Row]:
    """The first `num` tasks of a split, each with the expert's trace as text, turn by turn: a row for each agent."""
    for task in islice(env.tasks(split, seed), num):
        part, dialect = part_of(env, task), dialect_of(env, protocol, task.env)
        for row in [trace(part, dialect, task, seed)] if is_alone(part) else traces(part, dialect, task, seed):
            yield {"id": task.key, "data": dict(task.data), **row}


def trace(env: Environment, protocol: Dialect, task: Task, seed: int) -> Row:
    """The expert's turns, acted for real: every observation is the environment's answer."""
    prompt = protocol.open(task)
    try:
        with open_episode(env, task) as episode:
            prompt = first_prompt(protocol, task, episode.opening().observation)
        _, moves = demonstration(env, protocol, task, seed)
    except ValueError as error:
        return {"prompt": prompt, "turns": [], "error": str(error)}
    turns = [
        row_of_turn(played_move.text, played_move.step.observation, played_move.move.action, protocol)
        for played_move in moves
    ]
    reward = sum(played_move.step.reward - cost_of(env, played_move.step.tool) for played_move in moves)
    return {
        "prompt": prompt,
        "turns": turns,
        "reward": round(reward, 6),
        "success": moves[-1].step.success if moves else None,
    }


NOT_SAMPLED = Completion(token_ids=(), logprobs=(), stop="stop")


def traces(env: Environment, protocol: Dialect, task: Task, seed: int) -> list[Row]:
    """Return a row for each of several agents: the agent's episode as the learner sees it (rlx.environment.agents)."""
    prompts = {agent: protocol.open(brief(env, task, agent)) for agent in env.agents}
    try:
        opening, moves = demonstration(env, protocol, task, seed)
    except ValueError as error:
        return [
            {"agent": agent, "prompt": prompt, "turns": [], "error": str(error)} for agent, prompt in prompts.items()
        ]
    actors = [opening.next_agent, *(played_move.step.next_agent for played_move in moves)]
    turns = [
        turn_of(env, NOT_SAMPLED, played_move.move.action, played_move.step, luck=0, agent=agent)
        for agent, played_move in zip(actors, moves)
    ]
    success = bool(moves and moves[-1].step.success)
    episode = Trajectory(
        task=task, sample=0, turns=tuple(turns), status="done", success=success, opening=opening.observation
    )
    return [trace_of_agent(env, protocol, agent, episode, moves) for agent in env.agents]


def trace_of_agent(
    env: Environment, protocol: Dialect, agent: str, episode: Trajectory, moves: Sequence[PlayedMove]
) -> Row:
    agent_episode, places = episode_of_agent(agent, episode), [place for place, _ in spans(agent, episode.turns)]
    return {
        "agent": agent,
        "prompt": first_prompt(protocol, brief(env, episode.task, agent), agent_episode.opening),
        "turns": [
            row_of_turn(moves[place].text, turn.observation, turn.action, protocol)
            for place, turn in zip(places, agent_episode.turns)
        ],
        "reward": round(agent_episode.reward, 6),
        "success": agent_episode.success,
    }


def row_of_turn(text: str, observation: tuple[Part, ...], action: Action, protocol: Dialect) -> Row:
    return {"text": text, "observation": protocol.render(observation) if observation else "", "action": asdict(action)}


def show_row(row: Row) -> str:
    """One row for a person."""
    text = "".join(turn["text"] + turn["observation"] for turn in row["turns"])
    end = f"no demonstration: {row['error']}" if "error" in row else f"reward {row['reward']}, success {row['success']}"
    agent_label = f" {row['agent']}" if "agent" in row else ""
    return f"--- {row['id']}{agent_label}\n{row['prompt']}{text}\n[{end}]"


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
