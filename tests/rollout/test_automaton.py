from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.rollout.automaton import Masks, forbidden
from rlx.types import Automaton

NUM_IDS = 280


@st.composite
def automata(draw):
    count = draw(st.integers(1, 5))
    state, ids = st.integers(0, count - 1), st.integers(0, NUM_IDS - 1)
    return Automaton(
        start=draw(state),
        allowed=tuple(draw(st.lists(st.frozensets(ids, min_size=1, max_size=6), min_size=count, max_size=count))),
        moves=tuple(draw(st.lists(st.dictionaries(ids, state, max_size=4), min_size=count, max_size=count))),
    )


def obeys(automaton: Automaton, completion) -> bool:
    state = automaton.start
    for token, mask in zip(completion.token_ids, completion.mask_ids, strict=True):
        if mask != state or token not in automaton.allowed[state]:
            return False
        state = automaton.moves[state].get(token, state)
    return True


@settings(max_examples=25, deadline=None)
@given(first=automata(), second=automata(), temperature=st.sampled_from([0.0, 0.3, 1.0]))
def test_samples_obey_their_automaton_and_record_its_states(qwen2, tokenizer, kit, first, second, temperature):
    engine = kit.engine(qwen2, tokenizer)
    done = kit.finish(
        engine,
        kit.ask(0, [1, 2, 3], automaton=first, temperature=temperature),
        kit.ask(1, [1, 2, 3], automaton=second, max_new_tokens=11),
        kit.ask(2, [4], automaton=first, top_k=2),
        kit.ask(3, [4]),
    )
    assert obeys(first, done[0])
    assert obeys(second, done[1])
    assert obeys(first, done[2])
    assert done[3].mask_ids == ()


def test_logprobs_are_under_the_mask(qwen2, tokenizer, kit):
    automaton = Automaton(start=0, allowed=(frozenset({5, 9, 70}),), moves=({},))
    completion = kit.finish(kit.engine(qwen2, tokenizer), kit.ask(0, [1, 2], automaton=automaton, temperature=0.7))[0]
    with torch.inference_mode():
        logits = qwen2(torch.tensor([[1, 2, *completion.token_ids]])).logits[0, 1:-1, [5, 9, 70]] / 0.7
    place = torch.tensor([[(5, 9, 70).index(token)] for token in completion.token_ids])
    expected = torch.log_softmax(logits, -1).gather(1, place)[:, 0].tolist()
    assert completion.logprobs == pytest.approx(expected, abs=1e-4)


def test_a_state_that_allows_nothing_fails_loudly(qwen2, tokenizer, kit):
    dead_end = Automaton(start=0, allowed=(frozenset({5}), frozenset()), moves=({5: 1}, {}))
    engine = kit.engine(qwen2, tokenizer)
    engine.add(kit.ask(3, [1], automaton=dead_end))
    engine.step()
    with pytest.raises(ValueError, match="session 3: the automaton allows no token in state 1"):
        engine.step()


def test_a_completion_may_end_in_a_state_that_allows_nothing(qwen2, tokenizer, kit):
    done = Automaton(start=0, allowed=(frozenset({5}), frozenset()), moves=({5: 1}, {}))
    engine = kit.engine(qwen2, tokenizer, eos_ids=(5,))
    assert kit.finish(engine, kit.ask(0, [1], automaton=done))[0].token_ids == (5,)


def test_masks_are_built_once_for_each_automaton():
    masks = Masks(10, torch.device("cpu"))
    one = Automaton(start=0, allowed=(frozenset({1}), frozenset({2, 3})), moves=({1: 1}, {}))
    other = Automaton(start=0, allowed=(frozenset({7}),), moves=({},))
    walks = [masks.start(one), None, masks.start(other), masks.start(one)]
    walks[3].take(1, 0)
    masked = masks.apply(torch.zeros(4, 10), walks)
    assert [torch.isfinite(row).nonzero()[:, 0].tolist() for row in masked] == [[1], list(range(10)), [7], [2, 3]]
    assert len(masks._table_SV) == 1 + 2 + 1


@pytest.mark.parametrize(
    ("automaton", "told"),
    [
        (Automaton(start=1, allowed=(frozenset({1}),), moves=({},)), "1 states"),
        (Automaton(start=0, allowed=(frozenset({1}),), moves=({1: 4},)), "1 states"),
        (Automaton(start=0, allowed=(frozenset({1}),), moves=()), "1 states"),
        (Automaton(start=0, allowed=(frozenset({10}),), moves=({},)), "outside the model's 0 to 9"),
        (Automaton(start=0, allowed=(frozenset({-1}),), moves=({},)), "outside the model's 0 to 9"),
    ],
)
def test_automata_that_do_not_fit_are_refused(automaton, told):
    with pytest.raises(ValueError, match=told):
        forbidden(automaton, 10)
