"""Rows and tokens made by hand."""

from __future__ import annotations

import pytest
import torch

from rlx.algo.parts import Tokens, Totals
from rlx.algo.rows import Rows


def make_rows(*episodes):
    """Episodes as (group, rewards of its turns, success)."""
    table = [(g, t, turn, r, s) for t, (g, rewards, s) in enumerate(episodes) for turn, r in enumerate(rewards)]
    return Rows(
        group=tuple(row[0] for row in table),
        trajectory=tuple(row[1] for row in table),
        turn=tuple(row[2] for row in table),
        parent=tuple(i - 1 if row[2] else -1 for i, row in enumerate(table)),
        reward=tuple(row[3] for row in table),
        num_tokens=(1,) * len(table),
        success=tuple(row[4] for row in table),
    )


def make_tokens(
    logp, old=None, *, advantage=None, reference=None, entropy=None, trajectory=None, group=None, weight=None, **more
):
    logp = torch.as_tensor(logp, dtype=torch.float32).requires_grad_()

    def column(values, default):
        return torch.full_like(logp, default).detach() if values is None else torch.tensor(values, dtype=torch.float32)

    index = torch.zeros(len(logp), dtype=torch.long)
    return Tokens(
        now={"logp": logp, "entropy": column(entropy, 0.0).requires_grad_(), **more.pop("now", {})},
        old={"logp": logp.detach() if old is None else torch.tensor(old), **more.pop("before", {})},
        reference={} if reference is None else {"logp": torch.tensor(reference)},
        advantage=column(advantage, 1.0),
        weight=column(weight, 1.0),
        row=torch.arange(len(logp)),
        trajectory=index if trajectory is None else torch.tensor(trajectory),
        group=index if group is None else torch.tensor(group),
        **more,
    )


@pytest.fixture
def rows():
    return make_rows


@pytest.fixture
def tokens():
    return make_tokens


@pytest.fixture
def totals():
    return lambda tokens: Totals(
        num_tokens=len(tokens.row),
        num_rows=len(tokens.row.unique()),
        num_trajectories=len(tokens.trajectory.unique()),
        num_groups=len(tokens.group.unique()),
    )
