"""Adapters and dropout are functions of the seed, never of torch's global generator."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from rlx.model.dropout import KeyedDropout, draw_mask, dropouts_of
from rlx.model.load import Lora, Model, load_model
from tests.errors import raises_naming

NANO = Model(path="nano", lora=Lora(rank=4, alpha=8, dropout=0.25))


def drawn(seed: int) -> dict[str, torch.Tensor]:
    return {n: p for n, p in load_model(NANO, seed=seed).named_parameters() if ".lora_A." in n}


def test_adapters_are_drawn_from_the_seed_and_their_names_alone() -> None:
    torch.manual_seed(1)
    first = drawn(0)
    state = torch.get_rng_state()
    again, other = drawn(0), drawn(1)
    assert torch.equal(torch.get_rng_state(), state), "the global generator is left alone"
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)
    queries = [p for name, p in first.items() if "q_proj" in name]
    assert len({tuple(p[0].tolist()) for p in queries}) == len(queries) > 1
    bound = max(p.abs().max().item() * p.shape[1] ** 0.5 for p in queries)
    assert 0.99 < bound <= 1, "uniform up to 1 / sqrt(width), as peft draws them"


def test_an_adapter_does_not_depend_on_which_others_there_are() -> None:
    alone = load_model(replace(NANO, lora=Lora(rank=4, targets=("v_proj",))), seed=3)
    all_of_them = dict(load_model(NANO, seed=3).named_parameters())
    assert all(torch.equal(p, all_of_them[n]) for n, p in alone.named_parameters() if ".lora_A." in n)


def test_every_dropout_of_a_model_is_keyed() -> None:
    model = load_model(NANO)
    assert not [m for m in model.modules() if isinstance(m, torch.nn.Dropout) and m.p]
    assert len({dropout.key for dropout in dropouts_of(model)}) == len(list(dropouts_of(model))) > 1


def test_a_token_keeps_its_mask_wherever_it_is_packed() -> None:
    layer, x = KeyedDropout(0.25, key=5), torch.ones(1, 6, 64)

    def apply(tokens: list[int], step: tuple[int, ...] = (0, 0)) -> torch.Tensor:
        layer.at(step, torch.tensor(tokens))
        return layer(x[:, : len(tokens)])[0]

    whole = apply([0, 1, 2, 7, 8, 9])
    assert torch.equal(torch.cat((apply([7, 8, 9]), apply([0, 1, 2])))[[3, 4, 5, 0, 1, 2]], whole)
    assert whole.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert not torch.equal(apply([0, 1, 2, 7, 8, 9], (0, 1)), whole)
    assert not torch.equal(apply([0, 1, 2, 7, 8, 9], (1, 0)), whole)
    layer.eval()
    assert torch.equal(apply([0, 1]), x[0, :2])


def test_dropout_of_tokens_that_were_not_named_is_refused() -> None:
    layer = KeyedDropout(0.5, key=5)
    with raises_naming(ValueError, "KeyedDropout:", "at(step, token_T)"):
        layer(torch.ones(1, 3, 4))


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
def test_masks_are_as_good_as_independent(p: float) -> None:
    """Rates by row and by column, and the covariance of neighbours and of two steps, within five standard errors."""
    tokens, width = 2000, 500
    one, two = (draw_mask(key, torch.arange(tokens), width, p).double() - p for key in (11, 12 << 32))
    error = (p * (1 - p)) ** 0.5
    assert one.mean(0).abs().max() < 5 * error / tokens**0.5
    assert one.mean(1).abs().max() < 5 * error / width**0.5
    pairs = ((one[1:], one[:-1]), (one[:, 1:], one[:, :-1]), (one, two), (one[::2], one[1::2]))
    assert all((a * b).mean().abs() < 5 * error**2 / a.numel() ** 0.5 for a, b in pairs)
