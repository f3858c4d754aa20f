"""Process of a run: its screen, its signals, the other processes, and the engine and servers that outlive a stage."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlx.console import Screen
from rlx.hardware.interrupt import Interrupt, InterruptedRunError
from rlx.hardware.pulse import Pulse
from rlx.hardware.ranks import ALONE, Ranks
from rlx.rollout.engine import Engine
from rlx.run.fleet import Fleet
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

    def check(self) -> None:
        """Raise InterruptedRunError on all ranks if a signal has come to any."""
        signum = int(self.ranks.most(self.interrupt.signum))
        if signum:
            raise InterruptedRunError(signum)

    def note_end(self, ended: Trajectory) -> None:
        """Note that an episode is finished: this rank does not hang."""
        self.pulse.beat()
