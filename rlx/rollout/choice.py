"""The next token of every row of a batch, whichever engine computed the logits. Shapes: B rows, V ids."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlx.model.masks import Masks
from rlx.rollout.automaton import mask
from rlx.rollout.row import RequestRow
from rlx.rollout.sampling import Knobs, Top, Watch, read_knobs, read_tops, read_watch, sample

RowSettings = tuple[list[RequestRow], Knobs, Watch | None, list[Top]]
"""Rows, and the tensors of their settings."""


class Chooser:
    """Each row by its own settings, state and random stream; what is derived from settings is kept while the rows
    stay the same."""

    def __init__(self, masks: Masks | None = None) -> None:
        self.masks = masks
        self._row_settings: RowSettings | None = None

    def choose(self, logits_BV: Tensor, rows: Sequence[RequestRow]) -> tuple[Tensor, list[int], list[float]]:
        """Sample the next id of every row. Return the ids, (B,), then ids and log-probs on the host.

        The device is waited for once, and once more where top_k or top_p filter. Masks overwrite logits.
        """
        if self.masks is not None:
            mask(self.masks, logits_BV, [row.walk for row in rows])
        uniform = torch.tensor([row.uniform() for row in rows], device=logits_BV.device)
        _, knobs, watch, tops = self._settings(logits_BV, rows)
        ids, logprobs = sample(logits_BV, uniform[:, None], knobs)
        if watch is not None:
            add_logprobs(rows, watch.logprobs(logits_BV, knobs))
        for top in tops:
            add_entropies([row for row in rows if row.request.entropy_of == top.num], top.entropies(logits_BV, knobs))
        tokens, scores = torch.stack((ids.double(), logprobs.double())).tolist()
        return ids, [int(token) for token in tokens], scores

    def _settings(self, logits_BV: Tensor, rows: Sequence[RequestRow]) -> RowSettings:
        if self._row_settings is None or not same(self._row_settings[0], rows):
            device, requests = logits_BV.device, [row.request for row in rows]
            knobs = read_knobs([request.sampling for request in requests], logits_BV.shape[1], device)
            watch = read_watch([request.watch for request in requests], device)
            self._row_settings = (
                list(rows),
                knobs,
                watch,
                read_tops([request.entropy_of for request in requests], device),
            )
        return self._row_settings


def add_logprobs(rows: Sequence[RequestRow], logprobs_BW: Tensor) -> None:
    """Give rows the log-probs of the ids that they watch."""
    watching = [row for row in rows if row.request.watch]
    for row, watched_logprobs in zip(watching, logprobs_BW.tolist(), strict=True):
        row.watching = tuple(watched_logprobs[: len(row.request.watch)])


def add_entropies(rows: Sequence[RequestRow], entropies: Tensor) -> None:
    """Give rows the entropies of their likeliest ids, after the log-probs of watched ones."""
    for row, entropy in zip(rows, entropies.tolist(), strict=True):
        row.watching = (*row.watching, entropy)


def same(old: Sequence[RequestRow], new: Sequence[RequestRow]) -> bool:
    """The very same rows at the same places."""
    return len(old) == len(new) and all(a is b for a, b in zip(old, new))


def force(logits_BV: Tensor, ids_B: Tensor) -> Tensor:
    """Logits that leave one choice: 0 at the ids and -inf elsewhere."""
    return torch.full_like(logits_BV, -torch.inf).scatter_(1, ids_B[:, None], 0.0)
