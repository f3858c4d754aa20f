from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM

from scripts.nano.corpus import Example
from scripts.nano.packed import LIKE_LENGTH, attend_at_once, attend_by_block, cut_blocks, pack, predict, weigh_loss

EXAMPLES = [
    Example(ids=tuple(range(3, 3 + length)), weights=tuple(0.1 * (1 + i % 11) for i in range(length)))
    for length in (5, 6, 6, 9, 21)
]


def make_model() -> Any:
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    config = Qwen2Config(**shape, vocab_size=64, num_attention_heads=2, num_key_value_heads=2, tie_word_embeddings=True)
    model = Qwen2ForCausalLM(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=0.2 if parameter.ndim == 1 else 0.0, std=0.3)
    return model


def slow_loss(model: Any) -> Tensor:
    """Each document alone through the model's own forward."""
    total = torch.zeros(())
    for example in EXAMPLES:
        ids, weights = torch.tensor(example.ids), torch.tensor(example.weights)
        logs = model(ids[None]).logits[0, :-1].log_softmax(-1)
        total = total - logs.gather(1, ids[1:, None])[:, 0] @ weights[1:]
    return total


def test_the_packed_loss_and_its_gradients_are_the_models_own() -> None:
    model = make_model()
    slow, packed = slow_loss(model), weigh_loss(model, pack(EXAMPLES), torch.float32)
    assert packed.item() == pytest.approx(slow.item(), rel=1e-5)
    expected, found = (torch.autograd.grad(loss, list(model.parameters())) for loss in (slow, packed))
    for (name, _), a, b in zip(model.named_parameters(), expected, found, strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-4 * float(a.abs().max())), name


def test_attention_at_once_is_attention_by_block() -> None:
    row = pack(EXAMPLES)
    qkv = torch.randn(len(row.ids), 3, 2, 8, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(attend_at_once(qkv, row.places), attend_by_block(qkv, row.blocks), atol=1e-5)


def test_bfloat16_comes_near() -> None:
    model = make_model()
    assert weigh_loss(model, pack(EXAMPLES)).item() == pytest.approx(slow_loss(model).item(), rel=0.02)


def test_what_is_predicted_is_what_the_model_finds_likeliest() -> None:
    model = make_model()
    row = pack(EXAMPLES)
    likeliest = [model(torch.tensor([e.ids])).logits[0, :-1].argmax(-1) for e in EXAMPLES]
    found, start = predict(model, row, torch.float32), 0
    for (num, length), block in zip(row.blocks, cut_blocks(EXAMPLES), strict=True):
        for index, example in enumerate(block):
            said = found[start + index * length :][: len(example.ids) - 1]
            assert torch.equal(said, likeliest[EXAMPLES.index(example)])
        start += num * length


@given(st.lists(st.integers(min_value=2, max_value=300), min_size=1, max_size=80))
def test_blocks_hold_every_example_once_with_little_padding(lengths: list[int]) -> None:
    examples = [Example(ids=(i,) * length, weights=(1.0,) * length) for i, length in enumerate(lengths)]
    blocks = list(cut_blocks(examples))
    assert sorted((e for block in blocks for e in block), key=lambda e: e.ids[0]) == examples
    assert all(len(block[0].ids) >= LIKE_LENGTH * len(block[-1].ids) for block in blocks)
    row = pack(examples)
    assert int((row.weights > 0).sum()) == sum(lengths) - len(lengths)
    assert len(row.ids) == sum(num * length for num, length in row.blocks)
