"""Episodes shared out over the processes of a run: each plays its share, and all get every trajectory.

Random streams are keyed by task, sample and turn, so who plays what changes nothing but rounding: a group whose starts
are known may be split, and more ranks than tasks all have episodes. A growth runs on one rank. Only this rank sees the
growth's first episodes before the growth asks for more. Trajectories travel once, at the end, in their stored JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from rlx.algo.parts import Player, Sampler
from rlx.hardware.interrupt import InterruptedRunError
from rlx.hardware.ranks import Ranks, RanksError
from rlx.rollout.episode import RepeatCounts, number_repeats
from rlx.rollout.growth import Growing, growths, sample_flat
from rlx.rollout.play import Rollout
from rlx.runs.codec import from_json, to_json
from rlx.types import Group, Start, Task, Trajectory

W = TypeVar("W")


def distribute(player: Rollout, ranks: Ranks, players: Sequence[int] | None = None) -> Player:
    """Return the player for one process, or one that shares the episodes out over many. `players`: the ranks that
    play, if not all do."""
    if ranks.size == 1:
        return player
    return DistributedPlayer(
        player=player, ranks=ranks, players=tuple(range(ranks.size) if players is None else players)
    )


@dataclass(frozen=True, kw_only=True)
class DistributedPlayer:
    """Player that shares episodes out over ranks (see rlx.algo.parts.Player); all ranks call it alike."""

    player: Rollout
    ranks: Ranks
    players: tuple[int, ...]
    repeats: RepeatCounts = field(default_factory=Counter, repr=False, compare=False)

    def sample(self, sampler: Sampler, tasks: Sequence[Task]) -> list[Group]:
        """Play the sampler on each task: known starts are shared out one by one, growths whole."""
        if sampler.grow is None:
            return sample_flat(self, sampler, tasks)
        grown = self._share(growths(sampler, self.player.with_context(sampler.grow), tasks, self.repeats), self._grow)
        return [group_of(stored_group, task) for stored_group, task in zip(grown, tasks, strict=True)]

    def _grow(self, mine: Sequence[Growing[Group]]) -> list[Any]:
        return [[to_json(trajectory) for trajectory in group.trajectories] for group in self.player.grow(mine)]

    def play(self, starts: Sequence[Start]) -> list[Trajectory]:
        starts = number_repeats(starts, self.repeats)
        played = self._share(starts, lambda mine: [to_json(trajectory) for trajectory in self.player.play(mine)])
        return [
            replace(from_json(stored_trajectory), task=start.task)
            for stored_trajectory, start in zip(played, starts, strict=True)
        ]

    def _share(self, work: Sequence[W], do: Callable[[Sequence[W]], list[Any]]) -> list[Any]:
        """Return the result of `do` for each piece of work, done by the rank that owns it; ranks speak once."""
        owners = [self.players[place] for place in owners_of(len(work), len(self.players))]
        message, error = attempt(lambda: do([piece for piece, owner in zip(work, owners) if owner == self.ranks.rank]))
        messages = self.ranks.gather(message)
        if error is not None:
            raise error
        for rank, message in enumerate(messages):
            if message["failed"]:
                raise RanksError(f"rank {rank}: {message['failed']}")
        stopped = max(message["stopped"] for message in messages)
        if stopped:
            raise InterruptedRunError(stopped)
        done = [iter(message["done"]) for message in messages]
        return [next(done[owner]) for owner in owners]

    def demonstrate(self, tasks: Sequence[Task]) -> list[Trajectory]:
        """Play the environment's expert on every rank, as it is quick."""
        return self.player.demonstrate(tasks)


def attempt(do: Callable[[], list[Any]]) -> tuple[dict[str, Any], Exception | None]:
    """Return the message of this rank: what it has done, or why not; and its error, if that is why."""
    message: dict[str, Any] = {"done": [], "stopped": 0, "failed": ""}
    try:
        return {**message, "done": do()}, None
    except InterruptedRunError as stop:
        return {**message, "stopped": int(stop.signum)}, None
    except Exception as error:
        return {**message, "failed": f"{type(error).__name__}: {error}"}, error


def group_of(stored_trajectories: Sequence[Any], task: Task) -> Group:
    """Build the group that a rank sent: of `task`, or of the stored task that stands for it."""
    trajectories = [from_json(trajectory) for trajectory in stored_trajectories]
    if trajectories and trajectories[0].task.key != task.key:
        task = trajectories[0].task
    return Group(task=task, trajectories=tuple(replace(trajectory, task=task) for trajectory in trajectories))


def owners_of(num_pieces: int, size: int) -> list[int]:
    """Return the owner of each piece among `size`: runs of them, even to one, so that few prompts are read by two."""
    return [index * size // num_pieces for index in range(num_pieces)]
