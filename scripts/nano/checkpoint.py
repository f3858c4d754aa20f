"""nano's training state in one file: weights, what the optimisers remember, and how far it is."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rlx.learner.products import name_maker
from rlx.model.problem import ModelError

NAME = "checkpoint.safetensors"
REMEDY = "say the words that began it, or another --work"


def name_bits(model: nn.Module) -> str:
    """A digest of every weight's bytes."""
    digest = hashlib.sha256()
    for name, value in model.named_parameters():
        digest.update(name.encode())
        digest.update(value.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def name_machine() -> str:
    """Name what decides the bits of a sum: the instructions, and the libraries that choose among them."""
    instructions = f"{torch.backends.cpu.get_cpu_capability()} {describe_bfloat16()}"
    return f"{name_maker()} {instructions}, torch {torch.__version__}"


def describe_bfloat16() -> str:
    """Tell if the processor has products of bfloat16: oneDNN emulates them on others, with other bits."""
    return "with bfloat16" if torch.cpu._is_avx512_bf16_supported() else "without bfloat16"


def flatten_state(optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Tensor]:
    return {
        f"{i}.{key}.{name}": value if isinstance(value, Tensor) else torch.tensor(value)
        for i, optimizer in enumerate(optimizers)
        for key, entry in optimizer.state_dict()["state"].items()
        for name, value in entry.items()
    }


def restore_state(optimizers: Sequence[torch.optim.Optimizer], tensors: Mapping[str, Tensor]) -> None:
    for i, optimizer in enumerate(optimizers):
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            owner, key, field = name.split(".")
            if int(owner) == i:
                state.setdefault(int(key), {})[field] = value
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    progress: Mapping[str, float],
    origin: Mapping[str, Any],
) -> None:
    """Write a checkpoint with its origin to one file, aside and then renamed: a kill leaves the previous file."""
    tensors = {f"model.{name}": value.detach() for name, value in model.named_parameters()}
    tensors |= {f"optimizer.{name}": value for name, value in flatten_state(optimizers).items()}
    aside = folder / f"{NAME}.aside"
    try:
        save_file(tensors, aside, metadata={"progress": json.dumps(progress), "made_by": json.dumps(origin)})
    except SafetensorError as error:
        raise ModelError(f"{aside} cannot be written: {error}") from None
    os.replace(aside, folder / NAME)


def require_fitting(folder: Path, model: nn.Module, origin: Mapping[str, Any]) -> None:
    """Require that a checkpoint in the folder, if any, is readable, and has this model's shape and the same origin. A
    checkpoint that continues with another recipe is a model of neither recipe."""
    path = folder / NAME
    if not path.exists():
        return
    try:
        saved, saved_origin = read_head(path)
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(f"{path} cannot be read ({type(error).__name__}): remove it to begin anew") from None
    if saved != {f"model.{name}": list(value.shape) for name, value in model.named_parameters()}:
        raise ModelError(f"{path}: of a model of another shape; {REMEDY}")
    for name in (name for name in saved_origin if saved_origin[name] != origin.get(name)):
        raise ModelError(f"{path}: made by {name}={saved_origin[name]}, not {origin.get(name)}; {REMEDY}")


def read_head(path: Path) -> tuple[dict[str, list[int]], dict[str, Any]]:
    """Return the shapes of the model's tensors, and the origin of the model: empty in a file without one."""
    with safe_open(path, "pt") as file:
        saved = {name: file.get_slice(name).get_shape() for name in file.keys() if name.startswith("model.")}  # noqa: SIM118
        metadata = file.metadata()
    if not json.loads(metadata["progress"]).keys() >= {"step", "tokens", "seconds"}:
        raise ValueError("no progress")
    return saved, dict(json.loads(metadata.get("made_by", "{}")))


def load_checkpoint(folder: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, float]:
    path = folder / NAME
    if not path.exists():
        return {"step": 0, "tokens": 0, "seconds": 0}
    tensors = load_file(path)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[f"model.{name}"])
    optimizer_tensors = {n.removeprefix("optimizer."): t for n, t in tensors.items() if n.startswith("optimizer.")}
    restore_state(optimizers, optimizer_tensors)
    with safe_open(path, "pt") as file:
        progress: dict[str, float] = json.loads(file.metadata()["progress"])
    return progress
