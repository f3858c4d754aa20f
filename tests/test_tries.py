"""What scripts/tries.py prints of the tries of a problem."""

from __future__ import annotations

from scripts.tries import describe


def test_tries_are_counted_by_problem_and_shapes_over_all() -> None:
    assert describe([["(1+2)*3", "(4+2)*3", "(1+2)*3"], ["9-8"]]) == ["2.0", "1.5", "75.0%", "(N+N)*N 75.0%"]


def test_who_tries_nothing_has_no_shape() -> None:
    assert describe([[], []]) == ["0", "0", "-", "-"]


def test_a_shape_that_a_model_wrote_reaches_the_terminal_escaped() -> None:
    assert "\x1b" not in describe([["\x1b[2J"]])[3]
