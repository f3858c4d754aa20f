"""Sorting: rewards by hand, what is seen and what never is, an end that must be said, splits, experts, hostile text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import islice, pairwise, permutations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.sorting.random_expert import HABITS, Mind, two_places
from rlx.env.sorting.sorters import SORTERS, cost
from rlx.env.sorting.sorting import Sorting, letters, two_of
from rlx.environment.expert import demonstration
from rlx.environment.world import dialect_of, lawful
from rlx.protocol.boxed import Boxed
from rlx.protocol.direct import Direct
from rlx.protocol.expa import ExpA
from rlx.protocol.tags import Tags
from rlx.settings.folders import list_options, read_option, shipped_folder
from rlx.types import Action, Step
from tests.env.steps import played
from tests.errors import raises_naming
from tests.loops import for_each

OPTIONS = [name for name in list_options("env", [shipped_folder("conf")]) if name.startswith("sorting/")]
SORT = Sorting()
ORDER = Sorting(family="order", test_sizes=(2, 3), test_shares=(1, 1), compare_share=0.5)
FOUR = Sorting(sizes=(4,), shares=(1,), test="orders", test_sizes=(4,), test_shares=(1,))


@cache
def make(name: str) -> Any:
    keys = read_option("env", name)
    module, _, what = keys.pop("_target_").rpartition(".")
    return getattr(import_module(module), what)(**keys)


def test_a_picture_shows_the_numbers_that_no_agent_sees() -> None:
    task = replace(
        next(iter(SORT.tasks("train", 0))), data={"kind": "sort", "numbers": [30, 5, 120], "pair": [], "max_turns": 9}
    )
    episode = SORT.start(task)
    assert episode.picture().split("\n") == ["A  30 ##", "B   5 #", "C 120 ###"]
    episode.step(Action(kind="act", name="swap", text="A B"))
    assert episode.picture().split("\n") == ["A   5 #", "B  30 ##", "C 120 ###"]


def act(words: str) -> Action:
    name, _, text = words.partition(" ")
    return Action(kind="answer", text=text) if name == "answer" else Action(kind="act", name=name, text=text)


def play(env: Sorting, numbers: list[int], *words: str, kind: Any = None, pair: tuple[int, ...] = ()) -> list[Step]:
    task = env.describe(kind or env.family, numbers, pair)
    episode = env.start(task)
    return [lawful(env, episode.step(act(one))) for one in words]


def total(steps: Iterable[Step], name: str) -> float:
    return sum(step.metrics.get(name, 0.0) for step in steps)


# What it is worth.


@for_each(
    "numbers, words, reward",
    [
        # least and most: 5 and 8 comparisons; swaps from 2 (two cycles of two) to 6
        ([2, 1, 4, 3], ["compare A B"] * 5 + ["swap A B", "swap C D"], 1.0),
        ([2, 1, 4, 3], ["swap A B", "swap C D"], 1.0),  # fewer than the least are no more than it
        ([2, 1, 4, 3], ["compare A B"] * 6 + ["swap A B", "swap C D"], (1 + (2 / 3 + 1) / 2) / 2),
        ([2, 1, 4, 3], ["compare A B"] * 5 + ["swap A C"] * 2 + ["swap A B", "swap C D"], (1 + (1 + 0.5) / 2) / 2),
        ([2, 1, 4, 3], ["compare A B"] * 8 + ["swap A C"] * 4 + ["swap A B", "swap C D"], 0.5),
        ([2, 1, 4, 3], ["swap A B"], 0.0),
        ([2, 1, 4, 3], [], 0.0),
        ([1, 2, 3, 4], [], 1.0),
        # two numbers: 1 to 2 comparisons; one swap is needed or none is, and one is the most
        ([2, 1], ["compare A B", "swap A B"], 1.0),
        ([2, 1], ["compare A B", "compare A B", "swap A B"], 0.75),
        ([1, 2], ["swap A B", "swap A B"], 0.75),
    ],
)
def test_half_is_for_what_is_right_and_half_for_what_it_took(
    numbers: list[int], words: list[str], reward: float
) -> None:
    steps = play(SORT, numbers, *words, "answer sorted")
    assert [step.reward for step in steps[:-1]] == [0.0] * len(words)
    assert (steps[-1].done, steps[-1].truncated) == (True, False)
    assert steps[-1].reward == pytest.approx(reward)
    assert steps[-1].success == (reward > 0)
    assert total(steps, "efficiency") == pytest.approx(max(0.0, 2 * reward - 1))


def test_right_alone_can_be_what_counts() -> None:
    plain = Sorting(reward="right")
    assert play(plain, [2, 1], *["compare A B"] * 2, "swap A B", "answer x")[-1].reward == 1.0
    assert play(plain, [2, 1], "answer x")[-1].reward == 0.0


def test_each_comparison_that_is_saved_can_count() -> None:
    words = (["compare A B"] * num + ["answer x"] for num in (3, 4, 5))
    rewards = [play(Sorting(least="chain"), [1, 2, 3, 4], *one)[-1].reward for one in words]
    assert rewards == pytest.approx([1.0, (1 + (0.8 + 1) / 2) / 2, (1 + (0.6 + 1) / 2) / 2])


@for_each("name", ["look", "", "Swap", "answer", "compare "])
def test_an_unknown_action_is_refused_and_swaps_nothing(name: str) -> None:
    episode = SORT.start(SORT.describe(SORT.family, [3, 1, 2], ()))
    step = episode.step(Action(kind="act", name=name, text="A B"))
    assert step.observation[0].text.startswith("Error: there is no action")
    assert (step.metrics["swaps"], step.metrics["comparisons"], step.done) == (0.0, 0.0, False)
    assert episode.numbers == [3, 1, 2]


@for_each(
    "text, right",
    [
        ("B < C < A", True),
        ("b<c<a", True),
        ("A > C > B.", True),
        ("B C A", True),
        ("B, C, A", True),
        ("BCA", True),
        ("Now all is known: B < C < A.", True),
        ("Not A < B < C, so B < C < A", True),
        ("Not B < C < A, so A < B < C", False),
        ("I say B C A", False),
        ("A < C < B", False),
        ("B < C > A", False),
        ("B < C", False),
        ("B < C < A < A", False),
        ("", False),
        ("Β < C < A", False),  # a Greek one
        ("B < C < A" * 999, False),
    ],
)
def test_an_order_is_said_in_words(text: str, right: bool) -> None:
    step = play(ORDER, [30, 10, 20], "compare A B", f"answer {text}")[-1]
    assert (step.success, step.reward) == (right, float(right))


def test_an_order_is_paid_by_its_comparisons_alone() -> None:
    assert play(ORDER, [3, 1, 2], *["compare A B"] * 4, "answer B C A")[-1].reward == pytest.approx((1 + 2 / 3) / 2)
    assert play(ORDER, [3, 1, 2], "compare A C", "answer C < A", kind="compare", pair=(0, 2))[-1].reward == 1.0
    twice = play(ORDER, [3, 1, 2], "compare A C", "compare B C", "answer A > C", kind="compare", pair=(0, 2))[-1]
    assert twice.reward == pytest.approx((1 + 4 / 5) / 2)
    assert not play(ORDER, [3, 1, 2], "answer A < C", kind="compare", pair=(0, 2))[-1].success


# What is seen.


def test_letters_are_places_and_swaps_move_what_they_hold() -> None:
    steps = play(SORT, [30, 10, 20], "compare A B", "swap A B", "compare A B", "compare C B", "swap c, b")
    assert [step.observation[0].text for step in steps] == ["A > B", "swapped A B", "A < B", "C < B", "swapped C B"]
    steps = play(SORT, [30, 10, 20], "swap A B", "swap C B", "answer It is sorted.")
    assert steps[-1].success


@for_each("text", ["", "A", "A A", "A D", "A B C", "1 2", "A\x1b[2J B", "А B", "x" * 10**5, "$(id) B"])
def test_what_names_no_two_places_takes_a_turn_and_nothing_else(text: str) -> None:
    steps = play(SORT, [30, 10, 20], f"compare {text}", f"swap {text}", "compare A B")
    assert [step.observation[0].text for step in steps] == ["Error: give two of A B C"] * 2 + ["A > B"]
    assert total(steps, "comparisons") == 1
    assert total(steps, "swaps") == 0


def test_in_an_order_nothing_is_swapped() -> None:
    episode = ORDER.start(ORDER.describe("order", [2, 1]))
    assert episode.opening().legal == ("compare", "answer")
    step = episode.step(act("swap A B"))
    assert step.observation[0].text == "Error: no swaps"
    assert step.legal == ("compare", "answer")
    assert episode.step(act("compare A B")).observation[0].text == "A > B"


def test_the_end_must_be_said_and_a_limit_is_the_tasks_own() -> None:
    assert [SORT.describe("sort", list(range(n))).data["max_turns"] for n in (2, 3, 4, 5)] == [4, 10, 15, 26]
    steps = play(SORT, [2, 1], "swap A B", "compare A B", "compare A B", "compare A B")
    assert [step.done for step in steps] == [False] * 3 + [True]
    assert (steps[-1].truncated, steps[-1].success, steps[-1].reward) == (True, False, 0.0)  # though it is sorted
    assert not play(Sorting(spare_turns=1), [2, 1], *["compare A B"] * 4)[-1].done
    episode = SORT.start(SORT.describe("sort", [1, 2]))
    assert episode.step(act("answer sorted")).success
    with raises_naming(RuntimeError, "over"):
        episode.step(act("answer sorted"))


@pytest.mark.parametrize("family", ["sort", "order"])
def test_a_task_without_a_limit_says_none_and_goes_on_until_it_is_answered(family: Any) -> None:
    env = Sorting(spare_turns=None, family=family)
    told, task = (one.describe(family, [3, 2, 1]) for one in (replace(env, spare_turns=0), env))
    assert [" turns." in str(one.prompt) for one in (told, task)] == [True, False]
    episode = env.start(task)
    assert not any(episode.step(act("compare A B")).done for _ in range(1000))
    assert episode.step(act("answer C < B < A")).done
    wandering = replace(env, expert="any")
    moves = [[*wandering.demonstrate(task, seed, ())] for seed in range(20)]
    assert moves == [[*wandering.demonstrate(told, seed, ())] for seed in range(20)]


@for_each("said, is_right", [("B > A", True), ("A B", True), ("B < A", False), ("sorted", False)])
def test_what_is_sorted_may_have_to_be_said_to_be(said: str, is_right: bool) -> None:
    assert play(SORT, [2, 1], "swap A B", f"answer {said}")[-1].success
    told = replace(SORT, say_order=True)
    assert play(told, [2, 1], "swap A B", f"answer {said}")[-1].success is is_right
    assert not play(told, [2, 1], f"answer {said}")[-1].success, "it is not sorted"


def test_every_episode_says_what_it_took_under_its_own_stratum() -> None:
    steps = play(SORT, [2, 3, 1, 4], "compare A B", "swap A C", "swap B C", "answer sorted")
    names = ("swaps_needed", "swaps", "comparisons", "sort_4_needs_2", "efficiency")
    assert [total(steps, name) for name in names] == [2.0, 2.0, 1.0, 1.0, 1.0]
    assert all("sort_4_needs_2" in step.metrics for step in steps)  # so that one that the context ends counts as wrong
    assert total(play(SORT, [2, 3, 1, 4], "answer sorted"), "swaps_needed") == 2.0
    assert play(ORDER, [2, 1], "answer x")[0].metrics["order_2"] == 0.0


# Tasks.


@for_each("name", OPTIONS)
def test_splits_never_overlap_and_the_test_is_the_same_for_every_seed(name: str) -> None:
    env = make(name)
    test = [task.id for task in env.tasks("test", 0)]
    assert test == [task.id for task in env.tasks("test", 1)]
    assert len(test) == len(set(test))
    train = [task.id for task in islice(env.tasks("train", 0), 2000)]
    assert set(test).isdisjoint(train)
    assert train == [task.id for task in islice(env.tasks("train", 0), 2000)]
    assert train != [task.id for task in islice(env.tasks("train", 1), 2000)]
    with raises_naming(ValueError, "split=other", "train", "test"):
        env.tasks("other", 0)


def kinds(env: Sorting, split: str, num: int) -> dict[Any, float]:
    found = Counter((task.data["kind"], len(task.data["numbers"])) for task in islice(env.tasks(split, 0), num))
    return {kind: count / found.total() for kind, count in found.items()}


def test_sizes_come_as_often_as_in_the_paper() -> None:
    sort, order = make("sorting/sort"), make("sorting/order")
    expected = {("sort", 2): 0.1, ("sort", 3): 0.2, ("sort", 4): 0.3, ("sort", 5): 0.4}
    assert kinds(sort, "train", 4000) == pytest.approx(expected, abs=0.03)
    assert kinds(sort, "test", 2000) == kinds(sort, "test", 100) == {("sort", 4): 0.5, ("sort", 5): 0.5}
    assert len(list(sort.tasks("test", 0))) == len(list(order.tasks("test", 0))) == 2000
    lengths = {("order", 2): 0.3, ("order", 3): 0.3, ("order", 4): 0.2, ("order", 5): 0.2}
    assert kinds(order, "test", 2000) == pytest.approx(lengths)
    found = kinds(order, "train", 4000)
    assert {n: found["order", n] + found["compare", n] for n in (2, 3, 4, 5)} == pytest.approx(
        {n: share for (_, n), share in lengths.items()}, abs=0.03
    )
    assert sum(share for (kind, _), share in found.items() if kind == "compare") == pytest.approx(0.05, abs=0.015)


def ranks(numbers: list[int]) -> tuple[int, ...]:
    return tuple(sorted(numbers).index(number) for number in numbers)


def test_all_orders_of_four_are_in_the_test_and_in_training() -> None:
    test = [ranks(task.data["numbers"]) for task in FOUR.tasks("test", 0)]
    assert sorted(test) == sorted(permutations(range(4)))
    assert {ranks(task.data["numbers"]) for task in islice(FOUR.tasks("train", 0), 600)} == set(test)
    unsorted = replace(FOUR, sorted_starts=False)
    assert sorted(ranks(task.data["numbers"]) for task in unsorted.tasks("test", 0)) == sorted(test)[1:]
    assert all(ranks(task.data["numbers"]) != (0, 1, 2, 3) for task in islice(unsorted.tasks("train", 0), 300))


@for_each("name", OPTIONS)
def test_no_number_is_told(name: str) -> None:
    env = make(name)
    for task in islice(env.tasks("train", 0), 20):
        again = replace(task, data=json.loads(json.dumps(task.data)))
        assert again.data == task.data
        told = replace(env, explain=False).describe(task.data["kind"], task.data["numbers"], task.data["pair"])
        said = [told.prompt[0].text]
        opening, shown = demonstration(env, dialect_of(env, Direct()), again, 0)
        said += [part.text for step in (opening, *(one.step for one in shown)) for part in step.observation]
        assert not any(letter.isdigit() for text in said for letter in text)


# Who plays it.


@for_each("protocol, name", product([Tags(), Direct(), Boxed(), ExpA(stops=("\n",))], OPTIONS))
def test_an_expert_is_right_and_heard_under_every_protocol(name: str, protocol: Any) -> None:
    env = make(name)
    dialect: Any = dialect_of(env, protocol)
    for task in (*islice(env.tasks("train", 0), 10), *islice(env.tasks("test", 0), 10)):
        _, shown = demonstration(env, dialect, task, 0)
        assert shown[-1].step.success
        assert [one.step for one in shown] == [one.step for one in demonstration(env, dialect, task, 0)[1]]
        for one in shown:
            if isinstance(dialect, ExpA):  # where language as a whole is the answer
                chosen = dialect.choose(replace(one.move, thought=""))
                assert dialect.understand(chosen, "stop") == one.move.action
            else:
                assert dialect.parse(one.text, "stop") == one.move.action


@pytest.mark.parametrize(("expert", "row"), [("insertion", "insertion"), ("pivot", "EARL*"), ("optimum", "optimum")])
def test_an_expert_takes_what_its_row_of_the_table_says(expert: Any, row: str) -> None:
    env = replace(FOUR, expert=expert)
    for task in env.tasks("test", 0):
        _, shown = demonstration(env, dialect_of(env, Direct()), task, 0)
        numbers = task.data["numbers"]
        took = cost(SORTERS[row], sorted(range(4), key=numbers.__getitem__))
        steps = [one.step for one in shown]
        assert (total(steps, "swaps"), total(steps, "comparisons")) == took


@given(st.integers(2, 12), st.randoms(use_true_random=False))
def test_an_expert_sorts_any_number_of_places_within_its_turns(num: int, rng: Any) -> None:
    env = Sorting(sizes=(12,), shares=(1,))
    for family in ("sort", "order"):
        one = replace(env, family=family)
        task = one.describe(one.family, rng.sample(range(1, 100), num))
        assert demonstration(one, dialect_of(one, Direct()), task, 0)[1][-1].step.success


@given(st.integers(2, 12), st.sampled_from(["sort", "order", "compare"]), st.integers(0, 99), st.randoms())
def test_an_expert_that_does_anything_shows_how_to_act_and_says_orders_that_could_be(
    num: int, kind: Any, seed: int, rng: Any
) -> None:
    env = Sorting(sizes=(12,), shares=(1,), expert="any", any_orders=1.0)
    task = env.describe(kind, rng.sample(range(1, 100), num), (0, 1) if kind == "compare" else ())
    *acts, last = demonstration(env, dialect_of(env, Direct()), task, seed)[1]
    assert len(acts) < task.data["max_turns"]
    assert not any(one.step.done for one in acts)
    assert last.step.done
    assert all(one.text.split()[0] in (("compare", "swap") if kind == "sort" else ("compare",)) for one in acts)
    known: list[tuple[str, str]] = []
    for one in acts:
        assert is_known(one.move.thought.split(), known)
        a, sign, b = one.step.observation[0].text.split()
        if a == "swapped":
            moved = {sign: b, b: sign}
            known = [(moved.get(low, low), moved.get(high, high)) for low, high in known]
        else:
            known.append((a, b) if sign == "<" else (b, a))
    said = last.move.action.text.split()
    assert sorted(said[::2]) == letters(range(2 if kind == "compare" else num)).split()
    assert could_be(said[::2], known) if kind == "compare" else is_known(said, known)


def is_known(said: Sequence[str], known: Sequence[tuple[str, str]]) -> bool:
    """Whether an order could be, and neighbours are said to be in order where they were compared, and there alone."""
    signs = ["<" if pair in known else "?" for pair in pairwise(said[::2])]
    return said[1::2] == signs and could_be(said[::2], known)


def could_be(said: Sequence[str], known: Sequence[tuple[str, str]]) -> bool:
    return all(said.index(low) < said.index(high) for low, high in known if low in said and high in said)


def test_an_expert_that_does_anything_sorts_only_by_chance() -> None:
    env = replace(FOUR, expert="any")
    dialect = dialect_of(env, Direct())
    shown = [demonstration(env, dialect, task, seed)[1] for task in env.tasks("test", 0) for seed in range(20)]
    assert 0 < sum(moves[-1].step.success is True for moves in shown) < len(shown) / 10
    assert {len(moves) for moves in shown} >= set(range(1, 13))
    assert not any(one.move.thought for moves in shown for one in moves)


@given(st.permutations(range(5)), st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4))), st.randoms())
def test_a_habit_takes_what_it_is_for_and_any_two_where_there_is_none(
    order: list[int], asked: set[Any], rng: Any
) -> None:
    known = tuple((a, b) for a, b in asked if order.index(a) < order.index(b))
    mind = Mind(contents=(1, 2, 3, 4, 5), order=tuple(order), comparisons=known)
    near = set(pairwise(order))
    suits = {"any": set(), "near": near, "guessed": near - {*known}, "known": near & {*known}}
    for habit in HABITS:
        a, b = two_places(habit, mind, rng)
        assert a != b
        assert not suits[habit] or suits[habit] & {(a, b), (b, a)}


@pytest.mark.parametrize(("by_habit", "least", "most"), [(True, 0.3, 0.6), (False, 0.0, 0.1)])
def test_a_demonstration_keeps_to_its_habit_so_that_many_take_neighbours_in_mind_alone(
    by_habit: bool, least: float, most: float
) -> None:
    env = replace(FOUR, family="order", expert="any", any_orders=1.0, any_habits=by_habit)
    dialect = dialect_of(env, Direct())
    shown = [demonstration(env, dialect, task, seed)[1] for task in env.tasks("test", 0) for seed in range(9)]
    near = [all(are_near(one) for one in acts) for *acts, _ in shown if len(acts) > 4]
    assert len(near) > 50
    assert least < sum(near) / len(near) < most


def are_near(one: Any) -> bool:
    """Whether the two that are compared stand beside each other in mind."""
    return {*one.text.split()[1:]} in [{*two} for two in pairwise(one.move.thought.split()[::2])]


TEXT = st.one_of(st.text(max_size=30), st.sampled_from(["A B", "B A", "C A", "a,b", "A > B", "B < A", "sorted", "٣ ٤"]))


@given(
    st.sampled_from(["sort", "order", "compare"]),
    st.lists(
        st.builds(Action, kind=st.sampled_from(["act", "act", "answer", "call", "invalid"]), text=TEXT,
                  name=st.sampled_from(["compare", "swap", "x"])),
        max_size=12,
    ),
)  # fmt: skip
def test_whatever_is_said_has_an_answer_and_the_same_one_again(kind: Any, actions: list[Action]) -> None:
    task = ORDER.describe(kind, [40, 10, 30], (0, 2) if kind == "compare" else ())
    first, second = ORDER.start(task), ORDER.start(task)
    steps = list(played(first, actions))
    assert steps == list(played(second, actions))
    for step in steps:
        lawful(ORDER, step)
        assert step.reward == 0.0 or 0.5 <= step.reward <= 1.0
        assert step.done or step.observation
    assert all(len(part.text) < 300 for step in steps for part in step.observation)


def test_to_stop_at_once_is_right_for_one_order_in_all() -> None:
    right = [SORT.start(task).step(SORT.random_tries(task, 1, 0)[0]).success for task in FOUR.tasks("test", 0)]
    assert sum(map(bool, right)) == 1
    task = next(ORDER.tasks("train", 0))
    tries = ORDER.random_tries(task, 50, 0)
    assert {ORDER.start(task).step(one).success for one in tries} == {True, False}


def test_both_families_declare_the_same_actions_whose_buttons_press_two_items() -> None:
    compare, swap, answer = SORT.actions
    assert ORDER.actions == SORT.actions
    assert compare.buttons is swap.buttons is two_of(5)
    assert answer.buttons is None
    states = two_of(3).states
    assert states == ({"A": 1, "B": 2, "C": 3}, *({o: None for o in "ABC" if o != name} for name in "ABC"))
    assert ExpA().bind((), SORT.actions).added.keys() == {"compare", "swap", " A", " B", " C", " D", " E"}
    assert SORT.start(SORT.describe("sort", [1, 2])).opening().legal is None


@for_each(
    "wrong, place",
    [
        ({"sizes": (1,), "shares": (1,)}, "sizes=[1]"),
        ({"sizes": (), "shares": ()}, "sizes=[]"),
        ({"sizes": (3, 3), "shares": (1, 1)}, "sizes="),
        ({"shares": (1,)}, "shares=[1]"),
        ({"shares": (0, 0, 0, 0)}, "shares="),
        ({"test_shares": (1,)}, "test_shares="),
        ({"compare_share": 1.5}, "compare_share=1.5"),
        ({"any_orders": 1.5}, "any_orders=1.5"),
        ({"high": 3}, "high=3"),
        ({"num_test": 0}, "num_test=0"),
        ({"sizes": (7,), "shares": (1,), "expert": "optimum"}, "expert=optimum"),
        ({"test_sizes": (7,), "test_shares": (1,), "test": "orders"}, "test=orders"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], place: str) -> None:
    with raises_naming(ValueError, place):
        Sorting(**wrong)
