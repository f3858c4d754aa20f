"""Contexts outside the buffer: of sessions that wait for a tool, and of a group's that have ended and may be forked.

A session that leaves another where their contexts part holds only what comes after, so a tree of forks takes the memory
of its distinct tokens, once.

    parent   [prompt, turn, turn, turn]
    fork              |----- [forced ids, turn]          base: the parent's, up to `start`
    its fork                      |------ [turn, turn]   base: the fork's
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from rlx.record.codec import common_prefix
from rlx.rollout.torch.cache import Cache


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    """A context's cache: its own from position `start`, what is before it in `base`."""

    ids: Sequence[int]
    cache: Tensor
    logits: Tensor | None = None
    """After the last id, (V,), where the context is a whole prompt."""
    start: int = 0
    base: Saved | None = None

    def chain(self) -> Iterator[Saved]:
        """It and all that it builds on."""
        yield self
        if self.base is not None:
            yield from self.base.chain()

    def restore(self, cache: Cache, row: int, length: int) -> None:
        """Put the start of the context into a row."""
        if self.base is not None:
            self.base.restore(cache, row, min(length, self.start))
        if length > self.start:
            cache.restore(row, 1, self.cache, length, self.start)


class Kept:
    """The contexts of sessions that were not released, and which group each is of."""

    def __init__(self) -> None:
        self._saved: dict[int, Saved] = {}
        self._group: dict[int, int] = {}
        self._members: dict[int, dict[int, None]] = {}
        """By group, its sessions in the order in which they came."""
        self._bound = 0
        """No fewer than the groups' tokens, which are counted only beyond it: at every park it would cost a square."""
        self._left: dict[int, tuple[Saved, int]] = {}
        """What a session found of another's context, and how much of it."""

    def find(self, session: int, group: int | None, context: Sequence[int]) -> tuple[Saved | None, int, bool]:
        """The kept context that has most of this one: all but its last id at most; how much; whether it is its own,
        which is kept no longer."""
        own = self._saved.pop(session, None)
        found = [] if own is None else [own]
        if group is not None:
            members = self._members.setdefault(group, {})
            found += [self._saved[other] for other in members if other in self._saved]
            members[session] = None
            self._group[session] = group
        lengths = [common_prefix(saved.ids, context[:-1]) for saved in found]
        longest = max(lengths, default=0)
        if not longest:
            return None, 0, False
        best = found[lengths.index(longest)]
        if best is not own:
            self._left[session] = best, longest
        return best, longest, best is own

    def park(self, cache: Cache, row: int, session: int, ids: Sequence[int], most: int) -> None:
        """Copy a row out; of groups' contexts the oldest go where they come to more than `most` tokens together."""
        base, start = self._left.get(session, (None, 0))
        if base is not None and common_prefix(base.ids, ids) < start:
            base, start = None, 0
        self._saved[session] = Saved(ids, cache.save(row, len(ids), start), start=start, base=base)
        if session in self._group:
            self._bound += len(ids) - start
            if self._bound > most:
                self._shed(most)

    def _shed(self, most: int) -> None:
        """Release the oldest contexts of groups until they have `most` tokens."""
        while (num_tokens := self.num_tokens) > most:
            self.release(next(other for other in self._group if other in self._saved))
        self._bound = num_tokens

    @property
    def num_tokens(self) -> int:
        """Of the contexts of groups, each token once."""
        saved = [self._saved[session] for session in self._group if session in self._saved]
        pieces = {id(piece): piece for one in saved for piece in one.chain()}
        return sum(len(piece.ids) - piece.start for piece in pieces.values())

    def release(self, session: int) -> None:
        self._saved.pop(session, None)
        self._left.pop(session, None)
        group = self._group.pop(session, None)
        if group is not None:
            del self._members[group][session]
            if not self._members[group]:
                del self._members[group]
