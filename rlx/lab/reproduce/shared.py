"""Find warm starts and evaluations that several runs of a reproduction share; the first run makes them for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlx.lab.reproduce.members import Member
from rlx.lab.reproduce.reproduction import Reproduction
from rlx.run.judge import JUDGED_BY
from rlx.run.run import Run
from rlx.run.warm import start_digest
from rlx.runs.folder import digest_of


@dataclass(frozen=True)
class Shared:
    """Names of what a run has in common with others."""

    start: str
    """Warm start, or model where there is none."""
    evaluation: str
    """Evaluations of the untrained model and of the start. Runs that share them share the start."""


def shares_of(reproduction: Reproduction, members: Sequence[Member], built: Mapping[str, Run]) -> dict[str, Shared]:
    """Return what each run shares, by the run's name. One that goes on from another has a start of its own."""
    starts = {arm: start_digest(run) for arm, run in built.items()}
    shares = {}
    for member in members:
        config, start = built[member.arm].config, starts[member.arm]
        settings = {key: config[key] for key in ("model", *JUDGED_BY)}
        origin = member.name if reproduction.runs[member.arm].goes_on_from else ""
        shares[member.name] = Shared(start, digest_of({**settings, "start": start, "own": origin}))
    return shares


def choose(free: Sequence[Member], under_way: Sequence[Member], shared: Mapping[str, Shared]) -> Member:
    """Return the first run whose evaluations none under way may be making too; else the first."""
    digests = {shared[member.name].evaluation for member in under_way}
    return next((member for member in free if shared[member.name].evaluation not in digests), free[0])
