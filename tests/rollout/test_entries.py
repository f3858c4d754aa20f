"""Where a tag may be entered: only where the protocol would read it as the turn's action."""

from __future__ import annotations

from itertools import product

import pytest

from rlx.algo.entry import Entry
from rlx.algo.twins import places_of, watched_of
from rlx.env.countdown.countdown import Countdown
from rlx.model.load import Model, load_tokenizer
from rlx.protocol.tags import Tags
from rlx.rollout.speech import Speech, speech_of
from rlx.tool.calculator import Calculator
from rlx.types import Action, Completion, Task, Trajectory, Turn
from tests.loops import for_each


@pytest.fixture(scope="module", params=[False, True], ids=["strict", "reasoning"])
def speech(request: pytest.FixtureRequest) -> Speech:
    dialect = Tags(reasoning=request.param).bind(Countdown.tools, ())
    return speech_of(dialect, load_tokenizer(Model(path="nano")))


def entry_of(speech: Speech) -> Entry:
    (entry,) = speech.entries
    return entry


def places(speech: Speech, text: str) -> list[str]:
    """Return the texts before the places of an episode with one turn."""
    entry, ids = entry_of(speech), tuple(speech.encode(text))
    watch = watched_of([entry])
    done = Completion(
        token_ids=ids,
        logprobs=(-1.0,) * len(ids),
        watched=((-1.0,) * len(watch),) * len(ids),
        stop="stop",
    )
    turn = Turn(prompt_ids=(1,), completion=done, action=Action(kind="answer", text=""), reward=0.0)
    one = Trajectory(task=Task(id="t", prompt=(), data={}), sample=0, turns=(turn,), status="done")
    return [speech.decode(ids[:token]) for _, (_, token) in places_of(one, entry, watch, "name")]


TEXTS = (
    "<think>\nI have to add 44 and 35.\n</think>\nSo 44 + 35 <answer>44 + 35</answer>",
    "<think>\nI have to <python>\n44 + 35\n</python>",
    "<think>\nI add.\n</think>\n<python>\n44 + 35\n</python>",
    "I add 44 < 45. <python>\n44 + 35\n</python>",
    "<think>\nnever closed",
    "<answer>44 + 35</answer>",
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_tag_forced_at_any_place_is_a_call(speech: Speech, text: str) -> None:
    found = places(speech, text)
    for before in found:
        action = speech.dialect.parse(f"{before}<python>\n1 + 2\n</python>", "stop")
        assert (action.kind, action.name, action.text) == ("call", "python", "1 + 2")
    assert found[0] == ""


def test_no_place_is_within_a_thought_or_a_block_or_after_its_own_entry(speech: Speech) -> None:
    found = places(speech, TEXTS[0])
    assert all("</think>" in before or "think" not in before for before in found)
    assert any(before.endswith("So 44") for before in found)
    assert all("<answer" not in before for before in found)
    for text in (TEXTS[2], TEXTS[3]):
        assert all("<pyth" not in before for before in places(speech, text))
    assert places(speech, TEXTS[4]) == [""]


def test_words_of_a_tag_say_its_name_and_not_that_some_tag_begins(speech: Speech) -> None:
    entry = entry_of(speech)
    (bracket,) = speech.encode("<")
    assert len(entry.chosen) == 1 or bracket not in entry.words
    assert speech.encode("python")[0] in entry.words


def test_the_description_of_a_tag_is_all_of_it(speech: Speech) -> None:
    entry = entry_of(speech)
    assert entry.description == entry.chosen == tuple(speech.encode("<python>"))
    calculate = speech_of(Tags().bind((Calculator().verb,), ()), load_tokenizer(Model(path="nano")))
    assert len(entry_of(calculate).description) == 3


PIECES = ("<think>", "I add 44", " < 45.", "\n", "</think>", "\n<", "<", "python", ">\n", "<python>\n", "44 + 35", "</")


@for_each("tag, reasoning", product([("<", "python", ">\n"), ("<python>\n",), ("\n<", "python", ">\n")], [False, True]))
def test_an_episode_s_own_entry_is_found_by_its_text_whatever_its_tokens(tag: tuple[str, ...], reasoning: bool) -> None:
    said = ("I add 44", " < 45.", *tag, "44 + 35", "</", "python", ">\n")
    own = Speech(
        dialect=Tags(reasoning=reasoning).bind(Countdown.tools, ()),
        encode=lambda text: [0],
        decode=lambda ids: "".join(PIECES[one] for one in ids),
    )
    possible = own.possible("python", [PIECES.index(piece) for piece in said])
    assert list(possible) == [True, True, True, *[False] * (len(said) - 3)]
