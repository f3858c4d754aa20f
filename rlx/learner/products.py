"""Products of float32 matrices on a CPU that is not Intel's, by oneDNN: it takes AVX-512 on any make of processor,
where the BLAS that torch comes with is Intel's and takes half of that on AMD's. The sums are float32's either way."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode

INTEL = "GenuineIntel"
"""Name of the maker in /proc/cpuinfo."""


def product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """left right^T + bias."""
    output: Tensor = torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")
    return output


class Linear(torch.autograd.Function):
    """torch.nn.functional.linear of rows, weight and bias."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad
        rows = grad.flatten(0, -2)
        return (
            product(grad, weight.T) if wants_x else None,
            product(rows.T, x.flatten(0, -2).T) if wants_weight else None,
            rows.sum(0) if wants_bias else None,
        )


class WideProducts(TorchFunctionMode):
    """A context in which every float32 `linear` on a CPU is such a product, and those of its backward pass are. The
    output head's backward pass (`rlx.learner.logprob`) runs after it, and is left to torch."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is linear and not kwargs and suits(args[0], args[1]):
            return Linear.apply(args[0], args[1], args[2] if len(args) > 2 else None)
        return func(*args, **(kwargs or {}))


def suits(x: Tensor, weight: Tensor) -> bool:
    """Rows and a matrix, of float32, on a CPU."""
    is_float = x.dtype == weight.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    return is_float and x.device.type == "cpu" and x.numel() > 0 and x.ndim > 1 and weight.ndim == 2


@cache
def name_maker() -> str:
    """Name the processor's maker as the processor does; its architecture if Linux does not tell."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    match = re.search(r"^vendor_id\s*: (\S+)$", text, re.MULTILINE)
    return match[1] if match else platform.machine()


def products_on(device: torch.device) -> AbstractContextManager[object]:
    """Return WideProducts where it is faster, otherwise a context that does nothing."""
    is_wide = device.type == "cpu" and torch.backends.mkldnn.is_available() and name_maker() != INTEL
    return WideProducts() if is_wide else nullcontext()


def computed_again(device: torch.device) -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
    """Contexts of layers whose activations are not kept, on the way forth and again on the way back, where no mode of
    the caller's reaches."""
    return nullcontext(), products_on(device)
