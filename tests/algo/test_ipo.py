from __future__ import annotations

import pytest

from rlx.algo.ipo import ipo
from rlx.algo.parts import Optimizer


def test_ipo_regresses_the_margin_of_one_pair_a_group(rows, tokens, totals):
    algorithm = ipo(optimizer=Optimizer(), beta=0.5)
    table = rows((0, [0.1], False), (0, [1.0], True), (0, [1.0], True), (1, [0.1], False), (1, [0.1], False))
    assert algorithm.credit(table).tolist() == [-1.0, 1.0, 0.0, 0.0, 0.0]
    seen = tokens([-2.0, -1.0], reference=[-1.5, -1.2], advantage=[-1.0, 1.0], trajectory=[0, 1])
    # margin .2 + .5, target 1
    assert algorithm.loss(seen, totals(seen)).value.item() == pytest.approx(0.09)


def test_ipo_learns_from_the_start_policys_pairs():
    algorithm = ipo(optimizer=Optimizer())
    assert algorithm.frozen_policy
    assert algorithm.needs == frozenset({"reference"})
    assert algorithm.unit == "pair"
