"""summary.json: the end of a run, its final figures with intervals, its cost and its provenance.

    {"status": "finished", "metrics": {"eval/pass@16": {"value": .86, "low": .76, "high": .94}, ...}, "seed": 0,
     "provenance": {"code": {"rlx": "...", ...}, "packages": {"rlx": "0.1.0", ...}, "interpreter": "...", "data": ""},
     "git": {"commit": "...", "dirty": false} | null,
     "cost": {"tokens": 1, "tool_calls": 1, "seconds": 1.0, "device_hours": 0.0}, "synchronous": true,
     "reproducible": true, "steps": 24, "policy": "checkpoints/step-24", "evaluate": {"num_tasks": 50, ...},
     "notes": [], "warnings": []}

Other programs read it. A number that is not finite is `null`.
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from rlx.base.regular import read_bounded, write_aside
from rlx.runs.folder import digest_of
from rlx.runs.form import parse
from rlx.runs.provenance import Provenance, from_record, named_imports, version_of

Ending = Literal["finished", "interrupted", "failed"]


class SummaryError(ValueError):
    """An unreadable summary.json; the message is one line with its path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure and its 95% interval. The ends are infinite if there are too few problems."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of a run."""

    tokens: int = 0
    """Sampled by the policy, in training and evaluation."""
    tool_calls: int = 0
    seconds: float = 0.0
    """On the clock, over all the lives of a resumed run."""
    device_hours: float = 0.0
    """Seconds / 3600 x devices."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            tokens=self.tokens + other.tokens,
            tool_calls=self.tool_calls + other.tool_calls,
            seconds=self.seconds + other.seconds,
            device_hours=self.device_hours + other.device_hours,
        )


@dataclass(frozen=True, kw_only=True)
class Git:
    """The commit a run was made with; `dirty` if the tree had changes beside it."""

    commit: str
    dirty: bool


@dataclass(frozen=True, kw_only=True)
class Summary:
    """End of a run, with status, figures and the settings of their evaluation."""

    status: Ending
    metrics: Mapping[str, Estimate] = field(default_factory=dict)
    seed: int
    provenance: Provenance = field(default_factory=Provenance)
    git: Git | None = None
    cost: Cost = Cost()
    synchronous: bool = True
    """Every step's rollouts were those of the policy it moved; false if they lagged behind it (hardware.staleness)."""
    reproducible: bool = True
    """The same seed gives the same run; false where an environment's answers are taken when they come (pace: live)."""
    steps: int | None = None
    """Steps that the run had when it ended so; None in a summary of before they were told."""
    policy: str = ""
    """Policy that the `eval/` figures measure: a checkpoint, or a model's path."""
    evaluate: Mapping[str, Any] = field(default_factory=dict)
    """The settings that the figures were made with: config.yaml may have been given others since."""
    reward_range: tuple[float, float] | None = None
    """Least and largest possible reward of an episode; null for what is not known."""
    agents: Mapping[str, str] = field(default_factory=dict)
    """Agent whose episodes the figures are of, by `Task.env`, where an environment has several."""
    ended: str = ""
    """When, by the machine's clock; of no figure's making."""
    notes: tuple[str, ...] = ()
    """Notes for a reader of the figures, a line each, such as checkpoints that were skipped."""
    warnings: tuple[str, ...] = ()
    """Signs that the run learned nothing, a line each, with advice (rlx/run/alarm.py)."""


def git_here(folder: Path | None = None) -> Git | None:
    """The state of the working tree around `folder`, by default that of the code; None where there is none."""
    place = folder or Path(__file__).parent
    commit = _git(place, "rev-parse", "--verify", "HEAD")
    changes = _git(place, "status", "--porcelain", "--untracked-files=no")
    return None if not commit or changes is None else Git(commit=commit, dirty=bool(changes))


def code_state() -> dict[str, Any]:
    """Return the version of rlx, and the state of the working trees around its code and around the current folder, if
    code is imported from there: git starts programs that a working tree's own settings name."""
    current = Path.cwd()
    is_users = any(Path(place).resolve().is_relative_to(current) for place in named_imports())
    places = {"rlx": Path(__file__).parent, **({"current": current} if is_users else {})}
    states = {name: state for name, place in places.items() if (state := tree_state(place))}
    return {"version": version_of("rlx"), **states}


def tree_state(place: Path) -> dict[str, Any]:
    """Return the commit of a working tree and a digest of its changes; empty where there is none."""
    git = git_here(place)
    changes = _git(place, "diff", "HEAD", "--binary") if git is not None and git.dirty else None
    return {} if git is None else {**asdict(git), "diff": digest_of(changes) if changes else ""}


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def write_summary(path: Path, summary: Summary) -> None:
    """Write it, whole or not at all."""
    write_aside(path, json.dumps(without_infinities(asdict(summary)), indent=2, allow_nan=False) + "\n")


def read_summary(path: Path) -> Summary:
    """Read what `write_summary` wrote; SummaryError where it cannot be read."""
    try:
        return summary_of(parse(read_bounded(path)))
    except FileNotFoundError:
        raise SummaryError(f"{path} does not exist: the run has not ended yet, or is elsewhere") from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise SummaryError(f"{path} is not a summary: {_reason(error)}") from None


def summary_of(value: Any) -> Summary:
    """The summary that a JSON value is; any of several errors if it is none."""
    if not isinstance(value, dict) or value["status"] not in get_args(Ending):
        raise ValueError("no such status")
    cost, git = value["cost"], value["git"]
    return Summary(
        status=value["status"],
        metrics={str(name): _estimate_of(figure) for name, figure in value["metrics"].items()},
        seed=int(value["seed"]),
        provenance=from_record(value["provenance"]),
        git=None if git is None else Git(commit=str(git["commit"]), dirty=bool(git["dirty"])),
        cost=Cost(
            tokens=int(cost["tokens"]),
            tool_calls=int(cost["tool_calls"]),
            seconds=_finite(cost["seconds"]),
            device_hours=_finite(cost["device_hours"]),
        ),
        synchronous=bool(value.get("synchronous", True)),
        reproducible=bool(value.get("reproducible", True)),
        steps=None if value.get("steps") is None else int(value["steps"]),
        policy=str(value.get("policy", "")),
        evaluate=dict(value.get("evaluate", {})),
        reward_range=range_of(value.get("reward_range")),
        agents={str(part): str(agent) for part, agent in value.get("agents", {}).items()},
        ended=str(value.get("ended", "")),
        notes=tuple(str(note) for note in value.get("notes", ())),
        warnings=tuple(str(warning) for warning in value.get("warnings", ())),
    )


def range_of(value: Any) -> tuple[float, float] | None:
    """Return the two ends that a JSON value names, null being infinite."""
    if value is None:
        return None
    low, high = value
    return -math.inf if low is None else _finite(low), math.inf if high is None else _finite(high)


def plain(figures: Mapping[str, Estimate]) -> dict[str, Any]:
    """Figures as JSON."""
    return {name: without_infinities(asdict(figure)) for name, figure in figures.items()}


def _estimate_of(figure: Mapping[str, Any]) -> Estimate:
    return Estimate(value=_number(figure["value"]), low=_number(figure["low"]), high=_number(figure["high"]))


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise TypeError(f"{type(value).__name__} where a number should be")
    return math.nan if value is None else float(value)


def _finite(value: Any) -> float:
    if not math.isfinite(number := _number(value)):
        raise ValueError(f"{value} where a finite number should be")
    return number


def without_infinities(value: Any) -> Any:
    """A value as JSON can hold it: null for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {name: without_infinities(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_infinities(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it lacks {error.args[0]!r:.60}"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
