from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from rlx.learner import state
from rlx.learner.state import in_pieces, write_state

NAMES = st.lists(st.integers(1, 5), max_size=6).map(lambda sizes: [(f"x{i}", n) for i, n in enumerate(sizes)])


@given(NAMES, st.integers(1, 40))
def test_pieces_hold_every_tensor_once_in_order_and_only_the_last_may_be_small(
    sizes: list[tuple[str, int]], least: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "PIECE", least)
        pieces = list(in_pieces((name, torch.zeros(size)) for name, size in sizes))
    assert [name for piece in pieces for name in piece] == [name for name, _ in sizes]
    assert all(sum(x.nbytes for x in piece.values()) >= least for piece in pieces[:-1])
    assert pieces == [{}] or all(pieces)


def test_a_state_without_tensors_is_a_file_too(tmp_path: Path) -> None:
    write_state(tmp_path, [])
    assert [file.name for file in tmp_path.iterdir()] == ["learner.safetensors"]
    assert load_file(tmp_path / "learner.safetensors") == {}
