"""Read what a run has measured of itself: tokens of its episodes and seconds of its steps, from its metrics.jsonl."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rlx.base.console import one_line
from rlx.base.limits import MANY
from rlx.plan.lengths import LengthHints
from rlx.runs.folder import CONFIG, JUDGING_KEYS, METRICS, differences, read_config
from rlx.runs.track import numbers_in

ENOUGH = 10
"""Steps after which a run's own figures replace the estimate's."""
RECENT = 10
"""Steps that the figures are medians of: lengths change as a policy learns."""
SAME_SPEED = ("steps", "seed", "track", "checkpoint", "objective", *JUDGING_KEYS)
"""Keys without an influence on the time of a step."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Figures of a run's last steps."""

    folder: Path
    steps: int
    """Steps done."""
    length_hints: LengthHints
    rollout: float
    update: float
    seconds: float
    """Seconds of a step, and of its two parts."""
    saving: float | None = None
    """Seconds of a checkpoint; None where the run has measured none."""
    is_same: bool
    """The planned run has the same settings, hence equally long steps."""


def read_measured(folder: Path, tree: Mapping[str, Any]) -> Measured | None:
    """Read a run folder's figures for a plan of `tree`; None before ENOUGH steps, or where they are no figures."""
    file = folder / METRICS
    names = {"tokens": "episode/tokens", "turns": "episode/turns", "observed": "tool/tokens"}
    lengths: dict[str, Any] = {name: recent(numbers_in(file, metric)) for name, metric in names.items()}
    times = {name: recent(numbers_in(file, f"time/{name}")) for name in ("rollout", "update", "step")}
    steps = max(numbers_in(file, "episode/tokens"), default=0)
    if lengths["tokens"] is None or times["step"] is None:
        return None
    return Measured(
        folder=folder,
        steps=steps,
        length_hints=LengthHints(
            **{name: value for name, value in lengths.items() if value is not None},
            source=f"{one_line(folder.name, 40)}, steps up to {steps:,}",
        ),
        rollout=times["rollout"] or 0.0,
        update=times["update"] or 0.0,
        seconds=times["step"],
        saving=middle(numbers_in(file, "time/checkpoint").values()),
        is_same=has_same_speed(folder, tree),
    )


def recent(values: Mapping[int, float]) -> float | None:
    """Return the median of the last steps' values; None where there are too few, or they are no lengths or times."""
    last = [value for _, value in sorted(values.items())[-RECENT:]]
    middle_value = median(last) if len(values) >= ENOUGH else None
    return middle_value if middle_value is not None and 0 <= middle_value <= MANY else None


def middle(values: Iterable[float]) -> float | None:
    """Return the median of seconds; None of none, or where one is no time."""
    seconds = list(values)
    return median(seconds) if seconds and all(0 <= each <= MANY for each in seconds) else None


def has_same_speed(folder: Path, tree: Mapping[str, Any]) -> bool:
    """Tell whether a folder's run had the settings of `tree`, but for those that no step's time depends on."""
    return (folder / CONFIG).is_file() and not differences(read_config(folder), tree, SAME_SPEED)
