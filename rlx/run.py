"""A run, wholly described: what `rlx.train.train` needs, built by `rlx.config` from the composed configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.hardware import Hardware
from rlx.types import Dialect, Environment, Sampling

if TYPE_CHECKING:
    from rlx.algo.parts import Algorithm
    from rlx.evaluate.evaluate import Evaluate
    from rlx.model.load import Model
    from rlx.track import Track


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmStart:
    """A stage before the run's own: `steps` updates with `algo`, cached by the content that determines it."""

    algo: Algorithm | None = None
    steps: int = 0
    seed: int = 0
    """Its own seed, so that runs that differ in `seed` share one warm start."""

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"steps must be at least 0, not {self.steps}")
        if self.steps and self.algo is None:
            raise ValueError(f"{self.steps} steps need an algo; choose warm_start=none for no warm start")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """When a run saves itself, and how much of its past it keeps."""

    every: int = 10
    """Steps between checkpoints; the last step always makes one."""
    minutes: float | None = None
    """A checkpoint also when the last is older than this; null: by steps alone."""
    keep: int = 2
    """Newest checkpoints kept."""
    trajectories_every: int = 10
    """Steps between those whose trajectories are kept; 0 keeps none but evaluation's."""

    def __post_init__(self) -> None:
        if self.every < 1 or self.keep < 1 or self.trajectories_every < 0:
            raise ValueError("every and keep must be at least 1, trajectories_every at least 0")
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"minutes={self.minutes} must be above 0, or null")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A choice of env x algo x model x hardware, built; `config` is the plain, resolved tree it was built from."""

    env: Environment
    protocol: Dialect
    algo: Algorithm
    model: Model
    hardware: Hardware
    sampling: Sampling
    """Of training rollouts; evaluation has its own."""
    evaluate: Evaluate
    track: Track
    checkpoint: Checkpoint
    warm_start: WarmStart
    seed: int
    steps: int
    max_error_share: float
    """More episodes of a step than this share ending in an error stop the run."""
    folder: Path
    config: Mapping[str, Any]
