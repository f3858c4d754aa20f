"""Trees of a task's episodes: where to fork them, and the worth of an edge.

A state is a place before a turn (rlx.algo.states); an edge is the turn that is taken there. All fresh episodes of a
task begin in one state, the root, and a fork takes another edge from a state of an earlier episode.

    root -a-> s1 -c-> R=1        V(u)    = mean over the edges e of u of Q(e)
              s1 -d-> R=0        Q(u, v) = r(e) + V(v), and V of a leaf is 0
    root -b-> s2 -e-> R=1        A(e)    = Q(e) - V(u)
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

from rlx.algo.credit import NOTHING, dropping_equal
from rlx.algo.parts import Ask, Credit, Credited, Growth, PerRow, Sampler, SamplerContext
from rlx.algo.rows import Rows
from rlx.algo.samplers import leave
from rlx.algo.states import Naming, by_path, by_text
from rlx.base.limits import MANY, within
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


@dataclass(slots=True)
class Growing:
    """A tree while it grows."""

    name: Naming
    played: dict[int, Trajectory] = field(default_factory=dict)
    """Episodes by sample, in the order in which they came back."""
    states: dict[Hashable, State] = field(default_factory=dict)

    def plant(self, fresh: Sequence[Trajectory]) -> None:
        """Add fresh episodes; those that ended in an error pass no state."""
        self.played |= {episode.sample: episode for episode in fresh}
        surprises: dict[Hashable, list[float]] = defaultdict(list)
        for episode in fresh:
            for turn, sampled in enumerate(episode.turns if episode.status != "error" else ()):
                name = self.name(self.played, episode, turn)
                self.states.setdefault(name, State(parent=episode, turn=turn, uncertainty=0.0))
                surprises[name].append(surprise(sampled.completion))
        for name, values in surprises.items():
            state, num = self.states[name], len(values)
            state.uncertainty, state.num_edges, state.count = sum(values) / num, num, num

    def receive(self, fork: Trajectory, left: State) -> None:
        """Add the edges that a fork sampled, the first of them in the state that it left; an error says nothing."""
        self.played[fork.sample] = fork
        if fork.status == "error" or len(fork.turns) <= left.turn:
            return
        left.add(surprise(fork.turns[left.turn].completion))
        for turn, sampled in enumerate(fork.turns[left.turn + 1 :], left.turn + 1):
            name, value = self.name(self.played, fork, turn), surprise(sampled.completion)
            if name in self.states:
                self.states[name].add(value)
                self.states[name].count += 1
            else:
                self.states[name] = State(parent=fork, turn=turn, uncertainty=value)


def progressive(num_fresh: int, num_forks: int, order: ForkOrder, num_live: int, merge: bool = False) -> Sampler:
    """`num_fresh` episodes from the root, then `num_forks` forks, one after another, of the state that is due.

    Up to `num_live` forks are under way at once; a fork counts in its state's count from its start on. With `merge`,
    equal texts are one state, with one mean and one count. Source: Algorithm 1 of CARL (arXiv:2512.04949), which has
    one fork under way and a state for each turn.
    """
    within(1, MANY, num_fresh=num_fresh, num_live=num_live)
    within(0, MANY, num_forks=num_forks)

    def grow(context: SamplerContext) -> Growth:
        tree = Growing(by_text if merge else by_path)
        tree.plant((yield [Start(task=context.task, sample=i) for i in range(num_fresh)]))
        live: deque[State] = deque()
        begun = 0
        while live or (tree.states and begun < num_forks):
            starts = []
            while tree.states and begun < num_forks and len(live) < num_live:
                state = choose_state([*tree.states.values()], order, context.rng)
                starts.append(leave(state.parent, sample=num_fresh + begun, turn=state.turn))
                live.append(state)
                state.count += 1
                begun += 1
            (fork,) = yield Ask(starts=starts, wait=1)
            tree.receive(fork, live.popleft())
        return Group(task=context.task, trajectories=tuple(tree.played.values()))

    return Sampler(num_episodes=num_fresh, num_forks=num_forks, forks_always=True, grow=grow)


def choose_state(states: Sequence[State], order: ForkOrder, rng: Random) -> State:
    """Return the state to fork; of equal ones the first."""
    if order == "random":
        return rng.choice(states)
    sign = 1 if order == "largest" else -1
    return max(states, key=lambda state: sign * state.uncertainty / state.count)


def tree_difference(update: Update, merge: bool = False) -> Credit:
    """A(e) = Q(e) - V(u) of every edge, for trees of any shape; edges of groups whose episodes all earned the same are
    left out, and with `critical` those without siblings.

    With `merge`, equal texts of a group are one state (rlx.algo.states). Edges that say the same there lead to the same
    state, so they have the same worth. Edges that gain nothing are left out.
    """

    def credit(rows: Rows) -> Credited:
        states = states_of(rows, merge)
        edges = edges_of(states)
        worth = edge_worths(rows, states, edges)
        value = {
            state: sum(worth[row] for row in rows_of_state) / len(rows_of_state)
            for state, rows_of_state in edges.items()
        }
        siblings = [len(edges[state]) for state in states]
        advantage = [worth[row] - value[state] for row, state in enumerate(states)]
        if update == "all":
            inherit(rows, siblings, advantage)
        selected = [update == "all" or num > 1 for num in siblings]
        credited = Credited(advantage=PerRow(advantage), keep=PerRow(selected), metrics=tree_figures(rows, siblings))
        return without_gainless(credited) if merge and update == "critical" else credited

    return dropping_equal(credit)


def without_gainless(credited: Credited) -> Credited:
    """Leave out the rows that credit selects and that gain nothing. Turns that say the same are many edges of a merged
    state, where nothing was chosen between them."""
    assert isinstance(credited.advantage, PerRow)
    assert isinstance(credited.keep, PerRow)
    pairs = zip(credited.keep.values, credited.advantage.values, strict=True)
    keep = [bool(selected) and abs(float(gain)) > NOTHING for selected, gain in pairs]
    return replace(credited, keep=PerRow(keep), selected=credited.keep)


Name = tuple[int, int, int]
"""Name of a state: its group, its turn, and the row before it (-1 is the root) or the number of its context."""


def states_of(rows: Rows, merge: bool = False) -> list[Name]:
    """Name each row's state by its path, or with `merge` by its text."""
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
            worth[row] += sum(worth[edge] for edge in following) / len(following)
    return worth


def inherit(rows: Rows, siblings: Sequence[int], advantage: list[float]) -> None:
    """Give an edge without siblings the advantage of the agent's edge before it (equation 14)."""
    for row in sorted(range(len(advantage)), key=lambda row: rows.turn[row]):
        before = rows.sampled_before(row)
        if siblings[row] == 1 and before >= 0:
            advantage[row] = advantage[before]


def tree_figures(rows: Rows, siblings: Sequence[int]) -> dict[str, float]:
    """Return the edges of a task's tree that the agent sampled, and how many of them have siblings."""
    num = max(1, len(set(rows.group)))
    counts = [count for row, count in enumerate(siblings) if rows.is_sampled(row)]
    return {"tree/edges": len(counts) / num, "tree/critical": sum(count > 1 for count in counts) / num}
