"""Known starts shared out over several ranks in one process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.rollout.distributed import DistributedPlayer, owners_of
from rlx.rollout.episode import stream_of_turn
from rlx.types import Start, Task, Text, Trajectory


@dataclass
class Player:
    played: list[Start] = field(default_factory=list)

    def play(self, starts: list[Start]) -> list[Trajectory]:
        self.played += starts
        return [Trajectory(task=s.task, sample=s.sample, turns=(), status="done", error=str(key(s))) for s in starts]


def key(start: Start) -> int:
    return stream_of_turn((0, 1), start, 0)


def starts(num_tasks: int, num_samples: int, num_distinct: int) -> list[Start]:
    tasks = [Task(id=f"t{i % num_distinct}", prompt=(Text("?"),), data={}) for i in range(num_tasks)]
    return [Start(task=task, sample=sample) for task in tasks for sample in range(num_samples)]


def play(kit: Any, size: int, plays: list[list[Start]]) -> tuple[list[list[Trajectory]], list[Player]]:
    """What rank 0 gets of each list, and who played what."""
    players = [Player() for _ in range(size)]

    def live(ranks: Any) -> list[list[Trajectory]]:
        player: Any = players[ranks.rank]
        together = DistributedPlayer(player=player, ranks=ranks, players=tuple(range(size)))
        return [together.play(listed) for listed in plays]

    got = kit.on_ranks(size, live)
    assert all(each == got[0] for each in got)
    return got[0], players


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_who_plays_what_changes_no_stream_where_a_task_repeats(kit: Any, size: int) -> None:
    listed = starts(4, 3, num_distinct=2)
    (alone,), _ = play(kit, 1, [listed])
    (shared,), _ = play(kit, size, [listed])
    apart, _ = play(kit, size, [listed[:6], listed[6:]])
    assert shared == alone == apart[0] + apart[1]
    assert len({trajectory.error for trajectory in alone}) == 12


@given(num=st.integers(1, 600), size=st.integers(1, 64))
def test_every_rank_has_as_many_episodes_as_the_next(num: int, size: int) -> None:
    owners = owners_of(num, size)
    assert owners == sorted(owners)
    shares = [owners.count(rank) for rank in range(size)]
    assert max(shares) - min(shares) <= 1


def test_sixteen_tasks_keep_thirty_two_ranks_busy_and_whole_groups_stay_whole(kit: Any) -> None:
    _, players = play(kit, 32, [starts(16, 16, num_distinct=16)])
    assert [len(player.played) for player in players] == [8] * 32
    _, players = play(kit, 4, [starts(16, 16, num_distinct=16)])
    assert [len({start.task.id for start in player.played}) for player in players] == [4] * 4
