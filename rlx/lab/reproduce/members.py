"""The runs of a reproduction: their order, folders, and the words that depend on other runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rlx.base.regular import inside
from rlx.lab.reproduce.arm import Arm, in_order
from rlx.lab.reproduce.reproduction import Reproduction, ReproductionError
from rlx.runs.folder import CHECKPOINTS, METRICS, STEP, read_config
from rlx.runs.track import numbers_in


@dataclass(frozen=True, kw_only=True)
class Member:
    """A run of an arm, with its seed, its folder and the names of the runs to wait for."""

    arm: str
    seed: int
    words: tuple[str, ...]
    waits_for: frozenset[str]
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.arm}/{self.seed}"


def members_of(reproduction: Reproduction, folder: Path, seeds: int, words: Sequence[str]) -> list[Member]:
    """All runs, those first that others wait for, seed 0 of all before seed 1; `words` go to every run."""
    members = [
        Member(
            arm=name,
            seed=seed,
            words=(*reproduction.words, *arm.words, f"seed={seed}", *words),
            waits_for=before(reproduction, arm, seed, seeds),
            folder=folder / name / str(seed),
        )
        for name, arm in ((name, reproduction.runs[name]) for name in in_order(reproduction.runs))
        for seed in seeds_of(arm, seeds)
    ]
    return sorted(members, key=lambda member: member.seed)


def before(reproduction: Reproduction, arm: Arm, seed: int, seeds: int) -> frozenset[str]:
    """Return the runs to wait for: every seed in `needs`, the same seed of `goes_on_from`, and seed 0 of the runs that
    determine the length."""
    needed = {f"{name}/{needed_seed}" for name in arm.needs for needed_seed in seeds_of(reproduction.runs[name], seeds)}
    begins = {f"{arm.goes_on_from}/{seed}"} if arm.goes_on_from else set()
    return frozenset(needed | begins | {f"{name}/0" for name in (arm.like, arm.by_steps_of) if name})


def seeds_of(arm: Arm, seeds: int) -> range:
    return range(seeds if arm.per_seed else 1)


Runs = Mapping[str, Sequence[Path]]
"""The folders of each arm, by seed."""


def folders_of(members: Sequence[Member]) -> Runs:
    """Return the folders of each arm in the order of its members, so that a report is the same each time."""
    arms = dict.fromkeys(member.arm for member in members)
    return {arm: [member.folder for member in members if member.arm == arm] for arm in arms}


def words_of(reproduction: Reproduction, member: Member, runs: Runs) -> tuple[str, ...]:
    """Return a run's words, with the number of steps that `as_long_as` or `as_much_as` determines."""
    arm = reproduction.runs[member.arm]
    if not arm.like:
        return member.words
    spent = "time/step" if arm.as_long_as else "update/tokens"
    like_spent, step_spent = (each_step(runs[name][0], spent) for name in (arm.like, arm.by_steps_of or arm.like))
    return (*member.words, f"steps={max(1, round(len(like_spent) * median(like_spent) / median(step_spent)))}")


def last_checkpoint(run: Path) -> Path:
    """Return the last checkpoint of a finished run; ReproductionError where it is gone."""
    checkpoint = inside(run, CHECKPOINTS) / f"{STEP}{read_config(run)['steps']}"
    if not checkpoint.is_dir():
        raise ReproductionError(
            f"{checkpoint}, which another run goes on from, is gone: remove {run}, and it is made again"
        )
    return checkpoint


def each_step(run: Path, name: str) -> list[float]:
    """A metric of each step; ReproductionError unless all say it, and most more than 0."""
    values = numbers_in(run / METRICS, name)
    if not values or len(values) < max(values) or not median(values.values()) > 0:
        raise ReproductionError(f"{run / METRICS}: not every step says its {name}, or most say 0: run it again")
    return [values[step] for step in sorted(values)]
