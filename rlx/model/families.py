"""Table of the model families that rlx computes rightly, by the `model_type` of a config.json.

The learner, the engines, `rlx plan`, adapters and docs/models.md read this table, and no other list of model types
exists. A type is listed when tests/model/test_families.py has compared its packed log-probs and gradients with those of
transformers. torch is not needed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from rlx.model.problem import ModelError

Packing = Literal["forest", "rows"]
Scaling = Literal["multiply", "divide"]
Windows = Literal["none", "all", "layers"]

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
FEED_FORWARD = ("gate_proj", "up_proj", "down_proj")
SHARED_EXPERT = tuple(f"shared_expert.{name}" for name in FEED_FORWARD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Computation of all models of one `model_type`."""

    packing: Packing = "forest"
    """Layout of the learner: a forest whose segments share prefixes, or rows of one whole episode each. Layers with
    recurrent state or convolutions need rows, as such a layer would read its neighbours in a packed row."""
    fused: bool = False
    """The torch engine decodes it with its own fused kernels; others run transformers' forward pass and cache."""
    windows: Windows = "none"
    """Layers in which a token sees the last `sliding_window` tokens alone: none, all, or those of `layer_types` that
    are `sliding_attention`."""
    soft_cap: str | None = None
    """Config key of c in the cap c * tanh(score / c) of attention scores."""
    sinks: bool = False
    """Attention has a learned sink for each head: a key without a value."""
    logit_scale: tuple[str, Scaling] | None = None
    """Config key of a factor or divisor of all logits."""
    logit_cap: str | None = None
    """Config key of c in the cap c * tanh(logit / c) of all logits."""
    experts: bool = False
    """Some feed-forward layers are mixtures of experts."""
    adapted: tuple[str, ...] = (*ATTENTION, *FEED_FORWARD)
    """Names of the linear maps that LoRA adapts. Routed experts stay as they are, because peft's adapters of tensors
    with three dimensions have names under which no engine finds the merged weights. peft takes the names of a shared
    expert's maps in qwen3_next for those of the experts."""
    final_norm: str = "norm"
    """Name of the last norm in the decoder."""
    refused: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values of config keys that make the result wrong, wherever the key stands. Empty: every true value."""

    @property
    def recurrent(self) -> bool:
        """Return whether layers hold state besides keys and values."""
        return self.packing == "rows"

    @property
    def eager(self) -> bool:
        """Return whether only transformers' eager attention computes it: SDPA refuses soft caps and drops sinks."""
        return self.soft_cap is not None or self.sinks or self is UNLISTED


GROWING_ROPES = ("dynamic", "longrope", "su", "yarn_longrope")
"""Rotary embeddings whose angles change for a batch when its longest sequence passes the original length."""

UNLISTED = Family(packing="rows")
"""Computation of a type outside the table, when the user asks for it. Rows are right for more layers than forests."""

GATED_DELTA = (*ATTENTION, "in_proj_qkv", "in_proj_z", "out_proj")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """Model with images around a language model, which is the part that rlx trains."""

    text: str = "text_config"
    """Config key of the language model."""
    refused: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values of the language model's keys that make the result wrong inside this wrapper."""


WRAPPERS: Mapping[str, Wrapper] = MappingProxyType(
    {
        # transformers' forward pass of the wrapper leaves the cap out, that of the language model alone applies it
        "gemma3": Wrapper(refused={"final_logit_softcapping": ()}),
        "qwen3_5": Wrapper(),
        "qwen3_5_moe": Wrapper(),
    }
)
"""Wrappers by `model_type`."""

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "cohere2": Family(windows="layers", logit_scale=("logit_scale", "multiply")),
        "falcon_h1": Family(
            packing="rows", logit_scale=("lm_head_multiplier", "multiply"), final_norm="final_layernorm"
        ),
        "gemma2": Family(windows="layers", soft_cap="attn_logit_softcapping", logit_cap="final_logit_softcapping"),
        "gemma3_text": Family(
            windows="layers", logit_cap="final_logit_softcapping", refused={"use_bidirectional_attention": ()}
        ),
        "glm4": Family(adapted=(*ATTENTION, "gate_up_proj", "down_proj")),
        "gpt_oss": Family(windows="layers", sinks=True, experts=True, adapted=ATTENTION),
        "granite": Family(logit_scale=("logits_scaling", "divide")),
        "lfm2": Family(
            packing="rows",
            adapted=("q_proj", "k_proj", "v_proj", "out_proj", "in_proj", "w1", "w2", "w3"),
            final_norm="embedding_norm",
        ),
        "llama": Family(fused=True),
        "ministral": Family(windows="layers"),
        "ministral3": Family(windows="all"),
        "mistral": Family(windows="all"),
        "olmo2": Family(),
        "olmo3": Family(windows="layers"),
        "phi3": Family(windows="all", adapted=("qkv_proj", "o_proj", "gate_up_proj", "down_proj")),
        "qwen2": Family(fused=True, windows="layers"),
        "qwen3": Family(fused=True, windows="layers"),
        "qwen3_5_moe_text": Family(packing="rows", experts=True, adapted=(*GATED_DELTA, *SHARED_EXPERT)),
        "qwen3_5_text": Family(packing="rows", adapted=(*GATED_DELTA, *FEED_FORWARD)),
        "qwen3_moe": Family(windows="all", experts=True, adapted=ATTENTION),
        "qwen3_next": Family(packing="rows", experts=True, adapted=(*ATTENTION, "in_proj_qkvz", "out_proj")),
        "smollm3": Family(windows="layers"),
    }
)
"""Every family that rlx computes, by `model_type`."""


def language_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the language model's part of a config.json: all of it, or a wrapper's part."""
    wrapper = wrapper_of(config)
    inner = None if wrapper is None else config.get(wrapper.text)
    return inner if isinstance(inner, Mapping) else config


def wrapper_of(config: Mapping[str, Any]) -> Wrapper | None:
    return WRAPPERS.get(str(config.get("model_type")))


def find_family(
    config: Mapping[str, Any], max_context: int, *, unlisted: bool = False, name: str = "the model"
) -> Family:
    """Return the family of a config.json for episodes of at most `max_context` tokens. ModelError, in one line, for a
    type outside the table or a config that rlx would compute wrongly; `unlisted` is the user's word to go on."""
    text = language_config(config)
    kind = str(text.get("model_type"))
    family = FAMILIES.get(kind)
    if family is None:
        if unlisted:
            return UNLISTED
        raise ModelError(
            f"{name}: model_type {kind!r} is not listed as computed rightly; choose a model of a type in "
            "docs/models.md, or set model.unlisted=true to try this one"
        )
    wrapper = wrapper_of(config)
    refused = {**family.refused, **({} if wrapper is None else wrapper.refused)}
    problem = next(problems_of(refused, text, max_context), None)
    if problem is not None and not unlisted:
        raise ModelError(f"{name}: model_type {kind!r} with {problem}, or set model.unlisted=true to try it")
    return family


def problems_of(refused: Mapping[str, tuple[Any, ...]], text: Mapping[str, Any], max_context: int) -> Iterator[str]:
    """Yield each config value that makes results wrong, with a remedy."""
    for key, values in refused.items():
        for value in values_of(text, key):
            if value in values or (value and not values):
                yield f"{key}={value!r} is computed wrongly; choose another model"
    for key in ("rope_type", "type"):
        for rope in values_of(text, key):
            if rope in GROWING_ROPES and max_context > original_context(text):
                yield (
                    f"{key}={rope!r} changes all angles beyond {original_context(text)} tokens, "
                    f"so episodes would depend on their neighbours; set model.max_context={original_context(text)}"
                )


def original_context(text: Mapping[str, Any]) -> int:
    """Return the number of tokens below which no rotary embedding changes; 0 where the config does not say."""
    numbers = [*values_of(text, "original_max_position_embeddings"), *values_of(text, "max_position_embeddings")]
    return min((number for number in numbers if isinstance(number, int)), default=0)


def values_of(config: Mapping[str, Any], key: str) -> Iterator[Any]:
    """Yield the values under a key, at any depth of a config."""
    for other, value in config.items():
        if other == key:
            yield value
        elif isinstance(value, Mapping):
            yield from values_of(value, key)
