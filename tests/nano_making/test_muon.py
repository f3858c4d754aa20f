from __future__ import annotations

import pytest
import torch
from torch import nn

from scripts.nano.muon import Muon, orthogonalise


@pytest.mark.parametrize("shape", [(8, 8), (12, 5), (5, 12)])
def test_orthogonalised_matrices_have_singular_values_near_one(shape: tuple[int, int]) -> None:
    matrices = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalise(matrices))
    assert values.min() > 0.4
    assert values.max() < 1.4


def test_muon_moves_along_the_singular_directions_of_the_gradient() -> None:
    parameter = nn.Parameter(torch.zeros(2, 2))
    parameter.grad = torch.diag(torch.tensor([5.0, -3.0]))
    Muon([parameter], lr=0.1).step()
    moved = parameter.detach()
    assert moved[0, 0] == pytest.approx(-0.1, abs=0.04)
    assert moved[1, 1] == pytest.approx(0.1, abs=0.04)
    assert moved[0, 1] == moved[1, 0] == 0
