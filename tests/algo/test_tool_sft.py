from __future__ import annotations

import pytest

from rlx.algo.parts import Optimizer
from rlx.algo.sft import sft
from rlx.algo.tool_sft import tool_sft


def test_tool_sft_is_sft_on_another_experts_turns(rows, tokens, totals):
    table = rows((0, [-0.02, -0.02, 1.0], True))
    one, other = (make(optimizer=Optimizer(), num_prompts=7) for make in (sft, tool_sft))
    seen = tokens([-1.0, -3.0, -0.5], advantage=other.credit(table).advantage.values)
    assert other.loss(seen, totals(seen)).value.item() == pytest.approx(1.5)
    assert other.credit(table).advantage.values == one.credit(table).advantage.values
    assert other.num_prompts == 7
