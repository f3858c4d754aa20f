from __future__ import annotations

import pytest

from rlx.protocol.automaton import Actions, Automaton, State, spell_out, union
from tests.errors import raises_naming
from tests.loops import for_each

ACTIONS = Actions(first=100, names=("count", "go left", "stop"), descriptions=((7,), (8, 9, 10), (11, 12)))


def walk(automaton: Automaton, state: int, *chosen: int) -> tuple[int, bool]:
    """Where these ids lead, and whether the last one ends."""
    for each in chosen:
        assert automaton.states[state].allows(each)
        ended, state = each in automaton.states[state].ends, automaton.states[state].moves.get(each, state)
    return state, ended


def test_an_action_is_read_as_the_first_token_of_its_description():
    assert [ACTIONS.read(i) for i in (0, 99, 100, 101, 102)] == [0, 99, 7, 8, 11]


@for_each(
    "names, descriptions, mistakes",
    [
        (("a", "a"), ((1,), (2,)), ("one name",)),
        (("a", "b"), ((1,),), ("2 names", "1 descriptions")),
        ((), (), ("0 names",)),
        (("a",), ((),), ("'a'", "description")),
        (("a",), ((100,),), ("'a'", "0 to 99")),
    ],
)
def test_actions_that_cannot_be_are_refused_in_one_line(names, descriptions, mistakes):
    with raises_naming(ValueError, "actions:", *mistakes):
        Actions(first=100, names=names, descriptions=descriptions)


def test_a_state_allows_some_or_forbids_some():
    assert [State(allowed=frozenset({3})).allows(i) for i in (2, 3)] == [False, True]
    assert [State(forbidden=frozenset({3})).allows(i) for i in (2, 3)] == [True, False]
    for kind in ({"allowed": frozenset()}, {"allowed": frozenset({1}), "forbidden": frozenset({2})}):
        with raises_naming(ValueError, "automaton:", "state", "ids"):
            State(**kind)


@pytest.mark.parametrize("states", [(), (State(moves={1: 1}),), (State(moves={1: -1}),)])
def test_moves_that_lead_nowhere_are_refused(states):
    with raises_naming(ValueError, "automaton:", "moves", f"{len(states)} states"):
        Automaton(states=states)


def test_a_union_keeps_each_automaton_s_walks_apart():
    one = Automaton(states=(State(moves={5: 1}), State(allowed=frozenset({6}), moves={6: 0})), actions=ACTIONS)
    other = Automaton(states=(State(allowed=frozenset({8}), moves={8: 1}), State()), actions=ACTIONS)
    joined, offsets = union([one, other, one])
    assert offsets == (0, 2, 4)
    for automaton, offset in zip((one, other, one), offsets, strict=True):
        for state, what in enumerate(automaton.states):
            there = joined.states[offset + state]
            assert (there.allowed, there.forbidden, there.ends) == (what.allowed, what.forbidden, what.ends)
            assert {i: target - offset for i, target in there.moves.items()} == what.moves
    assert joined.actions == ACTIONS
    with raises_naming(ValueError, "automaton:", "different actions"):
        union([one, Automaton(states=(State(),))])


def test_a_longer_description_leaves_no_choice_after_its_action():
    count, left, stop = 100, 101, 102
    text = State(forbidden=frozenset({left}), moves={count: 1}, ends=frozenset({stop}))
    inside = State(allowed=frozenset({count, left}), moves={left: 0})
    spelled = spell_out(Automaton(states=(text, inside), actions=ACTIONS))
    assert walk(spelled, 0, count) == (1, False)
    assert walk(spelled, 1, left, 9, 10) == (0, False)
    assert walk(spelled, 0, stop, 12) == (walk(spelled, 0, stop, 12)[0], True)
    assert not spelled.states[0].ends
    forced = spelled.states[2:]
    assert [len(state.allowed or ()) for state in forced] == [1] * len(forced) == [1, 1, 1]


def test_short_descriptions_need_no_states():
    automaton = Automaton(
        states=(State(ends=frozenset({100})),), actions=Actions(first=100, names=("a",), descriptions=((1,),))
    )
    assert spell_out(automaton) == automaton
