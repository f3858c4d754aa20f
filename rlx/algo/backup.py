"""Values of trees of episodes: leaves, the edges above them, and credit from both.

An edge is a run of tokens that one episode sampled: a turn, or a part of one where forks leave it in the middle.

    root -a-> s1 -c-> leaf 1       below(a) = {1, 2}
              s1 -d-> leaf 2       V(a) = the value of s1, of what is below: a mean over leaves, or over children
    root -b-> s2 -e-> leaf 3       an edge that counts once for each leaf has multiplicity |below|
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp

from rlx.algo.credit import Compare, trajectory_returns
from rlx.algo.parts import Credited, PerRow, PerToken
from rlx.algo.rows import Rows
from rlx.algo.tree import edges_of, states_of, tree_figures

Leaves = Mapping[int, float]
"""A number for each episode, by its trajectory's number."""
Weigh = Callable[[Sequence[int]], Sequence[float]]
"""Function from sibling edges to their weights in the value of the state before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A run of tokens of a row."""

    row: int
    first: int
    """Number of the row's own tokens before it."""
    num_tokens: int
    parent: int
    """The edge before it, or -1 at the start of an episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """Edges of all trees of a batch, each after the edge before it."""

    rows: Rows
    edges: tuple[Edge, ...]
    leaf: Mapping[int, int]
    """The last edge of each trajectory that counts."""
    below: tuple[tuple[int, ...], ...]
    """For each edge, the trajectories with a leaf at or below it."""

    @property
    def siblings(self) -> Mapping[tuple[int, int], list[int]]:
        """The edges with a leaf below them that leave each state: by group, and the edge before it or -1."""
        edge_numbers: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, edge in enumerate(self.edges):
            if self.below[number]:
                edge_numbers[self.rows.group[edge.row], edge.parent].append(number)
        return edge_numbers


def forest_of(rows: Rows, *, with_spare: bool = False) -> Forest:
    """Cut rows where forks leave them, and join each part to the part before it. Episodes that their sampler left out
    have leaves only `with_spare`."""
    start = list(rows.fork_token) or [0] * len(rows.turn)
    left = {row: place_of(rows, start, row) for row in range(len(start)) if start[row]}
    cuts: dict[int, set[int]] = defaultdict(set)
    for row, first in left.values():
        cuts[row].add(first)
    edges: list[Edge] = []
    ends: dict[tuple[int, int], int] = {}
    for row in sorted(range(len(start)), key=lambda row: (rows.turn[row], start[row])):
        num = rows.num_tokens[row]
        parent = ends[left[row]] if row in left else last_edge(rows, ends, rows.parent[row])
        bounds = sorted({0, num, *(cut for cut in cuts[row] if 0 < cut < num)})
        for first, end in zip(bounds, bounds[1:] or [num]):
            edges.append(Edge(row=row, first=first, num_tokens=end - first, parent=parent))
            parent = ends[row, end] = len(edges) - 1
    leaf = {rows.trajectory[row]: last_edge(rows, ends, row) for row in last_rows(rows, with_spare)}
    return Forest(rows=rows, edges=tuple(edges), leaf=leaf, below=leaves_below(edges, leaf))


def place_of(rows: Rows, start: Sequence[int], row: int) -> tuple[int, int]:
    """Return the row that a fork in mid-turn leaves, and the number of that row's own tokens before it."""
    owner = rows.fork[row]
    while start[owner] >= start[row]:  # a fork of a fork may begin where its parent does, or before
        owner = rows.fork[owner]
    return owner, start[row] - start[owner]


def last_edge(rows: Rows, ends: Mapping[tuple[int, int], int], row: int) -> int:
    """Return the edge that ends a row; -1 for no row."""
    return -1 if row < 0 else ends[row, rows.num_tokens[row]]


def last_rows(rows: Rows, with_spare: bool) -> list[int]:
    """Return the last row of each episode that its sampler did not leave out, or of each."""
    last: dict[int, int] = {}
    for row, (trajectory, turn) in enumerate(zip(rows.trajectory, rows.turn, strict=True)):
        if with_spare or not rows.spare or not rows.spare[row]:
            last[trajectory] = row if trajectory not in last or turn > rows.turn[last[trajectory]] else last[trajectory]
    return list(last.values())


def leaves_below(edges: Sequence[Edge], leaf: Mapping[int, int]) -> tuple[tuple[int, ...], ...]:
    """Return the trajectories of the leaves at and below each edge."""
    below: list[list[int]] = [[] for _ in edges]
    for trajectory, edge in sorted(leaf.items()):
        while edge >= 0:
            below[edge].append(trajectory)
            edge = edges[edge].parent
    return tuple(map(tuple, below))


def sampled_before(forest: Forest, edge: Edge) -> int:
    """Return the agent's own edge before an edge; -1 where there is none."""
    before = edge.parent
    while before >= 0 and not forest.rows.is_sampled(forest.edges[before].row):
        before = forest.edges[before].parent
    return before


def leaf_returns(forest: Forest) -> Leaves:
    """Return each leaf's episode return, including rewards of replayed turns."""
    returns = trajectory_returns(forest.rows)
    return {trajectory: returns[trajectory] for trajectory in forest.leaf}


def groups_of(forest: Forest) -> Mapping[int, int]:
    """Return the group of each leaf: all trees of a task."""
    return {trajectory: forest.rows.group[forest.edges[edge].row] for trajectory, edge in forest.leaf.items()}


def copies_of_last(forest: Forest, num_leaves: int) -> dict[int, int]:
    """Count the last leaf of each group so often that the group has `num_leaves`; each other leaf counts once."""
    leaves: dict[int, list[int]] = defaultdict(list)
    for trajectory, group in groups_of(forest).items():
        leaves[group].append(trajectory)
    return {
        max(trajectories): 1 + num_leaves - len(trajectories)
        for trajectories in leaves.values()
        if len(trajectories) < num_leaves
    }


def trees_of(rows: Rows) -> dict[int, int]:
    """Map each trajectory to the root of its tree: the fresh episode at the end of its chain of parents."""
    left = {rows.trajectory[row]: rows.trajectory[fork] for row, fork in enumerate(rows.fork) if fork >= 0}
    trees: dict[int, int] = {}
    for trajectory in dict.fromkeys(rows.trajectory):
        root = trajectory
        while root in left:
            root = left[root]
        trees[trajectory] = root
    return trees


def beside(values: Leaves, cells: Mapping[int, Hashable], compare: Compare, copies: Mapping[int, int] = {}) -> Leaves:
    """Compare each leaf with the leaves of its cell, where one with copies counts as often."""
    members: dict[Hashable, list[int]] = defaultdict(list)
    for trajectory in values:
        members[cells[trajectory]] += [trajectory] * copies.get(trajectory, 1)
    compared: dict[int, float] = {}
    for trajectories in members.values():
        compared |= dict(zip(trajectories, compare([values[leaf] for leaf in trajectories]), strict=True))
    return compared


def add_leaves(*parts: Leaves) -> Leaves:
    """Sum the numbers of each leaf."""
    return {trajectory: sum(part[trajectory] for part in parts) for trajectory in parts[0]}


def leaf_means(forest: Forest, values: Leaves, copies: Mapping[int, int] = {}) -> list[float]:
    """V(e) = mean of the values of the leaves below; 0 of an edge without any."""
    weight = {trajectory: copies.get(trajectory, 1) for trajectory in values}
    return [
        sum(weight[trajectory] * values[trajectory] for trajectory in below)
        / sum(weight[trajectory] for trajectory in below)
        if below
        else 0.0
        for below in forest.below
    ]


def back_up(forest: Forest, values: Leaves, weigh: Weigh) -> list[float]:
    """V(e) = weighted mean over the edges that follow of V, from the leaves up; 0 of an edge without leaves below."""
    value = [0.0] * len(forest.edges)
    for trajectory, edge in forest.leaf.items():
        value[edge] = values[trajectory]
    siblings = forest.siblings
    for number in reversed(range(len(value))):
        after = siblings.get((forest.rows.group[forest.edges[number].row], number), ())
        value[number] = weigh_siblings(after, value, weigh) if after else value[number]
    return value


def weigh_siblings(edges: Sequence[int], value: Sequence[float], weigh: Weigh) -> float:
    """Return the weighted mean of the values of sibling edges."""
    weights = weigh(edges)
    return sum(w * value[edge] for w, edge in zip(weights, edges, strict=True)) / sum(weights)


def parent_values(forest: Forest, value: Sequence[float], root: Mapping[int, float]) -> list[float]:
    """Return the value of the state before each edge; `root` has it for the start of each group."""
    before = ((edge, forest.rows.group[edge.row]) for edge in forest.edges)
    return [value[edge.parent] if edge.parent >= 0 else root[group] for edge, group in before]


def root_values(forest: Forest, value: Sequence[float], weigh: Weigh) -> dict[int, float]:
    """Return the value of the start of each group; 0 of one without leaves."""
    roots = dict.fromkeys(forest.rows.group, 0.0)
    for (group, parent), edges in forest.siblings.items():
        if parent < 0:
            roots[group] = weigh_siblings(edges, value, weigh)
    return roots


def minus(values: Sequence[float], others: Sequence[float]) -> list[float]:
    return [value - other for value, other in zip(values, others, strict=True)]


def softmax(scores: Sequence[float]) -> list[float]:
    top = max(scores)
    return [exp(score - top) for score in scores]


def edge_surprises(forest: Forest) -> list[float]:
    """-1/T sum over t of log p(y_t) of each edge; 0 where the rows have no log-probs."""

    def of(edge: Edge) -> float:
        log_probs = forest.rows.logp[edge.row][edge.first : edge.first + edge.num_tokens] if forest.rows.logp else ()
        return -sum(log_probs) / len(log_probs) if log_probs else 0.0

    return [of(edge) for edge in forest.edges]


def num_copies(forest: Forest, copies: Mapping[int, int] = {}) -> list[float]:
    """Return the number of leaves below each edge, copies counted: its multiplicity if it is trained with each."""
    return [float(sum(copies.get(trajectory, 1) for trajectory in below)) for below in forest.below]


def credit_edges(forest: Forest, advantage: Sequence[float], multiplicity: Sequence[float]) -> Credited:
    """Give each edge its advantage and the number of times that it counts; what counts 0 times is not kept."""
    worth, copies = spread(forest, advantage), spread(forest, multiplicity)
    keep = spread(forest, [float(num > 0) for num in multiplicity])
    return Credited(advantage=worth, multiplicity=copies, keep=keep, metrics=figures(forest, multiplicity))


def with_duplicates(credited: Credited, copies: Mapping[int, int]) -> Credited:
    """Add the number of leaves that are copies of another."""
    return replace(credited, metrics={**credited.metrics, "tree/duplicates": sum(copies.values()) - len(copies)})


def spread(forest: Forest, values: Sequence[float]) -> PerRow | PerToken:
    """Return values of edges as one of each row, or of each token where a row has several edges."""
    num = len(forest.rows.turn)
    if len(values) == num:
        values_by_row = dict(zip((edge.row for edge in forest.edges), values, strict=True))
        return PerRow([values_by_row[row] for row in range(num)])
    tokens: list[list[float]] = [[] for _ in range(num)]
    for edge, value in zip(forest.edges, values, strict=True):
        tokens[edge.row] += [value] * edge.num_tokens
    return PerToken(tokens)


def figures_of_rows(rows: Rows, keep: Sequence[bool]) -> dict[str, float]:
    """Return the figures of trees whose rows are kept or not."""
    forest = forest_of(rows, with_spare=True)
    return figures(forest, [float(keep[edge.row]) for edge in forest.edges])


def figures(forest: Forest, multiplicity: Sequence[float]) -> dict[str, float]:
    """Return the figures of trees, and the mean multiplicity of a sampled token, which is 1 if each is trained once."""
    states = states_of(forest.rows)
    edges = edges_of(states)
    total = sum(num * edge.num_tokens for num, edge in zip(multiplicity, forest.edges, strict=True))
    metrics = tree_figures(forest.rows, [len(edges[state]) for state in states])
    return {**metrics, "tree/copies": total / max(1, sum(edge.num_tokens for edge in forest.edges))}
