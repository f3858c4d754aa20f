"""Episodes shared out over the processes of a run: each plays its share, and all get every trajectory.

Random streams are keyed by task, sample and turn, so who plays what changes nothing but rounding: a group may be split,
and more ranks than tasks all have episodes. Trajectories travel as the JSON they are stored as.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rlx.hardware.interrupt import InterruptedRunError
from rlx.hardware.ranks import Ranks, RanksError
from rlx.record.codec import from_json, to_json
from rlx.rollout.episode import Seen, tell_apart
from rlx.types import Player, Start, Task, Trajectory


def together(player: Player, ranks: Ranks, players: Sequence[int] | None = None) -> Player:
    """The same player for one process, one that shares for many; `players`: the ranks that play, if not all do."""
    if ranks.size == 1:
        return player
    return Together(player=player, ranks=ranks, players=tuple(range(ranks.size) if players is None else players))


@dataclass(frozen=True, kw_only=True)
class Together:
    """See rlx.types.Player; all ranks call it alike."""

    player: Player
    ranks: Ranks
    players: tuple[int, ...]
    seen: Seen = field(default_factory=Counter, repr=False, compare=False)

    def play(self, starts: Sequence[Start]) -> list[Trajectory]:
        starts = tell_apart(starts, self.seen)
        owners = [self.players[place] for place in owners_of(len(starts), len(self.players))]
        mine = [index for index, owner in enumerate(owners) if owner == self.ranks.rank]
        said, error = self._play([starts[index] for index in mine])
        told = self.ranks.gather(said)
        if error is not None:
            raise error
        for rank, said in enumerate(told):
            if said["failed"]:
                raise RanksError(f"rank {rank}: {said['failed']}")
        stopped = max(said["stopped"] for said in told)
        if stopped:
            raise InterruptedRunError(stopped)
        played = [iter(said["episodes"]) for said in told]
        return [
            replace(from_json(next(played[owner])), task=start.task)
            for owner, start in zip(owners, starts, strict=True)
        ]

    def _play(self, starts: Sequence[Start]) -> tuple[dict[str, Any], Exception | None]:
        """What this rank has to say: its episodes, or why there are none; and its error, if that is why."""
        said: dict[str, Any] = {"episodes": [], "stopped": 0, "failed": ""}
        try:
            return {**said, "episodes": [to_json(trajectory) for trajectory in self.player.play(starts)]}, None
        except InterruptedRunError as stop:
            return {**said, "stopped": int(stop.signum)}, None
        except Exception as error:
            return {**said, "failed": f"{type(error).__name__}: {error}"}, error

    def demonstrate(self, tasks: Sequence[Task]) -> list[Trajectory]:
        """The environment's expert is quick: every rank asks it for all."""
        return self.player.demonstrate(tasks)


def owners_of(num_starts: int, size: int) -> list[int]:
    """Which of `size` plays each start: runs of them, even to one, so that few prompts are read by two."""
    return [index * size // num_starts for index in range(num_starts)]
