"""A step's gradient in fixed shards, whatever the number of processes: each shard's text, pass and gradient are its
own, and the gradients are summed in the shards' order, so that one process or two give the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, distributed, multiprocessing, nn

SHARDS = 2


def shards_of(rank: int, processes: int) -> range:
    return range(rank, SHARDS, processes)


def flatten_gradients(model: nn.Module) -> Tensor:
    """All gradients in a row, taken from the model."""
    gradients = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    model.zero_grad(set_to_none=True)
    return gradients


def spread_gradients(model: nn.Module, row: Tensor) -> None:
    parameters = list(model.parameters())
    for parameter, part in zip(parameters, row.split([p.numel() for p in parameters]), strict=True):
        parameter.grad = part.view_as(parameter)


def mean_of_shards(gradients: list[Tensor], processes: int) -> Tensor:
    """Over all shards, from those of each process; with two processes each has one."""
    if processes > 1:
        (mine,) = gradients
        gradients = [torch.empty_like(mine) for _ in range(SHARDS)]
        distributed.all_gather(gradients, mine)
    total = gradients[0]
    for other in gradients[1:]:
        total = total + other
    return total / SHARDS


@contextmanager
def joined(folder: Path, rank: int, processes: int) -> Iterator[None]:
    """Join a group of processes that meet at a file in `folder`; the first process has removed an old file."""
    if processes == 1:
        yield
        return
    meeting = (folder / "meeting").resolve()
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=processes)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def start_others(folder: Path, processes: int, target: Callable[..., None], arguments: tuple[object, ...]) -> None:
    """The processes beside this one: `target(*arguments, rank)`, ended with it."""
    (folder / "meeting").unlink(missing_ok=True)
    context = multiprocessing.get_context("spawn")
    for rank in range(1, processes):
        context.Process(target=target, args=(*arguments, rank), daemon=True).start()
