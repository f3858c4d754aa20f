"""Names and forms of weights in a checkpoint, where these differ from those in a model of transformers.

transformers joins the routed experts of some families into tensors of three dimensions when it loads a checkpoint.
Other programs, vLLM among them, read the form of the checkpoint: one matrix for each expert.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def stored_form(config: Mapping[str, Any], named: Iterable[tuple[str, Tensor]]) -> Iterable[tuple[str, Tensor]]:
    """Return a model's weights as its checkpoint has them, each made when it is asked for."""
    kind = str(config.get("model_type"))
    return separated(empty_model(kind), named) if joins_weights(kind) else named


def separated(model: Any, named: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Yield weights with joined ones split, one tensor at a time: a copy of all would need the model's memory again."""
    from transformers.core_model_loading import revert_weight_conversion

    for name, tensor in named:
        yield from revert_weight_conversion(model, {name: tensor}).items()


@cache
def joins_weights(kind: str) -> bool:
    """Tell whether transformers joins weights of this type when it loads them."""
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping
    from transformers.core_model_loading import WeightConverter

    return any(isinstance(each, WeightConverter) for each in get_checkpoint_conversion_mapping(kind) or ())


@cache
def empty_model(kind: str) -> Any:
    """Build the smallest model of a type, without memory. Conversions depend on the type alone."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, num_hidden_layers=1))
