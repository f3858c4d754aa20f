"""Words laid on a board: each where it says, touching only where they cross."""

from __future__ import annotations

from itertools import groupby
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from rlx.env.game.crossing import Laid, lay, layouts, letters_on
from rlx.env.game.words import words_between


def runs(cells: list[str]) -> list[str]:
    """Letters in a row, two or more."""
    return ["".join(run) for is_letter, run in groupby(cells, key=str.isalpha) if is_letter]


def test_a_board_by_hand() -> None:
    laid = [Laid("hot", 0, 1, "down"), Laid("ion", 1, 0, "across")]
    letters = letters_on(laid, 4)
    assert "".join(letters.get(cell, ".") for cell in range(16)) == ".h..ion..t......"
    assert laid[0].ends() == (0, 1, 2, 1)
    assert laid[1].ends() == (1, 0, 1, 2)


@given(st.integers(0, 10_000), st.integers(1, 8), st.sampled_from([(3, 3), (3, 5), (6, 8)]))
def test_whatever_stands_in_a_row_is_a_word_that_was_laid(seed: int, num: int, lengths: tuple[int, int]) -> None:
    laid, side = next(layouts(Random(seed), words_between(*lengths), num))
    letters = letters_on(laid, side)
    rows = [[letters.get(row * side + col, ".") for col in range(side)] for row in range(side)]
    read = [run for line in [*rows, *map(list, zip(*rows))] for run in runs(line) if len(run) > 1]
    assert sorted(read) == sorted(one.word for one in laid)
    assert all(max(one.ends()) < side for one in laid)


def test_words_cross_where_they_can() -> None:
    laid = lay(Random(0), ["hot", "ion"], 5)
    assert laid
    assert len(letters_on(laid, 5)) == 5


def test_the_end_of_a_row_does_not_touch_the_next() -> None:
    boards = [lay(Random(seed), ["cat", "cot"], 3) for seed in range(20)]
    assert min(len(letters_on(laid, 3)) for laid in boards if laid) == 5


def test_a_board_that_has_no_room_is_refused() -> None:
    assert lay(Random(0), ["crane", "moist"], 4) is None
    assert lay(Random(0), ["cat", "dog", "pig", "hen"], 3) is None
