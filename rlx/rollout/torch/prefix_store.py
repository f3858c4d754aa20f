"""Contexts stored outside the buffer: sessions that wait for a tool, and ended sessions of a group that may be forked.

A session that branches from another stores only its tokens after the branch, so a tree of forks needs the memory of its
distinct tokens, once.

    parent   [prompt, turn, turn, turn]
    fork              |----- [forced ids, turn]          base: the parent's, up to `start`
    its fork                      |------ [turn, turn]   base: the fork's
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from rlx.runs.codec import common_prefix


class RowCache(Protocol):
    """Caches of the rows being decoded (cache.py, states.py)."""

    can_shorten: bool

    def save(self, row: int, length: int, start: int = 0) -> Any:
        """Copy a row from `start` to `length`."""
        ...

    def restore(self, first_row: int, num_rows: int, saved: Any, length: int, start: int = 0) -> None:
        """Put a saved row, up to `length`, into consecutive rows from `start` on."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    """Cache of a context from position `start` on. `base` holds everything before it."""

    ids: Sequence[int]
    cache: Any
    """Value of `RowCache.save`."""
    logits: Tensor | None = None
    """Logits after the last id, (V,), if the context is a complete prompt; else None."""
    start: int = 0
    base: Saved | None = None

    def chain(self) -> Iterator[Saved]:
        """Yield this context, its base, the base of that, and so on."""
        yield self
        if self.base is not None:
            yield from self.base.chain()

    def restore(self, cache: RowCache, row: int, length: int) -> None:
        """Copy the first `length` tokens of the context into a row."""
        if self.base is not None:
            self.base.restore(cache, row, min(length, self.start))
        if length > self.start:
            cache.restore(row, 1, self.cache, length, self.start)


class PrefixStore:
    """Contexts of unreleased sessions, with the group of each."""

    def __init__(self, can_shorten: bool = True) -> None:
        self.can_shorten = can_shorten
        """A stored context can be continued from any position; else from its end alone."""
        self._saved: dict[int, Saved] = {}
        self._group: dict[int, int] = {}
        self._members: dict[int, dict[int, None]] = {}
        """Sessions of each group, in the order of their arrival."""
        self._bound = 0
        """Upper bound of the groups' tokens. An exact count at every park would cost quadratic time, so it is made only
        when this bound exceeds the limit."""
        self._branches: dict[int, tuple[Saved, int]] = {}
        """The context from which a session branched, and the length of the shared part."""

    def find(self, session: int, group: int | None, context: Sequence[int]) -> tuple[Saved | None, int, bool]:
        """Find the stored context with the longest common prefix that can be continued; return it, the length, and
        whether it is the session's.

        The prefix excludes the last id of `context`. The session's stored context is removed.
        """
        earlier = self._saved.pop(session, None)
        contexts = [] if earlier is None else [earlier]
        if group is not None:
            members = self._members.setdefault(group, {})
            contexts += [self._saved[other] for other in members if other in self._saved]
            members[session] = None
            self._group[session] = group
        lengths = [common_prefix(saved.ids, context[:-1]) for saved in contexts]
        if not self.can_shorten:
            lengths = [length if length == len(saved.ids) else 0 for length, saved in zip(lengths, contexts)]
        longest = max(lengths, default=0)
        if not longest:
            return None, 0, False
        best = contexts[lengths.index(longest)]
        if best is not earlier:
            self._branches[session] = best, longest
        return best, longest, best is earlier

    def park(self, cache: RowCache, row: int, session: int, ids: Sequence[int], most: int) -> None:
        """Store a row. Beyond `most` tokens in all groups' contexts the oldest are released."""
        base, start = self._branches.get(session, (None, 0))
        if base is not None and common_prefix(base.ids, ids) < start:
            base, start = None, 0
        self._saved[session] = Saved(ids, cache.save(row, len(ids), start), start=start, base=base)
        if session in self._group:
            self._bound += len(ids) - start
            if self._bound > most:
                self._shed(most)

    def _shed(self, most: int) -> None:
        """Release the oldest contexts of groups until `most` tokens are left."""
        while (num_tokens := self.num_tokens) > most:
            self.release(next(other for other in self._group if other in self._saved))
        self._bound = num_tokens

    @property
    def num_tokens(self) -> int:
        """Count the distinct tokens in the contexts of groups."""
        saved = [self._saved[session] for session in self._group if session in self._saved]
        pieces = {id(piece): piece for context in saved for piece in context.chain()}
        return sum(len(piece.ids) - piece.start for piece in pieces.values())

    def release(self, session: int) -> None:
        self._saved.pop(session, None)
        self._branches.pop(session, None)
        group = self._group.pop(session, None)
        if group is not None:
            del self._members[group][session]
            if not self._members[group]:
                del self._members[group]
