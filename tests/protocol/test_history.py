"""What a context is made of, as docs/contexts.md tells it; and summaries, whatever is said in their place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rlx.environment.dialect import Dialect
from rlx.gym.views import messages_of
from rlx.protocol.answer import Answer
from rlx.protocol.boxed import Boxed
from rlx.protocol.direct import Direct
from rlx.protocol.history import History, first_prompt
from rlx.protocol.tags import Tags
from rlx.rollout.speech import Speech
from rlx.types import Action, Completion, Stop, Task, Text, Turn, Verb
from tests.errors import raises_naming
from tests.loops import for_each

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "contexts.md").read_text(encoding="utf-8")
SHOWN = dict(re.findall(r"^```text view=(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
TASK = Task(id="t", prompt=(Text("Guess the number that I think of. You have 10 guesses."),), data={})
OPENING = (Text("It is a number from 1 to 50."),)
GUESS = Verb(name="guess", description="guess", argument="number")


def ids(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


def text(ids: Sequence[int]) -> str:
    return bytes(ids).decode()


def speech(dialect: Dialect) -> Speech:
    """A token is a byte."""
    return Speech(dialect=dialect, encode=ids, decode=text)


def said(dialect: Dialect, past: Sequence[Turn], words: str, seen: str = "", stop: Stop = "stop") -> list[Turn]:
    """The turns, and one more, as a player makes it."""
    spoken = speech(dialect)
    completion = Completion(token_ids=ids(words), logprobs=(0.0,) * len(words.encode()), stop=stop)
    action = spoken.hear(completion, past)
    observation = (Text(seen),) if seen else ()
    prompt = spoken.context(TASK, OPENING, past)
    return [*past, Turn(prompt_ids=prompt, completion=completion, action=action, observation=observation)]


def after(dialect: Dialect, *turns: tuple[str, str]) -> list[Turn]:
    past: list[Turn] = []
    for words, seen in turns:
        past = said(dialect, past, words, seen)
    return past


def context(dialect: Dialect, past: Sequence[Turn]) -> str:
    return text(speech(dialect).context(TASK, OPENING, past))


TURNS = (("25\n", "higher than 25"), ("40\n", "lower than 40"))
SUMMING = Direct(summarise_at=90, summary_tokens=60)


@for_each(
    "view, dialect",
    [
        ("last", Direct(window=0)),
        ("observations", Direct(agent_turns=False)),
        ("history", Direct()),
        ("window", Direct(window=1)),
        ("asked", SUMMING),
    ],
)
def test_the_model_sees_what_the_page_says(view: str, dialect: Direct) -> None:
    assert context(dialect, after(dialect, *TURNS)) == SHOWN[view]


def test_a_chat_and_a_summary_are_as_the_page_says() -> None:
    past = after(Direct(), *TURNS)
    words = [text(turn.completion.token_ids) for turn in past]
    told = messages_of(Direct().context(TASK, OPENING, past), words)
    shown = "".join(f"{one['role']}: {one['content']}" for one in told)
    assert shown == SHOWN["chat"].replace("\n      ", "\n")
    past = said(SUMMING, after(SUMMING, *TURNS), "more than 25, less than 40\n")
    assert past[-1].action == Action(kind="summary", text="more than 25, less than 40")
    assert context(SUMMING, past) == SHOWN["summary"]


def chat_of(dialect: Direct, past: Sequence[Turn], task: Task = TASK) -> str:
    """Return the messages as the page shows them: later lines of a message stand under its first."""
    words = [text(turn.completion.token_ids) for turn in past]
    shown = []
    for one in messages_of(dialect.context(task, OPENING, past), words):
        first, *rest = one["content"].splitlines(keepends=True)
        shown += [f"{one['role']}: {first}", *(" " * (len(one["role"]) + 2) + line for line in rest)]
    return "".join(shown)


def test_a_system_message_and_invalid_turns_are_as_the_page_says() -> None:
    task = Task(id="t", prompt=TASK.prompt, data={"goal": "guess a number"})
    told = Direct(instruction="Your goal is to {goal}. You may:\n{actions}").bind((), (GUESS,))
    assert chat_of(told, (), task) == SHOWN["system"]
    hiding = Direct(sanitise=True, correction="Say NUMBER.").bind((), (GUESS,))
    past = after(hiding, ("\n", "Error"), ("40\n", "lower than 40"))
    assert chat_of(hiding, past) == SHOWN["sanitised"]


def test_what_follows_a_summary_is_remembered_until_the_next() -> None:
    past = said(SUMMING, after(SUMMING, *TURNS), "above 25\n")
    first = context(SUMMING, past)
    assert not SUMMING.is_summary_next(past)  # two never follow each other, however long it is
    past = said(SUMMING, past, "30\n", "higher")
    assert context(SUMMING, past) == f"{first}30\nhigher\n"
    past = said(SUMMING, past, "35\n", "lower")
    assert SUMMING.is_summary_next(past)
    past = said(SUMMING, past, "30 to 35\n")
    assert context(SUMMING, past) == f"{TASK.prompt[0].text}\nSo far: 30 to 35\nlower\n"


@for_each(
    "words, stop, heard, goes_on",
    [
        ("\n", "stop", "", "So far: \nlower than 40\n"),
        ("", "eos", "", "So far: \nlower than 40\n"),
        ("30", "length", "30", "So far: 30\nlower than 40\n"),
        ("</answer><think>", "context", "</answer><think>", "So far: </answer><think>\nlower than 40\n"),
    ],
)
def test_whatever_is_said_is_the_summary(words: str, stop: Stop, heard: str, goes_on: str) -> None:
    past = said(SUMMING, after(SUMMING, *TURNS), words, stop=stop)
    assert past[-1].action == Action(kind="summary", text=heard)
    assert context(SUMMING, past) == f"{TASK.prompt[0].text}\n{goes_on}"


def test_in_blocks_a_summary_is_a_block_of_its_own() -> None:
    for dialect in (
        Tags(summarise_at=1).bind((), (GUESS,)),
        Boxed(summarise_at=1).bind((), (GUESS,)),
        Answer(summarise_at=1),
    ):
        past = after(dialect, ("<guess>25</guess>", "higher"))
        asked = context(dialect, past)
        assert asked.endswith("end with </summary>: all else will be forgotten.\n<summary>\n")
        for words, stop in (("above 25\n</summary>", "stop"), ("above 25\n", "length")):
            told = said(dialect, past, words, stop=stop)  # type: ignore[arg-type]
            assert told[-1].action == Action(kind="summary", text="above 25")
            seen = dialect.render((Text("higher"),))
            assert context(dialect, told) == f"{dialect.open(TASK)}<summary>\nabove 25\n</summary>{seen}"


def test_an_expert_retells_what_it_did_the_latest_of_it_where_that_is_too_long() -> None:
    past = after(SUMMING, *TURNS)
    whole = speech(SUMMING).write_summary(past)
    assert whole is not None
    assert text(whole.token_ids) == "25 higher than 25; 40 lower than 40\n"
    short = speech(Direct(summarise_at=90, summary_tokens=17)).write_summary(past)
    assert short is not None
    assert text(short.token_ids) == "40 lower than 40\n"
    again = said(SUMMING, past, text(whole.token_ids))
    assert speech(SUMMING).write_summary(again) is None
    told = speech(SUMMING).write_summary(said(SUMMING, again, "30\n", "</summary>"))
    assert told is not None
    assert text(told.token_ids) == "25 higher than 25; 40 lower than 40; 30 < /summary>\n"


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"summarise_at": 0}, "summarise_at=0"),
        ({"summary_tokens": 0}, "summary_tokens=0"),
        ({"window": 2, "summarise_at": 9}, "window=2"),
    ],
)
def test_what_cannot_be_is_refused(keys: dict[str, int], place: str) -> None:
    with raises_naming(ValueError, place):
        Direct(**keys)  # type: ignore[arg-type]


class Looked(list[Turn]):
    """Turns that remember which of them were looked at."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        super().__init__(turns)
        self.seen: set[int] = set()

    def __getitem__(self, index: Any) -> Any:
        self.seen.add(index % len(self))
        return super().__getitem__(index)


@pytest.mark.parametrize("window", [0, 1, 3])
def test_what_a_window_forgets_is_not_looked_at(window: int) -> None:
    past = Looked(after(Direct(), *[("7\n", "The number is larger.")] * 50))
    list(Direct(window=window).context(TASK, OPENING, past))
    assert past.seen == set(range(50 - window - 1, 50))


@for_each(
    "dialect, opening", product([Answer(), Boxed(), Boxed(window=0), Direct(summarise_at=9), Tags()], [(), OPENING])
)
def test_a_first_context_is_told_at_once_as_it_is_in_pieces(dialect: Any, opening: tuple[Text, ...]) -> None:
    assert isinstance(dialect, History)
    assert dialect.begin(TASK, opening) == first_prompt(dialect, TASK, opening)
