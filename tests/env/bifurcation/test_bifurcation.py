"""The bifurcation task: its rules, its chance, its dial, and exact values by enumeration."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.bifurcation.bifurcation import Bifurcation
from rlx.env.bifurcation.exact_values import Histories, Outcome, exact_values
from rlx.env.bifurcation.rules import INVALID, STOP, Rules, State
from rlx.environment.world import lawful, legal_sets, moves_of
from rlx.types import Action, Step, Task
from tests.errors import raises_naming
from tests.loops import for_each


def act(name: str) -> Action:
    return Action(kind="act", name=name, text="")


def first(env: Bifurcation) -> Task:
    return next(env.tasks("train", 0))


def right(env: Bifurcation, task: Task, door: int) -> str:
    return env.moves["ABCDEFGHIJKLMNOPQRSTUVWXYZ".index(task.data["letters"][door - 1]) % env.num_moves]


def wrong(env: Bifurcation, task: Task, door: int) -> str:
    return next(name for name in env.moves if name != right(env, task, door))


def played(env: Bifurcation, task: Task, names: list[str], luck: int = 0) -> list[Step]:
    """Steps of these actions, with luck of their own where it is given."""
    episode, steps = env.start(task), []
    for turn, name in enumerate(names):
        if luck:
            episode.set_luck(luck + turn)
        steps.append(lawful(env, episode.step(act(name) if name else Action(kind="invalid", text="say a move"))))
        if steps[-1].done:
            break
    return steps


CERTAIN = Bifurcation(slip=0.0, cycles=())


def test_only_critical_doors_count_and_each_has_its_share() -> None:
    task = first(CERTAIN)
    always = [right(CERTAIN, task, door) for door in range(1, 7)]
    steps = played(CERTAIN, task, always)
    assert [step.reward for step in steps] == pytest.approx([0, 0.1, 0, 0, 0.1, 1])
    assert steps[-1].success
    careless = [always[door - 1] if door in (2, 5) else wrong(CERTAIN, task, door) for door in range(1, 7)]
    assert [step.reward for step in played(CERTAIN, task, careless)] == [step.reward for step in steps]
    half = [*always[:4], wrong(CERTAIN, task, 5), always[5]]
    steps = played(CERTAIN, task, half)
    assert (steps[-1].reward, steps[-1].success) == (0.5, False)
    steps = played(Bifurcation(slip=0.0, cycles=(), end="all"), task, half)
    assert (steps[-1].reward, steps[-1].success) == (0.0, False)


def test_stopping_pays_at_once_and_what_is_no_move_costs_a_turn() -> None:
    task = first(CERTAIN)
    legal = CERTAIN.start(task).opening().legal
    assert legal == CERTAIN.moves
    steps = played(CERTAIN, task, [CERTAIN.moves[0], INVALID, STOP])
    assert [step.reward for step in steps] == [0.0, -0.1, 0.3]
    assert steps[1].observation[0].text.endswith(steps[0].observation[0].text)
    assert (steps[-1].done, steps[-1].truncated, steps[-1].success) == (True, False, False)
    assert steps[-1].metrics == {"stopped": 1.0}
    never = Bifurcation(stop_reward=None)
    assert STOP not in [verb.name for verb in never.actions]
    assert legal_sets(CERTAIN.actions) == (frozenset(CERTAIN.moves), frozenset((*CERTAIN.moves, STOP)))


def test_a_cycle_leads_back_and_takes_the_mark_with_it() -> None:
    env = Bifurcation(slip=0.0, cycles=(3,), critical=(2,), num_doors=4)
    task = first(env)
    loop = env.moves[task.data["loops"][2]]
    names = [env.moves[0], right(env, task, 2), loop]
    steps = played(env, task, names)
    assert [step.reward for step in steps] == pytest.approx([0, 0.1, -0.1])
    assert steps[2].observation == steps[0].observation
    onward = next(name for name in env.moves if name != loop)
    steps = played(env, task, [*names, wrong(env, task, 2), onward, onward])
    assert steps[-1].reward == 0.0
    short = Bifurcation(slip=0.0, cycles=(3,), critical=(2,), num_doors=4, max_turns=5)
    steps = played(short, task, [*names, right(env, task, 2), onward, onward])
    assert (len(steps), steps[-1].truncated, steps[-1].reward) == (5, True, 0.0)


def test_aliased_states_look_alike_and_others_do_not() -> None:
    for aliased in (True, False):
        env = Bifurcation(slip=0.0, cycles=(), aliased=aliased)
        task = first(env)
        ways = [[env.moves[0], name(env, task, 2)] for name in (right, wrong)]
        seen = [played(env, task, way)[-1].observation for way in ways]
        assert (seen[0] == seen[1]) == aliased


def test_words_are_of_unequal_length() -> None:
    assert Bifurcation(long_word=3).moves == ("left", "right", "up_up_up")
    assert Bifurcation(long_word=1, num_moves=4).moves == ("left", "right", "up", "open")


def test_luck_decides_alike_again_and_otherwise_for_others() -> None:
    env = Bifurcation(slip=0.5, cycles=())
    task = first(env)
    names = [right(env, task, door) for door in range(1, 7)]
    by_luck = {luck: played(env, task, names, luck) for luck in range(1, 400, 10)}
    assert all(played(env, task, names, luck) == steps for luck, steps in by_luck.items())
    shares = Counter(steps[-1].reward for steps in by_luck.values())
    assert set(shares) == {0.0, 0.5, 1.0}
    assert played(env, task, names) == played(env, task, names)  # nobody gives luck: the task keys it
    other = [names[0], wrong(env, task, 2), *names[2:]]
    marks = [[played(env, task, way, luck)[1].reward > 0 for luck in range(1, 400)] for way in (names, other)]
    same = fmean(ours == theirs for ours, theirs in zip(*marks, strict=True))
    assert 0.4 < same < 0.6  # another action has luck of its own


@pytest.mark.parametrize("slip", [0.0, 0.2, 1.0])
def test_a_slip_is_as_likely_as_it_says(slip: float) -> None:
    env = Bifurcation(slip=slip)
    task = first(env)
    names = [env.moves[0], right(env, task, 2)]
    share = fmean(played(env, task, names, luck)[1].reward > 0 for luck in range(1, 3000, 3))
    assert share == pytest.approx(1 - slip, abs=0.05)


def hinted(env: Bifurcation, num: int = 60) -> list[tuple[bool, int]]:
    """Whether each door of some tasks is critical, and its hint."""
    return [
        (door in env.critical, hint)
        for task in islice(env.tasks("train", 0), num)
        for door, hint in enumerate(task.data["hints"], 1)
    ]


def test_the_dial_moves_hints_from_doors_that_do_not_count_to_those_that_do() -> None:
    assert all((hint < 0) == critical for critical, hint in hinted(Bifurcation(alignment=1.0)))
    assert all((hint >= 0) == critical for critical, hint in hinted(Bifurcation(alignment=0.0)))
    shares = [hint < 0 for critical, hint in hinted(Bifurcation(alignment=0.7)) if critical]
    assert 0.55 < fmean(shares) < 0.85


@pytest.mark.parametrize("misleading", [0.0, 1.0])
def test_misleading_hints_are_wrong_and_others_right(misleading: float) -> None:
    env = Bifurcation(alignment=0.0, misleading=misleading)
    for task in islice(env.tasks("train", 0), 20):
        for door in env.critical:
            is_right = env.moves[task.data["hints"][door - 1]] == right(env, task, door)
            assert is_right == (misleading == 0)


def test_the_dial_changes_nothing_but_hints() -> None:
    ours, theirs = (first(Bifurcation(alignment=alignment)) for alignment in (0.0, 1.0))
    assert {**ours.data, "hints": None} == {**theirs.data, "hints": None}


def test_experts_follow_hints_or_the_right_moves() -> None:
    sure = Bifurcation(alignment=0.0, misleading=1.0, sureness=1.0, stops=0.0, cycles=())
    for task in islice(sure.tasks("train", 0), 5):
        moves = [move.action.name for move in moves_of(sure, task, 0, ())]
        assert len(moves) == 6
        assert all(moves[door - 1] != right(sure, task, door) for door in sure.critical)
    best = Bifurcation(expert="right", slip=0.0)
    for task in islice(best.tasks("train", 0), 20):
        assert played(best, task, [move.action.name for move in moves_of(best, task, 0, ())])[-1].success


def test_splits_never_overlap() -> None:
    env = Bifurcation(num_test=30)
    test = [task.id for task in env.tasks("test", 3)]
    assert len(test) == len(set(test)) == 30
    assert set(test).isdisjoint(task.id for task in islice(env.tasks("train", 0), 200))


NAMES = st.lists(st.sampled_from(["left", "right", "up_up_up", "stop", "nonsense", ""]), max_size=40)


@given(NAMES, st.integers(0, 5))
def test_every_episode_ends_within_its_turns_and_pays_within_its_range(names: list[str], luck: int) -> None:
    env = Bifurcation(slip=0.3)
    steps = played(env, first(env), names, luck)
    low, high = env.reward_range
    assert len(steps) <= env.max_turns
    assert low <= sum(step.reward for step in steps) <= high
    assert steps[-1].done if len(names) >= env.max_turns else True


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"num_doors": 0}, "num_doors=0"),
    ({"num_moves": 1}, "num_moves=1"),
    ({"num_letters": 1}, "num_letters=1"),
    ({"critical": (7,)}, "critical=[7]"),
    ({"critical": ()}, "critical=[]"),
    ({"cycles": (1,)}, "cycles=[1]"),
    ({"cycles": (5,)}, "cycles=[5]"),
    ({"slip": 1.5}, "slip=1.5"),
    ({"alignment": -1.0}, "alignment=-1.0"),
    ({"misleading": float("nan")}, "misleading=nan"),
    ({"mark_reward": -0.1}, "mark_reward=-0.1"),
    ({"stop_reward": float("inf")}, "stop_reward=inf"),
    ({"invalid_penalty": -1.0}, "invalid_penalty=-1.0"),
    ({"long_word": 0}, "long_word=0"),
    ({"max_turns": 0}, "max_turns=0"),
    ({"sureness": 2.0}, "sureness=2.0"),
    ({"stops": 2.0}, "stops=2.0"),
    ({"num_test": 0}, "num_test=0"),
]


@for_each("keys, place", WRONG)
def test_wrong_values_are_one_line_with_key_and_value(keys: dict[str, Any], place: str) -> None:
    with raises_naming(ValueError, place):
        Bifurcation(**keys)


class Tree:
    """s0 -a-> s1, s0 -b-> s2; s1 -c-> 1, s1 -d-> 0; s2 -e-> s3; s3 -f-> 1, -g-> 1, -h-> 0."""

    start = "s0"
    edges = (
        *(("s0", "a", "s1", 0.0), ("s0", "b", "s2", 0.0), ("s1", "c", None, 1.0), ("s1", "d", None, 0.0)),
        *(("s2", "e", "s3", 0.0), ("s3", "f", None, 1.0), ("s3", "g", None, 1.0), ("s3", "h", None, 0.0)),
    )

    def outcomes(self, state: str, action: str) -> list[Outcome[str]]:
        return [Outcome(1.0, r, after) for before, name, after, r in self.edges if (before, name) == (state, action)]

    def even(self, state: str) -> dict[str, float]:
        names = [name for before, name, *_ in self.edges if before == state]
        return dict.fromkeys(names, 1 / len(names))


def test_values_of_a_tree_worked_out_by_hand() -> None:
    found = exact_values(Tree(), Tree().even)
    assert found.v == pytest.approx({"s0": 7 / 12, "s1": 1 / 2, "s2": 2 / 3, "s3": 2 / 3})
    gains = {action: found.advantage(state, action) for state, action in found.q}
    expected = {"a": -1 / 12, "b": 1 / 12, "c": 1 / 2, "d": -1 / 2, "e": 0, "f": 1 / 3, "g": 1 / 3, "h": -2 / 3}
    assert gains == pytest.approx(expected)
    assert found.reach == pytest.approx({"s0": 1, "s1": 0.5, "s2": 0.5, "s3": 0.5})
    skewed = exact_values(Tree(), lambda state: {"a": 0.25, "b": 0.75} if state == "s0" else Tree().even(state))
    assert skewed.v["s0"] == pytest.approx(0.25 / 2 + 0.75 * 2 / 3)


def policy(rules: Rules, state: State) -> dict[str, float]:
    """The habit, with one invalid turn in ten."""
    chances = {name: 0.9 * chance for name, chance in rules.habit(state, 0.8, 0.05).items()}
    return chances | {INVALID: 0.1}


def test_advantages_sum_to_zero_under_the_policy_and_histories_agree() -> None:
    env = Bifurcation(num_doors=4, critical=(2,), cycles=(3,), max_turns=5)
    rules = env.rules(first(env))
    found = exact_values(rules, lambda state: policy(rules, state))
    for state in found.v:
        chances = policy(rules, state)
        assert sum(p * found.advantage(state, name) for name, p in chances.items()) == pytest.approx(0, abs=1e-12)
    by_history = exact_values(Histories(rules), lambda history: policy(rules, history[-1]))  # type: ignore[arg-type]
    for history, value in by_history.v.items():
        assert value == pytest.approx(found.v[history[-1]])  # type: ignore[index]
    assert len(by_history.v) > len(found.v)


def test_distractors_are_worth_nothing_and_critical_doors_something() -> None:
    env = Bifurcation(cycles=(), max_turns=20, stop_reward=None)
    rules = env.rules(first(env))
    found = exact_values(rules, lambda state: rules.habit(state, 0.5, 0.0))
    for state, name in found.q:
        gain = found.advantage(state, name)
        assert abs(gain) > 0.05 if rules.is_critical(state) else gain == pytest.approx(0, abs=1e-12)


def test_exact_values_are_those_of_episodes_played() -> None:
    env = Bifurcation()
    task = first(env)
    rules, rng = env.rules(task), Random(0)
    returns = []
    for _ in range(4000):
        episode, total, done = env.start(task), 0.0, False
        while not done:
            assert episode.state is not None
            chances = policy(rules, episode.state)
            name = rng.choices(list(chances), list(chances.values()))[0]
            episode.set_luck(rng.randrange(1, 2**32))
            step = episode.step(act(name) if name else Action(kind="invalid", text=""))
            total, done = total + step.reward, step.done
        returns.append(total)
    exact = exact_values(rules, lambda state: policy(rules, state)).v[rules.start]
    assert abs(fmean(returns) - exact) < 4 * stdev(returns) / len(returns) ** 0.5
