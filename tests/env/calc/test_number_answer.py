"""Numbers in answers as models write them: what is read, and what is another number."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from rlx.env.calc.arithmetic import Arithmetic
from rlx.env.calc.calc_question import NumberQuestions
from rlx.env.calc.gsm8k import GSM8KStar
from rlx.env.calc.modulo import Modulo
from rlx.env.calc.number_answer import number_in
from rlx.env.calc.symbols import Count
from rlx.types import Action, Task
from tests.env.calc.forms import FORMS, HOSTILE
from tests.loops import for_each


def is_right(env: NumberQuestions, answer: str, text: str) -> bool:
    task = Task(id="x", prompt=(), data={"key": {"answer": answer}, "answer": "", "worked": ""})
    return env.start(task).step(Action(kind="answer", text=text)).success is True


@for_each("env, form", product([Arithmetic(), Count(), Modulo(), GSM8KStar()], FORMS))
def test_an_integer_is_read_in_each_form_of_an_answer(env: NumberQuestions, form: str) -> None:
    assert is_right(env, "1683891", form.format("1683891"))
    assert is_right(env, "1683891", form.format("1,683,891"))
    assert not is_right(env, "1683891", form.format("1683892"))
    assert not is_right(env, "1683892", form.format("1683891"))


@for_each(
    "form, sign", product([form for form in FORMS if form != "1) {}"], ["-", "\u2212", "\u2013", "minus ", "negative "])
)
def test_a_sign_counts_in_each_form(form: str, sign: str) -> None:
    assert number_in(form.format(f"{sign}98.5")) == Fraction(-197, 2)


@for_each(
    "text, number",
    [
        ("4.250", Fraction(17, 4)),
        (".5", Fraction(1, 2)),
        ("the answer is .5", Fraction(1, 2)),
        (r"\boxed{\frac{1}{2}}", Fraction(1, 2)),
        (r"$-\dfrac{7}{2}$", Fraction(-7, 2)),
        ("1/2", Fraction(1, 2)),
        (r"1{,}234{,}567.125", Fraction(9876537, 8)),
        (r"1\,234\,567", 1234567),
        ("98 = 44 + 54", 98),
        ("44 + 54 = 98", 98),
        ("(44 + 1) + 53 = 45 + 53\n= 98", 98),
        (r"44 + 54 &= 90 + 8 \\ &= 98", 98),
        ("98 apples", 98),
        ("98%", 98),
        ("$98", 98),
        ("98°", 98),
        ("98!", 98),
        ("98 g of H2O", 98),
        ("There are 3 + in * + + +", 3),
        ("# 1, # 2, so 2", 2),
        ("Answer - 98", 98),
        ("Answer: - 98", -98),
        ("= - 98", -98),
        ("It is 3, no: 4", 4),
        ("<think>5</think> 4", 4),
        (r"\boxed{4} as 1 + 3 is", 4),
        ("<answer>4</answer> and not 5", 4),
        (r"\boxed{3}, which is <answer>4</answer>", 4),
    ],
)
def test_a_number_is_read_as_models_write_it(text: str, number: Fraction | int) -> None:
    assert number_in(text) == number


@for_each(
    "text",
    [
        "",
        "none",
        "44 + 54",
        "98 = 44 + 53",
        "84/4",
        "4/8",
        "1/0",
        "98/1",
        "98^2",
        "10^{3}",
        "98²",
        "√98",
        r"\sqrt{98}",
        "9.8e1",
        "--98",
        "9.8.1",
        "9" * 41,
        "９８",
        r"\boxed{x} 98",
    ],
)
def test_what_is_no_number_or_another_one_is_not_read(text: str) -> None:
    assert number_in(text) is None


@given(st.sampled_from(FORMS), st.fractions(-(10**6), 10**6, max_denominator=8))
def test_decimals_are_read_exactly(form: str, number: Fraction) -> None:
    said = f"{float(number):.6f}"
    if Fraction(said) == number and not (number < 0 and form == "1) {}"):
        assert number_in(form.format(said)) == number


@given(HOSTILE)
def test_any_text_is_answered(text: str) -> None:
    assert number_in(text) is None or any(char in "0123456789" for char in text)


@for_each(
    "text",
    [
        mark * (20_000 // len(mark))
        for mark in ("(", "{", "1 ", "-", "1.", "\\boxed{", "<answer>", "=", "\n=", "H2", "1+")
    ],
)
def test_long_hostile_text_is_answered(text: str) -> None:
    is_right(Arithmetic(), "98", text)
