"""What a reasoning model says: thoughts count for nothing, and what stands last outside of them is meant."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.base.fences import last_block, unfence
from rlx.environment.dialect import Dialect
from rlx.protocol.answer import Answer
from rlx.protocol.boxed import Boxed
from rlx.protocol.direct import Direct
from rlx.protocol.expa import ExpA
from rlx.protocol.fenced import Fenced
from rlx.protocol.tags import Tags
from rlx.protocol.thought import outside, up_to_stop
from rlx.types import Action, Move, Task, Text, Verb
from tests.errors import raises_naming
from tests.loops import for_each

PYTHON = Verb(name="python", description="run Python", argument="code")
GUESS = Verb(name="guess", description="guess", argument="number")
ANSWER = Verb(name="answer", description="say the answer", argument="text")
GRID = (Verb(name="up", description="move up"), Verb(name="reveal", description="reveal", argument="row column"))
PROGRAM = "n = int(input())\nprint(n)"
SHOWN = f"```python\n{PROGRAM}\n```"


def answer(text: str) -> Action:
    return Action(kind="answer", text=text)


def call(text: str) -> Action:
    return Action(kind="call", name="python", text=text)


@for_each(
    "text, said",
    [
        ("a", "a"),
        ("a <think>b</think> c", "a \n c"),
        ("b</think> c", " c"),  # the template opened it
        ("a <think>b", "a "),  # never closed
        ("<think>a<think>b</think>c</think>d", "d"),
        ("<think>a</think>b<think>c</think>d", "\nb\nd"),
        ("<think></think>", "\n"),
    ],
)
def test_what_is_said_stands_outside_of_thoughts(text: str, said: str) -> None:
    assert outside(text) == said


def test_a_stop_string_in_a_thought_ends_nothing() -> None:
    assert up_to_stop("<think>\n</think>a\nb", ("\n",)) == "<think>\n</think>a\n"
    assert up_to_stop("<think>\n", ("\n",)) == "<think>\n"


@for_each("dialect, text, action",
    [
        (Boxed(), r"<think>\boxed{1}</think> \boxed{2}", answer("2")),
        (Boxed(), r"\boxed{2} <think>or \boxed{1}", answer("2")),
        (Boxed(), r"or \boxed{1}</think> so \boxed{2}", answer("2")),
        (Boxed(), r"<think>\boxed{1}", Action(kind="invalid", text=r"put it in \boxed{}")),
        (Boxed(), r"<think>\boxed{1}</think> done", Action(kind="invalid", text=r"put it in \boxed{}")),
        (Answer(), "<think>is it <answer>1</answer>?</think><answer>2</answer>", answer("2")),
        (Answer(), "<answer>1</answer> no, <answer>2</answer>", answer("2")),
        (Answer(), "<think>a</think><think>b</think><answer>1</answer>", answer("1")),
        (Answer(), "a</think><answer>1</answer>", answer("1")),
        (Answer(), "<think><answer>1</answer>", Action(kind="invalid", text="end the turn with <answer>")),
        (Direct(), "<think>\nlong\n</think>\n25\n", Action(kind="invalid", text="say something")),
        (Direct(stops=()), "<think>\nlong\n</think>\n25\n", answer("25")),
        (Fenced(), f"<think>{SHOWN}</think>It is\n```python\nprint(1)\n```", answer("print(1)")),
        (Fenced(), f"<think>{SHOWN}</think>", Action(kind="invalid", text="put it in a ```python block")),
        (ExpA().bind((), (GUESS, ANSWER)), "<think>1</think>2", answer("2")),
    ],
)  # fmt: skip
def test_what_stands_last_outside_of_thoughts_is_meant(dialect: Dialect, text: str, action: Action) -> None:
    assert dialect.parse(text, "eos") == action


TAGS = Tags().bind((PYTHON,), ())


@for_each(
    "text, action",
    [
        ("<think>I could <python>x</python></think><python>1</python>", call("1")),
        ("<think>1</think> I call <python>1</python> then <answer>2</answer>", call("1")),
        ("<answer>1</answer><python>2</python>", answer("1")),
        ("<answer>1</answer> no: <answer>2</answer>", answer("2")),
        ("```python\nprint(1)\n```", call("print(1)")),
        ("<python>\n```python\nprint(1)\n```\n</python>", call("print(1)")),
        ("<python>\n```\nprint(1)\n```</python>", call("print(1)")),
        ("<observation>9</observation><answer>9</answer>", "only the environment writes <observation>"),
        ("<answer>1", "<answer> is not closed"),
        ("1</answer>", "<answer> is not opened"),
        ("hm", "end the turn with <python> or <answer>"),
    ],
)
def test_tags_of_a_reasoning_model_need_no_strict_form(text: str, action: Action | str) -> None:
    assert TAGS.parse(text, "eos") == (Action(kind="invalid", text=action) if isinstance(action, str) else action)


BOXED = Boxed().bind((PYTHON,), ())


@for_each(
    "text, action",
    [
        (rf"I run {SHOWN} or \boxed{{1}}", call(PROGRAM)),
        (f"I run\n{SHOWN}\nand <python>print(2)</python>", call(PROGRAM)),  # the call that ends first
        ("I run <python>print(2)</python>", call("print(2)")),
        ("<python>\n```python\nprint(1)\n```\n</python>", call("print(1)")),  # nested: the block ends before the tag
        ("<python>\n```py\nprint(1)\n```\n</python>", call("print(1)")),
        ("```bash\nls\n```\n\\boxed{7}", answer("7")),
        ("```python\nprint(1)", Action(kind="invalid", text=r"put it in \boxed{}")),
    ],
)
def test_the_call_that_ends_first_is_made(text: str, action: Action) -> None:
    assert BOXED.parse(text, "eos") == action


@for_each(
    "text, code",
    [
        (SHOWN, PROGRAM),
        (f"{SHOWN}\nFor example\n```\n3\n```", PROGRAM),  # what is labelled counts
        ("```\na\n```\nbetter:\n```\nb\n```", "b"),
        ("```cpp\na\n```", "a"),
        ("```python\na\n```\n```python\nb\n```", "b"),
        ("```python\na```", "a"),
        ("```Python\na\n```", "a"),
        ("1. so\n   ```python\n   if a:\n       b\n   ```", "if a:\n    b"),
        ("```python\n```python\na\n```", "a"),
        ("say ```x``` and\n```python\na\n```", "a"),
        ("```python\na", None),
        ("a", None),
    ],
)
def test_the_last_block_of_code_is_read(text: str, code: str | None) -> None:
    assert last_block(text) == code
    if code is not None:
        assert Fenced().parse(text, "eos") == answer(code)


def test_only_a_block_that_is_all_of_a_text_is_taken_off() -> None:
    assert unfence("\n```python\nx\n```\n") == "x"
    for text in ("x", "a\n```\nx\n```", "```\nx\n```\ny", "```x```"):
        assert unfence(text) == text


def test_the_fenced_protocol_says_where_the_program_goes_and_is_read_back() -> None:
    task = Task(id="t", prompt=(Text("Sum."),), data={})
    assert Fenced().open(task) == "Put your answer in a ```python block.\nSum.\n"
    shown = Fenced().write(Move(thought="I read.", action=answer(PROGRAM)))
    assert shown == f"I read.\n{SHOWN}"
    lent = Fenced().bind((PYTHON,), ())
    assert lent.stops == ("</python>",)
    assert lent.parse(f"<python>{SHOWN}</python>", "stop") == call(PROGRAM)
    assert lent.parse(SHOWN, "eos") == answer(PROGRAM)  # no call: the answer
    with raises_naming(ValueError, "protocol:", "no turn"):
        Fenced().write(Move(thought="", action=answer("a\n```\nb")))


@pytest.mark.parametrize("dialect", [Direct(), Boxed(), Fenced()], ids=["direct", "boxed", "fenced"])
@pytest.mark.parametrize(
    ("said", "name", "text"), [("UP", "up", ""), ("Reveal 1 2", "reveal", "1 2"), ("reveal\t1 2", "reveal", "1 2")]
)
def test_actions_may_be_said_in_capitals(dialect: Dialect, said: str, name: str, text: str) -> None:
    shown = {"Direct": said, "Boxed": f"\\boxed{{{said}}}", "Fenced": f"```\n{said}\n```"}[type(dialect).__name__]
    assert dialect.bind((), GRID).parse(shown, "eos") == Action(kind="act", name=name, text=text)


PIECES = st.sampled_from(
    [f"<{slash}{name}>" for slash in ("", "/") for name in ("think", "python", "answer", "observation")]
    + [
        "```python\n",
        "```",
        "\n",
        "\\boxed{",
        "}",
        "{",
        " ",
        "x = 1",
        "\x00",
        "\ud800",
        "<|im_end|>",
        "up",
        "reveal 1 2",
    ]
)
HOSTILE = st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=14).map("".join)
SPOKEN: tuple[Dialect, ...] = tuple(
    kind(reasoning=reasoning).bind(lent, declared)
    for kind in (Answer, Tags, Direct, Boxed, Fenced, ExpA)
    for lent, declared in (((PYTHON,), ()), ((PYTHON,), (GUESS,)), ((PYTHON,), GRID))
    for reasoning in (True, False)
)


@given(HOSTILE)
def test_any_text_is_read(text: str) -> None:
    for dialect in SPOKEN:
        action = dialect.parse(text, "eos")
        assert action.kind in ("call", "act", "answer", "invalid")
        assert dialect.parse(text, "length").kind == "invalid"


@given(HOSTILE, HOSTILE)
def test_what_is_written_is_read_back_whatever_was_thought_before(thought: str, said: str) -> None:
    """A thought of a reasoning model before a turn changes nothing; what cannot be said is refused."""
    before = f"<think>{thought.replace('think>', '')}</think>"
    for dialect in SPOKEN:
        for action in (answer(said), call(said), Action(kind="act", name="reveal", text=said)):
            move = Move(thought="", action=action)
            with suppress(ValueError):
                text = dialect.write(move)
                meant = replace(action, text=said.strip())
                if isinstance(dialect, ExpA):
                    assert dialect.understand(dialect.choose(move), "eos") == meant
                else:
                    assert dialect.parse(text, "eos") == meant
                    assert not dialect.reasoning or dialect.parse(before + text, "eos") == meant  # type: ignore[attr-defined]


@given(st.lists(st.sampled_from(["<think>", "</think>", "a", "\n", "</python>"]), max_size=12).map("".join))
def test_a_turn_up_to_its_stop_has_no_more_outside_of_thoughts(text: str) -> None:
    turn = up_to_stop(text, ("</python>", "\n"))
    assert text.startswith(turn)
    said = turn[:-1] if turn.endswith("\n") else turn.removesuffix("</python>")
    if turn != text:
        assert up_to_stop(said, ("</python>", "\n")) == said


def test_long_turns_are_read_in_no_time_that_grows_with_their_square() -> None:
    for piece in ("<think>", "</think>", "```python\n", "``", "<python>", "\\boxed{", "<answer>", "</answer>"):
        for dialect in SPOKEN:
            dialect.parse(piece * 10_000, "eos")
