"""A policy's weights for a rollout server: safetensors, written and read tensor by tensor.

The library of this format copies everything twice on either side. Here a tensor goes from its memory to the socket and
from the socket to its memory. Tensors that share memory (a tied output matrix) are sent once; the header's
`__metadata__` names the others: {"lm_head.weight": "model.embed_tokens.weight"}.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlx.runs.form import CodecError, natural, parse, record, require_list, string

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "I64": torch.int64,
    "I32": torch.int32,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
LARGEST_HEADER = 16 * 2**20
METADATA = "__metadata__"

ReadInto = Callable[[memoryview], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderEntry:
    """Name, type and byte range of a tensor."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


def write_weights(weights: Mapping[str, Tensor]) -> tuple[int, Iterator[bytes | memoryview]]:
    """Return the number of bytes, and an iterator over them."""
    header: dict[str, Any] = {}
    same: dict[str, str] = {}
    owners: dict[tuple, str] = {}
    tensors: list[Tensor] = []
    end = 0
    for name, tensor in weights.items():
        key = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if tensor.numel() and key in owners:
            same[name] = owners[key]
            continue
        owners[key] = name
        tensors.append(tensor)
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header | ({METADATA: same} if same else {})).encode()
    text += b" " * (-len(text) % 8)
    return 8 + len(text) + end, pieces(text, tensors)


def pieces(header: bytes, tensors: list[Tensor]) -> Iterator[bytes | memoryview]:
    yield len(header).to_bytes(8, "little") + header
    yield from (bytes_of(tensor.detach().cpu().contiguous()) for tensor in tensors if tensor.numel())


def bytes_of(tensor: Tensor) -> memoryview:
    """Return the memory of a contiguous CPU tensor."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def read_weights(readinto: ReadInto, length: int) -> dict[str, Tensor]:
    """Read exactly `length` bytes as tensors; raise CodecError unless they have the form of `write_weights`."""
    size = int.from_bytes(take(readinto, 8, length), "little")
    entries, same = read_header(take(readinto, size, min(length - 8, LARGEST_HEADER)), length - 8 - size)
    weights: dict[str, Tensor] = {}
    for entry in entries:
        tensor = torch.empty(entry.shape, dtype=entry.dtype)
        if tensor.numel():
            fill(readinto, bytes_of(tensor))
        weights[entry.name] = tensor
    for name, owner in same.items():
        if owner not in weights or name in weights:
            raise CodecError(f"weights: {name!r:.80} is said to be {owner!r:.80}")
        weights[name] = weights[owner]
    return weights


def take(readinto: ReadInto, size: int, largest: int) -> bytes:
    if size > largest:
        raise CodecError(f"weights: {size} bytes where there are at most {largest}")
    buffer = bytearray(size)
    fill(readinto, memoryview(buffer))
    return bytes(buffer)


def fill(readinto: ReadInto, view: memoryview) -> None:
    while len(view):
        num = readinto(view)
        if not num:
            raise CodecError("weights: cut short")
        view = view[num:]


def read_header(raw: bytes, size: int) -> tuple[list[HeaderEntry], dict[str, str]]:
    """Parse the header into tensors in the order of their bytes. They must fill `size` bytes without a gap."""
    header = parse(raw)
    if not isinstance(header, dict):
        raise CodecError("weights: the header is not an object")
    same = header.pop(METADATA, {})
    if not isinstance(same, dict):
        raise CodecError("weights: __metadata__ is not an object")
    entries = sorted((read_entry(name, fields) for name, fields in header.items()), key=lambda entry: entry.begin)
    ends = [0, *(entry.end for entry in entries)]
    if any(entry.begin != end for entry, end in zip(entries, ends)) or ends[-1] != size:
        raise CodecError(f"weights: the tensors do not fill the {size} bytes there are")
    return entries, {name: string(owner, "weights") for name, owner in same.items()}


def read_entry(name: str, value: Any) -> HeaderEntry:
    where = f"weights: {name!r:.80}"
    fields = record(value, where, ("dtype", "shape", "data_offsets"))
    dtype = DTYPES.get(string(fields["dtype"], where))
    if dtype is None:
        raise CodecError(f"{where} has a dtype that is not one of {', '.join(DTYPES)}")
    shape = tuple(natural(size, where) for size in require_list(fields["shape"], where))
    offsets = [natural(offset, where) for offset in require_list(fields["data_offsets"], where)]
    if len(offsets) != 2 or offsets[1] - offsets[0] != math.prod(shape) * dtype.itemsize or len(shape) > 16:
        raise CodecError(f"{where} has a shape that does not fit its bytes")
    return HeaderEntry(name=name, dtype=dtype, shape=shape, begin=offsets[0], end=offsets[1])
