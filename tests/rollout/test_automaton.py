from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.protocol.automaton import Automaton, State, union
from tests.errors import raises_naming

NUM_IDS = 280


@st.composite
def automata(draw):
    count = draw(st.integers(1, 5))
    number, ids = st.integers(0, count - 1), st.integers(0, NUM_IDS - 1)
    some = st.frozensets(ids, min_size=1, max_size=6)

    def state(moves, ids):
        return st.sampled_from([State(allowed=ids, moves=moves), State(forbidden=ids, moves=moves)])

    kinds = st.tuples(st.dictionaries(ids, number, max_size=4), some).flatmap(lambda pair: state(*pair))
    return Automaton(states=tuple(draw(st.lists(kinds, min_size=count, max_size=count))))


def obeys(automaton: Automaton, start: int, completion) -> bool:
    state = start
    for token, mask in zip(completion.token_ids, completion.mask_ids, strict=True):
        if mask != state or not automaton.states[state].allows(token):
            return False
        state = automaton.states[state].moves.get(token, state)
    return True


@settings(max_examples=25)
@given(first=automata(), second=automata(), temperature=st.sampled_from([0.0, 0.3, 1.0]))
def test_samples_obey_their_states_and_record_them(qwen2, tokenizer, kit, first, second, temperature):
    automaton, (one, other) = union([first, second])
    engine = kit.engine(qwen2, tokenizer, automaton=automaton)
    done = kit.finish(
        engine,
        kit.ask(0, [1, 2, 3], state=one, temperature=temperature),
        kit.ask(1, [1, 2, 3], state=other, max_new_tokens=11),
        kit.ask(2, [4], state=one, top_k=2),
        kit.ask(3, [4]),
    )
    assert obeys(automaton, one, done[0])
    assert obeys(automaton, other, done[1])
    assert obeys(automaton, one, done[2])
    assert done[3].mask_ids == ()


def test_a_request_without_a_state_is_sampled_as_if_there_were_no_automaton(qwen2, tokenizer, kit):
    automaton = Automaton(states=(State(allowed=frozenset({5})),))
    free, beside = (
        kit.finish(engine, kit.ask(0, [1, 2]), kit.ask(1, [3, 4], state=state))[0]
        for engine, state in (
            (kit.engine(qwen2, tokenizer), None),
            (kit.engine(qwen2, tokenizer, automaton=automaton), 0),
        )
    )
    assert free == beside


def test_masks_leave_the_kept_logits_of_a_prompt_alone(qwen2, tokenizer, kit):
    engine = kit.engine(qwen2, tokenizer, automaton=Automaton(states=(State(allowed=frozenset({5})),)))
    free = kit.finish(engine, kit.ask(0, [1, 2, 3], max_new_tokens=1))[0]
    assert kit.finish(engine, kit.ask(1, [1, 2, 3], max_new_tokens=1, state=0))[1].token_ids == (5,)
    assert kit.finish(engine, kit.ask(2, [1, 2, 3], max_new_tokens=1, stream=0))[2] == free


def test_logprobs_are_under_the_mask(qwen2, tokenizer, kit):
    engine = kit.engine(qwen2, tokenizer, automaton=Automaton(states=(State(allowed=frozenset({5, 9, 70})),)))
    completion = kit.finish(engine, kit.ask(0, [1, 2], state=0, temperature=0.7))[0]
    with torch.inference_mode():
        logits = qwen2(torch.tensor([[1, 2, *completion.token_ids]])).logits[0, 1:-1, [5, 9, 70]] / 0.7
    place = torch.tensor([[(5, 9, 70).index(token)] for token in completion.token_ids])
    expected = torch.log_softmax(logits, -1).gather(1, place)[:, 0].tolist()
    assert completion.logprobs == pytest.approx(expected, abs=1e-4)


def test_an_id_may_end_the_completion(qwen2, tokenizer, kit):
    first = State(allowed=frozenset({5}), moves={5: 1})
    second = State(allowed=frozenset({6}), moves={6: 0}, ends=frozenset({6}))
    engine = kit.engine(qwen2, tokenizer, automaton=Automaton(states=(first, second)))
    done = kit.finish(engine, kit.ask(0, [1], state=0), kit.ask(1, [1], state=1))
    assert [(done[i].token_ids, done[i].mask_ids, done[i].stop) for i in (0, 1)] == [
        ((5, 6), (0, 1), "stop"),
        ((6,), (1,), "stop"),
    ]


@pytest.mark.parametrize(
    ("automaton", "names"),
    [
        (None, ["state 1", "no automaton"]),
        (Automaton(states=(State(),)), ["1 states"]),
    ],
)
def test_a_state_that_is_not_there_is_refused(qwen2, tokenizer, kit, automaton, names):
    engine = kit.engine(qwen2, tokenizer, automaton=automaton)
    with raises_naming(ValueError, "session 3", *names):
        engine.add(kit.ask(3, [1], state=1))
    assert kit.finish(engine, kit.ask(3, [1]))


def test_an_engine_takes_another_automaton_when_nothing_is_under_way(qwen2, tokenizer, kit):
    engine = kit.engine(qwen2, tokenizer)
    engine.add(kit.ask(0, [1]))
    with raises_naming(ValueError, "being decoded"):
        engine.use(Automaton(states=(State(allowed=frozenset({5})),)))
    engine.release(0)
    engine.use(Automaton(states=(State(allowed=frozenset({5})),)))
    engine.load(qwen2.state_dict(), 1)
    assert kit.finish(engine, kit.ask(0, [1], state=0))[0].token_ids == (5,) * 8
