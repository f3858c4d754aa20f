"""A mixture's curriculum: shares by success of late, against numbers computed by hand."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.countdown.countdown import Countdown
from rlx.env.mixed.curriculum import Curriculum
from rlx.env.mixed.mixture import Mixture, Portion
from rlx.environment import CurriculumState
from rlx.types import Fork, Group, Status, Task, Trajectory
from tests.errors import raises_naming
from tests.loops import for_each


def group(env: str, *successes: bool, status: Status = "done", fork: Fork | None = None) -> Group:
    task = Task(id="t", prompt=(), data={}, env=env)
    told = [
        Trajectory(task=task, sample=i, turns=(), status=status, success=s, fork=fork) for i, s in enumerate(successes)
    ]
    return Group(task=task, trajectories=tuple(told))


def of(floor: float = 0.2, decay: float = 0.5, **weights: float) -> Curriculum:
    return Curriculum(weights=weights, floor=floor, decay=decay)


def test_shares_are_those_computed_by_hand() -> None:
    curriculum = of(a=1.0, b=1.0, c=2.0)
    known = curriculum.begin()
    assert curriculum.shares(known) == {"a": 0.25, "b": 0.25, "c": 0.5}  # nothing is known: as they are weighed
    known = curriculum.adapt(known, [group("a", *[True] * 8), group("b", True, True, False, False)])
    # p: a 9/10, b 3/6, c 1/2; worth: .2 + .8 * 4 * .09 = .488, 1, 1; weighed .488, 1, 2
    assert curriculum.shares(known) == pytest.approx({"a": 0.488 / 3.488, "b": 1 / 3.488, "c": 2 / 3.488})
    known = curriculum.adapt(known, [group("b", False, False), group("b", False, False)])
    assert known["a"] == {"tasks": 1, "episodes": 4.0, "successes": 4.0}
    assert known["b"] == {"tasks": 3, "episodes": 6.0, "successes": 1.0}
    # p: a 5/6, b 2/8, c 1/2; worth: .2 + .8 * 20/36, .2 + .8 * .75, 1
    worth = {"a": 0.2 + 0.8 * 20 / 36, "b": 0.8, "c": 2.0}
    assert curriculum.shares(known) == pytest.approx({part: one / sum(worth.values()) for part, one in worth.items()})
    told = curriculum.tell(known)
    assert told["b/known/success"] == 0.25
    assert told["b/known/share"] == curriculum.shares(known)["b"]


def test_what_is_solved_gives_way_and_what_is_forgotten_comes_back() -> None:
    curriculum = of(floor=0.1, a=1.0, b=1.0)
    known = curriculum.begin()
    for _ in range(20):
        known = curriculum.adapt(known, [group("a", *[True] * 50), group("b", *[True, False] * 25)])
    assert curriculum.shares(known)["a"] < 0.2 < 0.8 < curriculum.shares(known)["b"]
    for _ in range(20):
        known = curriculum.adapt(known, [group("b", *[True, False] * 25)])
    assert curriculum.shares(known)["a"] == pytest.approx(0.5, abs=1e-3)


def test_errors_and_forks_say_nothing_and_tasks_are_counted() -> None:
    curriculum = of(a=1.0)
    broken = group("a", False, status="error")
    forked = group("a", True, fork=Fork(parent=0, turn=0))
    known = curriculum.adapt(curriculum.begin(), [broken, forked])
    assert known["a"] == {"tasks": 2, "episodes": 0.0, "successes": 0.0}


@given(
    st.dictionaries(st.sampled_from("abcde"), st.floats(0.01, 100.0), min_size=1),
    st.integers(1, 40),
    st.integers(0, 10**6),
)
def test_a_steps_tasks_are_by_the_shares_to_within_one(weights: dict[str, float], num: int, step: int) -> None:
    curriculum = of(**weights)
    chosen = curriculum.choose(curriculum.begin(), num, 0, step)
    assert chosen == curriculum.choose(curriculum.begin(), num, 0, step)
    assert len(chosen) == num
    counts = Counter(chosen)
    for part, share in curriculum.shares(curriculum.begin()).items():
        assert abs(counts[part] - num * share) < 1 + 1e-9


def test_over_steps_a_part_has_its_share_even_of_one_task_a_step() -> None:
    curriculum = of(a=1.0, b=4.0, c=5.0)
    counts = Counter(curriculum.choose(curriculum.begin(), 1, 0, step)[0] for step in range(4000))
    assert [counts[part] / 4000 for part in "abc"] == pytest.approx([0.1, 0.4, 0.5], abs=0.03)


def test_a_mixture_has_a_curriculum_only_where_one_is_asked_for() -> None:
    parts = {"a": Portion(env=Countdown(), weight=2.0)}
    assert Mixture(parts=parts).curriculum is None
    curriculum = Mixture(parts=parts, curriculum_floor=0.3, curriculum_decay=0.7).curriculum
    assert curriculum == Curriculum(weights={"a": 2.0}, floor=0.3, decay=0.7)


@for_each("floor", [0.0, -0.1, 1.1, float("nan")])
def test_a_floor_that_is_no_share_is_refused(floor: float) -> None:
    with raises_naming(ValueError, f"curriculum_floor={floor}"):
        Mixture(parts={"a": Portion(env=Countdown())}, curriculum_floor=floor)


@pytest.mark.parametrize("decay", [-0.1, 1.1, float("nan")])
def test_a_decay_that_is_no_share_is_refused(decay: float) -> None:
    with raises_naming(ValueError, f"curriculum_decay={decay}"):
        Mixture(parts={"a": Portion(env=Countdown())}, curriculum_decay=decay)


def test_what_is_known_survives_a_file() -> None:
    import json

    curriculum = of(a=1.0, b=3.0)
    known: CurriculumState = curriculum.adapt(curriculum.begin(), [group("a", True, False, True)])
    assert curriculum.choose(json.loads(json.dumps(known)), 7, 1, 2) == curriculum.choose(known, 7, 1, 2)
