"""Checks of what an algorithm's functions return: a mistake of their author is one line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rlx.algo.parts import Credit, Credited, Loss, PerRow, PerToken, TokenLoss, Tokens, Totals
from rlx.algo.rows import Rows
from rlx.base.limits import MistakeError

VALUES = ("value", "value_after")
"""Columns of a critic's values, of which a loss reads one or both."""
COLUMNS = ("advantage", "returns", "returns_after", "keep", "selected", "multiplicity")


OPTIONAL = {"value": "give the Algorithm a critic", "reference_logp": "give it needs=frozenset({'reference'})"}
"""Columns of Rows that an algorithm has to ask for, with the way to ask."""


def call_credit(credit: Credit, rows: Rows) -> Credited:
    """Return what credit makes of the agent's own rows, with targets for a critic where there is one. An IndexError
    gets a note on the columns that the rows lack."""
    try:
        credited = credit(rows)
    except IndexError as error:
        for name, advice in OPTIONAL.items():
            if not getattr(rows, name):
                error.add_note(f"credit: the rows have no `{name}`; if credit reads it, {advice}")
        raise
    has_targets = not isinstance(credited, Credited) or credited.returns or credited.returns_after
    if rows.value and not has_targets:
        raise MistakeError("credit: the critic has no targets; give `returns` in Credited, or the Algorithm no critic")
    return without_others(credited, rows) if rows.other and isinstance(credited, Credited) else credited


def without_others(credited: Credited, rows: Rows) -> Credited:
    """Return credit without the rows of other agents. A column of another length is left for `check_credited`."""

    def reduce(values: Any) -> Any:
        if len(values) != len(rows.other):
            return values
        return [value for row, value in enumerate(values) if rows.is_sampled(row)]

    columns: dict[str, Any] = {name: getattr(credited, name) for name in COLUMNS}
    reduced = {name: column and replace(column, values=reduce(column.values)) for name, column in columns.items()}
    return replace(credited, **reduced, counts_as=credited.counts_as and reduce(credited.counts_as))


def check_credited(credited: Any, num_R: Tensor) -> None:
    """Refuse what credit returned, unless its columns fit rows with `num_R` trained tokens each."""
    if not isinstance(credited, Credited):
        got = type(credited).__name__
        raise MistakeError(f"credit: it returned a value of type {got}; return Credited(advantage=PerRow([…]))")
    for name in COLUMNS:
        column = getattr(credited, name)
        if column is not None or name == "advantage":
            check_column(name, column, num_R)
    if credited.counts_as is not None:
        check_num_rows("counts_as", len(credited.counts_as), num_R)


def check_column(name: str, column: PerRow | PerToken, num_R: Tensor) -> None:
    """Refuse a column of credit that does not have one value for each row, or for each token of each row."""
    if not isinstance(column, PerRow | PerToken):
        got = type(column).__name__
        raise MistakeError(f"credit: {name} is a {got}; give PerRow([…]), a number a row, or PerToken([[…], …])")
    check_num_rows(name, len(column.values), num_R)
    if isinstance(column, PerToken):
        for row, (values, num) in enumerate(zip(column.values, num_R.tolist())):
            if len(values) != num:
                raise MistakeError(
                    f"credit: {name} has {len(values)} tokens for row {row}, which has {num}; give each one"
                )


def check_num_rows(name: str, num: int, num_R: Tensor) -> None:
    if num != len(num_R):
        raise MistakeError(f"credit: {name} has {num} rows, and the batch has {len(num_R)}; give each one")


def numbers_of(name: str, column: PerRow | PerToken) -> Tensor:
    """Return a column's numbers, one after another; MistakeError for values that are no numbers."""
    if isinstance(column, PerRow):
        form, values = "PerRow([…])", column.values
    else:
        form, values = "PerToken([[…], …])", [x for row in column.values for x in row]
    try:
        numbers = torch.as_tensor(values, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError):
        numbers = torch.empty(0, 0)
    if numbers.dim() != 1:
        raise MistakeError(f"credit: {name} has values that are no numbers; give {form} of floats")
    return numbers


def check_multiplicity(multiplicity_M: Tensor, row_M: Tensor) -> None:
    """Refuse numbers of copies below 0, and what is no number."""
    wrong_M = ~(multiplicity_M >= 0)
    if wrong_M.any():
        token = int(wrong_M.nonzero()[0])
        value, row = multiplicity_M[token].item(), row_M[token].item()
        raise MistakeError(f"credit: multiplicity is {value:g} in row {row}; give 0 or more")


def check_loss(result: Any) -> Loss:
    """Return what a loss returned, if it is a Loss whose gradient can be taken."""
    if not isinstance(result, Loss):
        got = type(result).__name__
        raise MistakeError(f"loss: it returned a value of type {got}; return Loss(value=…)")
    value: Any = result.value
    if not isinstance(value, Tensor) or value.dim():
        got = f"of shape {list(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise MistakeError(f"loss: its value is {got}; sum over the tokens, and divide by a count of `totals`")
    if not value.requires_grad:
        raise MistakeError("loss: its value has no gradient; compute it from the columns of `tokens.now`")
    return result


def column_gradients(loss: TokenLoss, tokens: Tokens, totals: Totals) -> dict[str, Tensor | None]:
    """Return the loss's gradient in each column of `tokens.now`; None where it does not read the column. Columns are
    copied: DeepSpeed allows no backward pass but its own through what a model returned."""
    leaves = {name: column.detach().requires_grad_() for name, column in tokens.now.items()}
    value = loss(replace(tokens, now=leaves), totals).value
    return dict(zip(leaves, torch.autograd.grad(value, list(leaves.values()), allow_unused=True)))


def check_critic(loss: TokenLoss, tokens: Tokens, totals: Totals) -> None:
    """Refuse a loss that does not read the critic's values, where there are some: the critic would stay as it began, in
    silence."""
    if not tokens.now.keys().isdisjoint(VALUES):
        gradients = column_gradients(loss, tokens, totals)
        if all(gradients.get(name) is None for name in VALUES):
            raise MistakeError("loss: the critic gets no gradient; add value_loss(), or give the Algorithm no critic")
