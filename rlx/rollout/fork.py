"""A fork in mid-turn: what it replays, what it is given to go on from, and its first turn as one completion.

    parent   turn 0 ... turn k  [a b c d e f]
    fork     turn 0 ... turn k  [a b c | X Y | g h i]      token=3, forced=(X, Y); g h i are its own

The engine is given `a b c X Y` as the completion's beginning. It finds in the parent's cache all up to c, and hears and
masks what it was given as if it had sampled it.
"""

from __future__ import annotations

from dataclasses import replace

from rlx.types import Completion, Start, Turn


def replayed(start: Start) -> tuple[Turn, ...]:
    """The turns whose actions are repeated."""
    return start.prefix if start.fork is None else start.prefix[: start.fork.turn]


def left(start: Start) -> Turn | None:
    """The parent's turn that a fork leaves, where it is known."""
    return None if start.fork is None else next(iter(start.prefix[start.fork.turn :]), None)


def given(start: Start) -> tuple[int, ...]:
    """What a fork's first completion begins with, as it was chosen."""
    turn = left(start)
    if start.fork is None or turn is None:
        return () if start.fork is None else start.fork.forced
    said = turn.completion
    return (said.chosen_ids or said.token_ids)[: start.fork.token] + start.fork.forced


def joined(start: Start, completion: Completion) -> Completion:
    """A fork's first completion, with what its parent knows of the tokens taken over."""
    turn = left(start)
    if start.fork is None or turn is None:
        return completion
    token, said = start.fork.token, turn.completion
    watched = said.watched[:token] + completion.watched[token:] if said.watched else completion.watched
    return replace(completion, logprobs=said.logprobs[:token] + completion.logprobs[token:], watched=watched)
