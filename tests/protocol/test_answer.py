from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlx.env.countdown.countdown import Countdown
from rlx.protocol.answer import Answer
from rlx.types import Action, Move, Text
from tests.errors import raises_naming
from tests.loops import for_each

ANSWER = Answer(reasoning=False)


@for_each(
    "text, action",
    [
        ("<think>\na\n</think>\n<answer>1 + 2</answer>", Action(kind="answer", text="1 + 2")),
        ("<answer>1</answer><answer>2</answer>", Action(kind="answer", text="1")),
        ("<python>1</python><answer>2</answer>", Action(kind="answer", text="2")),  # no tool here: text
        ("<python>1</python>", Action(kind="invalid", text="end the turn with <answer>")),
        ("1 + 2", Action(kind="invalid", text="end the turn with <answer>")),
        ("<think>1 + 2", Action(kind="invalid", text="<think> is not closed, or holds another tag")),
        ("<observation>1</observation>", Action(kind="invalid", text="only the environment writes <observation>")),
    ],
)
def test_text_is_read_as_defined(text: str, action: Action) -> None:
    assert ANSWER.parse(text, "stop") == action


@given(st.text(max_size=80))
def test_parse_is_total(text: str) -> None:
    assert ANSWER.parse(text, "stop").kind in ("answer", "invalid")
    assert ANSWER.parse(f"<think>{text.replace('<', '')}</think><answer>1</answer>", "stop").text == "1"


def test_there_is_no_tool() -> None:
    assert (ANSWER.tools, ANSWER.stops) == ((), ("</answer>",))
    with raises_naming(ValueError, "protocol:", "no turn"):
        ANSWER.write(Move(thought="", action=Action(kind="call", name="python", text="1")))


def test_demonstrations_are_one_turn_that_reads_back() -> None:
    env = Countdown()
    task = next(env.tasks("train", 0))
    for seed in range(20):
        (move,) = env.demonstrate(task, seed, ANSWER.tools)
        assert ANSWER.parse(ANSWER.write(move), "stop") == move.action


def test_errors_are_rendered_as_observations() -> None:
    assert ANSWER.render((Text("Error: </answer>"),)) == "\n<observation>\nError: < /answer>\n</observation>\n"
