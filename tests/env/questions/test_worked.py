"""Answers whose operations are undone are told from final ones, whatever their notation."""

from __future__ import annotations

from rlx.env.questions.worked import is_worked
from tests.loops import for_each


@for_each(
    "key, text",
    [
        ("3", "1+2"),
        ("3", "6/2"),
        ("3", "3!/2"),
        ("3", r"\leq 3"),
        ("3", "3=3"),
        ("3", "[3,3]"),
        ("3", r"\frac{6}{2}"),
        ("3", r"\frac62"),
        ("3", r"\sqrt{9}"),
        ("3", "3^1"),
        ("3", "3**1"),
        ("3", "1*3"),
        ("3", r"1\times 3"),
        ("3", "(1)(3)"),
        ("3", "3(1)"),
        ("3", r"\log_{10} 1000"),
        ("3", "|-3|"),
        ("3", "5 - 2"),
        ("3", "5−2"),
        ("3", "{3}"[1:-1] + ",3"),
        ("3", r"\{3\}"),
        ("3", r"\binom{3}{1}"),
        ("3", "3/1"),
        ("1/2", "1-1/2"),
        ("1/2", "2^{-1}"),
        ("0.5", "2/4"),
        (r"2\sqrt{3}", r"\sqrt{3}+\sqrt{3}"),
        (r"2\sqrt{3}", r"\sqrt{3}\cdot 2"),
        ("x+1", "(x^2-1)/(x-1)"),
        (r"(x-1)(x+1)", "x^2-1"),
        ("1024", "2^{10}"),
    ],
)
def test_operations_that_no_key_has_are_work_undone(key: str, text: str) -> None:
    assert not is_worked(text, [key])


@for_each(
    "key, text",
    [
        ("1/2", "1/2"),
        ("1/2", r"\frac{1}{2}"),
        ("1/2", r"\dfrac12"),
        ("1/2", "0.5"),
        ("0.5", "1/2"),
        ("-3", "-3"),
        ("-3", "- 3"),
        ("3", "x = 3"),
        ("3", r"3\text{ cm}^2"),
        ("3", r"$3$"),
        ("90", r"90^\circ"),
        ("1234567", "1,234,567"),
        ("0.05", r"5\%"),
        ("1.5", r"1\frac{1}{2}"),
        ("1500", r"1.5 \times 10^{3}"),
        (r"2\sqrt{3}", r"2\sqrt{3}"),
        (r"2\sqrt{3}", r"\sqrt{12}"),
        (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"),
        (r"\frac{3\pi}{4}", r"\frac{3}{4}\pi"),
        ("x+1", "x+1"),
        ("x+1", "1 + x"),
        ("x^2-1", "(x-1)(x+1)"),
        (r"\frac{x+1}{2}", r"\frac{x}{2}+\frac{1}{2}"),
        ("(1, 2)", "(1,2)"),
        (r"\{1, 2\}", r"\{2, 1\}"),
        ("[0, 1)", r"\left[0, 1\right)"),
        ("x^{n-1}", "x^{n-1}"),
        ("3+2i", "2i + 3"),
        (r"-\frac{1}{2}", r"\frac{-1}{2}"),
        ("e^{2}", "e^2"),
    ],
)
def test_answers_of_the_keys_shape_and_numbers_are_final(key: str, text: str) -> None:
    assert is_worked(text, [key])
