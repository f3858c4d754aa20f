"""The last box is what is meant."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlx.protocol.boxed import Boxed, last_box
from rlx.types import Action, Move, Task, Text, Verb
from tests.errors import raises_naming
from tests.loops import for_each

GUESS = Verb(name="guess", description="guess", argument="number")
CELLS = (
    Verb(name="reveal", description="reveal a cell", argument="row column"),
    Verb(name="stop", description="stop"),
)
PYTHON = Verb(name="python", description="run Python", argument="code")


def act(name: str, text: str = "") -> Action:
    return Action(kind="act", name=name, text=text)


@for_each(
    "declared, text, action",
    [
        ((), r"so \boxed{42}", Action(kind="answer", text="42")),
        ((), r"\boxed{1} no, \boxed{ \frac{1}{2} } it is", Action(kind="answer", text=r"\frac{1}{2}")),
        ((), r"\fbox{7}", Action(kind="answer", text="7")),
        ((), "42", Action(kind="invalid", text=r"put it in \boxed{}")),
        ((), r"\boxed{}", Action(kind="invalid", text="say something")),
        ((), r"\boxed{1", Action(kind="invalid", text=r"put it in \boxed{}")),
        ((), r"\boxed{1} \boxed{2", Action(kind="invalid", text=r"put it in \boxed{}")),
        ((GUESS,), r"\boxed{25}", act("guess", "25")),
        (CELLS, r"\boxed{reveal 3 2}", act("reveal", "3 2")),
        (CELLS, r"\boxed{stop}", act("stop")),
        (CELLS, r"\boxed{reveal}", Action(kind="invalid", text="say one of: reveal ROW COLUMN, stop")),
        (CELLS, r"\boxed{flag 1 1}", Action(kind="invalid", text="say one of: reveal ROW COLUMN, stop")),
    ],
)
def test_a_turn_means_what_stands_in_its_last_box(declared: tuple[Verb, ...], text: str, action: Action) -> None:
    assert Boxed().bind((), declared).parse(text, "eos") == action


def test_a_tool_is_called_in_its_tag_and_its_end_ends_the_turn() -> None:
    boxed = Boxed(stops_at=("\n\n",)).bind((PYTHON,), ())
    assert boxed.stops == ("</python>", "\n\n")
    call = Action(kind="call", name="python", text="print(1)")
    assert boxed.parse(r"\boxed{9} <python>print(1)</python>", "stop") == call
    assert boxed.parse(r"<python>print(1)</python> \boxed{9}", "stop") == call  # what follows does not exist
    assert boxed.parse("print(1)</python>", "stop") == Action(kind="invalid", text="<python> is not opened")
    assert boxed.parse(r"\boxed{9}", "eos") == Action(kind="answer", text="9")
    assert boxed.write(Move(thought="Let me see.", action=call)) == "Let me see. <python>print(1)</python>"
    with raises_naming(ValueError, "env:", "'a b'"):
        Boxed().bind((Verb(name="a b", description="go"),), ())


def test_it_says_what_may_stand_in_the_box() -> None:
    task = Task(id="t", prompt=(Text("Go."),), data={})
    assert Boxed().open(task) == "Put your answer in \\boxed{}.\nGo.\n"
    assert Boxed().bind((), (GUESS,)).open(task) == "Put your number in \\boxed{}.\nGo.\n"
    assert Boxed().bind((PYTHON,), CELLS).open(task) == (
        "You may run Python in <python>. Put one of these in \\boxed{}: reveal ROW COLUMN, stop.\nGo.\n"
    )
    assert Boxed(instruction="Play.").open(task) == "Play.\nGo.\n"


@given(st.text(st.sampled_from("\\boxed{}fx 1")))
def test_a_box_is_closed_where_its_braces_are(text: str) -> None:
    found = last_box(text)
    if found is not None:
        assert found.count("{") == found.count("}")
        assert f"{{{found}}}" in text


def test_a_long_turn_is_read_in_no_time_that_grows_with_its_square() -> None:
    assert last_box("\\boxed{" * 200_000) is None
    assert last_box("{" * 200_000 + "\\boxed{1}") == "1"
