"""A fork in mid-turn: the replayed turns, the beginning of the first completion, and the joined first completion.

    parent   turn 0 ... turn k  [a b c d e f]
    fork     turn 0 ... turn k  [a b c | X Y | g h i]      token=3, forced=(X, Y); g h i are new

The engine receives `a b c X Y` as the beginning of the completion. The parent's cache holds everything up to c. The
engine checks the beginning for stop strings and masks it as if it had sampled it.
"""

from __future__ import annotations

from dataclasses import replace

from rlx.types import Completion, Start, Turn


def replayed_turns(start: Start) -> tuple[Turn, ...]:
    """Return the turns with repeated actions."""
    return start.prefix if start.fork is None else start.prefix[: start.fork.turn]


def branch_turn(start: Start) -> Turn | None:
    """Return the parent's turn at which the fork branches; None if it is unknown or there is no fork."""
    return None if start.fork is None else next(iter(start.prefix[start.fork.turn :]), None)


def completion_prefix(start: Start) -> tuple[int, ...]:
    """Return the chosen ids at the beginning of a fork's first completion; empty without a fork."""
    turn = branch_turn(start)
    if start.fork is None or turn is None:
        return () if start.fork is None else start.fork.forced
    completion = turn.completion
    return (completion.chosen_ids or completion.token_ids)[: start.fork.token] + start.fork.forced


def add_parent_logprobs(start: Start, completion: Completion) -> Completion:
    """Complete a fork's first completion with the log-probs of its parent's tokens; others stay as they are."""
    turn = branch_turn(start)
    if start.fork is None or turn is None:
        return completion
    token, parent = start.fork.token, turn.completion
    watched = parent.watched[:token] + completion.watched[token:] if parent.watched else completion.watched
    return replace(completion, logprobs=parent.logprobs[:token] + completion.logprobs[token:], watched=watched)
