"""Countdown traces for the pretraining text: the environment's own expert, on training tasks of many sizes."""

from __future__ import annotations

from random import Random

from rlx.env.countdown.countdown import Countdown
from rlx.environment import Environment
from rlx.environment.dialect import Dialect
from rlx.environment.world import dialect_of, moves_of
from rlx.protocol.answer import Answer
from rlx.protocol.tags import Tags
from rlx.types import Task
from scripts.nano.skills.lesson import ANSWER, QUESTION, Document, Segment

PRESETS: tuple[tuple[float, Countdown], ...] = (
    (0.36, Countdown()),
    (0.16, Countdown(high=20)),
    (0.20, Countdown(numbers=(4,), high=20, require_product=True)),
    (0.10, Countdown(numbers=(2,), target_low=1, target_high=400, max_wrong=3)),
    (0.12, Countdown(numbers=(3,), high=20, require_product=True, target_low=1, target_high=200)),
    (0.06, Countdown(numbers=(5,), high=20)),
)
"""Shares of the traces. The environment's hash keeps test problems out of `train`, whatever the preset."""
TEXT_SHARE = 0.12
"""Share of the traces that are in words alone, as the baselines without a tool speak."""


def draw_trace(rng: Random) -> Document:
    seed = rng.getrandbits(48)
    index = rng.choices(range(len(PRESETS)), [share for share, _ in PRESETS])[0]
    env = PRESETS[index][1]
    dialect = Answer() if rng.random() < TEXT_SHARE else Tags()
    return write_trace(env, dialect, next(env.tasks("train", seed)), seed)


def write_trace(env: Environment, dialect: Dialect, task: Task, seed: int) -> Document:
    """The expert's moves, acted out: prompt and observations as questions, moves as answers."""
    episode, dialect = env.start(task), dialect_of(env, dialect)
    segments = [Segment(dialect.open(task), QUESTION)]
    for move in moves_of(env, task, seed, dialect.tools):
        segments.append(Segment(dialect.write(move), ANSWER))
        step = episode.step(move.action)
        if not step.done:
            segments.append(Segment(dialect.render(step.observation), QUESTION))
    return tuple(segments)
