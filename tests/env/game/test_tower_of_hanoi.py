"""Tower of Hanoi: the expert goes the shortest way from anywhere, and no disk ever lies on a smaller one."""

from __future__ import annotations

from itertools import chain, islice, product

from hypothesis import given
from hypothesis import strategies as st

from rlx.env.game.tower_of_hanoi import HanoiEpisode, TowerOfHanoi, describe, move
from rlx.types import Action, Text
from tests.loops import for_each

ENV = TowerOfHanoi()


def disks_of(episode: HanoiEpisode) -> dict[str, list[int]]:
    return {tower: list(map(int, disks.split())) for tower, disks in episode.towers.items()}


def neighbours(places: str) -> set[str]:
    """By the rules alone: a disk with no smaller one on its tower goes where there is no smaller one."""
    return {
        places[:disk] + tower + places[disk + 1 :]
        for disk in range(len(places))
        for tower in "ABC"
        if places[disk] not in places[disk + 1 :] and tower not in places[disk + 1 :]
    }


def distances(num_disks: int) -> dict[str, int]:
    far = {"C" * num_disks: 0}
    for places in (queue := list(far)):
        for other in neighbours(places) - far.keys():
            far[other] = far[places] + 1
            queue.append(other)
    return far


@for_each("num_disks", [1, 2, 3, 4])
def test_the_expert_takes_the_shortest_way_from_any_position(num_disks: int) -> None:
    far = distances(num_disks)
    assert far.keys() == set(map("".join, product("ABC", repeat=num_disks)))
    for places, distance in far.items():
        task = describe(places, 100)
        moves = [one.action for one in ENV.demonstrate(task, 0, ())]
        assert len(moves) == distance
        episode = ENV.start(task)
        steps = [episode.step(one) for one in moves]
        assert [step.done for step in steps] == [False] * (distance - 1) + [True] * bool(distance)
        assert all(step.success and step.reward == 1.0 for step in steps[-1:])


def test_a_game_shows_the_towers_and_says_why_a_disk_stays() -> None:
    episode = ENV.start(describe("AAA", 10))
    assert episode.opening().observation == (Text("A: 3 2 1\nB:\nC:"),)
    said = [
        episode.step(Action(kind="act", name="move", text=text)).observation[0].text
        for text in ("A C", "a,c", "B A", "ab", "C C")
    ]
    assert said == [
        "moved disk 1 from A to C\nA: 3 2\nB:\nC: 1",
        "disk 2 is larger than disk 1\nA: 3 2\nB:\nC: 1",
        "tower B is empty\nA: 3 2\nB:\nC: 1",
        "moved disk 2 from A to B\nA: 3\nB: 2\nC: 1",
        "moved disk 1 from C to C\nA: 3\nB: 2\nC: 1",
    ]


@given(st.text(alphabet="ABC", min_size=1, max_size=5), st.lists(st.tuples(*[st.sampled_from("ABC")] * 2), max_size=30))
def test_no_disk_ever_lies_on_a_smaller_one(places: str, moves: list[tuple[str, str]]) -> None:
    episode = ENV.start(describe(places, 100))
    for source, target in moves:
        episode.step(move(source, target))
        towers = disks_of(episode).values()
        assert all(disks == sorted(disks, reverse=True) for disks in towers)
        assert sorted(chain(*towers)) == list(range(1, len(places) + 1))


def test_the_usual_start_is_a_task_for_each_number_of_disks_and_both_splits_have_them() -> None:
    env = TowerOfHanoi(num_disks=3, scattered=False)
    assert [task.id for task in env.tasks("test", 0)] == ["AAA"]
    assert [task.id for task in islice(env.tasks("train", 0), 3)] == ["AAA"] * 3
    env = TowerOfHanoi(scattered=False, random=True)
    assert {task.id for task in env.tasks("test", 0)} == {"AAA", "AAAA", "AAAAA"}
    assert {task.id: task.data["max_turns"] for task in islice(env.tasks("train", 0), 30)} == {
        "AAA": 10,
        "AAAA": 20,
        "AAAAA": 35,
    }


def test_scattered_starts_are_all_but_the_end() -> None:
    env = TowerOfHanoi(num_disks=3)
    starts = {task.id for task in islice(env.tasks("train", 0), 1000)} | {task.id for task in env.tasks("test", 0)}
    assert starts == set(map("".join, product("ABC", repeat=3))) - {"CCC"}
