"""Low-rank adapters: peft's, with weights drawn from (seed, parameter name) instead of torch's global generator."""

from __future__ import annotations

import math
from typing import Any

import torch

from rlx.base.stream import stream_of
from rlx.model.expand import train_rows


def wrap(model: Any, *, rank: int, alpha: int, dropout: float, targets: list[str], seed: int) -> Any:
    """Wrap a model so that only adapters learn. B starts at zero, so the wrapped model begins as the model itself."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        task_type="CAUSAL_LM", r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=list(targets)
    )
    with torch.random.fork_rng(devices=[]):  # peft draws once by itself: the global generator stays as it is
        wrapped = get_peft_model(model, config)
    draw_adapters(wrapped, seed)
    train_rows(model)
    return wrapped


@torch.no_grad()
def draw_adapters(wrapped: Any, seed: int) -> None:
    """Draw every A as peft does (Kaiming, uniform), each from a generator of its own."""
    for name, parameter in wrapped.named_parameters():
        if ".lora_A." in name:
            drawn = torch.empty(parameter.shape)
            generator = torch.Generator().manual_seed(stream_of(seed, "adapter", name) % 2**63)
            torch.nn.init.kaiming_uniform_(drawn, a=math.sqrt(5), generator=generator)
            parameter.copy_(drawn)
