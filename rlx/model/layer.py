"""One layer of a decoder: its matrices, cache and state, and a layer of Llama's form from the keys of a config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Maps = Mapping[str, tuple[int, int]]
Config = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer of a decoder."""

    maps: Maps
    """Widths in and out of the matrices that every token passes, by transformers' names."""
    expert_maps: Maps = field(default_factory=dict)
    """Matrices of one routed expert."""
    experts: int = 0
    active: int = 0
    """Routed experts, and those that a token passes."""
    other: int = 0
    """Parameters of norms, biases, convolutions and the like."""
    wide: int
    """Feed-forward numbers of a token, those of all its experts together."""
    projected: int
    """Numbers of a token around its attention or mixer: projections and their answer."""
    cached: int = 0
    """Numbers of a token's keys and values in the engine's cache."""
    key_heads: int = 1
    """Heads that the cache of a split engine divides among its devices."""
    mixed: int = 0
    """Numbers that a token multiplies with each visible token."""
    window: int | None = None
    """Tokens that the cache holds at most; None: all."""
    state: int = 0
    """Bytes of a sequence's recurrent state, whatever its length: float32, and inputs of convolutions in bfloat16."""

    @property
    def linear_parameters(self) -> int:
        """Parameters of the matrices that every token passes."""
        return sum(before * after for before, after in self.maps.values())

    @property
    def expert_parameters(self) -> int:
        """Parameters of one routed expert."""
        return sum(before * after for before, after in self.expert_maps.values())

    @property
    def parameters(self) -> int:
        return self.linear_parameters + self.experts * self.expert_parameters + self.other

    @property
    def active_parameters(self) -> int:
        """Parameters of the matrices that one token passes."""
        return self.linear_parameters + self.active * self.expert_parameters

    def chosen(self, rows: int) -> float:
        """Return the expected number of experts that some of `rows` tokens chooses, where all are as likely."""
        return self.experts * (1 - (1 - self.active / self.experts) ** rows) if self.experts else 0.0

    def seen(self, context: float) -> float:
        """Return the tokens of a context that the layer keeps."""
        return context if self.window is None else min(context, self.window)


def dense_layer(
    *,
    width: int,
    heads: int,
    key_heads: int,
    head_size: int,
    feed_forward: int,
    num_biases: int = 0,
    num_norms: int = 0,
    norms: int = 2,
) -> Layer:
    """Build a layer of plain attention and a gated feed-forward. `num_biases` and `num_norms` count the numbers of its
    biases, and of norms of queries and keys; `norms` counts those of the residual."""
    query, key = heads * head_size, key_heads * head_size
    return Layer(
        maps=attention_maps(width, query, key) | gated_maps(width, feed_forward),
        other=num_biases + num_norms + norms * width,
        wide=feed_forward,
        projected=2 * (query + key),
        cached=2 * key,
        key_heads=key_heads,
        mixed=2 * query,
    )


def attention_maps(width: int, query: int, key: int) -> dict[str, tuple[int, int]]:
    """Return the four matrices of attention."""
    return {"q_proj": (width, query), "k_proj": (width, key), "v_proj": (width, key), "o_proj": (query, width)}


def gated_maps(width: int, feed_forward: int) -> dict[str, tuple[int, int]]:
    """Return the three matrices of a gated feed-forward."""
    inner = (width, feed_forward)
    return {"gate_proj": inner, "up_proj": inner, "down_proj": (feed_forward, width)}


def head_size_of(config: Config) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def widths(config: Config) -> tuple[int, int, int]:
    """Return the numbers of a token's residual, queries, and keys."""
    heads, size = config["num_attention_heads"], head_size_of(config)
    return config["hidden_size"], heads * size, (config.get("num_key_value_heads") or heads) * size


def llama_like(config: Config, *, biases: str = "", normed: str = "", norms: int = 2) -> Layer:
    """Build a layer of Llama's form. `biases`: `qkv`, or `qkvo` for the answer's too. `normed`: queries and keys have a
    norm for a `head`, or for the `whole` of their projection."""
    width, query, key = widths(config)
    feed_forward = config["intermediate_size"]
    num_biases = {"": 0, "qkv": query + 2 * key, "qkvo": query + 2 * key + width}[biases]
    if config.get("mlp_bias"):
        num_biases += 2 * feed_forward + width
    return dense_layer(
        width=width,
        heads=config["num_attention_heads"],
        key_heads=config.get("num_key_value_heads") or config["num_attention_heads"],
        head_size=head_size_of(config),
        feed_forward=feed_forward,
        num_biases=num_biases,
        num_norms={"": 0, "head": 2 * head_size_of(config), "whole": query + key}[normed],
        norms=norms,
    )
