"""Cosine between the policy gradient that an algorithm estimates and the exact one.

    estimate   sum over trained turns of x grad log pi(a | s), over rounds of at least `budget` tokens a task
    exact      d J / d logit = P(reach s) pi(a | s) A(s, a)

The policy is a table, and a logit belongs to an action and a cell of the table. What a cell is decides how far the
errors of turns average out, so a cosine is taken with each of three parametrisations:

    state    the true state of a task, of which the agent may see a part alone
    text     the text that the agent reads in a task: aliased states share their logits
    shared   the same text in all tasks, as in a model that all tasks train

A chunk of rounds gives one estimate, and the figure is the mean cosine over chunks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from rlx.env.bifurcation.rules import State
from rlx.lab.credit_figures import Floats, interval, ratio
from rlx.lab.laboratory import Measured
from rlx.runs.summary import Estimate

Cells = Literal["state", "text", "shared"]
"""Parametrisation of the policy."""
CELLS: tuple[Cells, ...] = get_args(Cells)

Gradient = dict[tuple[object, str], float]
"""Derivative by the logit of each action in each cell."""


@dataclass(frozen=True, kw_only=True)
class Products:
    """Products of the gradients of two tasks (T, U), which are 0 between tasks that share no cell."""

    exact: Floats
    """Exact with exact (T, U)."""
    mixed: Floats
    """Estimated with exact (chunks, T, U)."""
    estimated: Floats
    """Estimated with estimated (chunks, T, U)."""


def gradient_cosines(measured: Measured, budget: int, *, num_resamples: int, seed: int) -> dict[str, Estimate]:
    """Return the mean cosine over chunks for each parametrisation, with its interval."""
    chunks = chunks_of(measured, budget * len(measured.values))
    exact = [exact_gradient(measured, task) for task in range(len(measured.values))]
    estimated = [estimated_gradients(measured, chunk) for chunk in chunks]

    def cosine_of(cells: Cells) -> Estimate:
        place: Callable[[Sequence[Gradient]], list[Gradient]] = lambda chunk: placed(measured, chunk, cells)  # noqa: E731
        products = products_of(place(exact), [place(chunk) for chunk in estimated], is_joint=cells == "shared")
        return interval(lambda weights: cosines(products, weights), len(exact), num_resamples, seed)

    return {cells: cosine_of(cells) for cells in CELLS}


def cosines(products: Products, weights_RT: Floats) -> Floats:
    """Return the mean cosine of each resample. Gradients of tasks are weighed by the root of the task's weight in the
    sums of squares, so that all three sums count tasks alike. Of shared cells a resample has fewer tasks to average
    over, so that its cosine is lower."""
    root_RT = np.sqrt(weights_RT)
    exact_R = np.einsum("rt,ru,tu->r", root_RT, root_RT, products.exact)
    mixed_RC = np.einsum("rt,ru,ctu->rc", root_RT, root_RT, products.mixed)
    estimated_RC = np.einsum("rt,ru,ctu->rc", root_RT, root_RT, products.estimated)
    norms_RC = np.sqrt(np.maximum(estimated_RC * exact_R[:, None], 0.0))
    return ratio(mixed_RC, norms_RC).mean(axis=1)


def products_of(exact: Sequence[Gradient], estimated: Sequence[Sequence[Gradient]], *, is_joint: bool) -> Products:
    """Return the products of all gradients; `is_joint` says that tasks share cells."""

    def table(rows: Sequence[Gradient], columns: Sequence[Gradient]) -> Floats:
        return dots(rows, columns, is_joint)

    return Products(
        exact=table(exact, exact),
        mixed=np.array([table(chunk, exact) for chunk in estimated]),
        estimated=np.array([table(chunk, chunk) for chunk in estimated]),
    )


def dots(rows: Sequence[Gradient], columns: Sequence[Gradient], is_joint: bool) -> Floats:
    """Return the product of each row with each column; 0 off the diagonal where tasks share no cell."""
    return np.array(
        [
            [dot(row, column) if is_joint or t == u else 0.0 for u, column in enumerate(columns)]
            for t, row in enumerate(rows)
        ]
    )


def dot(row: Gradient, column: Gradient) -> float:
    return sum(value * column.get(key, 0.0) for key, value in row.items())


def placed(measured: Measured, gradients: Sequence[Gradient], cells: Cells) -> list[Gradient]:
    """Sum the derivatives by true state over the states of each cell, task by task."""
    if cells == "state":
        return list(gradients)
    texts: Sequence[Mapping[State, str]] = measured.texts
    sums: list[Gradient] = [defaultdict(float) for _ in gradients]
    for total, gradient, text in zip(sums, gradients, texts, strict=True):
        for (state, action), value in gradient.items():
            assert isinstance(state, State)
            total[text[state], action] += value
    return sums


def exact_gradient(measured: Measured, task: int) -> Gradient:
    """d J / d logit(s, a) = P(reach s) pi(a | s) A(s, a)."""
    values, policy = measured.values[task], measured.policies[task]
    return {
        (state, action): values.reach[state] * policy[state][action] * values.advantage(state, action)
        for state, action in values.q
    }


def chunks_of(measured: Measured, budget: int) -> list[set[int]]:
    """Return consecutive rounds in chunks of at least `budget` tokens; a rest that is smaller is left out."""
    chunks: list[set[int]] = []
    open_chunk, spent = set[int](), 0
    for number, tokens in enumerate(measured.tokens):
        open_chunk.add(number)
        spent += tokens
        if spent >= budget:
            chunks.append(open_chunk)
            open_chunk, spent = set(), 0
    return chunks or [open_chunk]


def estimated_gradients(measured: Measured, chunk: set[int]) -> list[Gradient]:
    """Return the sum over trained turns of m x grad log pi(a | s), by task: m x (1[a] - pi(. | s)), m its copies."""
    sums: list[Gradient] = [defaultdict(float) for _ in measured.values]
    for turn in measured.turns:
        if turn.round in chunk and turn.num_trained:
            total = sums[turn.task]
            total[turn.state, turn.action] += turn.copies * turn.estimate
            for action, chance in measured.policies[turn.task][turn.state].items():
                total[turn.state, action] -= turn.copies * turn.estimate * chance
    return sums
