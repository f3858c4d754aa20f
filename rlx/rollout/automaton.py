"""A request's way through its engine's automaton: where it is, and what that forbids the next token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rlx.model.masks import Masks
from rlx.protocol.automaton import Automaton
from rlx.rollout.engine import RequestError
from rlx.types import Request


@dataclass(slots=True, kw_only=True)
class Walk:
    """Where a request is."""

    automaton: Automaton
    state: int

    def allows(self, chosen: int) -> bool:
        return self.automaton.states[self.state].allows(chosen)

    def take(self, chosen: int, session: int) -> bool:
        """Move by a sampled id; whether it ends the completion."""
        state = self.automaton.states[self.state]
        if not state.allows(chosen):
            raise RuntimeError(f"session {session}: sampled id {chosen}, which state {self.state} forbids")
        self.state = state.moves.get(chosen, self.state)
        return chosen in state.ends

    def read(self, chosen: int) -> int:
        """What the context holds for a sampled id."""
        return chosen if self.automaton.actions is None else self.automaton.actions.read(chosen)


def walk(automaton: Automaton | None, request: Request) -> Walk | None:
    """From the state that the request names, if it does."""
    if request.state is None:
        return None
    if automaton is None or not 0 <= request.state < len(automaton.states):
        has = "no automaton" if automaton is None else f"an automaton of {len(automaton.states)} states"
        raise RequestError(f"starts in state {request.state}, and the engine has {has}")
    return Walk(automaton=automaton, state=request.state)


def mask(masks: Masks, logits_BW: Tensor, walks: Sequence[Walk | None]) -> None:
    """Write into logits what each row's state forbids."""
    masks.apply(logits_BW, torch.tensor([-1 if walk is None else walk.state for walk in walks]))
