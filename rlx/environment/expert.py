"""An environment's own expert, acting for real, and what is said where it fails."""

from __future__ import annotations

from dataclasses import dataclass

from rlx.base.console import format_count
from rlx.base.fault import fault
from rlx.base.limits import MistakeError
from rlx.environment import Environment
from rlx.environment.dialect import Dialect
from rlx.environment.world import lawful, moves_of, only_legal, open_episode
from rlx.types import Move, Step, Task


class DemonstrationError(MistakeError):
    """An expert that fails; the message is one line with the task, the move and what was legal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedMove:
    """A move of an expert, its text under the protocol, and the environment's answer."""

    move: Move
    text: str
    step: Step
    legal: tuple[str, ...] | None
    """Actions that were legal before it; None: all."""


def demonstration(env: Environment, dialect: Dialect, task: Task, seed: int) -> tuple[Step, list[PlayedMove]]:
    """The environment's own expert, acting for real: the opening, and every move up to the end with the environment's
    answer."""
    moves: list[PlayedMove] = []
    move, legal = None, None
    try:
        with open_episode(env, task) as episode:
            opening = step = lawful(env, episode.opening())
            legal = opening.legal
            for move in moves_of(env, task, seed, dialect.tools):
                legal_action = only_legal(move.action, legal)
                if legal_action != move.action:
                    raise ValueError(legal_action.text)
                step = lawful(env, episode.step(move.action), step, len(moves) + 1)
                moves.append(PlayedMove(move=move, text=dialect.write(move), step=step, legal=legal))
                move, legal = None, step.legal
                if step.done:
                    break
    except Exception as error:
        raise DemonstrationError(f"env: {failure(task, move, len(moves), legal)}: {reason(error)}") from error
    return opening, moves


def failure(task: Task, move: Move | None, index: int, legal: tuple[str, ...] | None) -> str:
    """Describe the place where an expert failed."""
    if move is None:
        return f"the expert fails in task {task.key!r:.60}" + (f" after {format_count(index, 'move')}" if index else "")
    words = " ".join(filter(None, (move.action.kind, move.action.name, f"{move.action.text!r:.60}")))
    may = "" if legal is None else f", where {', '.join(legal)} may come"
    return f"the expert's move {index + 1} in task {task.key!r:.60} is {words}{may}"


def reason(error: Exception) -> str:
    """An environment's own refusal is for the user; anything else is named, as it is a fault of the environment."""
    return str(error).removeprefix("env: ") if isinstance(error, ValueError) else fault(error)
