"""Masks over logits for an automaton's states: built once per device, the same for engine and learner.

A state stores its allowed or its forbidden ids, whichever are fewer, so an action space needs a few ids per state at
any vocabulary. A mask is written into logits in place. If few ids are forbidden, these are written; else the row is
filled and the allowed logits are restored.

Shapes: B rows, R some of them, W ids (of the vocabulary, then of added actions), S states, K ids of the longest list.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from rlx.protocol.automaton import Automaton, State

FORBIDDEN = -1e30
"""Logit of a forbidden id. Its exp is 0, and 0 times it is 0, unlike 0 times minus infinity."""


class Masks:
    """Masks of an automaton's states. Index 0 is the mask without a state: every id but the added ones."""

    def __init__(self, automaton: Automaton, vocabulary: int, device: torch.device) -> None:
        """Build the masks. `vocabulary`: number of rows of the model's head."""
        num_ids = vocabulary + automaton.num_added
        check(automaton, vocabulary)
        states = [State(forbidden=frozenset(range(vocabulary, num_ids))), *automaton.states]
        self.device = device
        self.allowed, self.forbidden = (Lists(each, device) for each in zip(*(fewest(s, num_ids) for s in states)))

    def apply(self, logits_BW: Tensor, state_B: Tensor) -> None:
        """Write FORBIDDEN where the rows' states forbid an id; state -1 means no state. With states on the host nothing
        waits for the device."""
        state_B = state_B.cpu() + 1
        row_R1, ids_RK = self.forbidden.find(state_B)
        logits_BW[row_R1, ids_RK] = FORBIDDEN
        row_R1, ids_RK = self.allowed.find(state_B)
        logits_RK = logits_BW[row_R1, ids_RK]
        fill(logits_BW, row_R1[:, 0])
        logits_BW[row_R1, ids_RK] = logits_RK


def fill(logits_BW: Tensor, row_R: Tensor) -> None:
    """Forbid all ids of some rows. On a CPU the rows are filled one at a time, which is three times as fast."""
    if logits_BW.device.type == "cpu":
        for row in row_R.tolist():
            logits_BW[row].fill_(FORBIDDEN)
    else:
        logits_BW.index_fill_(0, row_R, FORBIDDEN)


class Lists:
    """List of ids per state; a state may have none."""

    def __init__(self, lists: Collection[Collection[int]], device: torch.device) -> None:
        longest = max(1, *(len(ids) for ids in lists))
        padded = [[*sorted(ids), *[max(ids, default=0)] * (longest - len(ids))] for ids in lists]
        self.ids_SK = torch.tensor(padded, device=device)
        """Ids of each state, padded with the last id to the length of the longest list."""
        self.has_S = torch.tensor([bool(ids) for ids in lists])

    def find(self, state_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows with a list, (R, 1), and their ids, (R, K)."""
        row_R = self.has_S[state_B].nonzero()[:, 0]
        device = self.ids_SK.device
        return row_R[:, None].to(device), self.ids_SK[state_B[row_R].to(device)]


def fewest(state: State, num_ids: int) -> tuple[Collection[int], Collection[int]]:
    """Return the shorter list of a state, allowed or forbidden ids, and an empty one for the other."""
    if state.allowed is None:
        return ((), state.forbidden) if 2 * len(state.forbidden) <= num_ids else (rest(state.forbidden, num_ids), ())
    return (state.allowed, ()) if 2 * len(state.allowed) <= num_ids else ((), rest(state.allowed, num_ids))


def rest(ids: frozenset[int], num_ids: int) -> list[int]:
    return [i for i in range(num_ids) if i not in ids]


def check(automaton: Automaton, vocabulary: int) -> None:
    """Raise ValueError unless the automaton fits a head of this size and every state allows some id."""
    num_ids = vocabulary + automaton.num_added
    if automaton.actions is not None and automaton.actions.first != vocabulary:
        raise ValueError(f"automaton: its actions follow {automaton.actions.first} ids, and the model has {vocabulary}")
    for number, state in enumerate(automaton.states):
        named = {*(state.allowed or ()), *state.forbidden, *state.moves, *state.ends}
        if named and not (min(named) >= 0 and max(named) < num_ids):
            raise ValueError(f"automaton: state {number} names ids outside the model's 0 to {num_ids - 1}")
        if len(state.forbidden) == num_ids:
            raise ValueError(f"automaton: state {number} allows nothing; give it an exit")
