"""Shape of a decoder, read from its config.json; torch is not needed for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rlx.model.families import FAMILIES, UNLISTED, Family
from rlx.model.layer import Layer, dense_layer, head_size_of
from rlx.model.layers import TIED, UnsizedError, layers_of, text_config
from rlx.runs.single_files import read_json

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
    """Width of a feed-forward; of one expert where experts are routed."""
    vocabulary: int
    tied: bool
    biased: bool
    """Query, key and value maps have biases (Qwen2)."""
    normed: bool = False
    """Each head's query and key are normalised (Qwen3)."""
    added: int = 0
    """Output rows of actions beyond the vocabulary."""
    adapted: tuple[str, ...] = Family().adapted
    """Names of the linear maps that LoRA adapts by default, those of a shared expert below its own name."""
    stacked: tuple[Layer, ...] = ()
    """Layers, from the first to the last; none: all have Llama's form with the widths above."""

    @cached_property
    def stack(self) -> tuple[Layer, ...]:
        """Every layer, from the first to the last."""
        return self.stacked or (self.dense_layer,) * self.layers

    @cached_property
    def kinds(self) -> tuple[tuple[Layer, int], ...]:
        """Different layers, each with its number."""
        different = {id(layer): layer for layer in self.stack}.values()
        return tuple((layer, sum(other is layer for other in self.stack)) for layer in different)

    @property
    def dense_layer(self) -> Layer:
        """Layer of Llama's form with these widths."""
        query, key = self.heads * self.head_size, self.key_heads * self.head_size
        return dense_layer(
            width=self.width,
            heads=self.heads,
            key_heads=self.key_heads,
            head_size=self.head_size,
            feed_forward=self.feed_forward,
            num_biases=query + 2 * key if self.biased else 0,
            num_norms=2 * self.head_size if self.normed else 0,
        )

    @cached_property
    def cached(self) -> int:
        """Numbers of a token's keys and values, where no window is full."""
        return sum(num * layer.cached for layer, num in self.kinds)

    @cached_property
    def state(self) -> int:
        """Bytes of a sequence's recurrent state, whatever its length."""
        return sum(layer.state for layer in self.stack)

    @cached_property
    def linear_parameters(self) -> int:
        """Parameters of the layers' matrices that every token passes, without routed experts."""
        return sum(layer.linear_parameters for layer in self.stack)

    @cached_property
    def active_parameters(self) -> int:
        """Parameters of the layers' matrices that one token passes."""
        return sum(layer.active_parameters for layer in self.stack)

    @cached_property
    def largest_layer(self) -> int:
        """Parameters of the largest layer's matrices, all experts among them."""
        return max(layer.parameters - layer.other for layer in self.stack)

    @cached_property
    def num_parameters(self) -> int:
        """Parameters of embeddings, layers, the last norm, the head, and the rows of added actions."""
        rows = self.vocabulary * (1 if self.tied else 2) + self.added
        return rows * self.width + sum(layer.parameters for layer in self.stack) + self.width

    @property
    def num_active(self) -> int:
        """Parameters that one token passes, with the head and without the input's embedding."""
        return self.active_parameters + (self.vocabulary + self.added) * self.width

    def cache_bytes(self, context: float, number: int, split: int = 1) -> float:
        """Count the bytes of one context's keys, values and state on each of `split` devices, of `number` bytes a key.
        No head is split."""
        num_cached = sum(
            num * (layer.cached // layer.key_heads) * -(-layer.key_heads // split) * layer.seen(context)
            for layer, num in self.kinds
        )
        return number * num_cached + self.state / split

    def __post_init__(self) -> None:
        counts = (self.width, self.layers, self.heads, self.key_heads, self.head_size, self.feed_forward)
        if not all(type(count) is int and count > 0 for count in (*counts, self.vocabulary)):
            raise ValueError(f"counts and widths are integers above 0, not {(*counts, self.vocabulary)}")


def read_shape(config: Mapping[str, Any]) -> Shape:
    """Read a shape from the keys of a Hugging Face config.json; UnsizedError for a type that rlx cannot size."""
    text = text_config(config)
    kind, stack = text.get("model_type"), layers_of(text)
    heads = text["num_attention_heads"]
    return Shape(
        width=text["hidden_size"],
        layers=text["num_hidden_layers"],
        heads=heads,
        key_heads=text.get("num_key_value_heads") or heads,
        head_size=head_size_of(text),
        feed_forward=text.get("moe_intermediate_size") or text["intermediate_size"],
        vocabulary=text["vocab_size"],
        tied=text.get("tie_word_embeddings", kind in TIED),
        biased=text.get("attention_bias", kind == "qwen2"),
        normed=kind == "qwen3",
        adapted=FAMILIES.get(str(kind), UNLISTED).adapted,
        stacked=stack,
    )


def find_shape(model: Mapping[str, Any]) -> Shape | None:
    """Return the shape of a model, from the config.json in its folder if present, else from its yaml. None without
    either, or if rlx cannot size the model."""
    file = find_file(str(model["path"]), "config.json")
    shape = _try_read(_find_config(model))
    return shape if shape is None or file is None else replace(shape, added=num_added(file.with_name(ACTIONS)))


def why_unsized(model: Mapping[str, Any]) -> str | None:
    """Return the reason why the shape of a model with a known configuration cannot be read; None if the shape can be
    read, or without a configuration."""
    config = _find_config(model)
    if not config:
        return None
    try:
        read_shape(config)
    except KeyError as error:
        return f"its config.json has no {error.args[0]}"
    except UnsizedError as error:
        return str(error)
    except (TypeError, ValueError, ZeroDivisionError):
        return "its config.json has a wrong value among its sizes"
    return None


def _find_config(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the keys of a model's config.json where that is here, else those of its yaml."""
    file = find_file(str(model["path"]), "config.json")
    config = read_json(Path(os.path.realpath(file))) if file is not None else model.get("shape")
    return config if isinstance(config, Mapping) else {}


def num_added(file: Path) -> int:
    """Count the actions that the file beside a model names; 0 without the file."""
    names = read_json(Path(os.path.realpath(file))).get("actions") if file.is_file() else None
    return len(names) if isinstance(names, list) else 0


def find_positions(path: str) -> int | None:
    """Return the number of tokens that a model was made for, where its config.json is here and says so."""
    file = find_file(path, "config.json")
    positions = (
        text_config(read_json(Path(os.path.realpath(file)))).get("max_position_embeddings")
        if file is not None
        else None
    )
    return positions if isinstance(positions, int) else None


def find_file(path: str, name: str) -> Path | None:
    """A file of a model's folder, where that is here."""
    files = (folder / name for folder in _folders(path))
    return next((file for file in files if file.is_file()), None)


def _try_read(config: Mapping[str, Any]) -> Shape | None:
    try:
        return read_shape(config)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):  # why_unsized says which
        return None


def _folders(path: str) -> list[Path]:
    """Return the folders that a model's path may mean: a model of the package, a folder, a snapshot of a hub."""
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    fetched = sorted((home / "hub" / f"models--{path.replace('/', '--')}" / "snapshots").glob("*"))
    return [MODELS / path, Path(os.path.expanduser(path)), *fetched]
