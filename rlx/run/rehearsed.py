"""Environments that a run rehearses. The module imports nothing heavy, because plans import it too."""

from __future__ import annotations

from rlx.environment import Environment
from rlx.environment.world import trained_parts
from rlx.run.run import Run

NUM_REHEARSED = 2
"""Tasks of each environment that are played before training; the first of them twice, as episodes of a group are."""


def list_rehearsed(run: Run) -> list[tuple[Run, str, Environment]]:
    """Return the environments of every stage that samples tasks, and of the run, each with its stage and its name."""
    stages = [stage for stage in run.stages() if run.steps and (stage is run or not stage.algo.imitates)]
    return [(stage, name, env) for stage in stages for name, env in trained_parts(stage.env).items()]
