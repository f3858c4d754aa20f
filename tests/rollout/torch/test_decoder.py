from __future__ import annotations

from typing import Any

import torch
from transformers import GPT2Config, Qwen2Config

from rlx.rollout.torch.decoder import build_decoder
from rlx.rollout.torch.runner import CPU_PASS, Runner, split_passes
from tests.errors import raises_naming
from tests.loops import for_each


def runner_of(model: Any, device: Any = "cpu", dtype: torch.dtype = torch.float32, max_rows: int = 8) -> Runner:
    device = torch.device(device)
    return Runner(build_decoder(model.config, model.state_dict(), device, dtype), max_rows, device, dtype)


@torch.inference_mode()
def hf_logits(model: Any, ids: list[int]) -> torch.Tensor:
    return model(torch.tensor([ids])).logits[0]


@torch.inference_mode()
def step_through(runner: Runner, ids: list[int], num_prefilled: int) -> torch.Tensor:
    rows = [runner.extend(0, [ids[:num_prefilled]], [0])]
    rows += [runner.decode([ids[position]], [position]) for position in range(num_prefilled, len(ids))]
    return torch.cat(rows).cpu()


def test_logits_equal_transformers_in_prefill_and_decoding(model, device, kit):
    ids = kit.ids(0, 70)
    ours = step_through(runner_of(model, device), ids, 20)
    torch.testing.assert_close(ours, hf_logits(model, ids)[19:], atol=1e-5 if device.type == "cpu" else 1e-3, rtol=0)


def test_rows_of_different_lengths_do_not_see_each_other(model, kit):
    runner, contexts = runner_of(model), [kit.ids(seed, length) for seed, length in ((1, 5), (2, 9), (3, 40))]
    with torch.inference_mode():
        first = runner.extend(0, [ids[:-1] for ids in contexts], [0, 0, 0])
        second = runner.decode([ids[-1] for ids in contexts], [len(ids) - 1 for ids in contexts])
    for row, ids in enumerate(contexts):
        expected = hf_logits(model, ids)
        torch.testing.assert_close(first[row], expected[-2], atol=1e-5, rtol=0)
        torch.testing.assert_close(second[row], expected[-1], atol=1e-5, rtol=0)


def test_a_suffix_is_added_after_each_row_own_length(qwen2, kit):
    runner, contexts, starts = runner_of(qwen2), [kit.ids(4, 12), kit.ids(5, 40)], [7, 34]
    with torch.inference_mode():
        runner.extend(0, [ids[:start] for ids, start in zip(contexts, starts)], [0, 0])
        ours = runner.extend(0, [ids[start:] for ids, start in zip(contexts, starts)], starts)
    for row, ids in enumerate(contexts):
        torch.testing.assert_close(ours[row], hf_logits(qwen2, ids)[-1], atol=1e-5, rtol=0)


def test_a_prompt_longer_than_a_pass_is_run_in_pieces(qwen2, kit):
    ids = kit.ids(6, 2 * CPU_PASS + 30)
    with torch.inference_mode():
        ours = runner_of(qwen2).extend(0, [ids], [0])[0]
    torch.testing.assert_close(ours, hf_logits(qwen2, ids)[-1], atol=2e-5, rtol=0)


def test_untied_qwen2_and_grouped_heads(kit):
    model = kit.small_qwen2(tie_word_embeddings=False, num_key_value_heads=1, head_dim=24)
    ids = kit.ids(7, 12)
    torch.testing.assert_close(step_through(runner_of(model), ids, 4), hf_logits(model, ids)[3:], atol=1e-5, rtol=0)


def test_bfloat16_is_near_float32(qwen2, device, kit):
    ids = kit.ids(8, 24)
    wide, narrow = (step_through(runner_of(qwen2, device, kind), ids, 8) for kind in (torch.float32, torch.bfloat16))
    assert (wide - narrow).abs().max() < 0.15 * wide.std()


def test_weights_are_copied(kit):
    model = kit.small_qwen2()
    ids = kit.ids(9, 10)
    runner, expected = runner_of(model), hf_logits(model, ids)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    torch.testing.assert_close(step_through(runner, ids, 3), expected[2:], atol=1e-5, rtol=0)


def test_cache_keeps_rows_while_it_grows_and_sheds(qwen2, kit):
    runner, long, short = runner_of(qwen2), kit.ids(10, 150), kit.ids(11, 6)
    with torch.inference_mode():
        runner.extend(0, [long, short[:-1]], [0, 0])
        widest = runner.cache.num_columns
        runner.cache.move(1, 0, len(short) - 1)
        ours = runner.decode(short[-1:], [len(short) - 1])
    assert widest >= 150
    assert runner.cache.num_columns < widest
    torch.testing.assert_close(ours[0], hf_logits(qwen2, short)[-1], atol=1e-5, rtol=0)


@for_each(
    "config, names",
    [
        (GPT2Config(n_layer=1, n_embd=8, n_head=2), ["'gpt2'", "llama, qwen2, qwen3"]),
        (Qwen2Config(use_sliding_window=True, max_window_layers=1), ["sliding-window"]),
        (Qwen2Config(hidden_act="gelu"), ["'gelu'"]),
        (Qwen2Config(rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}), ["'yarn'"]),
    ],
)
def test_what_it_cannot_compute_is_refused_by_name(config, names):
    with raises_naming(ValueError, *names):
        build_decoder(config, {}, torch.device("cpu"), torch.float32)


def test_missing_and_unknown_weights_are_named(qwen2):
    lacking = {name: tensor for name, tensor in qwen2.state_dict().items() if "layers.1.mlp.up" not in name}
    with raises_naming(ValueError, "'model.layers.1.mlp.up_proj.weight'"):
        build_decoder(qwen2.config, lacking, torch.device("cpu"), torch.float32)
    biased = {**qwen2.state_dict(), "model.layers.0.self_attn.o_proj.bias": torch.zeros(48)}
    with raises_naming(ValueError, "model.layers.0.self_attn.o_proj.bias", "supported"):
        build_decoder(qwen2.config, biased, torch.device("cpu"), torch.float32)


def test_passes_hold_like_lengths_within_a_limit():
    assert list(split_passes([3, 5, 6], 100)) == [(0, 3)]
    assert list(split_passes([3, 5, 7], 100)) == [(0, 2), (2, 3)]
    assert list(split_passes([50, 50, 50], 100)) == [(0, 2), (2, 3)]
    assert list(split_passes([5, 200], 100)) == [(0, 1), (1, 2)]
