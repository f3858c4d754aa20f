"""A beginning of an episode, by which rows of new actions are fitted (rlx.model.rows)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A training prompt, and a path that leads out of the text after it."""

    prompt: tuple[int, ...]
    routes: frozenset[str]
    """Actions that may be chosen in the text after the prompt."""
    path: tuple[int, ...] = ()
    """Ids of the descriptions of actions that follow the text, a route first."""
    choices: tuple[frozenset[str], ...] = ()
    """Actions that may be chosen before each id of the path; empty within a description."""
