"""What a completion is given to go on from, what a group keeps of it, and the ids that a request watches."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
import torch

from rlx.hardware.profile import Hardware
from rlx.hardware.sizing.amounts import Demand
from rlx.hardware.sizing.engine import engine_amounts
from rlx.model.shape import read_shape
from rlx.rollout.torch.prefix_store import PrefixStore
from tests.errors import raises_naming

GIVEN = (60, 61, 62)


def test_a_completion_goes_on_from_what_it_is_given_as_if_it_had_said_it(qwen2, tokenizer, kit):
    prompt = kit.ids(1, 20)
    engine = kit.engine(qwen2, tokenizer)
    whole = kit.finish(engine, kit.ask(0, prompt, stream=9, max_new_tokens=12))[0]
    for num in (1, 5, 11):
        rest = kit.finish(
            engine, kit.ask(num, prompt, stream=9, max_new_tokens=12, completion_prefix=whole.token_ids[:num])
        )[num]
        assert rest.token_ids == whole.token_ids
        assert rest.logprobs[:num] == (0.0,) * num
        assert rest.logprobs[num:] == pytest.approx(whole.logprobs[num:], abs=1e-4)
        assert rest.stop == whole.stop == "length"


def test_log_probs_after_what_was_forced_are_those_of_transformers(model, tokenizer, device, kit):
    engine = kit.engine(model, tokenizer, device=device)
    prompt = kit.ids(2, 15)
    done = kit.finish(engine, kit.ask(0, prompt, completion_prefix=GIVEN, max_new_tokens=10))[0]
    truth = kit.logprobs(model, prompt, done).tolist()
    assert done.logprobs[3:] == pytest.approx(truth[3:], abs=1e-4 if device.type == "cpu" else 1e-2)
    assert (done.token_ids[:3], len(done.token_ids)) == (GIVEN, 10)


def test_a_stop_string_may_begin_in_what_is_given(qwen2, tokenizer, kit):
    engine = kit.engine(qwen2, tokenizer)
    asked = kit.ask(
        0, kit.ids(3, 9), completion_prefix=(kit.word("</"),), stops=("</answer>",), watch=(kit.word("answer"),)
    )
    row = kit.finish(engine, asked)[0]
    assert row.token_ids[0] == kit.word("</")
    ends = (kit.word("</"), kit.word("answer"), ord(">") - 33)
    whole = kit.finish(engine, kit.ask(1, kit.ids(3, 9), completion_prefix=ends, stops=("</answer>",)))[1]
    assert (whole.token_ids, whole.stop, whole.logprobs) == (ends, "stop", (0.0,) * 3)
    with raises_naming(ValueError, "4 ids", 3):
        engine.add(kit.ask(2, kit.ids(3, 9), completion_prefix=(*ends, 50), stops=("</answer>",)))


@pytest.mark.parametrize(("options", "stop"), [({"max_new_tokens": 3}, "length"), ({"max_context": 12}, "context")])
def test_what_is_given_counts_as_tokens_of_the_turn(qwen2, tokenizer, kit, options, stop):
    done = kit.finish(kit.engine(qwen2, tokenizer), kit.ask(0, kit.ids(4, 9), completion_prefix=GIVEN, **options))[0]
    assert (done.token_ids, done.stop) == (GIVEN, stop)


def test_what_is_given_moves_the_automaton(qwen2, tokenizer, kit):
    from rlx.protocol.automaton import Automaton, State

    states = tuple(State(allowed=frozenset({token}), moves={token: index + 1}) for index, token in enumerate(GIVEN))
    engine = kit.engine(qwen2, tokenizer, automaton=Automaton(states=(*states, State(allowed=frozenset({70, 71})))))
    done = kit.finish(engine, kit.ask(0, kit.ids(5, 9), completion_prefix=GIVEN, state=0))[0]
    assert done.mask_ids == (0, 1, 2, 3, 3, 3, 3, 3)
    assert set(done.token_ids[3:]) <= {70, 71}


def ask_tree(kit, engine, prompt, group):
    """A parent of 8 tokens, and the completion of a fork that leaves it after 4."""
    parent = kit.finish(engine, kit.ask(0, prompt, group=group))[0]
    before = engine.counts.num_prefilled
    kit.finish(
        engine, kit.ask(1, prompt, completion_prefix=parent.token_ids[:4] + GIVEN, group=group, max_new_tokens=12)
    )
    return parent, engine.counts.num_prefilled - before


@pytest.mark.parametrize(("group", "num_prefilled"), [(7, 3), (None, 27)])
def test_a_group_s_contexts_are_open_to_its_forks(qwen2, tokenizer, kit, group, num_prefilled):
    assert ask_tree(kit, kit.engine(qwen2, tokenizer), kit.ids(6, 20), group)[1] == num_prefilled


def test_a_tree_of_forks_computes_no_token_twice_and_keeps_each_once(qwen2, tokenizer, kit):
    engine, prompt = kit.engine(qwen2, tokenizer, num_slots=8), kit.ids(7, 30)
    said = [kit.finish(engine, kit.ask(0, prompt, group=1, max_context=200))[0].token_ids]
    for session in range(1, 8):
        before = engine.counts.num_prefilled
        given = (*said[-1][:-2], 100 + session)
        done = kit.finish(
            engine, kit.ask(session, prompt, completion_prefix=given, group=1, max_new_tokens=len(given) + 6)
        )
        assert engine.counts.num_prefilled - before == 1
        said.append(done[session].token_ids)
        assert done[session].logprobs[len(given) :] == pytest.approx(
            kit.logprobs(qwen2, prompt, done[session]).tolist()[len(given) :], abs=1e-4
        )
    engine.step()
    shared = 30 + 7 + sum(len(ids) - 1 - (len(before) - 2) for before, ids in itertools.pairwise(said))
    assert engine._store.num_tokens == shared
    for session in range(8):
        engine.release(session)
    assert engine._store.num_tokens == 0


def test_what_groups_keep_is_bounded(qwen2, tokenizer, kit):
    engine = kit.engine(qwen2, tokenizer, num_slots=2)
    for session in range(12):
        kit.finish(engine, kit.ask(session, kit.ids(session, 20), group=session, max_context=40))
        engine.step()
        assert engine._store.num_tokens <= 2 * 40
    assert engine._store.num_tokens > 40


def test_caches_take_more_than_their_slots_and_no_more_than_is_planned(qwen2, tokenizer, kit):
    engine, shape = kit.engine(qwen2, tokenizer, num_slots=4), read_shape(qwen2.config.to_dict())
    planned = engine_amounts(Hardware(num_slots=4), Demand(shape=shape, num_trained=0, max_context=300), None)
    token = 4 * 2 * shape.layers * shape.key_heads * shape.head_size
    buffers = kept = 0
    for group in range(3):
        for session in range(4 * group, 4 * group + 4):
            prompt = kit.ids(session, 20 + 60 * (session % 4))
            engine.add(kit.ask(session, prompt, group=group, max_context=300, max_new_tokens=400))
        while engine.step() or engine._active:
            cache = engine._runner.cache
            buffers = max(buffers, sum(memory.nbytes for memory in (cache._memory, cache._spare)))
            kept = max(kept, token * engine._store.num_tokens)
    assert 4 * 300 * token < buffers <= planned["KV cache"].most
    assert 0 < kept <= planned["kept contexts"].most == 4 * 300 * token


def test_what_is_kept_is_counted_when_it_may_be_too_much_and_not_before(monkeypatch):
    counted = []
    monkeypatch.setattr(PrefixStore, "num_tokens", property(lambda store: counted.append(store) or 100))
    store, cache = PrefixStore(), SimpleNamespace(save=lambda *of: None)
    for session in range(65):
        assert not counted
        ids = range(10 * session, 10 * session + 10)
        store.find(session, session // 16, ids)
        store.park(cache, 0, session, ids, 640)
    assert len(counted) == 1


def test_watched_ids_are_worth_what_transformers_says_at_every_token(model, tokenizer, device, kit):
    engine = kit.engine(model, tokenizer, device=device)
    watches = {0: (5, 270), 1: (), 2: (9,)}
    asked = [
        kit.ask(s, kit.ids(s, 7 + s), watch=ids, temperature=0.7, top_k=3 * s, completion_prefix=GIVEN[:s])
        for s, ids in watches.items()
    ]
    done = kit.finish(engine, *asked)
    for request in asked:
        completion, ids = done[request.session], list(request.watch)
        if not ids:
            assert completion.watched == ()
            continue
        context = torch.tensor([[*request.prompt_ids, *completion.token_ids]])
        with torch.inference_mode():
            logits = model(context).logits[0, len(request.prompt_ids) - 1 : -1] / 0.7
        truth = torch.log_softmax(logits, -1)[len(request.completion_prefix) :, ids]
        assert completion.watched[: len(request.completion_prefix)] == ((),) * len(request.completion_prefix)
        found = torch.tensor(completion.watched[len(request.completion_prefix) :])
        assert torch.allclose(found, truth, atol=1e-4 if device.type == "cpu" else 1e-2)


def test_the_entropy_of_the_likeliest_ids_comes_after_watched_ones(model, tokenizer, device, kit):
    engine = kit.engine(model, tokenizer, device=device)
    asked = [
        kit.ask(0, kit.ids(0, 7), entropy_of=10, temperature=0.7),
        kit.ask(1, kit.ids(1, 8), entropy_of=2, watch=(5,), completion_prefix=GIVEN[:1]),
        kit.ask(2, kit.ids(2, 9)),
        kit.ask(3, kit.ids(3, 9), entropy_of=10**6),
    ]
    done = kit.finish(engine, *asked)
    assert done[2].watched == ()
    for request in asked[:2] + asked[3:]:
        completion, num = done[request.session], len(request.completion_prefix)
        context = torch.tensor([[*request.prompt_ids, *completion.token_ids]])
        with torch.inference_mode():
            logits = model(context).logits[0, len(request.prompt_ids) - 1 + num : -1] / request.sampling.temperature
        p = logits.softmax(-1).sort(descending=True).values[:, : request.entropy_of]
        assert completion.watched[:num] == ((),) * num
        assert [len(own) for own in completion.watched[num:]] == [1 + len(request.watch)] * len(logits)
        found = torch.tensor([own[-1] for own in completion.watched[num:]])
        assert torch.allclose(found, -(p * p.log()).sum(-1), atol=1e-4 if device.type == "cpu" else 1e-2)


def test_an_id_to_watch_outside_the_vocabulary_is_refused(qwen2, tokenizer, kit):
    with raises_naming(ValueError, "session 0:", "vocabulary"):
        kit.engine(qwen2, tokenizer).add(kit.ask(0, [1], watch=(280,)))
