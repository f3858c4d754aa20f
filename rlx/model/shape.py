"""The shape of a decoder (Qwen2, Llama and their like), read from its config.json; torch is not needed for it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Counts and widths of one model."""

    width: int
    layers: int
    heads: int
    key_heads: int
    head_size: int
    feed_forward: int
    vocabulary: int
    tied: bool
    biased: bool
    """Whether query, key and value maps have biases (Qwen2)."""


def read_shape(config: Mapping[str, Any]) -> Shape:
    """From the keys of a Hugging Face config.json."""
    heads = config["num_attention_heads"]
    return Shape(
        width=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        key_heads=config.get("num_key_value_heads") or heads,
        head_size=config.get("head_dim") or config["hidden_size"] // heads,
        feed_forward=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        tied=config.get("tie_word_embeddings", False),
        biased=config.get("attention_bias", config.get("model_type") == "qwen2"),
    )


def num_parameters(shape: Shape) -> int:
    """Embeddings, layers (attention, three feed-forward maps, two norms), the last norm, and an untied head."""
    query, key = shape.heads * shape.head_size, shape.key_heads * shape.head_size
    attention = 2 * shape.width * query + 2 * shape.width * key + (query + 2 * key if shape.biased else 0)
    layer = attention + 3 * shape.width * shape.feed_forward + 2 * shape.width
    embedding = shape.vocabulary * shape.width
    return embedding * (1 if shape.tied else 2) + shape.layers * layer + shape.width


def find_shape(model: Mapping[str, Any]) -> Shape | None:
    """The shape of a model's folder, shipped or local or already fetched from a hub; else what its yaml says of it."""
    for folder in _folders(str(model["path"])):
        file = folder / "config.json"
        if file.is_file():
            try:
                return read_shape(json.loads(file.read_text(encoding="utf-8")))
            except (KeyError, ValueError, TypeError):
                return None
    return read_shape(model["shape"]) if model.get("shape") else None


def _folders(path: str) -> list[Path]:
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    fetched = sorted((home / "hub" / f"models--{path.replace('/', '--')}" / "snapshots").glob("*"))
    return [Path(path).expanduser(), PACKAGE / path, PACKAGE / "model" / path, *fetched]
