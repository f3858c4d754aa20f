"""Mastermind: pegs are counted, a better guess is paid for, the expert's guesses fit what it was told."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from rlx.env.game.mastermind import Code, Mastermind, describe, guess, pegs
from tests.loops import for_each

ENV = Mastermind(highest=8, max_turns=30)
TASK = describe((3, 1, 4, 2), 8, False, 30)
DIGIT = st.integers(1, 6)
CODES = st.tuples(DIGIT, DIGIT, DIGIT, DIGIT)


@for_each(
    "code, guessed, answer",
    [
        ((3, 1, 4, 2), (3, 1, 4, 2), (4, 0)),
        ((3, 1, 4, 2), (1, 3, 2, 4), (0, 4)),
        ((3, 1, 4, 2), (3, 3, 3, 3), (1, 0)),
        ((1, 1, 2, 2), (2, 1, 1, 1), (1, 2)),
        ((1, 2, 3, 4), (5, 6, 7, 8), (0, 0)),
    ],
)
def test_pegs_by_hand(code: Code, guessed: Code, answer: tuple[int, int]) -> None:
    assert pegs(code, guessed) == answer


@given(CODES, CODES)
def test_pegs_count_each_digit_of_the_code_once(code: Code, guessed: Code) -> None:
    black, white = pegs(code, guessed)
    assert black == sum(one == other for one, other in zip(code, guessed))
    assert black + white == (Counter(code) & Counter(guessed)).total()
    assert (black, white) == pegs(guessed, code)


def test_only_more_digits_in_place_than_ever_before_are_paid() -> None:
    episode = ENV.start(TASK)
    steps = [episode.step(guess(code)) for code in [(3, 5, 6, 7), (5, 1, 6, 7), (3, 1, 4, 5), (3, 1, 4, 2)]]
    assert [step.reward for step in steps] == [0.25, 0.0, 0.5, 0.25]
    assert [step.observation[0].text for step in steps] == [
        "3 5 6 7: black 1 white 0",
        "5 1 6 7: black 1 white 0",
        "3 1 4 5: black 3 white 0",
        "correct",
    ]
    assert steps[-1].success


def test_codes_have_no_digit_twice_unless_they_may() -> None:
    drawn = [task.data["code"] for task in islice(ENV.tasks("train", 0), 200)]
    assert all(len(set(code)) == 4 for code in drawn)
    assert any(len(set(task.data["code"])) < 4 for task in islice(Mastermind(repeats=True).tasks("train", 0), 200))
    assert "different digits" in TASK.prompt[0].text
    assert "different" not in describe((1, 1), 6, True, 9).prompt[0].text
