from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rlx.evaluation.picture import Panel, figure_of_panels
from tests.loops import for_each


def draw_nothing(axes: Sequence[Any]) -> list[tuple[Any, str]]:
    return []


@for_each("num_panels, across, down", [(1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 2, 2), (5, 3, 2), (7, 3, 3)])
def test_a_picture_has_room_for_its_rows_of_at_most_three_panels(num_panels: int, across: int, down: int) -> None:
    pytest.importorskip("matplotlib")
    panel = Panel(title="reward", draw=draw_nothing, width=4, height=3)
    width, height = figure_of_panels([panel] * num_panels).get_size_inches()
    assert (width, height) == (4 * across, 3 * down)
