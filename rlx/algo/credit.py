"""Worth of each decision: functions from the rows of a whole batch to `Credited`.

An advantage is two choices. The first is the credit of a turn: its episode's return R, or with a discount `gamma` the
return-to-go, the sum of rewards from this turn on. Tool costs are part of each turn's reward already. The second is the
baseline: none, the other episodes of the group, the batch, or a critic's values (`gae.py`). A group is a set of
episodes on one task; a group with equal returns gets zeros.
Sums run in Python floats: a few hundred numbers, exact in the same order everywhere, and no torch at import.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import comb, prod, sqrt
from typing import TYPE_CHECKING, Literal

from rlx.algo.parts import Credit, Credited, PerRow, PerToken
from rlx.algo.rows import Rows
from rlx.base.limits import at_least, within

if TYPE_CHECKING:
    from torch import Tensor

Scale = Literal["none", "std"]
Deviation = Literal["population", "sample"]
Among = Literal["batch", "turn"]
"""Turns of a batch that are compared: all turns, or turns with the same index in their episodes."""

NOTHING = 1e-9
"""Advantage that counts as none: what rounding leaves of equal returns."""

Compare = Callable[[list[float]], list[float]]
"""Function from the credits of some decisions to what each was worth beside the others."""


def per_row(advantages: Sequence[float] | Tensor) -> Credited:
    """These advantages, one a row, and nothing else."""
    return Credited(advantage=PerRow(advantages))


def episode_returns(rows: Rows) -> dict[int, dict[int, float]]:
    """For each group, each of its trajectories' undiscounted return, with what a fork earned in turns it replays."""
    returns: dict[int, dict[int, float]] = defaultdict(dict)
    replayed = rows.replayed or (0.0,) * len(rows.reward)
    for group, trajectory, reward, before in zip(rows.group, rows.trajectory, rows.reward, replayed, strict=True):
        returns[group][trajectory] = returns[group].get(trajectory, before) + reward
    return returns


def trajectory_returns(rows: Rows) -> dict[int, float]:
    """Return `episode_returns` of all groups together, by trajectory."""
    return {trajectory: value for returns in episode_returns(rows).values() for trajectory, value in returns.items()}


def returns_to_go(rows: Rows, gamma: float) -> list[float]:
    """Return the discounted return-to-go of each row: G_t = sum over k of gamma^k r_(t+k) in its own episode.

    A fork's rows begin with the turn it left, so what it replays is in none of them, and its parent's are its own.
    """
    returns = list(rows.reward)
    for episode in by_trajectory(rows):
        for later, row in pairwise(reversed(episode)):
            returns[row] += gamma * returns[later]
    return returns


def worth(rows: Rows, gamma: float | None) -> list[float]:
    """Return the credit of each row: its episode's return, or with a discount its own return-to-go."""
    if gamma is not None:
        return returns_to_go(rows, gamma)
    returns = trajectory_returns(rows)
    return [returns[trajectory] for trajectory in rows.trajectory]


def compare_members(
    values: Iterable[float], cells: Iterable[Hashable], members: Iterable[int], compare: Compare
) -> Credited:
    """Compare values within each cell, where each member counts once; return one advantage per row."""
    places = list(zip(cells, members, strict=True))
    members_of_cell: dict[Hashable, dict[int, float]] = defaultdict(dict)
    for value, (cell, member) in zip(values, places, strict=True):
        members_of_cell[cell][member] = value
    for cell, members_of in members_of_cell.items():
        members_of_cell[cell] = dict(zip(members_of, compare(list(members_of.values())), strict=True))
    return per_row([members_of_cell[cell][member] for cell, member in places])


def within_groups(compare: Compare, gamma: float | None) -> Credit:
    """A group's episodes beside each other: their returns, or with a discount turn by turn the returns-to-go of those
    that got so far.

    So a good first try is compared with first tries, and a fifth with fifth tries; episodes that ended before are left
    out. A turn that only one episode of the group reached has no baseline, so its advantage is 0 for any return.
    """
    check_discounts(gamma=gamma)

    def credit(rows: Rows) -> Credited:
        cells = rows.group if gamma is None else zip(rows.group, rows.turn, strict=True)
        return compare_members(worth(rows, gamma), cells, rows.trajectory, compare)

    return credit


def dropping_equal(credit: Credit, drop: bool = True) -> Credit:
    """`credit`, without the groups in which no turn is worth anything, as where all episodes earned the same: they are
    not computed, and a KL or entropy term does not see them (DAPO, arXiv:2503.14476, draws others instead)."""

    def drop_equal(rows: Rows) -> Credited:
        credited = credit(rows)
        largest = [max(map(abs, advantages), default=0.0) for advantages in by_token(credited.advantage)]
        live = {rows.group[row] for row, worth in enumerate(largest) if worth > NOTHING and rows.is_sampled(row)}
        factors = [float(group in live) for group in rows.group]
        keep = PerRow([1.0] * len(factors)) if credited.keep is None else credited.keep
        return replace(credited, keep=scale_values(keep, factors), selected=credited.selected or keep)

    return drop_equal if drop else credit


def discounted(gamma: float) -> Credit:
    """Every turn's return-to-go as it is, beside nothing (REINFORCE, Williams 1992)."""
    check_discounts(gamma=gamma)
    return lambda rows: per_row(returns_to_go(rows, gamma))


def batch_normalised(*, gamma: float, among: Among = "batch", eps: float = 1e-9) -> Credit:
    """A_t = (G_t - mean) / (population std + eps) over the returns-to-go of all turns of the batch (return batch
    normalisation, Liu et al. 2025, arXiv:2510.01051), or of all that are as far in their episodes."""
    check_discounts(gamma=gamma)
    at_least(0.0, eps=eps)

    def credit(rows: Rows) -> Credited:
        cells = rows.turn if among == "turn" else (0,) * len(rows.turn)
        return compare_members(returns_to_go(rows, gamma), cells, range(len(rows.turn)), standardise("population", eps))

    return credit


def centre(returns: list[float]) -> list[float]:
    """Less the mean, computed from the first return's distance to each, so that equal returns give exact zeros."""
    shifted = [r - returns[0] for r in returns]
    mean = sum(shifted) / len(shifted)
    return [r - mean for r in shifted]


def deviation(returns: list[float], kind: Deviation) -> float:
    """The standard deviation over n (`population`) or n-1 (`sample`); zero for one return."""
    degrees = len(returns) - (kind == "sample")
    return sqrt(sum(c * c for c in centre(returns)) / degrees) if degrees > 0 else 0.0


def standardise(std: Deviation, eps: float) -> Compare:
    """(r - mean) / (std + eps); equal returns are 0 whatever `eps` is."""

    def compare(returns: list[float]) -> list[float]:
        divisor = deviation(returns, std) + eps
        return [c / divisor if c else 0.0 for c in centre(returns)]

    return compare


def leave_one_out(
    *, scale: Scale = "none", deviation_floor: float = 0.0, eps: float = 1e-6, gamma: float | None = None
) -> Credit:
    """A_i = R_i - mean of the other episodes' returns (Kool et al. 2019; Ahmadian et al. 2024, arXiv:2402.14740).

    It equals n/(n-1) times the group-centred advantage. `scale="std"` divides by max(population std, `deviation_floor`)
    + `eps`, which makes easy and hard tasks weigh the same. An episode alone in its group has nothing to be compared
    with: 0. `gamma` as in `within_groups`.
    """
    at_least(0.0, deviation_floor=deviation_floor, eps=eps)

    def advantages(returns: list[float]) -> list[float]:
        n = len(returns)
        if n == 1:
            return [0.0]
        divisor = max(deviation(returns, "population"), deviation_floor) + eps if scale == "std" else 1.0
        return [n / (n - 1) * c / divisor if c else 0.0 for c in centre(returns)]

    return within_groups(advantages, gamma)


def group_centred(
    *, scale: Scale = "std", std: Deviation = "sample", eps: float = 1e-6, gamma: float | None = None
) -> Credit:
    """A_i = (R_i - mean) / (std + eps), the mean over the whole group (GRPO, Shao et al. 2024, arXiv:2402.03300).

    `std` names the divisor: over n (`population`) or n-1 (`sample`); projects differ. `scale="none"` leaves it out
    (Dr. GRPO). `gamma` as in `within_groups`.
    """
    at_least(0.0, eps=eps)
    return within_groups(standardise(std, eps) if scale == "std" else centre, gamma)


def best_of(k: int, gamma: float | None = None) -> Credit:
    """A_i = E_B[max(0, R_i - max B)], B any k-1 of the other n-1 episodes: what i adds to the best of k.

    The gradient is that of E[best of k] (up to the factor k), with a baseline that does not depend on i: Walder and
    Karkhanis 2025 (arXiv:2505.15201), the leave-one-out form. It moves no task that one of k tries nearly always
    solves, which is meant to spare Pass@k. `k=1` would have an empty B; that is `leave_one_out`.
    Where errors left fewer than k episodes, k is as many as there are. `gamma` as in `within_groups`.
    """
    if k < 2:
        raise ValueError(f"best_of: k is {k}; it compares with k-1 others, so use 2 or more (1 is leave_one_out)")

    def advantages(returns: list[float]) -> list[float]:
        size = min(k, len(returns)) - 1
        if size == 0:
            return [0.0]
        ranked, (ways, num_subsets) = sorted(returns), ways_below(len(returns) - 1, size)
        return [marginal_best(r, ranked[: bisect_left(ranked, r)], ways) / num_subsets for r in returns]

    return within_groups(advantages, gamma)


def marginal_best(value: float, lower: list[float], ways: tuple[int, ...]) -> float:
    """sum over subsets B of the others of max(0, value - max B): those whose best is the j-th of what is `lower`
    (ascending) are `ways[j]`."""
    return sum((value - top) * num for top, num in zip(lower, ways, strict=False))


@cache
def ways_below(num: int, size: int) -> tuple[tuple[int, ...], int]:
    """Count the subsets of `num` with `size` members whose best is the j-th, for each j, and all such subsets. Of
    numbers that no float holds, only the first 900 bits."""
    total = comb(num, size)
    spare = max(0, total.bit_length() - 900)
    return tuple(comb(rank, size - 1) >> spare for rank in range(num)), total >> spare


def where_unsolved(credit: Credit, num_tries: int) -> Credit:
    """`credit`, each task's times the chance that it stays unsolved in `num_tries` tries, so that what is solved anyway
    moves the policy less (on overtraining such tasks: arXiv:2606.15455)."""

    def gate(rows: Rows) -> Credited:
        credited = credit(rows)
        won: dict[int, dict[int, bool]] = defaultdict(dict)
        for group, trajectory, success in zip(rows.group, rows.trajectory, rows.success, strict=True):
            won[group][trajectory] = success
        chance = {
            group: chance_unsolved(sum(successes.values()), len(successes), num_tries)
            for group, successes in won.items()
        }
        return replace(credited, advantage=scale_values(credited.advantage, [chance[group] for group in rows.group]))

    return gate


@cache
def chance_unsolved(num_solved: int, num_seen: int, num_tries: int) -> float:
    """Return E[(1 - p)^k] for p ~ Beta(1 + s, 1 + n - s).

        E[(1 - p)^k] = prod over j < k of (1 + n - s + j) / (2 + n + j)

    That is the knowledge of a task's chance p of success after s successes in n episodes. Before, any p was as likely.
    """
    return prod((1 + num_seen - num_solved + j) / (2 + num_seen + j) for j in range(num_tries))


def by_token(column: PerRow | PerToken) -> Iterable[Sequence[float]]:
    """Return the values of each row: a single value for the row, or a value per token."""
    return [[value] for value in column.values] if isinstance(column, PerRow) else column.values


def scale_values(column: PerRow | PerToken, factors: Sequence[float]) -> PerRow | PerToken:
    """Each row's own times its factor."""
    if isinstance(column, PerRow):
        return PerRow([factor * value for factor, value in zip(factors, column.values, strict=True)])
    return PerToken(
        [
            [factor * value for value in token_values]
            for factor, token_values in zip(factors, column.values, strict=True)
        ]
    )


def check_discounts(**discounts: float | None) -> None:
    within(0.0, 1.0, **discounts)


def by_trajectory(rows: Rows) -> list[list[int]]:
    """The rows of each episode, in their order; a fork's own alone."""
    rows_of_trajectory: dict[int, list[int]] = defaultdict(list)
    for row, trajectory in enumerate(rows.trajectory):
        rows_of_trajectory[trajectory].append(row)
    return list(rows_of_trajectory.values())


def imitate(rows: Rows) -> Credited:
    """Every row is worth copying: 1."""
    return per_row([1.0] * len(rows.reward))


def pairs(rows: Rows) -> Credited:
    """+1: a group's first successful trajectory; -1: its first failed one. The rest, and groups lacking either, are not
    kept."""
    chosen: dict[tuple[int, bool], int] = {}
    for group, trajectory, success in zip(rows.group, rows.trajectory, rows.success, strict=True):
        chosen.setdefault((group, success), trajectory)

    def label(group: int, trajectory: int, success: bool) -> float:
        paired = (group, not success) in chosen and chosen[group, success] == trajectory
        return (1.0 if success else -1.0) if paired else 0.0

    labels = [label(*row) for row in zip(rows.group, rows.trajectory, rows.success, strict=True)]
    return Credited(advantage=PerRow(labels), keep=PerRow([label != 0 for label in labels]))
