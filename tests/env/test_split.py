"""Tasks in two splits: who has too few of them is told what to do."""

from __future__ import annotations

import pytest

from rlx.env.game.fifteen_puzzle import FifteenPuzzle
from rlx.env.game.tower_of_hanoi import TowerOfHanoi
from rlx.environment import Environment
from tests.errors import raises_naming


@pytest.mark.parametrize("env", [FifteenPuzzle(max_turns=1), TowerOfHanoi(num_disks=1)])
def test_so_few_tasks_that_none_is_held_out_are_refused_with_what_to_do(env: Environment) -> None:
    with raises_naming(ValueError, "env:", "no task"):
        next(iter(env.tasks("test", 0)))
