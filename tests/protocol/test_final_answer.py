"""The reasoning form: free text, then `final answer:` and exactly an action; and the exact form of `direct`."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rlx.protocol.direct import Direct
from rlx.protocol.final_answer import FinalAnswer
from rlx.protocol.history import first_prompt
from rlx.rollout.speech import Speech
from rlx.types import Action, Completion, Move, Stop, Task, Text, Verb
from tests.loops import for_each

WALKS = (
    Verb(name="turn_left", description="turn left", phrase="turn left"),
    Verb(name="drop", description="drop it"),
    Verb(name="walk_to", description="walk to a place", argument="place", phrase="walk to"),
)
ASK = "end with 'final answer: X', where X is one of: turn left, drop, walk to PLACE"
FORM = FinalAnswer().bind((), WALKS)
PAPER = FinalAnswer(stops_at=()).bind((), WALKS)
EXACT = Direct(stops=(), exact=True).bind((), WALKS)


def act(name: str, text: str = "") -> Action:
    return Action(kind="act", name=name, text=text)


VALID = [
    ("The door is left. final answer: turn left", act("turn_left")),
    ("The door is left.\nfinal answer: turn left\n", act("turn_left")),
    ("final answer:turn left", act("turn_left")),
    ("final answer: \n\t turn left \n\n", act("turn_left")),
    ("I get closer. Final answer: drop", act("drop")),
    ("final answer: fly? No. final answer: drop", act("drop")),
    ("final answer: walk to the door", act("walk_to", "the door")),
    ("<think>final answer: turn left</think>final answer: drop", act("drop")),
]
INVALID = [
    "",
    "turn left",
    "word " * 10_000,
    "final answer:",
    "final answer: done",
    "final answer: Turn left",
    "final answer: turn  left",
    "final answer: turn left.",
    "final answer: turn_left",
    "final answer: walk to ",
    "final answer: gire a la izquierda",
    "final answer: 左转",
    "réponse finale : turn left",
    "final answer: drop. Or final answer: neither",
    "<think>final answer: drop</think>",
    "<think>final answer: drop",
]


@pytest.mark.parametrize(("text", "action"), VALID)
@pytest.mark.parametrize("dialect", [FORM, PAPER], ids=["lines", "paper"])
def test_the_text_after_the_last_label_is_an_action(dialect: FinalAnswer, text: str, action: Action) -> None:
    assert dialect.parse(text, "stop") == action
    assert dialect.parse(f"{'word ' * 10_000}{text}".removeprefix("word <think>"), "eos") == action


@for_each("text, dialect", product(INVALID, [FORM, PAPER]))
def test_any_other_turn_is_invalid_and_says_what_is_wanted(dialect: FinalAnswer, text: str) -> None:
    assert dialect.parse(text, "stop") == Action(kind="invalid", text=ASK)


def test_the_line_of_an_action_ends_a_turn_where_nothing_else_does() -> None:
    assert FORM.stops == ("final answer: turn left\n", "final answer: drop\n")
    assert FORM.parse("It is left.\nOr not?\nfinal answer: turn left\nYou see final answer: drop\n", "stop") == act(
        "turn_left"
    )
    assert PAPER.stops == FinalAnswer().stops == ()
    assert PAPER.parse("final answer: turn left\nYou see\nfinal answer: drop\n", "stop") == act("drop")


def test_a_model_without_reasoning_may_write_think_as_text() -> None:
    plain = FinalAnswer(reasoning=False).bind((), WALKS)
    assert plain.parse("<think>final answer: drop", "stop") == act("drop")


def test_without_declared_actions_the_text_is_the_answer() -> None:
    dialect = FinalAnswer()
    assert dialect.parse("6 x 7. final answer: 42 ", "stop") == Action(kind="answer", text="42")
    assert dialect.parse("final answer: ", "stop").kind == "invalid"
    task = Task(id="t", prompt=(Text("6 x 7?"),), data={})
    assert first_prompt(dialect, task) == "Think, then end with 'final answer: X', where X is the answer.\n6 x 7?\n"
    assert first_prompt(FORM, task).startswith("Think, then e" + ASK[1:])


DIALECTS = (FORM, PAPER, EXACT, FinalAnswer(), FinalAnswer(reasoning=False).bind((), WALKS))
PARTS = st.sampled_from(
    ["final answer:", "Final answer: ", "turn left", "drop", "walk to", "<think>", "</think>", "\n"]
)
SAID = st.one_of(st.text(max_size=60), st.lists(st.one_of(PARTS, st.text(max_size=5)), max_size=9).map("".join))


@given(SAID, st.sampled_from(["stop", "eos"]), st.sampled_from(DIALECTS))
def test_parse_and_measure_are_total(text: str, stop: Stop, dialect: Direct | FinalAnswer) -> None:
    action = dialect.parse(text, stop)
    assert action.kind in ("answer", "act", "invalid")
    if isinstance(dialect, FinalAnswer):
        measured = dialect.measure(text, action)
        assert bool(measured) == (action.kind != "invalid")
        assert all(value >= 0 for value in measured.values())


@given(SAID, st.sampled_from(["length", "context"]), st.sampled_from(DIALECTS))
def test_a_turn_that_was_cut_is_never_an_action(text: str, stop: Stop, dialect: Direct | FinalAnswer) -> None:
    assert dialect.parse(text, stop).kind == "invalid"


@given(SAID)
@example("final answer:turn left<think>")
@example("final answer: turn left<think>or drop")
def test_a_valid_turn_is_exactly_an_action_after_the_label(text: str) -> None:
    action = PAPER.parse(text, "eos")
    if action.kind == "act" and not action.text:
        words = {"turn_left": "turn left", "drop": "drop"}[action.name]
        said = re.sub("<think>.*?(</think>|$)", "", text.lower(), flags=re.DOTALL)
        assert said.replace("</think>", "").rstrip().endswith(words)
        assert "final answer:" in text.lower()


ARGUMENT = st.text(st.characters(exclude_characters="\n<", exclude_categories=("Cs", "Cc", "Z")), min_size=1)


@given(st.sampled_from(DIALECTS), st.sampled_from(WALKS), ARGUMENT, SAID)
def test_what_can_be_written_is_read_back(
    dialect: Direct | FinalAnswer, verb: Verb, argument: str, thought: str
) -> None:
    action = act(verb.name, argument if verb.argument else "")
    try:
        written = dialect.write(Move(thought=thought, action=action))
    except ValueError:
        assert not dialect.declared or "final answer" in thought.lower() or "<" in thought or "\x85" in argument
        return
    assert dialect.parse(written, "stop") == action


def test_a_demonstration_ends_with_a_stop_string_or_the_end_of_sequence() -> None:
    move = Move(thought="It is left.", action=act("turn_left"))
    assert FORM.write(move) == "It is left.\nfinal answer: turn left\n"
    assert PAPER.write(move) == "It is left.\nfinal answer: turn left"
    assert FORM.write(Move(thought="", action=act("drop"))) == "final answer: drop\n"
    said = Speech(dialect=PAPER, encode=lambda text: list(text.encode()), decode=lambda ids: "", end=0).say(move)
    assert (said.token_ids[-1], said.stop) == (0, "eos")
    said = Speech(dialect=FORM, encode=lambda text: list(text.encode()), decode=lambda ids: "", end=0).say(move)
    assert (said.token_ids[-1], said.stop) == (ord("\n"), "stop")


@for_each(
    "text, words, only",
    [
        ("final answer: turn left", 0, 1),
        ("Turn left. final answer: turn left", 2, 1),
        ("  TURN, LEFT!\nfinal answer: turn left", 2, 1),
        ("Go forward.\n\nfinal answer: turn left", 2, 0),  # it states another action
        ("Turn left to avoid the wall. final answer: turn left", 6, 0),
        ("...\nfinal answer: drop", 1, 1),
        ("final answer: fly? No. final answer: drop", 4, 0),
        ("<think>The key is far.</think>\nDrop.\nfinal answer: drop", 5, 0),
        ("<think></think>Drop.\nfinal answer: drop", 1, 1),
        ("Walk to the door. final answer: walk to the door", 4, 1),
    ],
)
def test_reasoning_is_counted_and_replies_that_only_state_the_action_are_told(text: str, words: int, only: int) -> None:
    measured = PAPER.measure(text, PAPER.parse(text, "eos"))
    assert measured == {"reply/reasoning_words": words, "reply/only_action": only}


def test_a_turn_without_an_action_has_no_measures() -> None:
    text = "final answer: done"
    assert PAPER.measure(text, PAPER.parse(text, "eos")) == {}
    speech = Speech(
        dialect=PAPER, encode=lambda text: list(text.encode()), decode=lambda ids: bytes(ids).decode(), thinks=True
    )
    ids = tuple(b"Far.</think>Drop. final answer: drop")
    done = Completion(token_ids=ids, logprobs=(0.0,) * len(ids), stop="stop")
    action = speech.hear(done)
    assert speech.measure(done, action) == {"reply/reasoning_words": 2.0, "reply/only_action": 0.0}
    assert Speech(dialect=EXACT, encode=speech.encode, decode=speech.decode).measure(done, action) == {}


@for_each(
    "text, expected",
    [
        ("turn left", act("turn_left")),
        ("walk to the door", act("walk_to", "the door")),
        ("<think>far</think>\n\ndrop", act("drop")),
        *((text, None) for text in (" turn left", "turn left\n", "Turn left", "turn  left", "", "drop it", "walk to ")),
    ],
)
def test_the_exact_form_of_direct_takes_no_other_text(text: str, expected: Action | None) -> None:
    wanted = expected or Action(kind="invalid", text="say one of: turn left, drop, walk to PLACE")
    assert EXACT.parse(text, "stop") == wanted
