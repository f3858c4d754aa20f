"""The torch engine plays every listed family as transformers computes it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from rlx.model.expand import ROWS
from rlx.model.families import FAMILIES
from rlx.model.problem import ModelError
from rlx.protocol.automaton import Actions, Automaton, State
from rlx.rollout.torch.decoder import misfit
from rlx.rollout.torch.states import Rows
from tests.errors import raises_naming
from tests.model.tiny import COMMON, TINY, tiny_model

NUM_IDS = 280
model_of = cache(tiny_model)


@pytest.fixture
def play(tokenizer, kit):
    """Return a function that builds an engine of a family."""

    def build(kind: str, **options: Any) -> Any:
        return kit.engine(model_of(kind), tokenizer, **{"num_slots": 3} | options)

    return build


def expect_logprobs(kit: Any, kind: str, prompt: Any, completion: Any) -> None:
    """Compare a completion's log-probs with those of one pass over the whole context."""
    truth = kit.logprobs(model_of(kind), prompt, completion).tolist()
    assert completion.logprobs == pytest.approx(truth, abs=1e-4), kind


def test_there_is_a_tiny_model_of_every_family():
    assert set(TINY) == set(FAMILIES)


def test_greedy_tokens_equal_generate_in_a_ragged_batch(play, kit):
    for kind in TINY:
        prompts = {session: kit.ids(session, length) for session, length in enumerate((3, 17, 9, 30, 9))}
        asked = [kit.ask(s, prompt, temperature=0, max_new_tokens=10 + s) for s, prompt in prompts.items()]
        done = kit.finish(play(kind), *asked)
        for session, prompt in prompts.items():
            ids = torch.tensor([prompt])
            with torch.inference_mode():
                expected = model_of(kind).generate(
                    ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=10 + session
                )
            assert list(done[session].token_ids) == expected[0, len(prompt) :].tolist(), kind
            expect_logprobs(kit, kind, prompt, done[session])


def test_sessions_go_on_fork_and_share_prompts(play, kit):
    for kind in TINY:
        engine, prompt, seen = play(kind), kit.ids(1, 12), kit.ids(2, 5)
        first = kit.finish(engine, *(kit.ask(s, prompt, group=0, max_new_tokens=6 + s) for s in range(4)))
        assert (engine.counts.num_prefilled, engine.counts.num_shared) == (12, 3 * 12), kind
        contexts = {s: [*prompt, *first[s].token_ids, *seen] for s in range(4)}
        second = kit.finish(engine, *(kit.ask(s, contexts[s], group=0, stream=50 + s) for s in range(4)))
        assert engine.counts.num_reused == sum(12 + 6 + s - 1 for s in range(4)), kind
        forks = {
            10: [*contexts[0], *second[0].token_ids[:3]],
            11: contexts[1],
            12: contexts[1],
            13: [*contexts[2], *second[2].token_ids, 7, 8],
            14: prompt,
        }
        before = engine.counts.num_shared
        forked = kit.finish(engine, *(kit.ask(s, ids, group=0) for s, ids in forks.items()))
        gained = engine.counts.num_shared - before
        ended, other = len(contexts[2]) + len(second[2].token_ids) - 1, len(contexts[1])
        if FAMILIES[kind].recurrent:
            assert gained == other + ended + 12, kind
        else:
            assert gained == len(forks[10]) - 1 + 2 * (other - 1) + ended + 12, kind
        for session in range(4):
            expect_logprobs(kit, kind, prompt, first[session])
            expect_logprobs(kit, kind, contexts[session], second[session])
        for session, ids in forks.items():
            expect_logprobs(kit, kind, ids, forked[session])


def test_a_prompt_longer_than_a_pass_is_run_in_pieces(play, kit):
    for kind in TINY:
        prompt = kit.ids(6, 270)
        expect_logprobs(kit, kind, prompt, kit.finish(play(kind), kit.ask(0, prompt, max_new_tokens=3))[0])


def test_bfloat16_is_near_float32(play, kit):
    """Experts are left out: near ties of the router, rounding chooses others."""
    for kind in (kind for kind in TINY if not FAMILIES[kind].experts):
        engine, prompt = play(kind, dtype=torch.bfloat16), kit.ids(7, 20)
        completion = kit.finish(engine, kit.ask(0, prompt, max_new_tokens=20))[0]
        truth = kit.logprobs(model_of(kind), prompt, completion)
        assert (torch.tensor(completion.logprobs) - truth).abs().mean() < 0.05, kind


def test_new_weights_replace_the_old_and_their_caches(play, kit):
    for kind in TINY:
        engine, prompt, other = play(kind), kit.ids(3, 9), tiny_model(kind, seed=8)
        kit.finish(engine, kit.ask(0, prompt))
        lent = {name: tensor.clone() for name, tensor in other.state_dict().items()}
        engine.load(lent, 1)
        for tensor in lent.values():
            tensor.zero_()
        completion = kit.finish(engine, kit.ask(1, prompt))[1]
        assert completion.version == 1
        truth = kit.logprobs(other, prompt, completion).tolist()
        assert completion.logprobs == pytest.approx(truth, abs=1e-4), kind


def test_rows_of_added_actions_are_treated_as_those_of_the_vocabulary(tokenizer, kit):
    actions = Actions(first=NUM_IDS, names=("a", "b"), descriptions=((5,), (6,)))
    states = (State(allowed=frozenset({7, NUM_IDS, NUM_IDS + 1}), moves={7: 1}), State())
    automaton, prompt = Automaton(states=states, actions=actions), kit.ids(4, 11)
    for kind in TINY:
        model = model_of(kind)
        rows_AH = 0.3 * torch.randn(2, 64, generator=torch.Generator().manual_seed(5))
        weights = {**model.state_dict(), ROWS: rows_AH}
        engine = kit.engine(model, tokenizer, num_slots=2)
        engine.use(automaton)
        engine.load(weights, 1)
        completion = kit.finish(engine, kit.ask(0, prompt, state=0, max_new_tokens=6))[0]
        expected = []
        with torch.inference_mode():
            head = model.get_output_embeddings()
            kept, head.weight = head.weight, torch.nn.Parameter(torch.cat((head.weight, rows_AH)))
            logits_NW = model(torch.tensor([[*prompt, *completion.token_ids]])).logits[0, len(prompt) - 1 : -1]
            head.weight = kept
        for logits_W, chosen, state in zip(
            logits_NW, completion.chosen_ids or completion.token_ids, completion.mask_ids
        ):
            ids = sorted(states[state].allowed or range(NUM_IDS + 2))
            expected.append(logits_W[ids].log_softmax(-1)[ids.index(chosen)].item())
        assert completion.logprobs == pytest.approx(expected, abs=1e-4), kind
        engine.use(None)
        engine.load(model.state_dict(), 2)
        expect_logprobs(kit, kind, prompt, kit.finish(engine, kit.ask(1, prompt))[1])


def test_missing_weights_are_named(play):
    engine = play("granite")
    lacking = {name: tensor for name, tensor in engine._runner.model.state_dict().items() if "1.mlp.up" not in name}
    with raises_naming(ValueError, "'model.layers.1.mlp.up_proj.weight'"):
        engine.load(lacking, 1)


def test_only_recurrent_families_hold_states_that_cannot_be_shortened():
    for kind in TINY:
        rows = Rows(model_of(kind).config)
        assert rows.can_shorten is not FAMILIES[kind].recurrent, kind


def test_an_unlisted_type_plays_only_if_it_continues_from_its_cache(tokenizer, kit):
    """rwkv keeps states of its own, minimax refuses the cache, and blenderbot counts padding among its positions;
    starcoder2 does as listed types do."""
    sizes = {key: value for key, value in COMMON.items() if key != "num_key_value_heads"}
    decoder = {"d_model": 64, "decoder_layers": 2, "decoder_ffn_dim": 64, "decoder_attention_heads": 4}
    for kind, is_right in {"rwkv": False, "minimax": False, "blenderbot": False, "starcoder2": True}.items():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes, **decoder)).eval()
        if not is_right:
            with raises_naming(ModelError, repr(kind), "hardware.engine=vllm"):
                kit.engine(model, tokenizer)
            continue
        prompt = kit.ids(9, 15)
        completion = kit.finish(kit.engine(model, tokenizer), kit.ask(0, prompt))[0]
        assert completion.logprobs == pytest.approx(kit.logprobs(model, prompt, completion).tolist(), abs=1e-4)


def test_what_the_fused_decoder_does_not_compute_goes_through_transformers(tokenizer, kit):
    yarn = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}
    changes = {
        "llama": [{"rope_parameters": yarn}, {"hidden_act": "gelu"}],
        "qwen2": [{}],
    }
    for kind, changed in changes.items():
        for change in changed:
            model, prompt = tiny_model(kind, **change), kit.ids(8, 40)
            assert misfit(model.config), change
            completion = kit.finish(kit.engine(model, tokenizer), kit.ask(0, prompt))[0]
            truth = kit.logprobs(model, prompt, completion).tolist()
            assert completion.logprobs == pytest.approx(truth, abs=1e-4), change


def test_a_listed_type_with_layers_that_have_no_cache_is_one_line(tokenizer, kit):
    model = tiny_model("qwen3_5_text", layer_types=["linear_attention"] * 4)
    with raises_naming(ModelError, "'qwen3_5_text'", "hardware.engine=vllm"):
        kit.engine(model, tokenizer)
