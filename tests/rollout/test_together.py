"""Several ranks in one process: each thinks it is alone, and a list stands for what they say to each other."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.rollout.episode import stream_of_turn
from rlx.rollout.together import Together, owners_of
from rlx.types import Start, Task, Text, Trajectory


@dataclass
class Ranks:
    """Those of one process's place among threads that meet at a barrier."""

    rank: int
    size: int
    table: list[Any]
    barrier: threading.Barrier

    def gather(self, said: Any) -> list[Any]:
        self.table[self.rank] = said
        self.barrier.wait(timeout=30)
        told = list(self.table)
        self.barrier.wait(timeout=30)
        return told


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


def play(size: int, plays: list[list[Start]]) -> tuple[list[list[Trajectory]], list[Player]]:
    """What rank 0 gets of each list, and who played what."""
    barrier, table = threading.Barrier(size), [None] * size
    players = [Player() for _ in range(size)]
    got: list[Any] = [None] * size

    def live(rank: int) -> None:
        ranks: Any = Ranks(rank, size, table, barrier)
        together = Together(player=players[rank], ranks=ranks, players=tuple(range(size)))
        got[rank] = [together.play(listed) for listed in plays]

    threads = [threading.Thread(target=live, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert all(each == got[0] for each in got)
    return got[0], players


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_who_plays_what_changes_no_stream_where_a_task_repeats(size: int) -> None:
    listed = starts(4, 3, num_distinct=2)
    (alone,), _ = play(1, [listed])
    (shared,), _ = play(size, [listed])
    apart, _ = play(size, [listed[:6], listed[6:]])
    assert shared == alone == apart[0] + apart[1]
    assert len({trajectory.error for trajectory in alone}) == 12


@given(num=st.integers(1, 600), size=st.integers(1, 64))
def test_every_rank_has_as_many_episodes_as_the_next(num: int, size: int) -> None:
    owners = owners_of(num, size)
    assert owners == sorted(owners)
    shares = [owners.count(rank) for rank in range(size)]
    assert max(shares) - min(shares) <= 1


def test_sixteen_tasks_keep_thirty_two_ranks_busy_and_whole_groups_stay_whole() -> None:
    _, players = play(32, [starts(16, 16, num_distinct=16)])
    assert [len(player.played) for player in players] == [8] * 32
    _, players = play(4, [starts(16, 16, num_distinct=16)])
    assert [len({start.task.id for start in player.played}) for player in players] == [4] * 4
