"""Process of a run: its screen, its signals, the other processes, and the engine and servers that outlive a stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rlx.base.console import Screen
from rlx.hardware.interrupt import Interrupt, InterruptedRunError
from rlx.hardware.pulse import Pulse
from rlx.hardware.ranks import ALONE, Ranks
from rlx.rollout.engine import Engine
from rlx.run.fleet import Fleet
from rlx.runs.times import EpisodeTimes, save_times, times_path
from rlx.types import Trajectory


@dataclass(slots=True, kw_only=True)
class Process:
    """One of a run's processes; all stages of the run share it."""

    screen: Screen
    interrupt: Interrupt
    ranks: Ranks = ALONE
    pulse: Pulse = field(default_factory=Pulse)
    fleet: Fleet | None = None
    """Rollout servers that this process talks to."""
    engine: Engine | None = None
    """Engine that samples: started by the first stage, given to the next with other weights, ended with the run."""
    times: dict[int, list[EpisodeTimes]] = field(default_factory=dict)
    """Times of this process's episodes, by training step."""

    def check(self) -> None:
        """Raise InterruptedRunError on all ranks if a signal has come to any."""
        signum = int(self.ranks.most(self.interrupt.signum))
        if signum:
            raise InterruptedRunError(signum)

    def note_end(self, ended: Trajectory) -> None:
        """Note that an episode is finished: this rank does not hang."""
        self.pulse.beat()

    def note_times(self, step: int, times: EpisodeTimes) -> None:
        """Collect the times of an episode of a training step."""
        self.times.setdefault(step, []).append(times)

    def store_times(self, folder: Path, step: int, *, is_kept: bool) -> None:
        """Write the times of this process's episodes of a step, or forget them."""
        times = self.times.pop(step, [])
        if times and is_kept:
            save_times(times_path(folder, step, self.ranks.rank), times)
