"""Table of the model families that rlx computes rightly, by the `model_type` of a config.json.

The learner, the engines, `rlx plan`, adapters and docs/models.md read this table, and no other list of model types
exists. A type is listed when tests/model/test_families.py has compared its packed log-probs and gradients with those of
transformers. torch is not needed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

Packing = Literal["forest", "rows"]
Scaling = Literal["multiply", "divide"]

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
FEED_FORWARD = ("gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Computation of all models of one `model_type`."""

    packing: Packing = "forest"
    """Layout of the learner: a forest whose segments share prefixes, or rows of one whole episode each. Layers with
    recurrent state or convolutions need rows, as such a layer would read its neighbours in a packed row."""
    fused: bool = False
    """The torch engine decodes it with its own fused kernels; others run transformers' forward pass and cache."""
    logit_scale: tuple[str, Scaling] | None = None
    """Config key of a factor or divisor of all logits."""
    logit_cap: str | None = None
    """Config key of c in the cap c * tanh(logit / c) of all logits."""
    adapted: tuple[str, ...] = (*ATTENTION, *FEED_FORWARD)
    """Names of the linear maps that LoRA adapts."""
    refused: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values of config keys that make the result wrong, by dotted key. Empty: every true value."""


ROPE = {"rope_parameters.rope_type": ("dynamic", "longrope")}
"""Rotary embeddings whose angles depend on the longest sequence of a batch."""

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "llama": Family(fused=True, refused=ROPE),
        "qwen2": Family(fused=True, refused=ROPE),
        "qwen3": Family(fused=True, refused=ROPE),
    }
)
"""Every family that rlx computes, by `model_type`."""
