"""An automaton's states as masks over logits: made once for a device, the same for who samples and who learns.

A state keeps its allowed ids or its forbidden ones, whichever are fewer, so that states of an action space are lists of
a few ids at any vocabulary. A mask is written into logits in place: forbidden ids where they are few; else the row is
filled, and what is allowed is put back.

Shapes: B rows, R some of them, W ids (of the vocabulary, then of added actions), S states, K ids of the longest list.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from rlx.protocol.automaton import Automaton, State

FORBIDDEN = -1e30
"""A logit outside the mask: its exp is 0, and 0 times it is 0, which minus infinity would not give."""


class Masks:
    """The masks of an automaton's states, and before them that of no state: every id but the added ones."""

    def __init__(self, automaton: Automaton, vocabulary: int, device: torch.device) -> None:
        """`vocabulary`: the rows of the model's own head."""
        num_ids = vocabulary + automaton.num_added
        check(automaton, vocabulary)
        states = [State(forbidden=frozenset(range(vocabulary, num_ids))), *automaton.states]
        self.device = device
        self.allowed, self.forbidden = (Lists(each, device) for each in zip(*(fewest(s, num_ids) for s in states)))

    def apply(self, logits_BW: Tensor, state_B: Tensor) -> None:
        """Write FORBIDDEN where the rows' states forbid; a state of -1 is none. States on the host wait for nothing."""
        state_B = state_B.cpu() + 1
        row_R1, ids_RK = self.forbidden.find(state_B)
        logits_BW[row_R1, ids_RK] = FORBIDDEN
        row_R1, ids_RK = self.allowed.find(state_B)
        kept_RK = logits_BW[row_R1, ids_RK]
        fill(logits_BW, row_R1[:, 0])
        logits_BW[row_R1, ids_RK] = kept_RK


def fill(logits_BW: Tensor, row_R: Tensor) -> None:
    """Forbid all of some rows; on a CPU one at a time, which is three times as fast."""
    if logits_BW.device.type == "cpu":
        for row in row_R.tolist():
            logits_BW[row].fill_(FORBIDDEN)
    else:
        logits_BW.index_fill_(0, row_R, FORBIDDEN)


class Lists:
    """Some ids for each state that has some."""

    def __init__(self, lists: Collection[Collection[int]], device: torch.device) -> None:
        longest = max(1, *(len(ids) for ids in lists))
        padded = [[*sorted(ids), *[max(ids, default=0)] * (longest - len(ids))] for ids in lists]
        self.ids_SK = torch.tensor(padded, device=device)
        """The last id repeated to the length of the longest."""
        self.has_S = torch.tensor([bool(ids) for ids in lists])

    def find(self, state_B: Tensor) -> tuple[Tensor, Tensor]:
        """Which rows have some ids, (R, 1), and these."""
        row_R = self.has_S[state_B].nonzero()[:, 0]
        device = self.ids_SK.device
        return row_R[:, None].to(device), self.ids_SK[state_B[row_R].to(device)]


def fewest(state: State, num_ids: int) -> tuple[Collection[int], Collection[int]]:
    """The ids that a state allows or those that it forbids, and nothing for the other."""
    if state.allowed is None:
        return ((), state.forbidden) if 2 * len(state.forbidden) <= num_ids else (rest(state.forbidden, num_ids), ())
    return (state.allowed, ()) if 2 * len(state.allowed) <= num_ids else ((), rest(state.allowed, num_ids))


def rest(ids: frozenset[int], num_ids: int) -> list[int]:
    return [i for i in range(num_ids) if i not in ids]


def check(automaton: Automaton, vocabulary: int) -> None:
    """ValueError unless the automaton is of a model with such a head, and its every state leaves some choice."""
    num_ids = vocabulary + automaton.num_added
    if automaton.actions is not None and automaton.actions.first != vocabulary:
        raise ValueError(f"automaton: its actions follow {automaton.actions.first} ids, and the model has {vocabulary}")
    for number, state in enumerate(automaton.states):
        named = {*(state.allowed or ()), *state.forbidden, *state.moves, *state.ends}
        if named and not (min(named) >= 0 and max(named) < num_ids):
            raise ValueError(f"automaton: state {number} names ids outside the model's 0 to {num_ids - 1}")
        if len(state.forbidden) == num_ids:
            raise ValueError(f"automaton: state {number} allows nothing; give it an exit")
