"""Caches of transformers' models, a row at a time: the keys and values of attention layers, the states of others.

A model runs over a batch of rows. `Rows.gather` stacks rows into a cache of transformers, padded on the left, and
`Rows.scatter` cuts that cache into rows again. The batch of a tick stays as it is until a row comes or goes. Attention
layers with a sliding window keep all of their columns, so that a context can be continued from any position. The state
of a recurrent layer or a convolution holds for one length alone: it is copied, and never shortened.

Shapes: B rows, K key heads, C columns, D head size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer, LinearAttentionCacheLayerMixin

STATES = ("conv_states", "recurrent_states")
"""Attributes of a layer of transformers that hold states by number."""


@dataclass(frozen=True, slots=True)
class LayerState:
    """One layer's part of a row."""

    columns: tuple[Tensor, ...] = ()
    """Keys and values, (K, C, D) each; nothing for a layer without attention."""
    states: Mapping[tuple[str, int], Tensor] = field(default_factory=dict)
    """States by attribute and number."""


@dataclass(frozen=True, slots=True)
class RowState:
    """Cache of one context, from some position on."""

    length: int = 0
    """Number of columns."""
    layers: tuple[LayerState, ...] = ()


EMPTY = RowState()


@dataclass(slots=True)
class Batch:
    """Rows that run through the model together."""

    cache: DynamicCache
    num_columns: int
    """Columns of the longest row; the others have padding before their first column."""
    lengths: list[int]

    def row(self, index: int) -> RowState:
        """Return one row, as views of the batch."""
        first = self.num_columns - self.lengths[index]
        return RowState(self.lengths[index], tuple(cut(layer, index, first) for layer in self.cache.layers))


class Rows:
    """Caches of the rows being decoded, with the methods of rlx.rollout.torch.cache.Cache."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.can_shorten = not any(isinstance(layer, LinearAttentionCacheLayerMixin) for layer in self._empty().layers)
        """A context can be continued from any position before its end."""
        self._rows: list[RowState] = []
        self._batch: Batch | None = None
        """The first rows as they were computed last; None after any other change of rows."""

    def _empty(self) -> DynamicCache:
        cache = DynamicCache(config=self.config)
        cache.layers = [DynamicLayer() if type(each) is DynamicSlidingWindowLayer else each for each in cache.layers]
        return cache

    def reserve(self, num_rows: int, num_columns: int) -> None:
        """Nothing: a row takes the memory of its own length."""

    def shed(self, num_columns: int, num_rows: int) -> None:
        """Drop all but the first rows."""
        if num_rows < len(self._split()):
            del self._rows[num_rows:]

    def clear(self) -> None:
        """Nothing: rows share no memory, and padding is zero."""

    def first_rows(self, num: int) -> Batch:
        """Return the batch of the first rows, and drop the others. It may be changed in place."""
        if self._batch is None or len(self._batch.lengths) != num:
            self._batch = self.gather(range(num))
            self._rows = []
        return self._batch

    def gather(self, indices: Sequence[int]) -> Batch:
        """Copy rows into a new batch; a row that does not exist is empty."""
        rows = [self._split()[index] if index < len(self._split()) else EMPTY for index in indices]
        num_columns, cache = max(row.length for row in rows), self._empty()
        for index, layer in enumerate(cache.layers if num_columns else ()):
            stack(layer, [row.layers[index] for row in rows], num_columns)
        return Batch(cache, num_columns, [row.length for row in rows])

    def scatter(self, indices: Sequence[int], batch: Batch) -> None:
        """Put the rows of a batch in place of others."""
        for place, index in enumerate(indices):
            self._put(index, batch.row(place))

    def move(self, source: int, target: int, length: int) -> None:
        """Put a row in place of another."""
        rows = self._split()
        rows[target] = rows[source]

    def save(self, row: int, length: int, start: int = 0) -> RowState:
        """Copy a row from `start` to `length`."""
        state = self._split()[row]
        if not self.can_shorten and length != state.length:
            raise ValueError(f"row {row} holds the state after {state.length} tokens, not after {length}")
        layers = (
            LayerState(
                tuple(part[:, start:length].clone() for part in layer.columns),
                {key: part.clone() for key, part in layer.states.items()},
            )
            for layer in state.layers
        )
        return RowState(length - start, tuple(layers))

    def restore(self, first_row: int, num_rows: int, saved: RowState, length: int, start: int = 0) -> None:
        """Put a saved row, up to `length`, into consecutive rows from column `start` on."""
        rows = self._split()
        for index in range(first_row, first_row + num_rows):
            self._put(index, joined(rows[index] if start else None, saved, length, start))

    def _put(self, index: int, state: RowState) -> None:
        rows = self._split()
        rows += [EMPTY] * (index + 1 - len(rows))
        rows[index] = state

    def _split(self) -> list[RowState]:
        """Return the rows, of the last batch too."""
        if self._batch is not None:
            self._rows = [self._batch.row(index) for index in range(len(self._batch.lengths))]
            self._batch = None
        return self._rows


def cut(layer: Any, row: int, first: int) -> LayerState:
    """Return a row of a layer of transformers, from a column on."""
    columns: tuple[Tensor, ...] = ()
    if isinstance(layer, DynamicLayer) and layer.is_initialized:
        assert layer.keys is not None
        assert layer.values is not None
        columns = layer.keys[row, :, first:], layer.values[row, :, first:]
    states = {
        (name, number): state[row]
        for name in STATES
        for number, state in getattr(layer, name, {}).items()
        if state is not None
    }
    return LayerState(columns, states)


def stack(layer: Any, rows: Sequence[LayerState], num_columns: int) -> None:
    """Fill a layer of transformers with copies of rows."""
    if rows[0].columns:
        layer.keys, layer.values = (
            torch.stack([pad(part, (0, 0, num_columns - part.shape[1], 0)) for part in parts])
            for parts in zip(*(row.columns for row in rows))
        )
        layer.dtype, layer.device, layer.is_initialized = layer.keys.dtype, layer.keys.device, True
    for name, number in rows[0].states:
        state = torch.stack([row.states[name, number] for row in rows])
        getattr(layer, name)[number] = state
        getattr(layer, f"is_{name}_initialized")[number] = True
        if name == "conv_states":
            layer.dtype, layer.device = state.dtype, state.device
            layer.conv_kernel_size[number], layer.has_previous_state[number] = state.shape[-1], True


def joined(base: RowState | None, saved: RowState, length: int, start: int) -> RowState:
    """Return `base` up to `start`, with `saved` after it, up to `length`."""
    layers = []
    for index, layer in enumerate(saved.layers):
        columns = tuple(part[:, : length - start] for part in layer.columns)
        if base is not None:
            before = base.layers[index].columns
            columns = tuple(torch.cat((old[:, :start], new), 1) for old, new in zip(before, columns))
        layers.append(LayerState(columns, layer.states))
    return RowState(length, tuple(layers))
