"""Choosing a token: counter-based random numbers, inverse-CDF sampling, top-k and top-p.

Shapes: B rows, V ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rlx.types import Sampling

COLD = 1e-3
"""Below this temperature logits are first taken from their largest, so that no quotient overflows."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MASK_64 = (1 << 64) - 1
MASK_32 = (1 << 32) - 1
FIRST, WIDER = 256, 16
"""Candidates that are looked at first for top_p without top_k, and the factor where they do not hold it."""
ROUNDING = 1e-6
"""Share of a sum of float32 that its rounding stays below."""
FLOATS = torch.finfo(torch.float32)


def splitmix64(seed: int, first: int, count: int) -> np.ndarray:
    """Outputs `first` to `first + count - 1` of SplitMix64 seeded with `seed` (Steele, Lea and Flood, 2014), as uint64.

    Output p is a hash of seed + (p + 1) * golden ratio, so any of them can be had without those before it.
    """
    position = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    z = np.array([seed & MASK_64], dtype=np.uint64) + position * GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniforms(stream: int, first: int, count: int) -> list[float]:
    """u(stream, position) in [0, 1) for consecutive positions: the top 24 bits of SplitMix64, exact in float32."""
    return ((splitmix64(stream, first, count) >> np.uint64(40)) * 2.0**-24).tolist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """The sampling settings of a batch's rows as tensors, (B, 1) each; None where no row needs them."""

    temperature: Tensor | None
    """1 for greedy rows."""
    cold: Tensor | None
    greedy: Tensor | None
    filtered: Tensor | None
    top_k: Tensor
    """V where a row has none."""
    top_p: Tensor
    num_candidates: int
    """Candidates that are looked at first; V: all ids."""


COLUMNS = ("temperature", "cold", "greedy", "filtered", "top_k", "top_p")


def read_knobs(samplings: Sequence[Sampling], num_ids: int, device: torch.device) -> Knobs:
    """Columns of the rows' settings."""

    def column(values: list, dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=device)[:, None]

    greedy = [s.temperature == 0 for s in samplings]
    temperature = [min(max(s.temperature, FLOATS.tiny), FLOATS.max) if s.temperature else 1.0 for s in samplings]
    cold = [value < COLD for value in temperature]
    top_k = [min(s.top_k, num_ids) or num_ids for s in samplings]
    filtered = [not cold and (k < num_ids or s.top_p < 1) for s, k, cold in zip(samplings, top_k, greedy)]
    return Knobs(
        temperature=column(temperature, torch.float32) if set(temperature) != {1.0} else None,
        cold=column(cold, torch.bool) if any(cold) else None,
        greedy=column(greedy, torch.bool) if any(greedy) else None,
        filtered=column(filtered, torch.bool) if any(filtered) else None,
        top_k=column(top_k, torch.int64),
        top_p=column([s.top_p for s in samplings], torch.float32),
        num_candidates=max((first_candidates(k, num_ids) for k, on in zip(top_k, filtered) if on), default=0),
    )


def first_candidates(top_k: int, num_ids: int) -> int:
    """Return how many of the likeliest ids to look at first: more than top_k, in case that some are equal; without
    top_k as many as hold the usual top_p, which is checked."""
    return min(num_ids, FIRST if top_k == num_ids else 2 * top_k + 64)


def invert(cumulative_BV: Tensor, uniform_B1: Tensor) -> Tensor:
    """The first id whose cumulative probability exceeds u times the total: (B, 1).

    u is at most 1 - 2^-24, so u * total rounds to less than the total, and an id of probability zero is never chosen.
    """
    chosen = torch.searchsorted(cumulative_BV, uniform_B1 * cumulative_BV[:, -1:], right=True)
    return chosen.clamp_max_(cumulative_BV.shape[1] - 1)


def likeliest(probs_BV: Tensor, num: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `num` most probable ids, the smaller id first among equals, their probabilities, (B, num), and how
    many of them are sure, (B, 1).

    `topk` chooses freely among ids as probable as the last one, so these are not sure, unless all ids are asked for.
    Floats from 0 up are ordered as their bits are, so bits and id make one integer, of which no two are equal.
    """
    num_ids = probs_BV.shape[1]
    if num == num_ids:
        ids_BN = torch.arange(num_ids, device=probs_BV.device).expand_as(probs_BV)
        probs_BN, num_sure = probs_BV, torch.full_like(ids_BN[:, :1], num)
    else:
        probs_BN, ids_BN = probs_BV.topk(num, dim=-1)
        num_sure = (probs_BN > probs_BN[:, -1:]).sum(-1, keepdim=True)
    keys_BN = (probs_BN.contiguous().view(torch.int32).long() << 32) | (num_ids - 1 - ids_BN)
    order_BN = num_ids - 1 - (keys_BN.sort(dim=-1, descending=True).values & MASK_32)
    return probs_BV.gather(1, order_BN), order_BN, num_sure


def invert_filtered(probs_BV: Tensor, total_B1: Tensor, uniform_B1: Tensor, knobs: Knobs) -> Tensor:
    """Invert over a row's candidates, likeliest first: the top k, and of the top k the fewest with top_p of the sum.

    `total_B1` is the sum of all probabilities. Rows whose candidates may reach beyond the first ones look at more.
    """
    num_ids, num = probs_BV.shape[1], knobs.num_candidates
    probs, order, num_sure = likeliest(probs_BV, num)
    rank = torch.arange(num, device=probs.device)
    is_limited = knobs.top_k < num_ids
    probs = probs.masked_fill(rank >= knobs.top_k, 0.0)
    cumulative = probs.cumsum(-1)
    total_B1 = torch.where(is_limited, cumulative[:, -1:], total_B1)
    before, wanted = cumulative - probs, knobs.top_p * total_B1
    ids = order.gather(1, invert(probs.masked_fill((before >= wanted) & (rank > 0), 0.0).cumsum(-1), uniform_B1))
    if num == num_ids:
        return ids
    last = before.gather(1, (num_sure - 1).clamp_min(0))
    is_closed = ~is_limited & (num_sure > 0) & (last >= wanted + ROUNDING * total_B1)
    is_sure = is_closed | (knobs.top_k <= num_sure) | (probs_BV.gather(1, order[:, -1:]) == 0)
    if knobs.filtered is not None:
        is_sure = is_sure | ~knobs.filtered
    rows = (~is_sure).squeeze(1).nonzero().squeeze(1)
    if len(rows):
        part = replace(pick(knobs, rows), num_candidates=min(num_ids, num * WIDER))
        ids[rows] = invert_filtered(probs_BV[rows], total_B1[rows], uniform_B1[rows], part)
    return ids


def apply_temperature(logits_BV: Tensor, knobs: Knobs) -> Tensor:
    """logits / temperature, finite wherever the logits are, whatever the temperature: softmax knows no difference."""
    if knobs.temperature is None:
        return logits_BV
    if knobs.cold is not None:
        logits_BV = torch.where(knobs.cold, logits_BV - logits_BV.amax(-1, keepdim=True), logits_BV)
    return logits_BV / knobs.temperature


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Rows of a batch that watch ids, and these ids. W is the most that one watches; others repeat an id."""

    rows: Tensor
    ids: Tensor

    def logprobs(self, logits_BV: Tensor, knobs: Knobs) -> Tensor:
        """Return those of watched ids in the watching rows, (B, W), under the temperature that log-probs are under."""
        logits = apply_temperature(logits_BV.index_select(0, self.rows), pick(knobs, self.rows))
        return logits.log_softmax(-1).gather(1, self.ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """Rows of a batch that want the entropy of their `num` likeliest ids."""

    rows: Tensor
    num: int

    def entropies(self, logits_BV: Tensor, knobs: Knobs) -> Tensor:
        """Return the sum of -p log p over these ids, a value a row, under the temperature that log-probs are under."""
        logits = apply_temperature(logits_BV.index_select(0, self.rows), pick(knobs, self.rows))
        likeliest = logits.softmax(-1).topk(min(self.num, logits.shape[1]), dim=-1).values
        return torch.special.entr(likeliest).sum(-1)


def read_tops(nums: Sequence[int], device: torch.device) -> list[Top]:
    """Return the rows that want an entropy, by the number of ids that it is over."""
    wanted = sorted({*nums} - {0})
    rows = {num: [row for row, num_ids in enumerate(nums) if num_ids == num] for num in wanted}
    return [Top(rows=torch.tensor(rows[num], device=device), num=num) for num in wanted]


def pick(knobs: Knobs, rows: Tensor) -> Knobs:
    """Return the settings of some rows."""
    columns = {name: getattr(knobs, name) for name in COLUMNS}
    return replace(knobs, **{name: x.index_select(0, rows) for name, x in columns.items() if x is not None})


def read_watch(watches: Sequence[Sequence[int]], device: torch.device) -> Watch | None:
    """Return the watched ids, or None where no row watches any."""
    rows = [row for row, ids in enumerate(watches) if ids]
    if not rows:
        return None
    most = max(len(ids) for ids in watches)
    ids = [[*watches[row], *[watches[row][0]] * (most - len(watches[row]))] for row in rows]
    return Watch(rows=torch.tensor(rows, device=device), ids=torch.tensor(ids, device=device))


def sample(logits_BV: Tensor, uniform_B1: Tensor, knobs: Knobs) -> tuple[Tensor, Tensor]:
    """One id a row and its log-probability, (B,) each.

    The log-probability is that of softmax(logits / temperature), before top-k and top-p, and at temperature 1 for
    greedy rows. A row's choice depends on its own logits, settings and u alone. Not finite if the logits are not.
    """
    probs = torch.softmax(apply_temperature(logits_BV, knobs), -1)
    cumulative = probs.cumsum(-1)
    ids = invert(cumulative, uniform_B1)
    if knobs.filtered is not None:
        ids = torch.where(knobs.filtered, invert_filtered(probs, cumulative[:, -1:], uniform_B1, knobs), ids)
    if knobs.greedy is not None:
        ids = torch.where(knobs.greedy, logits_BV.argmax(-1, keepdim=True), ids)
    return ids.squeeze(1), probs.gather(1, ids).log().squeeze(1)
