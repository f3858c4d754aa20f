"""Prompt templates: a whole episode in one user message, word for word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rlx.protocol.boxed import Boxed
from rlx.protocol.direct import Direct
from rlx.protocol.expa import ExpA
from rlx.protocol.fenced import Fenced
from rlx.protocol.history import History
from rlx.rollout.speech import Speech
from rlx.types import Action, Completion, Stop, Task, Text, Turn, Verb
from tests.errors import raises_naming
from tests.loops import for_each

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "contexts.md").read_text(encoding="utf-8")
SHOWN = dict(re.findall(r"^```text view=(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
TASK = Task(id="t", prompt=(Text("Guess the number that I think of. You have 10 guesses."),), data={})
OPENING = (Text("It is a number from 1 to 50."),)
GUESS = Verb(name="guess", description="guess", argument="number")
END = "\N{END OF TEXT}"
"""The model's end of sequence."""
MARKS = {("", "user"): "<user>", ("user", "assistant"): "</user><agent>", ("assistant", "user"): "</agent><user>"}


def ids(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


def text(token_ids: Any) -> str:
    return "".join(map(chr, token_ids))


def speech(dialect: Any, chat: bool = True) -> Speech:
    """A token is a letter."""
    marks = {roles: ids(mark) for roles, mark in MARKS.items()} if chat else {}
    return Speech(dialect=dialect, encode=ids, decode=text, marks=marks, end=ord(END))


def turn(words: str, seen: str, stop: Stop = "eos") -> Turn:
    told = words + END if stop == "eos" else words
    done = Completion(token_ids=ids(told), logprobs=(0.0,) * len(told), stop=stop)
    return Turn(
        prompt_ids=(), completion=done, action=Action(kind="act", name="guess", text=""), observation=(Text(seen),)
    )


TURNS = [turn("Halve it: \\boxed{25}", "higher than 25"), turn("Again: \\boxed{40}", "lower than 40")]
BOXED = Boxed().bind((), (GUESS,))


def context(dialect: Any, past: list[Turn], chat: bool = True) -> str:
    return text(speech(dialect, chat).context(TASK, OPENING, past))


def test_an_episode_of_observations_is_one_user_message() -> None:
    """GEM's games: the wrapper `concat` and the template `qwen3_game`."""
    game = Boxed(agent_turns=False, prompt_template="qwen3_game").bind((), (GUESS,))
    begins = (
        "<user>You are playing language games. Make valid actions to win.\n"
        "Observation: Put your number in \\boxed{}.\n"
        "Guess the number that I think of. You have 10 guesses.\n"
        "\nIt is a number from 1 to 50."
    )
    ends = "\nPlease reason step by step, and put your final answer within \\boxed{}.</user><agent>"
    assert context(game, []) == begins + ends
    assert context(game, TURNS[:1]) == f"{begins}\n\nhigher than 25{ends}"
    assert context(game, TURNS) == f"{begins}\n\nhigher than 25\n\nlower than 40{ends}"
    assert context(game, TURNS, chat=False) == context(game, TURNS)[len("<user>") : -len("</user><agent>")]


@pytest.mark.parametrize(("view", "agent_turns"), [("game", False), ("game_with_turns", True)])
def test_the_page_shows_what_is_sent(view: str, agent_turns: bool) -> None:
    game = Boxed(agent_turns=agent_turns, prompt_template="qwen3_game").bind((), (GUESS,))
    past = [turn("\\boxed{25}", "higher than 25"), turn("\\boxed{40}", "lower than 40")]
    shown = SHOWN[view].removeprefix("user: ").replace("\n      ", "\n").removesuffix("\n")
    assert context(game, past) == f"<user>{shown}</user><agent>"


def test_the_agents_turns_are_in_the_message_as_they_were_sampled_without_their_ends() -> None:
    """GEM's wrapper `concat_with_action` and a template."""
    general = Direct(prompt_template="qwen3_general").bind((), (GUESS,))
    past = [turn("25", "higher than 25"), turn("40\n", "lower than 40", stop="stop")]
    assert context(general, past) == (
        "<user>Question: Guess the number that I think of. You have 10 guesses.\nIt is a number from 1 to 50.\n"
        "25higher than 25\n40\nlower than 40\n"
        "Please reason step by step, and put your final answer within \\boxed{}.</user><agent>"
    )


def test_a_program_is_asked_for_in_gems_words() -> None:
    code = Fenced(instruction="", prompt_template="code").bind((), ())
    told = text(speech(code).context(Task(id="t", prompt=(Text("Print 1."),), data={}), (), []))
    assert told == (
        "<user>You are an expert Python programmer. You will be given a question (problem specification) and will "
        "generate a correct Python program that matches the specification and passes all tests.\nQuestion: Print 1.\n"
        "Please reason step by step, and write your code in markdown format, e.g., ```python\n# YOUR CODE HERE\n```."
        "</user><agent>"
    )


@for_each(
    "dialect, seen",
    [
        (Boxed(prompt_template="plain", window=0), "\nlower than 40\n"),
        (Direct(prompt_template="plain", window=0), "lower than 40\n"),
        (Direct(prompt_template="Look:\n{episode}--", window=0), "lower than 40\n--"),
        (ExpA(prompt_template="plain", window=0), "lower than 40\n"),
    ],
)
def test_any_protocol_takes_a_template_and_a_window(dialect: Any, seen: str) -> None:
    told = context(dialect.bind((), (GUESS,)), TURNS)
    assert told.endswith(f"{TASK.prompt[0].text}\n{seen}</user><agent>")
    assert told.count("<user>") == told.count("<agent>") == 1


def test_texts_in_a_row_are_encoded_as_one() -> None:
    pieces = list(BOXED.bind((), (GUESS,)).context(TASK, OPENING, TURNS))
    assert len(pieces) > 3
    once = Boxed(agent_turns=False, prompt_template="plain").bind((), (GUESS,))
    assert len(list(once.context(TASK, OPENING, TURNS))) == 1
    with_turns = Boxed(prompt_template="plain").bind((), (GUESS,))
    assert [(piece.role, piece.turn) for piece in with_turns.context(TASK, OPENING, TURNS)] == [
        ("user", None), ("user", 0), ("user", None), ("user", 1), ("user", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ({"prompt_template": "qwen3"}, ("prompt_template='qwen3'", "plain", "qwen3_general", "qwen3_game")),
        ({"prompt_template": "{episode}{episode}"}, ("prompt_template='{episode}{episode}'", "{episode}", "once")),
        ({"prompt_template": "plain", "summarise_at": 9}, ("prompt_template=plain", "summarise_at")),
    ],
)
def test_a_template_that_cannot_be_is_refused(keys: dict[str, Any], names: tuple[str, ...]) -> None:
    with raises_naming(ValueError, *names):
        Direct(**keys)


def test_the_first_message_is_told_at_once_as_it_is_in_pieces() -> None:
    for name in ("plain", "qwen3_general", "qwen3_game", "code"):
        dialect: History = Boxed(prompt_template=name).bind((), (GUESS,))
        for opening in ((), OPENING):
            told = "".join(piece.text for piece in dialect.context(TASK, opening, []))
            assert dialect.begin(TASK, opening) == told
