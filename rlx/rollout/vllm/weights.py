"""Weights into a model of vLLM's: run inside each of its workers, so nothing here imports more than it needs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from rlx.model.logits import LogitShape


def take_weights(model: Any, named: Iterable[tuple[str, Tensor]]) -> None:
    """Copy weights into a model of vLLM's; RuntimeError if a parameter of the model gets none."""
    loaded_names = model.load_weights(iter(named))
    missing = sorted({name for name, _ in model.named_parameters()} - set(loaded_names))
    if missing:
        raise RuntimeError(f"vLLM engine: {len(missing)} of its weights were not given, such as {missing[0]}")


def take_weights_file(model: Any, path: str) -> None:
    from safetensors.torch import load_file

    take_weights(model, load_file(path).items())


def widen(model: Any, added: list[Tensor], shape: LogitShape) -> None:
    """Let a model of vLLM append the logits of added actions to its own, by the rows in `added` if there are some.
    `shape` is the change that the model makes to its own logits."""
    compute = model.compute_logits

    def compute_logits(hidden_BH: Tensor) -> Tensor:
        logits_BV = compute(hidden_BH)
        if not added:
            return logits_BV
        return torch.cat((logits_BV, shape.apply((hidden_BH @ added[0].T).to(logits_BV.dtype))), -1)

    model.compute_logits = compute_logits


@contextmanager
def weights_file(named: Iterable[tuple[str, Tensor]]) -> Iterator[str]:
    """For engine processes of their own: the weights in shared memory, or in a file where there is none."""
    from safetensors.torch import save_file

    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="rlx-weights-", dir=shared) as folder:
        path = f"{folder}/weights.safetensors"
        save_file({name: tensor.contiguous().clone() for name, tensor in named}, path)
        yield path
