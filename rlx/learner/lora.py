"""What differs when a model carries peft's adapters: asked of the model itself, so peft is not imported without
them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor


def is_adapted(model: Any) -> bool:
    return hasattr(model, "peft_config")


def base_of(model: Any) -> Any:
    """The Hugging Face model, with adapters inside it if there are any."""
    return model.get_base_model() if is_adapted(model) else model


def adapters_off(model: Any) -> AbstractContextManager[None]:
    """The start policy: the same weights without what has been learned."""
    return model.disable_adapter()


def delta(layer: Any) -> Tensor:
    """What the layer's active adapters add to its weight."""
    return sum(layer.get_delta_weight(name) for name in layer.active_adapters)


def head_weight(layer: Any) -> Tensor:
    """The output matrix, differentiable in whatever of it is trained."""
    if not hasattr(layer, "base_layer"):
        return layer.weight
    return layer.base_layer.weight if layer.disable_adapters else layer.base_layer.weight + delta(layer)


def merged_weights(model: Any) -> Mapping[str, Tensor]:
    """Hugging Face names to weights with the adapters added in; the model's own stay as they are, to the last bit."""
    layers = {name: layer for name, layer in base_of(model).named_modules() if hasattr(layer, "get_delta_weight")}
    merged: dict[str, Tensor] = {}
    for name, tensor in base_of(model).state_dict().items():
        owner, _, rest = name.partition(".base_layer.")
        if rest:
            plain = tensor.detach()
            merged[f"{owner}.{rest}"] = plain + delta(layers[owner]).detach() if rest == "weight" else plain
        elif not any(name.startswith(f"{layer}.") for layer in layers):
            merged[name] = tensor.detach()
    return merged
