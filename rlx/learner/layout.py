"""Layout of a packed micro-batch for attention: which tokens see which.

A token sees its segment's tokens up to itself, and its context: a path through the segments before it. On a CPU
the layout is rectangles of segments of similar length, or spans where rectangles would grow with the square of a
length. On a GPU the layout is a mask of blocks.

Legend: T tokens of a micro-batch; s segments of a rectangle, c their longest context, l the longest of them, k = c + l.
"""

# ruff: noqa: N815 (fields carry shape suffixes)
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from rlx.hardware.sizing.update_sizes import KEYS

SPREAD = 1.3
"""Largest ratio of a rectangle's longest segment to its shortest: attention pays for the longest, squared."""
SLACK = 64
"""Tokens by which contexts may differ besides: attention pays for the longest, once."""
BIAS_ELEMENTS = 2**21
"""Limit of a bias's elements, over all rectangles of a micro-batch."""

BLOCK = 128
"""Tokens on a side of a mask's block."""

Run = tuple[int, int]
"""Consecutive tokens among T: the first, and how many."""
Index = slice | Tensor
"""Tokens among T."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Positions of a micro-batch's segments among its T tokens; a value per segment."""

    parent: Sequence[int]
    """Index of the parent in this table, or -1."""
    joint: Sequence[int]
    start: Sequence[int]
    length: Sequence[int]
    context: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """Segments of like length."""

    members: list[int]
    context: int
    """Length at which their contexts are laid out, 0 where there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rectangle:
    """Segments of like length, for one call of attention; entries beyond a length repeat the last one."""

    queries_sl: Tensor
    keys_sk: Tensor
    """Tokens that a segment's tokens may see: its context, then its own."""
    context_s: Tensor
    """Lengths of their contexts: one number if all are alike, none where there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rectangles:
    """All tokens, in as many calls as there are rectangles."""

    rectangles: tuple[Rectangle, ...]
    restore_T: Tensor
    """Index of each packed token's output among the outputs of all rectangles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Tokens that see all of some others, or each other up to themselves."""

    queries: Index
    keys: Index
    causal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Visibility for FlexAttention: segments lie depth first, so the readers of a token are consecutive tokens."""

    end_T: Tensor
    """End of each token's readers: the index after the last reader."""
    position_T: Tensor
    """Position of each token in its path."""
    partly_qk: Tensor
    """Blocks of queries that see some of a block of keys."""
    wholly_qk: Tensor
    """Blocks of queries that see all of a block of keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Visibility of a micro-batch's tokens, in the form that suits the device."""

    placed: Placement
    visibility: Rectangles | tuple[Span, ...] | Sight
    longest: int
    """The most that a token sees, with itself."""


def lay_out(placed: Placement, device: str) -> Layout:
    """Lay tokens out for attention, by device. Except on a `cpu`, segments must lie depth first."""
    longest = max(context + length for context, length in zip(placed.context, placed.length))
    if device != "cpu":
        return Layout(placed=placed, visibility=lay_sight(placed), longest=longest)
    cohort_list = list(cohorts(placed))
    visibility = lay_rectangles(placed, cohort_list) if win(placed, cohort_list) else lay_spans(placed)
    return Layout(placed=placed, visibility=visibility, longest=longest)


def win(placed: Placement, cohort_list: Sequence[Cohort]) -> bool:
    """Tell whether rectangles are short enough, and share little enough, to be as fast as spans or faster."""
    num_keys = sum(len(cohort.members) * (cohort.context + longest_of(placed, cohort)) for cohort in cohort_list)
    biased = sum(num_biased(placed, cohort) for cohort in cohort_list)
    return num_keys <= KEYS * sum(placed.length) and biased <= BIAS_ELEMENTS


def cohorts(placed: Placement) -> Iterator[Cohort]:
    """Segments by the length of their context and by their own; those without a context apart."""
    roots = [s for s, parent in enumerate(placed.parent) if parent < 0]
    yield from (Cohort(members=members, context=0) for members in alike(roots, placed.length, SLACK))
    for near in alike((s for s, parent in enumerate(placed.parent) if parent >= 0), placed.context, SLACK):
        longest = max(placed.context[s] for s in near)
        yield from (Cohort(members=members, context=longest) for members in alike(near, placed.length))


def alike(members: Iterable[int], lengths: Sequence[int], slack: int = 0) -> list[list[int]]:
    """Segments by length, cut where one is more than `SPREAD` times as long as the shortest before it, and `slack`."""
    order, cuts = sorted(members, key=lambda s: lengths[s]), [0]
    for index, s in enumerate(order):
        if lengths[s] > SPREAD * lengths[order[cuts[-1]]] + slack:
            cuts.append(index)
    return [order[low:high] for low, high in pairwise([*cuts, len(order)]) if low < high]


def num_biased(placed: Placement, cohort: Cohort) -> int:
    """Elements of the bias that these would take."""
    contexts, longest = [placed.context[s] for s in cohort.members], longest_of(placed, cohort)
    return num_biases(contexts) * longest * (cohort.context + longest) if cohort.context else 0


def longest_of(placed: Placement, cohort: Cohort) -> int:
    return max(placed.length[s] for s in cohort.members)


def num_biases(contexts: Sequence[int]) -> int:
    return 1 if min(contexts) == max(contexts) else len(contexts)


def lay_rectangles(placed: Placement, cohort_list: Sequence[Cohort]) -> Rectangles:
    paths = [path(placed, s) for s in range(len(placed.start))]
    rectangles, place, first = [], torch.zeros(len(paths), dtype=torch.long), 0
    for cohort in cohort_list:
        part = lay_rectangle(placed, cohort, paths)
        place[torch.tensor(cohort.members)] = first + torch.arange(len(cohort.members)) * part.queries_sl.shape[1]
        first += part.queries_sl.numel()
        rectangles.append(part)
    return Rectangles(rectangles=tuple(rectangles), restore_T=ragged(place, torch.tensor(placed.length)))


def lay_rectangle(placed: Placement, cohort: Cohort, paths: Sequence[Sequence[Run]]) -> Rectangle:
    start_s, length_s, context_s = (
        torch.tensor([column[s] for s in cohort.members]) for column in (placed.start, placed.length, placed.context)
    )
    queries_sl = rectangle(start_s, length_s)
    if not cohort.context:
        return Rectangle(queries_sl=queries_sl, keys_sk=queries_sl, context_s=context_s[:0])
    context_tokens = tokens([run for s in cohort.members for run in paths[s]])
    context_sc = context_tokens[rectangle(context_s.cumsum(0) - context_s, context_s, cohort.context)]
    num = num_biases(context_s.tolist())
    return Rectangle(queries_sl=queries_sl, keys_sk=torch.cat([context_sc, queries_sl], 1), context_s=context_s[:num])


def path(placed: Placement, segment: int) -> list[Run]:
    """A segment's context, from its root on."""
    runs = []
    while (parent := placed.parent[segment]) >= 0:
        runs.append((placed.start[parent], placed.joint[segment]))
        segment = parent
    return runs[::-1]


def lay_spans(placed: Placement) -> tuple[Span, ...]:
    """Each segment by itself; then all that left another at the same token, and see the same context, together."""
    segments = [slice(start, start + length) for start, length in zip(placed.start, placed.length)]
    leaving: dict[tuple[int, int], list[int]] = {}
    for s, joint in enumerate(zip(placed.parent, placed.joint)):
        leaving.setdefault(joint, []).append(s)
    contexts = [
        Span(
            queries=index([(placed.start[s], placed.length[s]) for s in members]),
            keys=index(path(placed, members[0])),
            causal=False,
        )
        for (parent, _), members in leaving.items()
        if parent >= 0
    ]
    return (*(Span(queries=tokens, keys=tokens, causal=True) for tokens in segments), *contexts)


def lay_sight(placed: Placement) -> Sight:
    ends = [start + length for start, length in zip(placed.start, placed.length)]
    end_T = torch.tensor(ends, dtype=torch.int32).repeat_interleave(torch.tensor(placed.length))
    last = list(ends)
    for s in reversed(range(len(ends))):
        if (parent := placed.parent[s]) >= 0:
            last[parent] = max(last[parent], last[s])
    for s, (parent, joint) in enumerate(zip(placed.parent, placed.joint)):
        if parent >= 0:
            end_T[placed.start[parent] : placed.start[parent] + joint] = last[s]
    position_T = ragged(torch.tensor(placed.context), torch.tensor(placed.length)).int()
    return Sight(end_T=end_T, position_T=position_T, **blocks(end_T))


def blocks(end_T: Tensor) -> dict[str, Tensor]:
    """Return the blocks of keys that each block of queries sees, in part and as a whole."""
    num = -(-len(end_T) // BLOCK)
    low, high = torch.nn.functional.pad(end_T, (0, num * BLOCK - len(end_T))).view(num, BLOCK).aminmax(dim=1)
    first = torch.arange(num) * BLOCK
    before_qk = first < first[:, None]
    wholly_qk = before_qk & (low >= (first + BLOCK).clamp(max=len(end_T))[:, None])
    partly_qk = (before_qk & (high > first[:, None]) & ~wholly_qk) | torch.eye(num, dtype=torch.bool)
    return {"partly_qk": partly_qk, "wholly_qk": wholly_qk}


def blocks_within(sight: Sight, window: int) -> dict[str, Tensor]:
    """Return the blocks of keys that each block of queries sees in a window of the last tokens of each path."""
    num = len(sight.partly_qk)
    low, high = last_repeated(sight.position_T, num * BLOCK).view(num, BLOCK).aminmax(dim=1)
    near_qk = low[:, None] - high < window
    any_qk = (sight.partly_qk | sight.wholly_qk) & near_qk
    wholly_qk = sight.wholly_qk & (high[:, None] - low < window)
    return {"partly_qk": any_qk & ~wholly_qk, "wholly_qk": wholly_qk}


def last_repeated(values: Tensor, length: int) -> Tensor:
    """Extend values to a length by repeating the last one."""
    return torch.cat([values, values[-1:].expand(length - len(values))])


def index(runs: Sequence[Run]) -> Index:
    """A slice where the runs are one."""
    (first, _), (last, num) = runs[0], runs[-1]
    is_contiguous = all(start + length == after for (start, length), (after, _) in pairwise(runs))
    return slice(first, last + num) if is_contiguous else tokens(runs)


def tokens(runs: Sequence[Run]) -> Tensor:
    start, length = torch.tensor(runs).T
    return ragged(start, length)


def ragged(start: Tensor, length: Tensor) -> Tensor:
    """start[0], start[0]+1, ... (length[0] of them), start[1], ..."""
    before = length.cumsum(0) - length
    return torch.arange(int(length.sum())) + (start - before).repeat_interleave(length)


def rectangle(start: Tensor, length: Tensor, longest: int = 0) -> Tensor:
    """Build a row of consecutive indices per segment; beyond its length a row repeats the last index."""
    steps = torch.arange(longest or int(length.max()))
    return start[:, None] + steps.minimum(length[:, None] - 1)
