"""Tasks in two splits: who has too few of them is told what to do."""

from __future__ import annotations

import pytest

from rlx.env.game.fifteen_puzzle import FifteenPuzzle
from rlx.env.game.tower_of_hanoi import TowerOfHanoi
from rlx.environment import Environment


@pytest.mark.parametrize("env", [FifteenPuzzle(max_turns=1), TowerOfHanoi(num_disks=1)])
def test_so_few_tasks_that_none_is_held_out_are_refused_with_what_to_do(env: Environment) -> None:
    with pytest.raises(ValueError, match=r"^env: no task is held out for the test, .*: allow for more$"):
        next(iter(env.tasks("test", 0)))
