"""A learner's state on disk: safetensors in pieces that are never held whole, and read one tensor at a time.

`learner.safetensors` (and `learner-2.safetensors` …) holds `adam.PARAMETER.KEY` and, under LoRA, `adapter.PARAMETER`;
`learner.json` the rest. Which learner wrote it, on how many processes, does not show.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

PROGRESS = "learner.json"
PIECE = 4 * 2**30
"""Bytes after which a piece is written."""


def write_state(folder: Path, named: Iterable[tuple[str, Tensor]]) -> None:
    """Write tensors as they come."""
    piece: dict[str, Tensor] = {}
    number = 1
    for name, tensor in named:
        piece[name] = tensor.detach().contiguous().cpu()
        if sum(x.nbytes for x in piece.values()) >= PIECE:
            save_file(piece, piece_path(folder, number))
            piece, number = {}, number + 1
    if piece or number == 1:
        save_file(piece, piece_path(folder, number))


def piece_path(folder: Path, number: int) -> Path:
    return folder / ("learner.safetensors" if number == 1 else f"learner-{number}.safetensors")


class Tensors(Mapping[str, Tensor]):
    """The tensors of some safetensors files, each read when it is asked for."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.files: dict[str, Any] = {}
        for path in sorted(paths):
            file = safe_open(path, framework="pt")
            self.files |= dict.fromkeys(file.keys(), file)

    def __getitem__(self, name: str) -> Tensor:
        return self.files[name].get_tensor(name)

    def __contains__(self, name: object) -> bool:
        return name in self.files

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def write_progress(folder: Path, num_updates: int) -> None:
    (folder / PROGRESS).write_text(json.dumps({"num_updates": num_updates}) + "\n")


def read_progress(folder: Path) -> int:
    return int(json.loads((folder / PROGRESS).read_text())["num_updates"])
