"""The shape of a decoder (Qwen, Llama and their like), read from its config.json; torch is not needed for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rlx.record.files import read_json

MODELS = Path(__file__).resolve().parent
ACTIONS = "actions.json"
"""File in a model's folder that names its output rows beyond the vocabulary."""


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
    """Query, key and value maps have biases (Qwen2)."""
    normed: bool = False
    """Each head's query and key are normalised (Qwen3)."""
    added: int = 0
    """Output rows of actions beyond the vocabulary."""

    @property
    def cached(self) -> int:
        """Numbers of a token's keys and values."""
        return 2 * self.layers * self.key_heads * self.head_size

    @cached_property
    def linear_maps(self) -> Mapping[str, tuple[int, int]]:
        """Widths in and out of one layer's linear maps, by transformers' names."""
        query, key = self.heads * self.head_size, self.key_heads * self.head_size
        return {
            "q_proj": (self.width, query),
            "k_proj": (self.width, key),
            "v_proj": (self.width, key),
            "o_proj": (query, self.width),
            "gate_proj": (self.width, self.feed_forward),
            "up_proj": (self.width, self.feed_forward),
            "down_proj": (self.feed_forward, self.width),
        }

    @cached_property
    def layer_parameters(self) -> int:
        """Parameters of one layer's linear maps, without biases and norms."""
        return sum(before * after for before, after in self.linear_maps.values())

    @cached_property
    def num_parameters(self) -> int:
        """Parameters of embeddings, layers, the last norm, the head, and the rows of added actions. A layer has linear
        maps, biases of queries, keys and values, two norms, and perhaps those of a head's query and key."""
        biases = sum(self.linear_maps[name][1] for name in ("q_proj", "k_proj", "v_proj")) if self.biased else 0
        layer = self.layer_parameters + biases + 2 * self.width + (2 * self.head_size if self.normed else 0)
        rows = self.vocabulary * (1 if self.tied else 2) + self.added
        return rows * self.width + self.layers * layer + self.width

    def __post_init__(self) -> None:
        if not all(type(count) is int and count > 0 for count in astuple(self)[:7]):
            raise ValueError(f"counts and widths are integers above 0, not {astuple(self)[:7]}")


def read_shape(config: Mapping[str, Any]) -> Shape:
    """Read a shape from the keys of a Hugging Face config.json."""
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
        normed=config.get("model_type") == "qwen3",
    )


def find_shape(model: Mapping[str, Any]) -> Shape | None:
    """The shape of a model: of its folder's config.json where that is here, else as its yaml gives it, else None."""
    file = find_file(str(model["path"]), "config.json")
    if file is None:
        return _try_read(model.get("shape") or {})
    shape = _try_read(read_json(Path(os.path.realpath(file))))
    return None if shape is None else replace(shape, added=num_added(file.with_name(ACTIONS)))


def num_added(file: Path) -> int:
    """Count the actions that the file beside a model names; 0 without the file."""
    told = read_json(Path(os.path.realpath(file))).get("actions") if file.is_file() else None
    return len(told) if isinstance(told, list) else 0


def find_positions(path: str) -> int | None:
    """Return the number of tokens that a model was made for, where its config.json is here and says so."""
    file = find_file(path, "config.json")
    found = read_json(Path(os.path.realpath(file))).get("max_position_embeddings") if file is not None else None
    return found if isinstance(found, int) else None


def find_file(path: str, name: str) -> Path | None:
    """A file of a model's folder, where that is here."""
    files = (folder / name for folder in _folders(path))
    return next((file for file in files if file.is_file()), None)


def _try_read(config: Mapping[str, Any]) -> Shape | None:
    try:
        return read_shape(config)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def _folders(path: str) -> list[Path]:
    """Return the folders that a model's path may mean: a model of the package, a folder, a snapshot of a hub."""
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    fetched = sorted((home / "hub" / f"models--{path.replace('/', '--')}" / "snapshots").glob("*"))
    return [MODELS / path, Path(os.path.expanduser(path)), *fetched]
