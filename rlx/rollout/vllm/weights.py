"""Weights into a model of vLLM's: run inside each of its workers, so nothing here imports more than it needs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from rlx.model.expand import ROWS


def take_weights(model: Any, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model of vLLM's; RuntimeError where one of its own got none. Action rows are not its."""
    taken = model.load_weights((name, tensor) for name, tensor in weights.items() if name != ROWS)
    missing = sorted({name for name, _ in model.named_parameters()} - set(taken))
    if missing:
        raise RuntimeError(f"vLLM engine: {len(missing)} of its weights were not given, such as {missing[0]}")


def take_weights_file(model: Any, path: str) -> None:
    from safetensors.torch import load_file

    take_weights(model, load_file(path))


def widen(model: Any, added: list[Tensor]) -> None:
    """Have a model of vLLM give logits of added actions after its own, by the rows in `added` when there are some."""
    compute = model.compute_logits

    def compute_logits(hidden_BH: Tensor) -> Tensor:
        logits_BV = compute(hidden_BH)
        return torch.cat((logits_BV, (hidden_BH @ added[0].T).to(logits_BV.dtype)), -1) if added else logits_BV

    model.compute_logits = compute_logits


@contextmanager
def weights_file(weights: Mapping[str, Tensor]) -> Iterator[str]:
    """For engine processes of their own: the weights in shared memory, or in a file where there is none."""
    from safetensors.torch import save_file

    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="rlx-weights-", dir=shared) as folder:
        path = f"{folder}/weights.safetensors"
        save_file({name: tensor.contiguous().clone() for name, tensor in weights.items()}, path)
        yield path
