"""Trees of a task's episodes: where to fork them, and the worth of an edge.

A state is what an agent has seen before a turn; an edge is the turn it takes there. All fresh episodes of a task begin
in one state, the root, and a fork takes another edge from a state of an earlier episode.

    root -a-> s1 -c-> R=1        V(u)    = mean over the edges e of u of Q(e)
              s1 -d-> R=0        Q(u, v) = r(e) + V(v), and V of a leaf is 0
    root -b-> s2 -e-> R=1        A(e)    = Q(e) - V(u)
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from rlx.algo.credit import NOTHING, dropping_equal
from rlx.algo.parts import Ask, Credit, Credited, Growth, PerRow, Sampler, SamplerContext
from rlx.algo.rows import Rows
from rlx.algo.samplers import leave
from rlx.limits import MANY, within
from rlx.types import Completion, Group, Start, Trajectory

ForkOrder = Literal["largest", "smallest", "random"]
"""State to fork next: the one with the largest or smallest uncertainty per count, or any."""
Update = Literal["critical", "all"]
"""Edges to train: those that have siblings, or all, where one without siblings has the advantage of the edge before."""


@dataclass(slots=True)
class State:
    """A state of a growing tree."""

    parent: Trajectory
    """An episode that passes it."""
    turn: int
    uncertainty: float
    """Running mean of the surprise of the edges that were sampled there."""
    num_edges: int = 1
    """Edges whose surprise is in the mean."""
    count: int = 1
    """Edges that were sampled there, or are under way."""

    def add(self, surprise: float) -> None:
        """h <- (h' + h n) / (n + 1)."""
        self.uncertainty = (surprise + self.uncertainty * self.num_edges) / (self.num_edges + 1)
        self.num_edges += 1


def surprise(done: Completion) -> float:
    """-1/T sum over t of log p(y_t), under the temperature and the masks of sampling."""
    return -sum(done.logprobs) / max(1, len(done.logprobs))


def progressive(num_fresh: int, num_forks: int, order: ForkOrder, num_live: int) -> Sampler:
    """`num_fresh` episodes from the root, then `num_forks` forks, one after another, of the state that is due.

    Up to `num_live` forks are under way at once; one that is counts in its state's count from its start on. Source:
    Algorithm 1 of CARL (arXiv:2512.04949), which has one under way.
    """
    within(1, MANY, num_fresh=num_fresh, num_live=num_live)
    within(0, MANY, num_forks=num_forks)

    def grow(context: SamplerContext) -> Growth:
        played: list[Trajectory] = list((yield [Start(task=context.task, sample=i) for i in range(num_fresh)]))
        states = first_states(played)
        live: deque[State] = deque()
        begun = 0
        while live or (states and begun < num_forks):
            starts = []
            while states and begun < num_forks and len(live) < num_live:
                state = choose_state(states, order, context.rng)
                starts.append(leave(state.parent, sample=num_fresh + begun, turn=state.turn))
                live.append(state)
                state.count += 1
                begun += 1
            (fork,) = yield Ask(starts=starts, wait=1)
            played.append(fork)
            receive(fork, live.popleft(), states)
        return Group(task=context.task, trajectories=tuple(played))

    return Sampler(num_episodes=num_fresh, num_forks=num_forks, forks_always=True, grow=grow)


def first_states(played: Sequence[Trajectory]) -> list[State]:
    """Return the root, once, and the later states of fresh episodes; those that ended in an error have none."""
    whole = [one for one in played if one.status != "error" and one.turns]
    if not whole:
        return []
    surprises = [surprise(one.turns[0].completion) for one in whole]
    root = State(
        parent=whole[0], turn=0, uncertainty=sum(surprises) / len(whole), num_edges=len(whole), count=len(whole)
    )
    return [root, *(state for one in whole for state in later_states(one, 1))]


def later_states(one: Trajectory, first: int) -> Iterator[State]:
    """Yield the states of an episode from a turn on."""
    for turn, what in enumerate(one.turns[first:], first):
        yield State(parent=one, turn=turn, uncertainty=surprise(what.completion))


def choose_state(states: Sequence[State], order: ForkOrder, rng: Random) -> State:
    """Return the state to fork; of equal ones the first."""
    if order == "random":
        return rng.choice(states)
    sign = 1 if order == "largest" else -1
    return max(states, key=lambda state: sign * state.uncertainty / state.count)


def receive(fork: Trajectory, state: State, states: list[State]) -> None:
    """Note what a fork sampled in its first state, and add the states after it; an error says nothing."""
    if fork.status == "error" or len(fork.turns) <= state.turn:
        return
    state.add(surprise(fork.turns[state.turn].completion))
    states.extend(later_states(fork, state.turn + 1))


def tree_difference(update: Update, merge: bool = False) -> Credit:
    """A(e) = Q(e) - V(u) of every edge, for trees of any shape; edges of groups whose episodes all earned the same are
    left out, and with `critical` those without siblings.

    With `merge`, equal contexts of a group are one state. Edges that say the same there lead to the same state, so they
    have the same worth. Edges that gain nothing are left out.
    """

    def credit(rows: Rows) -> Credited:
        states = states_of(rows, merge)
        edges = edges_of(states)
        worth = edge_worths(rows, states, edges)
        value = {state: sum(worth[row] for row in of) / len(of) for state, of in edges.items()}
        siblings = [len(edges[state]) for state in states]
        advantage = [worth[row] - value[state] for row, state in enumerate(states)]
        if update == "all":
            inherit(rows, siblings, advantage)
        keep = [update == "all" or num > 1 for num in siblings]
        if merge and update == "critical":
            keep = [own and abs(worth) > NOTHING for own, worth in zip(keep, advantage)]
        return Credited(advantage=PerRow(advantage), keep=PerRow(keep), metrics=tree_figures(rows, siblings))

    return dropping_equal(credit)


Name = tuple[int, int, int]
"""Name of a state: its group, its turn, and the row before it (-1 is the root) or the number of its context."""


def states_of(rows: Rows, merge: bool = False) -> list[Name]:
    """Name each row's state."""
    return list(zip(rows.group, rows.turn, rows.state if merge else rows.parent))


def edges_of(states: Sequence[Name]) -> Mapping[Name, list[int]]:
    """Return the rows that leave each state."""
    edges: dict[Name, list[int]] = defaultdict(list)
    for row, state in enumerate(states):
        edges[state].append(row)
    return edges


def edge_worths(rows: Rows, states: Sequence[Name], edges: Mapping[Name, Sequence[int]]) -> list[float]:
    """Q(e) = r(e) + the mean of the worths of the edges that follow, from the last turns to the first."""
    worth = list(rows.reward)
    after = {parent: states[row] for row, parent in enumerate(rows.parent) if parent >= 0}
    for row in sorted(range(len(worth)), key=lambda row: -rows.turn[row]):
        if row in after:
            following = edges[after[row]]
            worth[row] += sum(worth[one] for one in following) / len(following)
    return worth


def inherit(rows: Rows, siblings: Sequence[int], advantage: list[float]) -> None:
    """Give an edge without siblings the advantage of the edge before it (equation 14)."""
    for row in sorted(range(len(advantage)), key=lambda row: rows.turn[row]):
        if siblings[row] == 1 and rows.parent[row] >= 0:
            advantage[row] = advantage[rows.parent[row]]


def tree_figures(rows: Rows, siblings: Sequence[int]) -> dict[str, float]:
    """Return |D_roll| and |D_upd| of a task, before groups are left out: its edges, and those that have siblings."""
    num = max(1, len(set(rows.group)))
    return {"tree/edges": len(siblings) / num, "tree/critical": sum(one > 1 for one in siblings) / num}
