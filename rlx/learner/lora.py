"""Differences of a model that carries peft's adapters. The model itself is asked, so peft is not imported without
them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from rlx.model.expand import ROWS, START


def is_adapted(model: Any) -> bool:
    return hasattr(model, "peft_config")


def base_of(model: Any) -> Any:
    """The Hugging Face model, with adapters inside it if there are any."""
    return model.get_base_model() if is_adapted(model) else model


def adapters_off(model: Any) -> AbstractContextManager[None]:
    """The start policy: the same weights without what has been learned."""
    return model.disable_adapter()


def adapted_layers(base: Any) -> dict[str, Any]:
    return {name: layer for name, layer in base.named_modules() if hasattr(layer, "get_delta_weight")}


def delta(layer: Any) -> Tensor:
    """Return the sum that the layer's active adapters add to its weight."""
    return sum(layer.get_delta_weight(name) for name in layer.active_adapters)


def head_weight(layer: Any) -> Tensor:
    """The output matrix, differentiable in whatever of it is trained."""
    if not hasattr(layer, "base_layer"):
        return layer.weight
    return layer.base_layer.weight if layer.disable_adapters else layer.base_layer.weight + delta(layer)


def action_rows(model: Any) -> Tensor | None:
    """Return the output rows of added actions, if any; with adapters disabled, return the start values."""
    base = base_of(model)
    is_off = any(layer.disable_adapters for layer in adapted_layers(base).values())
    return getattr(base, START if is_off else ROWS, None)


Gathered = Callable[[list[Tensor]], AbstractContextManager[None]]


class Weights(Mapping[str, Tensor]):
    """Hugging Face names to weights, adapters added in, each made when it is asked for; the model's own stay as they
    are, to the last bit. `gathered` makes whole, for the length of a block, what is spread over processes."""

    def __init__(self, model: Any, gathered: Gathered | None = None) -> None:
        base = base_of(model)
        self.gathered = gathered
        self.layers = adapted_layers(base)
        self.plain = {**dict(base.named_parameters(remove_duplicate=False)), **dict(base.named_buffers())}
        self.names = dict(filter(None, map(self.public, base.state_dict())))

    def public(self, inner: str) -> tuple[str, str] | None:
        """A tensor's Hugging Face name and its name in the model; None for an adapter's own."""
        owner, _, rest = inner.partition(".base_layer.")
        if rest:
            return f"{owner}.{rest}", inner
        return None if any(inner.startswith(f"{layer}.") for layer in self.layers) else (inner, inner)

    def __getitem__(self, name: str) -> Tensor:
        inner = self.names[name]
        owner, _, rest = inner.partition(".base_layer.")
        layer = self.layers[owner] if rest == "weight" else None
        tensor = self.plain[inner]
        if self.gathered is None:
            return merge_adapter(tensor, layer)
        # An engine may read them in inference mode. Shards that were gathered in it could not be trained again.
        with torch.inference_mode(False), self.gathered([tensor] if layer is None else list(layer.parameters())):
            return merge_adapter(tensor, layer).clone()

    def distinct(self) -> list[str]:
        """The names, but of tied weights the first alone."""
        first: dict[str | int, str] = {}
        for name, inner in self.names.items():
            first.setdefault(name if ".base_layer." in inner else id(self.plain[inner]), name)
        return list(first.values())

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def merge_adapter(tensor: Tensor, layer: Any | None) -> Tensor:
    return tensor.detach() if layer is None else tensor.detach() + delta(layer).detach()
