from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.model.masks import FORBIDDEN, Masks
from rlx.protocol.automaton import Actions, Automaton, State
from tests.errors import raises_naming
from tests.loops import for_each

VOCABULARY, NUM_IDS = 20, 23
ACTIONS = Actions(first=VOCABULARY, names=("a", "b", "c"), descriptions=((1,), (2,), (3,)))


def states() -> st.SearchStrategy[State]:
    ids = st.frozensets(st.integers(0, NUM_IDS - 1), min_size=1, max_size=NUM_IDS - 1)
    return ids.flatmap(lambda some: st.sampled_from([State(allowed=some), State(forbidden=some), State()]))


@settings(max_examples=100)
@given(st.lists(states(), min_size=1, max_size=5), st.lists(st.integers(-1, 4), min_size=1, max_size=9))
def test_exactly_what_a_row_s_state_forbids_is_written(some: list[State], rows: list[int]) -> None:
    rows = [min(row, len(some) - 1) for row in rows]
    logits = torch.randn(len(rows), NUM_IDS)
    written = logits.clone()
    automaton = Automaton(states=tuple(some), actions=ACTIONS)
    Masks(automaton, VOCABULARY, torch.device("cpu")).apply(written, torch.tensor(rows))
    for row, state in enumerate(rows):
        free = [i < VOCABULARY if state < 0 else some[state].allows(i) for i in range(NUM_IDS)]
        assert written[row].equal(logits[row].where(torch.tensor(free), torch.tensor(FORBIDDEN)))


def test_states_of_a_large_vocabulary_are_lists_of_a_few_ids() -> None:
    buttons = frozenset(range(150_000, 150_020))
    text, tool = State(forbidden=buttons), State(allowed=buttons)
    actions = Actions(first=150_000, names=tuple(map(str, range(20))), descriptions=((1,),) * 20)
    masks = Masks(Automaton(states=(text, tool) * 25, actions=actions), 150_000, torch.device("cpu"))
    assert sum(lists.ids_SK.nbytes for lists in (masks.allowed, masks.forbidden)) == 2 * 51 * 20 * 8


@for_each(
    "automaton, names",
    [
        (Automaton(states=(State(allowed=frozenset({20})),)), ["state 0", "0 to 19"]),
        (Automaton(states=(State(), State(forbidden=frozenset({-1})))), ["state 1", "0 to 19"]),
        (Automaton(states=(State(moves={20: 0}),)), ["state 0", "0 to 19"]),
        (Automaton(states=(State(forbidden=frozenset(range(20))),)), ["state 0", "nothing"]),
        (Automaton(states=(State(),), actions=Actions(first=9, names=("a",), descriptions=((1,),))), ["9 ids"]),
    ],
)
def test_automata_of_other_models_are_refused(automaton: Automaton, names: list[str]) -> None:
    with raises_naming(ValueError, "automaton:", *names):
        Masks(automaton, VOCABULARY, torch.device("cpu"))
