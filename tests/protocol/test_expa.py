"""Routes and buttons beyond the vocabulary: what may come where, what it means, and how it stands in a context."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.base.buttons import Buttons
from rlx.base.limits import MistakeError
from rlx.environment.world import legal_sets
from rlx.protocol.automaton import Actions, Automaton, spell_out
from rlx.protocol.drawn import ChoiceText, added_by, chosen_as, split_choices
from rlx.protocol.expa import ExpA, presses
from rlx.types import Action, Completion, Move, Stop, Task, Text, Turn, Verb
from tests.errors import raises_naming
from tests.loops import for_each

ITEMS = ("A", "B", "C")
END = 299
CUT = Action(kind="invalid", text="the turn was cut off: say less")
TWO = Buttons(
    states=({"A": 1, "B": 2, "C": 3}, {"B": None, "C": None}, {"A": None, "C": None}, {"A": None, "B": None}),
    between=" ",
)
COMPARE = Verb(name="compare", description="compare two items", argument="two items", buttons=TWO)
SWAP = Verb(name="swap", description="swap two items", argument="two items", buttons=TWO)
ANSWER = Verb(name="answer", description="say that it is sorted", argument="text")
SUM = Buttons(states=({"1": 1, "2": 1}, {"0": 1, "1": 1, "2": 1, "+": 0, "= ": None}))
CALCULATE = Verb(name="calculate", description="calculate", argument="expression", buttons=SUM)
GUESS = Verb(name="guess", description="guess", argument="number")
LOOK = Verb(name="look", description="look around")

SORTING = ExpA().bind((), (COMPARE, SWAP, ANSWER))
CALCULATING = ExpA(stops=("\n",)).bind((CALCULATE,), ())
WALKING = ExpA().bind((), (GUESS, LOOK))
TASK = Task(id="t", prompt=(Text("Sort A, B and C."),), data={})


def encode(text: str) -> list[int]:
    """One id a character."""
    return [ord(letter) for letter in text]


def decode(ids: object) -> str:
    return "".join(map(chr, ids))  # type: ignore[call-overload]


def drawn(protocol: ExpA) -> Automaton:
    added = added_by({"": protocol})
    actions = Actions(first=300, names=tuple(added), descriptions=tuple(tuple(encode(d)) for d in added.values()))
    return spell_out(protocol.draw(actions, encode))


def act(name: str, text: str = "") -> Action:
    return Action(kind="act", name=name, text=text)


def test_verbs_share_the_buttons_that_are_written_alike() -> None:
    assert SORTING.added == {"compare": " compare", " A": " A", " B": " B", " C": " C", "swap": " swap"}
    assert CALCULATING.added == {"calculate": " calculate ", **{one: one for one in (*"120+", "= ")}}
    assert WALKING.added == {"guess": " guess", "\n": "\n", "look": " look"}


def test_language_allows_all_text_and_all_routes_and_no_button() -> None:
    automaton = drawn(SORTING)
    language, actions = automaton.states[0], automaton.actions
    assert actions is not None
    ids = {name: actions.first + i for i, name in enumerate(actions.names)}
    assert all(language.allows(i) for i in range(actions.first))
    assert {name for name, chosen in ids.items() if language.allows(chosen)} == {"compare", "swap"}


def test_inside_an_environment_only_what_may_be_pressed_there_is_allowed_and_the_last_ends_the_turn() -> None:
    automaton = drawn(SORTING)
    actions = automaton.actions
    assert actions is not None
    for first, second in permutations(ITEMS, 2):
        said: list[ChoiceText] = [
            ("", "so"),
            ("swap", " swap"),
            (f" {first}", f" {first}"),
            (f" {second}", f" {second}"),
        ]
        done = chosen_as(said, automaton, 0, encode)
        last = done.mask_ids[-1]
        assert done.token_ids[-1] in automaton.states[last].ends
        pressing = next(state for state in automaton.states if actions.first + 1 in (state.allowed or ()))
        assert pressing.allowed == {actions.first + i for i in (1, 2, 3)}
    with raises_naming(ValueError, "protocol:", "[' swap', ' A', ' A']", "chosen"):
        chosen_as([("swap", " swap"), (" A", " A"), (" A", " A")], automaton, 0, encode)
    with raises_naming(ValueError, "protocol:", "[' A']", "chosen"):
        chosen_as([(" A", " A")], automaton, 0, encode)


def test_what_was_chosen_is_understood_and_stands_in_the_context_as_it_is_written() -> None:
    automaton = drawn(SORTING)
    said = SORTING.choose(Move(thought="is it B?", action=act("compare", "B A")))
    done = chosen_as(said, automaton, 0, encode)
    assert decode(done.token_ids) == "is it B? compare B A"
    heard = list(split_choices(done, automaton.actions, decode))
    assert heard == said
    assert SORTING.understand(heard, "stop") == act("compare", "B A")


@for_each("protocol, said, stop, action",
    [
        (SORTING, [("", " compare A B")], "eos", Action(kind="answer", text="compare A B")),  # text is text
        (SORTING, [("", "sorted")], "length", CUT),
        (SORTING, [("swap", " swap"), (" A", " A")], "length", CUT),
        (SORTING, [], "eos", Action(kind="invalid", text="say something")),
        (CALCULATING, [("", "12\n")], "stop", Action(kind="answer", text="12")),
        (CALCULATING, [("calculate", " calculate "), ("1", "1"), ("+", "+"), ("2", "2"), ("= ", "= ")], "stop",
         Action(kind="call", name="calculate", text="1+2=")),
        (WALKING, [("", "it is "), ("guess", " guess"), ("", " 25"), ("\n", "\n")], "stop", act("guess", "25")),
        (WALKING, [("guess", " guess"), ("\n", "\n")], "stop",
         Action(kind="invalid", text="guess needs number, and the end of the line")),
        (WALKING, [("guess", " guess"), ("", " 25")], "eos",
         Action(kind="invalid", text="guess needs number, and the end of the line")),
        (WALKING, [("look", " look")], "stop", act("look")),
        (WALKING, [("", "25")], "eos", Action(kind="invalid", text="choose one of: guess NUMBER, look")),
    ],
)  # fmt: skip
def test_what_choices_mean(protocol: ExpA, said: list[ChoiceText], stop: str, action: Action) -> None:
    assert protocol.understand(said, stop) == action  # type: ignore[arg-type]


@for_each(
    "protocol, text, action",
    [
        (SORTING, "compare A B", act("compare", "A B")),
        (SORTING, "sorted", Action(kind="answer", text="sorted")),
        (SORTING, "compare", Action(kind="answer", text="compare")),
        (WALKING, "look", act("look")),
        (SORTING, "Is B least? compare B A", act("compare", "B A")),
        (SORTING, "I compare B and A. compare B A", act("compare", "B A")),
        (SORTING, "I compare B and A", Action(kind="answer", text="I compare B and A")),
        (SORTING, "compare B and A", act("compare", "B and A")),  # the environment says what is wrong with it
        (WALKING, "now look", act("look")),
        (WALKING, "I guess 25", Action(kind="invalid", text="choose one of: guess NUMBER, look")),
        (WALKING, "guess 25", act("guess", "25")),
        (WALKING, "jump", Action(kind="invalid", text="choose one of: guess NUMBER, look")),
    ],
)
def test_somebody_may_write_what_a_model_chooses(protocol: ExpA, text: str, action: Action) -> None:
    assert protocol.parse(text, "stop") == action


MOVES = st.one_of(
    st.permutations(ITEMS).map(lambda items: (SORTING, act("swap", " ".join(items[:2])))),
    st.from_regex(r"[12][012]{0,5}(\+[12][012]{0,5}){0,4}=", fullmatch=True).map(
        lambda text: (CALCULATING, Action(kind="call", name="calculate", text=text))
    ),
    st.text("abc 12", min_size=1).map(str.strip).filter(bool).map(lambda text: (WALKING, act("guess", text))),
    st.just((WALKING, act("look"))),
    st.text("abc 12", min_size=1)
    .map(str.strip)
    .filter(bool)
    .map(lambda text: (CALCULATING, Action(kind="answer", text=text))),
)


@given(MOVES)
def test_an_experts_move_is_chosen_as_it_is_understood(case: tuple[ExpA, Action]) -> None:
    protocol, action = case
    automaton = drawn(protocol)
    said = protocol.choose(Move(thought="", action=action))
    done = chosen_as(said, automaton, 0, encode)
    assert len(done.chosen_ids) == len(done.mask_ids) == len(done.token_ids)
    assert protocol.understand(list(split_choices(done, automaton.actions, decode)), "stop") == action


@for_each("text", ["", "A", "A A", "A B C", "D B", "A  B", "AB"])
def test_what_no_buttons_write_is_refused(text: str) -> None:
    with raises_naming(ValueError, "protocol=expa", "buttons"):
        list(presses(TWO, text))


def test_an_experts_answer_without_a_stop_string_is_ended_by_the_model() -> None:
    answer = Action(kind="answer", text="sorted")
    automaton = drawn(SORTING)
    said = SORTING.choose(Move(thought="It is", action=answer))
    done = chosen_as(said, automaton, 0, encode, END)
    assert (done.token_ids[-1], done.stop) == (END, "eos")
    assert len(done.mask_ids) == len(done.logprobs) == len(done.token_ids)
    assert SORTING.understand(list(split_choices(done, automaton.actions, decode)), "eos") == replace(
        answer, text="It is sorted"
    )
    pressed = SORTING.choose(Move(thought="", action=act("compare", "A B")))
    assert chosen_as(pressed, automaton, 0, encode, END).stop == "stop"


@pytest.mark.parametrize("action", [act("jump"), act("calculate", "1+1="), Action(kind="call", name="x", text="")])
def test_what_is_no_route_is_refused(action: Action) -> None:
    with raises_naming(ValueError, "protocol=expa", "route"):
        CALCULATING.choose(Move(thought="", action=action))


def test_nothing_is_told_unless_asked_for() -> None:
    assert SORTING.open(TASK) == "Sort A, B and C.\n"
    told = ExpA(instruction=None).bind((), (COMPARE, LOOK)).open(TASK)
    assert told == "compare TWO ITEMS: compare two items. look: look around.\nSort A, B and C.\n"


CALLED = Action(kind="call", name="calculate", text="1+1=")


def turn(action: Action, stop: Stop, *seen: str) -> Turn:
    done = Completion(token_ids=(1,), logprobs=(0.0,), stop=stop)
    return Turn(prompt_ids=(1,), completion=done, action=action, observation=tuple(map(Text, seen)))


@for_each(
    "protocol, past, seen",
    [
        (SORTING, turn(act("compare", "A B"), "stop", "B < A"), " B < A\n"),
        (SORTING, turn(act("compare", "A B"), "stop", "a", "b"), "\na\nb\n"),
        (SORTING, turn(CUT, "length", "say less"), "\nsay less\n"),
        (CALCULATING, turn(CALLED, "stop", "2"), "2\n"),  # the last button is written with a blank
        (WALKING, turn(act("guess", "25"), "stop", "lower"), "lower\n"),  # enter ended the line
        (WALKING, turn(act("look"), "stop", "a wall"), " a wall\n"),
    ],
)
def test_what_is_seen_goes_on_after_a_button(protocol: ExpA, past: Turn, seen: str) -> None:
    pieces = list(protocol.context(TASK, (Text("Begin."),), [past]))
    assert [piece.text for piece in pieces] == ["Sort A, B and C.\n", "Begin.\n", "", seen]


INNER = Verb(name="look", description="look", when=("in", "out"))
DOORS = (
    Verb(name="enter", description="go in", when=("out",)),
    Verb(name="leave", description="go out", when=("in",)),
    INNER,
)


def routes_of(protocol: ExpA, automaton: Automaton, legal: tuple[str, ...] | None) -> set[str]:
    """The routes that may be taken where a turn begins."""
    state, actions = automaton.states[protocol.begins(legal)], automaton.actions
    assert actions is not None
    assert all(state.allows(i) for i in range(actions.first)), "text may always come"
    return {name for i, name in enumerate(actions.names) if state.allows(actions.first + i)}


def test_a_turn_begins_with_the_routes_that_are_legal() -> None:
    protocol = ExpA().bind((CALCULATE,), DOORS)
    automaton = drawn(protocol)
    for legal in (("enter", "look"), ("look", "leave")):
        assert routes_of(protocol, automaton, legal) == {*legal, "calculate"}, "a tool is always lent"
    assert routes_of(protocol, automaton, None) == {"enter", "leave", "look", "calculate"}
    assert [sorted(routes) for routes in protocol.languages[1:]] == [
        ["calculate", "enter", "look"],
        ["calculate", "leave", "look"],
    ]
    with raises_naming(ValueError, "protocol:", "[' leave']", "chosen"):
        chosen_as([("leave", " leave")], automaton, protocol.begins(("enter", "look")), encode)


def test_where_no_situation_is_named_all_routes_may_come() -> None:
    assert routes_of(WALKING, drawn(WALKING), ("look",)) == {"guess", "look"}


NAMES = st.sampled_from(("a", "b", "c", "d"))
VERBS = st.lists(
    st.tuples(NAMES, st.sampled_from((None, TWO, SUM)), st.lists(st.sampled_from("xyz"), unique=True, max_size=3)),
    min_size=1,
    max_size=4,
    unique_by=lambda one: one[0],
)


@given(VERBS)
def test_every_state_that_a_turn_may_come_to_allows_something_and_leads_to_an_end(drawing: list) -> None:
    verbs = tuple(
        Verb(name=name, description=name, argument="it" if buttons else "", buttons=buttons, when=tuple(when))
        for name, buttons, when in drawing
    )
    protocol = ExpA().bind((), verbs)
    automaton = drawn(protocol)
    assert automaton.actions is not None
    ids = range(automaton.actions.first + automaton.num_added)
    for legal in (None, *map(tuple, legal_sets(verbs))):
        assert routes_of(protocol, automaton, legal) == set(legal or (verb.name for verb in verbs))
        met, todo = set(), [protocol.begins(legal)]
        while todo:
            if (state := todo.pop()) not in met:
                met.add(state)
                assert any(map(automaton.states[state].allows, ids))
                todo += automaton.states[state].moves.values()
        assert all(ends(automaton, state) for state in met)


def ends(automaton: Automaton, state: int) -> bool:
    """Whether text may come there, which ends by itself, or what is chosen comes to an end."""
    met, todo = set(), [state]
    while todo:
        at = todo.pop()
        if automaton.states[at].ends or automaton.states[at].allowed is None:
            return True
        todo += [target for target in automaton.states[at].moves.values() if target not in met]
        met.add(at)
    return False


def test_an_environment_without_anything_to_do_is_refused() -> None:
    with raises_naming(MistakeError, "protocol=expa", "protocol=direct"):
        ExpA().bind((), ())
    with raises_naming(MistakeError, "protocol=expa", "protocol=direct"):
        ExpA().bind((), (ANSWER,))


def test_two_actions_of_one_name_are_refused() -> None:
    one = Verb(name="one", description="press", argument="key", buttons=Buttons(states=({"one": None},)))
    with raises_naming(MistakeError, "protocol=expa", "'one'", "two actions"):
        _ = ExpA().bind((one,), ()).added
