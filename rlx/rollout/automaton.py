"""Token automata as masks: which ids a row may not sample, for every state of every automaton in use.

Shapes: S rows of the table, V ids.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rlx.types import Automaton


@dataclass(slots=True, kw_only=True)
class Walk:
    """Where a request is in its automaton."""

    automaton: Automaton
    offset: int
    """Row of the table that is state 0."""
    state: int

    def check(self, session: int) -> None:
        """ValueError in a state that allows nothing."""
        if not self.automaton.allowed[self.state]:
            raise ValueError(f"session {session}: the automaton allows no token in state {self.state}; give it an exit")

    def take(self, token: int, session: int) -> int:
        """Move by a sampled id; the answer is the state it was sampled in."""
        state = self.state
        if token not in self.automaton.allowed[state]:
            raise RuntimeError(f"session {session}: sampled id {token}, which state {state} of its automaton forbids")
        self.state = self.automaton.moves[state].get(token, state)
        return state


class Masks:
    """One table of forbidden ids; row 0 forbids nothing and serves requests without an automaton."""

    def __init__(self, num_ids: int, device: torch.device) -> None:
        self._table_SV = torch.zeros((1, num_ids), dtype=torch.bool, device=device)
        self._known: dict[int, tuple[Automaton, int]] = {}
        """By identity, as an Automaton holds dicts and so has no hash; the value keeps the object alive."""

    def start(self, automaton: Automaton) -> Walk:
        """A walk from the automaton's first state; its masks are built when it is first seen."""
        if id(automaton) not in self._known:
            offset = self._table_SV.shape[0]
            table = forbidden(automaton, self._table_SV.shape[1]).to(self._table_SV.device)
            self._table_SV = torch.cat((self._table_SV, table))
            self._known[id(automaton)] = (automaton, offset)
        return Walk(automaton=automaton, offset=self._known[id(automaton)][1], state=automaton.start)

    def apply(self, logits_BV: Tensor, walks: list[Walk | None]) -> Tensor:
        """Logits with -inf at what each row's state forbids."""
        rows = [0 if walk is None else walk.offset + walk.state for walk in walks]
        index = torch.tensor(rows, device=logits_BV.device)
        return logits_BV.masked_fill(self._table_SV.index_select(0, index), -torch.inf)


def forbidden(automaton: Automaton, num_ids: int) -> Tensor:
    """True at the ids that each state forbids, (states, V). ValueError if the automaton does not fit together."""
    num_states = len(automaton.allowed)
    targets = {automaton.start}.union(*(moves.values() for moves in automaton.moves))
    if len(automaton.moves) != num_states or not all(0 <= state < num_states for state in targets):
        raise ValueError(f"automaton: moves and start must name its {num_states} states, 0 to {num_states - 1}")
    table = torch.ones((num_states, num_ids), dtype=torch.bool)
    for state, allowed in enumerate(automaton.allowed):
        if allowed and (min(allowed) < 0 or max(allowed) >= num_ids):
            raise ValueError(f"automaton: state {state} allows ids outside the model's 0 to {num_ids - 1}")
        table[state, sorted(allowed)] = False
    return table
