"""The calculator: exact values by another route, what it shows, buttons that write nothing it cannot read, and text
that is hostile."""

from __future__ import annotations

import re
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.environment.world import dialect_of
from rlx.protocol.expa import ExpA
from rlx.tool.calculator import DEEPEST, LARGEST, Calculator, show
from rlx.tool.lend import Lend
from rlx.types import Action, Move
from tests.errors import raises_naming
from tests.loops import for_each
from tests.tool.test_lend import GAME, TASK

NAMED = (
    *("division by zero", "the value is beyond 1000000000"),
    *("not arithmetic", "there is nothing to calculate", "an operand is missing", "a parenthesis is open"),
    *("text is left over", "longer than "),
)


@for_each(
    "text, shown",
    [
        ("(12 + 5) / 4 =", "4.250"),
        ("12 * 3", "36"),
        ("2 + 3 * 4", "14"),
        ("8 - 5 - 2", "1"),
        ("7 / 2 * 2", "7"),
        ("1 / 3 * 3", "1"),
        ("2 / 3", "0.667"),
        ("3 - 5", "-2"),
        ("1 - 9 / 8", "-0.125"),
        ("-5 + .5", "-4.500"),
        ("0.1 + 0.2 - 0.3", "0"),
        ("29999 / 10000", "3.000"),
        ("1000000000", "1000000000"),
        (f"{'9' * 25} - {'9' * 25}", "0"),
    ],
)
def test_an_integer_is_shown_as_it_is_and_anything_else_with_three_decimals(text: str, shown: str) -> None:
    result = Calculator().run(text)
    assert (result.output, result.failed) == (shown, False)


def test_the_last_decimal_is_rounded_to_the_nearest_and_of_two_to_the_even_one() -> None:
    assert [show(Fraction(n, 16000)) for n in (7, 8, 9, 24, -8)] == ["0.000", "0.000", "0.001", "0.002", "-0.000"]


@for_each(
    "text, error",
    [
        ("7 / (3 - 3)", "division by zero"),
        ("1000000001", "the value is beyond 1000000000"),
        ("99999 * 99999 =", "the value is beyond 1000000000"),
        ("", "there is nothing to calculate"),
        (" = ", "there is nothing to calculate"),
        ("1 2", "text is left over"),
        ("1.5.2", "text is left over"),
        ("(1)(2)", "text is left over"),
        ("((1 + 2)", "a parenthesis is open"),
        ("1 +", "an operand is missing, or the nesting is too deep"),
        ("2 ** 3", "an operand is missing"),
        ("1e9", "not arithmetic"),
        ("١٢", "not arithmetic"),
        ("1 + 1 = 2", "not arithmetic"),
        ("1" * 65, "longer than 64 characters"),
    ],
)
def test_what_has_no_value_is_told_why_in_one_line(text: str, error: str) -> None:
    result = Calculator().run(text)
    assert (result.output, result.failed) == (f"Error: {error}", True)


CALCULATORS = st.builds(
    Calculator, max_length=st.integers(2, 30), max_depth=st.integers(0, DEEPEST), points=st.booleans()
)


@st.composite
def pressed(draw: st.DrawFn, calculators: st.SearchStrategy[Calculator] = CALCULATORS) -> tuple[Calculator, str]:
    """A calculator and an expression of its buttons."""
    calculator = draw(calculators)
    assert calculator.verb.buttons is not None
    text, state, states = "", 0, calculator.verb.buttons.states
    while True:
        # operators and what closes are as likely as digits, so that expressions have some of each
        button = draw(st.sampled_from(sorted(states[state], key=lambda name: (name.isdigit(), name)) or [""]))
        text, target = text + button, states[state][button]
        if target is None:
            return calculator, text
        state = target


def otherwise(text: str) -> Fraction | None:
    """By Python's own parser, of text that the test made itself."""
    exact = re.sub(r"\d+(?:\.\d+)?", lambda number: f"Fraction('{number[0]}')", text.removesuffix(" = "))
    try:
        return Fraction(eval(exact, {"Fraction": Fraction}))
    except ZeroDivisionError:
        return None


@given(pressed())
def test_whatever_is_pressed_is_read_and_its_value_is_exact(case: tuple[Calculator, str]) -> None:
    calculator, text = case
    value, result = otherwise(text), calculator.run(text)
    if value is None:
        assert result.output == "Error: division by zero"
    elif abs(value) > LARGEST:
        assert result.output == "Error: the value is beyond 1000000000"
    else:
        assert not result.failed
        assert calculator.value(text) == value
        assert abs(Fraction(result.output) - value) <= Fraction(1, 2000)
        assert ("." in result.output) == (value.denominator > 1)


@given(pressed())
def test_what_is_pressed_keeps_to_the_rules_of_the_buttons(case: tuple[Calculator, str]) -> None:
    calculator, text = case
    bare = text.replace(" ", "")
    assert bare[0] in "123456789("
    assert not re.search(r"[-+*/()]0", bare)
    assert re.search(r"[\d)]=$", bare)
    assert bare.count("=") == 1
    assert not re.search(r"\.\d*\.|\.(?!\d)", bare)
    assert "." not in bare or calculator.points
    assert bare.count("(") == bare.count(")")
    depths = [bare[:end].count("(") - bare[:end].count(")") for end in range(len(bare))]
    assert 0 <= min(depths) <= max(depths) <= calculator.max_depth
    assert len(bare) <= calculator.max_length


def test_the_longest_and_the_deepest_can_be_pressed() -> None:
    presses = ExpA().bind((Calculator(max_length=9, max_depth=2).verb,), ())
    for text in ("1 + 2 + 3456 = ", "((1)) + 2 = ", "10.5 * 20 = "):
        assert presses.write(Move(thought="", action=call(text))) == f" calculate {text}"
    for text in ("1 + 2 + 34567 = ", "(((1))) = ", "05 = ", "1.2.3 = ", "(0) = ", "(1 = "):
        with raises_naming(ValueError, "protocol=expa", "buttons"):
            presses.write(Move(thought="", action=call(text)))


def call(text: str) -> Action:
    return Action(kind="call", name="calculate", text=text)


@pytest.mark.parametrize(
    ("length", "depth", "points", "num"), [(64, 3, True, 1117), (24, 2, False, 163), (2, 0, False, 2)]
)
def test_the_automaton_is_small(length: int, depth: int, points: bool, num: int) -> None:
    buttons = Calculator(max_length=length, max_depth=depth, points=points).verb.buttons
    assert buttons is not None
    assert len(buttons.states) == num
    assert all(buttons.states)


@given(st.one_of(st.text(max_size=80), st.text(alphabet="0123456789.+-*/()= \n", max_size=80)))
def test_any_text_has_a_value_or_a_named_error(text: str) -> None:
    result = Calculator().run(text)
    if result.failed:
        assert result.output.startswith(tuple(f"Error: {name}" for name in NAMED))
    assert len(result.output) < 80


@for_each(
    "text",
    [
        *(
            "(" * 100_000,
            ")" * 100_000,
            "-" * 100_000,
            "9" * 100_000,
            " " * 100_000 + "1",
            "1+" * 50_000,
            "." * 100_000,
        ),
        *("9**9**9**9", "__import__('os').system('touch /tmp/rlx-was-here')", "\x00", "\ud800", "1\x1b[2J", "=" * 64),
        *("(" * 60, "-" * 63 + "1", "1" + "/9" * 31, "(" * 31 + "1" + ")" * 31),
    ],
)
def test_hostile_text_is_answered_at_once(text: str) -> None:
    start = time.process_time()
    result = Calculator().run(text)
    assert time.process_time() - start < 1.0
    assert len(result.output) < 80
    assert result.output.isprintable()


def test_it_can_be_lent_to_any_environment_in_any_protocol() -> None:
    lent = Lend(env=GAME, tool=Calculator())
    dialect = dialect_of(lent, ExpA())
    move = Move(thought="", action=call("24 * 2 = "))
    assert dialect.write(move) == " calculate 24 * 2 = "
    step = lent.start(TASK).step(move.action)
    assert step.observation[0].text == "48"
    assert (step.tool.num_calls, step.tool.num_failed) == (1, 0)


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"max_length": 1}, "max_length=1"),
        ({"max_depth": 9}, "max_depth=9"),
    ],
)
def test_what_is_no_calculator_is_refused(keys: dict[str, int], place: str) -> None:
    with raises_naming(ValueError, place):
        Calculator(**keys)  # type: ignore[arg-type]
