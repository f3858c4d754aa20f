"""Contexts joined from pieces: ids by hand, as text and as messages of a chat."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlx.protocol.answer import Answer
from rlx.protocol.boxed import Boxed
from rlx.protocol.expa import ExpA
from rlx.protocol.fenced import Fenced
from rlx.rollout.speech import Speech, join
from rlx.tool.calculator import Calculator
from rlx.types import Action, Completion, Move, Piece, Task, Text, Turn
from tests.errors import raises_naming

END = 9
MARKS = {("", "user"): (1,), ("user", "assistant"): (END, 2), ("assistant", "user"): (END, 3)}


def encode(text: str) -> list[int]:
    return [ord(letter) for letter in text]


def turn(*ids: int) -> Turn:
    done = Completion(token_ids=ids, logprobs=(0.0,) * len(ids), stop="eos" if ids[-1] == END else "stop")
    return Turn(prompt_ids=(0,), completion=done, action=Action(kind="answer", text=""))


def user(text: str) -> Piece:
    return Piece(role="user", text=text)


PIECES = (user("a"), user("b"), Piece(role="assistant", turn=0), user("c"))


def test_text_alone_is_put_together_as_it_stands() -> None:
    assert join(PIECES, [turn(50, 51)], encode, {}) == [97, 98, 50, 51, 99]


@pytest.mark.parametrize(
    ("said", "expected"), [((50, 51), [50, 51, END, 3]), ((50, END), [50, END, 3])], ids=["stopped", "ended itself"]
)
def test_a_message_ends_once_whoever_ended_it(said: tuple[int, ...], expected: list[int]) -> None:
    assert join(PIECES, [turn(*said)], encode, MARKS) == [1, 97, 98, END, 2, *expected, 99, END, 2]


def test_what_a_template_has_no_words_for_is_refused() -> None:
    with raises_naming(ValueError, "model.chat:", "assistant"):
        join((Piece(role="assistant", text="I am kind"),), [], encode, MARKS)


SYSTEM = {("", "system"): (6,), ("system", "user"): (END, 7)}


def test_a_system_message_is_the_start_of_the_users_where_the_template_has_none() -> None:
    told = (Piece(role="system", text="s"), *PIECES)
    assert join(told, [turn(50, 51)], encode, MARKS) == [1, 115, 97, 98, END, 2, 50, 51, END, 3, 99, END, 2]
    with_system = join(told, [turn(50, 51)], encode, {**MARKS, **SYSTEM})
    assert with_system == [6, 115, END, 7, 97, 98, END, 2, 50, 51, END, 3, 99, END, 2]
    assert join(told, [turn(50, 51)], encode, {}) == [115, 97, 98, 50, 51, 99]


TOOL = {("assistant", "tool"): (END, 4), ("tool", "user"): (END, 3), ("tool", "assistant"): (END, 5)}


def test_what_came_of_a_call_is_a_tools_message_where_the_template_has_one() -> None:
    seen = (user("a"), Piece(role="assistant", turn=0), Piece(role="tool", text="c"))
    past = [turn(50, 51)]
    assert join(seen, past, encode, MARKS) == [1, 97, END, 2, 50, 51, END, 3, 99, END, 2]
    assert join(seen, past, encode, {**MARKS, **TOOL}) == [1, 97, END, 2, 50, 51, END, 4, 99, END, 5]
    assert join((*seen, user("d")), past, encode, {**MARKS, **TOOL})[-6:] == [99, END, 3, 100, END, 2]


def test_a_turn_whose_thought_the_template_opened_is_read_and_shown_from_within() -> None:
    def decode(ids: object) -> str:
        return "".join(map(chr, ids))  # type: ignore[call-overload]

    for dialect in (Boxed(), Answer(), Answer(reasoning=False), Fenced()):
        speech = Speech(dialect=dialect, encode=encode, decode=decode, thinks=True, end=END)
        assert speech.thinking == (True if dialect.reasoning else None)
        for thought in ("", "I know."):
            move = Move(thought=thought, action=Action(kind="answer", text="7"))
            said = speech.say(move)
            assert "</think>" in decode(said.token_ids)
            assert not decode(said.token_ids).startswith("<think>")
            assert speech.hear(said) == move.action
    unclosed = Completion(token_ids=tuple(encode("\\boxed{7}")), logprobs=(0.0,) * 9, stop="stop")
    speech = Speech(dialect=Boxed(), encode=encode, decode=decode, thinks=True)
    assert speech.hear(unclosed).kind == "invalid"


def expa(**settings: bool) -> Speech:
    """Return EARL's protocol with a calculator, spoken through a chat template."""
    dialect = ExpA(**settings).bind((Calculator().verb,), ())
    return Speech(dialect=dialect, encode=encode, decode=lambda ids: "".join(map(chr, ids)), marks=MARKS, end=END)


def call(ids: tuple[int, ...]) -> Turn:
    done = Completion(token_ids=ids, logprobs=(0.0,) * len(ids), stop="stop")
    action = Action(kind="call", name="calculate", text="8 - 4 =")
    return Turn(prompt_ids=(0,), completion=done, action=action, observation=(Text("4"),))


def test_with_expa_a_chat_is_one_history_and_its_template_is_for_the_prompt() -> None:
    """Algorithm 1 of EARL: h + desc(a) + o, with nothing between."""
    task = Task(id="t", prompt=(Text("q"),), data={})
    asked = [1, *encode("q\n"), END, 2]
    said = tuple(encode(" calculate 8 - 4 = "))
    past = [call(said), call(said)]
    seen = [*said, *encode("4\n")]
    assert list(expa().context(task, (), [])) == asked
    assert list(expa().context(task, (), past)) == [*asked, *seen, *seen]
    first, second = (list(expa().context(task, (), past[:num])) for num in (1, 2))
    assert second[: len(first)] == first
    apart = list(expa(inline=False).context(task, (), past[:1]))
    assert apart == [*asked, *said, END, 3, *encode("4\n"), END, 2]


def test_what_follows_a_turn_that_the_model_ended_is_a_message() -> None:
    task = Task(id="t", prompt=(Text("q"),), data={})
    ended = replace(turn(50, END), action=Action(kind="invalid", text="say something"), observation=(Text("Error"),))
    context = list(expa().context(task, (), [ended]))
    assert context == [1, *encode("q\n"), END, 2, 50, END, 3, *encode("\nError\n"), END, 2]
