"""Walk of a request through its engine's automaton: the current state, and the tokens that the state forbids."""

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
    """Current state of a request."""

    automaton: Automaton
    state: int

    def allows(self, chosen: int) -> bool:
        return self.automaton.states[self.state].allows(chosen)

    def take(self, chosen: int, session: int) -> bool:
        """Move by a sampled id; return True if this id ends the completion."""
        state = self.automaton.states[self.state]
        if not state.allows(chosen):
            raise RuntimeError(f"session {session}: sampled id {chosen}, which state {self.state} forbids")
        self.state = state.moves.get(chosen, self.state)
        return chosen in state.ends

    def read(self, chosen: int) -> int:
        """Return the context's id for a sampled id: an action's id is replaced by the first of its description."""
        return chosen if self.automaton.actions is None else self.automaton.actions.read(chosen)


def walk(automaton: Automaton | None, request: Request) -> Walk | None:
    """Start a walk in the state that the request names; None if it names none."""
    if request.state is None:
        return None
    if automaton is None or not 0 <= request.state < len(automaton.states):
        has = "no automaton" if automaton is None else f"an automaton of {len(automaton.states)} states"
        raise RequestError(f"starts in state {request.state}, and the engine has {has}")
    return Walk(automaton=automaton, state=request.state)


def mask(masks: Masks, logits_BW: Tensor, walks: Sequence[Walk | None]) -> None:
    """Forbid in the logits, in place, each row's ids that its state does not allow."""
    masks.apply(logits_BW, torch.tensor([-1 if walk is None else walk.state for walk in walks]))
