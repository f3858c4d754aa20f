from __future__ import annotations

import pytest

from rlx.algo.parts import Optimizer
from rlx.algo.sft import sft


def test_sft_copies_demonstrations(rows, tokens, totals):
    algorithm = sft(optimizer=Optimizer())
    seen = tokens([-1.0, -3.0], advantage=algorithm.credit(rows((0, [0.0, 1.0], True))).advantage.values)
    assert algorithm.loss(seen, totals(seen)).value.item() == pytest.approx(2.0)
    assert algorithm.needs == frozenset()
    assert not algorithm.frozen_policy
