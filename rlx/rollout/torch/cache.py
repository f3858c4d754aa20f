"""Keys and values of the rows being decoded, in one buffer whose active rows are always the first ones.

Rows are compact, so attention reads plain slices: no gather, no page table. A row that finishes is filled with the
last one; what must outlive its row (a session waiting for its tool, a shared prompt) is copied out at its exact
length. Position p of a row's context is at column p. Columns past a row's length hold stale but finite numbers, masked
while read.

The buffer is about as wide as its longest row, rounded up. A longer row widens it at once; it is narrowed when reading
the columns in vain has cost as much as a new layout. Attention then runs over all columns of contiguous matrices.
Reading the first columns of a wider buffer would do less arithmetic. But torch's batched product on CPU prepares each
matrix of a batch by itself where they are not contiguous: four times slower at 64 rows.

Shapes: L layers, 2 for keys and values, R rows, K key heads, C columns, D head size.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rlx.model.shape import Shape
from rlx.rollout.torch.decoder import LayerCache

BLOCK = 16
"""The number of columns is a multiple of this."""
LAYOUT = 4
"""Cost of moving a column of a row to a new layout, in columns read by attention."""


def round_up(num_columns: int) -> int:
    return math.ceil(num_columns / BLOCK) * BLOCK


class Cache:
    """The buffer and what depends on its size alone."""

    can_shorten = True
    """A context can be continued from any position before its end."""

    def __init__(self, shape: Shape, max_rows: int, device: torch.device, dtype: torch.dtype) -> None:
        self.shape, self.max_rows, self.device = shape, max_rows, device
        size = (shape.layers, 2, 1, shape.key_heads, BLOCK, shape.head_size)
        self._memory = torch.zeros(math.prod(size), device=device, dtype=dtype)
        self._spare = self._memory.new_zeros(0)
        """On CPU the memory of the layout before this one, for the next: fresh pages cost more than the copy."""
        self._num_used = 0
        """First rows that may hold something: no others are moved to a new layout."""
        self._num_vain = 0
        """Columns that attention read in vain since the last layout, over all rows."""
        self._install(self._memory.view(size))

    @property
    def num_rows(self) -> int:
        return self._buffer.shape[2]

    @property
    def num_columns(self) -> int:
        return self._buffer.shape[4]

    def reserve(self, num_rows: int, num_columns: int) -> None:
        """Room for the first rows at this length. Growing takes an eighth more at least, so that it stays rare."""
        rows, columns = self.num_rows, self.num_columns
        if num_rows > rows:
            rows = min(max(num_rows, 2 * rows), self.max_rows)
        if num_columns > columns:
            columns = max(round_up(num_columns), columns + columns // 8 // BLOCK * BLOCK)
        if (rows, columns) != (self.num_rows, self.num_columns):
            self._resize(rows, columns)
        self._num_used = max(self._num_used, num_rows)

    def shed(self, num_columns: int, num_rows: int) -> None:
        """Before a tick of the first rows, drop columns past the longest one's length, a quarter of all or more.

        They are dropped once they were read in vain as often as a new layout costs. Without rows there is nothing to
        move: the layout is then what these lengths ask for, whatever came before.
        """
        needed, self._num_used = round_up(num_columns), num_rows
        self._num_vain += max(0, self.num_columns - needed) * num_rows
        pays = needed <= self.num_columns * 3 // 4 and self._num_vain >= LAYOUT * needed * num_rows
        if pays if num_rows else needed != self.num_columns:
            self._resize(self.num_rows, needed)

    def _resize(self, rows: int, columns: int) -> None:
        old, common, used = self._buffer, min(columns, self.num_columns), self._num_used
        self._num_vain = 0
        size = (*old.shape[:2], rows, old.shape[3], columns, old.shape[5])
        if self._spare.numel() < math.prod(size):
            self._spare = old.new_zeros(0)  # let go before there is a larger one
            self._spare = old.new_zeros(math.prod(size))
        new = self._spare[: math.prod(size)].view(size)
        new[:, :, :used, :, :common] = old[:, :, :used, :, :common]
        self._spare, self._memory = self._memory, self._spare
        if self.device.type != "cpu":
            self._spare = self._memory.new_zeros(0)
        self._install(new)

    def clear(self) -> None:
        """Forget numbers that are not finite: a masked NaN is still NaN."""
        self._memory.zero_()
        self._spare.zero_()

    def _install(self, buffer: Tensor) -> None:
        self._buffer = buffer
        _, _, R, K, C, D = buffer.shape
        self._layers = [(layer[0].view(R * K, C, D), layer[1].view(R * K, C, D), layer.view(-1, D)) for layer in buffer]
        self._viewed: tuple[int, int, list[LayerCache]] = (0, 0, [])
        part = torch.arange(2, device=self.device)[None, :, None] * R
        row = torch.arange(R, device=self.device)[:, None, None]
        head = torch.arange(K, device=self.device)[None, None, :]
        self._origins = (((part + row) * K + head) * C).view(R, 1, 2 * K)
        """Offset of column 0 of each row, part and head in the flat buffer."""
        ramp = torch.cat((buffer.new_zeros(C), buffer.new_full((C,), -math.inf)))
        self._windows = ramp.unfold(0, C, 1)
        """Row C - 1 - p is 0 at columns up to p and -inf after it."""

    def places(self, first_row: int, positions_BN: Tensor) -> Tensor:
        """Flat indices of tokens at these positions of rows from `first_row`, as `Decoder.forward` wants them."""
        origins = self._origins[first_row : first_row + positions_BN.shape[0]]
        return (origins + positions_BN.unsqueeze(-1)).view(-1)

    def bias(self, positions_M: Tensor) -> Tensor:
        """Return the mask that keeps tokens from looking past their position, (M, C)."""
        return self._windows.index_select(0, self.num_columns - 1 - positions_M)

    def view(self, first_row: int, num_rows: int) -> list[LayerCache]:
        """Some rows of each layer; the same list again while nothing has changed."""
        if self._viewed[:2] != (first_row, num_rows):
            first, last = first_row * self.shape.key_heads, (first_row + num_rows) * self.shape.key_heads
            views = [
                LayerCache(keys=keys[first:last].transpose(1, 2), values=values[first:last], flat=flat)
                for keys, values, flat in self._layers
            ]
            self._viewed = (first_row, num_rows, views)
        return self._viewed[2]

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the start of a row over another."""
        self._buffer[:, :, target, :, :length] = self._buffer[:, :, source, :, :length]

    def save(self, row: int, length: int, start: int = 0) -> Tensor:
        """A copy of a row from `start` to `length`, (L, 2, K, length - start, D)."""
        return self._buffer[:, :, row, :, start:length].clone()

    def restore(self, first_row: int, num_rows: int, saved: Tensor, length: int, start: int = 0) -> None:
        """Put what was saved from `start` on, up to `length`, into consecutive rows."""
        rows = self._buffer[:, :, first_row : first_row + num_rows]
        rows[..., start:length, :] = saved[:, :, None, :, : length - start]
