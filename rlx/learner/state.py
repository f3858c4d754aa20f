"""A learner's state on disk: safetensors, written in pieces and read one tensor at a time.

`learner.safetensors` (or `learner-00001-of-00003.safetensors` …) holds `adam.PARAMETER.KEY`, a critic's
`heads.PARAMETER` and, under LoRA, `adapter.PARAMETER`; `learner.json` holds the rest. The files are the same for every
learner and number of processes. The model beside them is a plain Hugging Face folder.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from rlx.base.regular import read_bounded, write_aside
from rlx.model.expand import ROWS, TENSORS, write_actions
from rlx.model.stored import separated

PROGRESS = "learner.json"
PIECE = 4 * 2**30
"""Least bytes of a piece before it is written."""


def with_progress(named: Iterable[tuple[str, Tensor]], progress: Callable[[], None]) -> Iterator[tuple[str, Tensor]]:
    """Yield the items, with a call of `progress` after each."""
    for item in named:
        yield item
        progress()


def write_state(folder: Path, named: Iterable[tuple[str, Tensor]]) -> None:
    """Write the state that a resume needs besides the weights."""
    write_pieces(folder, "learner", named)


def write_model(folder: Path, model: Any, named: Iterable[tuple[str, Tensor]]) -> None:
    """Write a folder that transformers loads: the files of `save_pretrained`, from weights that arrive one at a time. A
    few kinds of models (mixtures of experts) are stored in another form. Rows of added actions have separate files,
    which transformers does not read."""
    rows: dict[str, Tensor] = {}
    named = without_rows(named, rows)
    config = copy.deepcopy(model.config)
    config.architectures, config.dtype = [type(model).__name__], "float32"
    config.save_pretrained(folder)
    if model.can_generate():
        model.generation_config.save_pretrained(folder)
    if getattr(model, "_weight_conversions", None):
        named = separated(model, named)
    files = write_pieces(folder, "model", named)
    if rows:
        write_actions(folder, model.actions, rows[ROWS])
    if len(set(files.values())) > 1:
        index = {"metadata": {"format": "pt"}, "weight_map": files}
        write_aside(folder / "model.safetensors.index.json", json.dumps(index, indent=2) + "\n")


def without_rows(named: Iterable[tuple[str, Tensor]], rows: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield all but the rows of added actions, which are put into `rows`."""
    for name, tensor in named:
        if name == ROWS:
            rows[name] = tensor.detach().float().cpu().contiguous()
        else:
            yield name, tensor


def write_pieces(folder: Path, stem: str, named: Iterable[tuple[str, Tensor]]) -> dict[str, str]:
    """Write tensors as they arrive; return the file of each. The files are named at the end, when their number is
    known."""
    pieces: list[list[str]] = []
    for piece in in_pieces(named):
        save_file(piece, folder / f"{stem}-{len(pieces)}.part", metadata={"format": "pt"})
        pieces.append(list(piece))
        piece.clear()
    files = [piece_name(stem, index, len(pieces)) for index in range(len(pieces))]
    for index, file in enumerate(files):
        (folder / f"{stem}-{index}.part").rename(folder / file)
    return {name: file for file, names in zip(files, pieces, strict=True) for name in names}


def in_pieces(named: Iterable[tuple[str, Tensor]]) -> Iterator[dict[str, Tensor]]:
    """Group tensors, on the CPU, into pieces of at least PIECE bytes (the last may be smaller); yield at least one
    piece."""
    piece: dict[str, Tensor] = {}
    is_first = True
    for name, tensor in named:
        piece[name] = tensor.detach().contiguous().cpu()
        if sum(x.nbytes for x in piece.values()) >= PIECE:
            yield piece
            piece, is_first = {}, False
    if piece or is_first:
        yield piece


def piece_name(stem: str, index: int, num: int) -> str:
    return f"{stem}.safetensors" if num == 1 else f"{stem}-{index + 1:05d}-of-{num:05d}.safetensors"


def saved_model(folder: Path) -> Tensors:
    """Return the weights of a model's folder, by the names of the model's parameters."""
    return Tensors([*folder.glob("model*.safetensors"), *folder.glob(TENSORS)])


class Tensors(Mapping[str, Tensor]):
    """Tensors of some safetensors files, each read on access."""

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
    write_aside(folder / PROGRESS, json.dumps({"num_updates": num_updates}) + "\n")


def read_progress(folder: Path) -> int:
    return int(json.loads(read_bounded(folder / PROGRESS))["num_updates"])
