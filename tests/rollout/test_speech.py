"""Contexts joined from pieces: ids by hand, as text and as messages of a chat."""

from __future__ import annotations

import pytest

from rlx.rollout.speech import join
from rlx.types import Action, Completion, Piece, Turn

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
    with pytest.raises(ValueError, match=r"^model\.chat: the template has nothing from the start to system$"):
        join((Piece(role="system", text="be kind"),), [], encode, MARKS)
