"""Settings that determine nano's weights: shape, optimisers with their rates, and text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from rlx.base.limits import MANY, above, refuse, within
from rlx.model.shape import read_shape
from scripts.nano.muon import Muon
from scripts.nano.shards import SHARDS
from scripts.nano.tokenizer import VOCABULARY

LARGEST_NANO = 10**9
"""Largest number of parameters: with gradients and optimizer states, all are in memory in float32."""


@dataclass(frozen=True, kw_only=True)
class NanoRecipe:
    """Settings that determine nano's weights."""

    seed: int = 0
    width: int = 192
    layers: int = 5
    heads: int = 6
    feed_forward: int = 512
    steps: int = 16000
    tokens_per_step: int = 8192
    matrix_lr: float = 0.015
    vector_lr: float = 0.003
    warmup: int = 100
    decay: float = 1.0
    """The share of steps, at the end, over which the learning rate falls linearly to zero."""
    trace_share: float = 0.25
    """Share of the tokens that are Countdown traces."""

    def __post_init__(self) -> None:
        within(0, 2**32 - 1, seed=self.seed)
        within(1, MANY, layers=self.layers, heads=self.heads, feed_forward=self.feed_forward)
        within(1, MANY, steps=self.steps, warmup=self.warmup)
        within(SHARDS, MANY, tokens_per_step=self.tokens_per_step)
        above(0, matrix_lr=self.matrix_lr, vector_lr=self.vector_lr)
        above(0, 1, decay=self.decay)
        within(0, 1, trace_share=self.trace_share)
        if self.width < 1 or self.width % (2 * self.heads):
            refuse("width", self.width, f"a multiple of {2 * self.heads}: of {self.heads} heads, each of an even size")
        if (size := read_shape(make_shape(self)).num_parameters) > LARGEST_NANO:
            refuse("width", self.width, f"a model of at most {LARGEST_NANO:,} parameters, not of {size:,}")


def make_shape(recipe: NanoRecipe) -> dict[str, Any]:
    """The keys of config.json that say it."""
    return {
        "model_type": "qwen2",
        "vocab_size": VOCABULARY,
        "hidden_size": recipe.width,
        "intermediate_size": recipe.feed_forward,
        "num_hidden_layers": recipe.layers,
        "num_attention_heads": recipe.heads,
        "num_key_value_heads": recipe.heads,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
        "initializer_range": 0.02,
    }


def make_model(recipe: NanoRecipe, end: int) -> nn.Module:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(recipe.seed)
    config = Qwen2Config(**make_shape(recipe), bos_token_id=None, eos_token_id=end, pad_token_id=end)
    model = Qwen2ForCausalLM(config)
    for name, parameter in model.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            nn.init.zeros_(parameter)
    return model


def make_optimizers(model: nn.Module, recipe: NanoRecipe) -> list[torch.optim.Optimizer]:
    named = list(model.named_parameters())
    matrices = [p for n, p in named if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in named if not (p.ndim == 2 and "embed" not in n)]
    adamw = torch.optim.AdamW(others, lr=recipe.vector_lr, betas=(0.9, 0.95), weight_decay=0.0)
    return [Muon(matrices, lr=recipe.matrix_lr), adamw]


def scale_rate(step: int, recipe: NanoRecipe) -> float:
    """Warm-up, a plateau, and a linear fall that ends at zero."""
    left = (recipe.steps - step) / (recipe.decay * recipe.steps)
    return min(1.0, (step + 1) / recipe.warmup, left)
