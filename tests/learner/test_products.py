"""Products by another library are the same products."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from functools import partial
from itertools import product

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from rlx.hardware.profile import KERNELS
from rlx.learner import products
from rlx.learner.batch import collate
from rlx.learner.packing import pack
from rlx.learner.products import WideProducts, computed_again, suits
from rlx.learner.scorer import Scorer
from rlx.learner.shares import shares, units
from tests.loops import for_each

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")


@pytest.fixture(autouse=True)
def no_intel(monkeypatch) -> None:
    monkeypatch.setattr(products, "name_maker", lambda: "AuthenticAMD")


def passes(layer: nn.Linear, x: Tensor) -> tuple[Tensor, ...]:
    layer.zero_grad()
    given = x.clone().requires_grad_()
    out = layer(given)
    out.square().sum().backward()
    return tuple(each.detach().clone() for each in (out, given.grad, *(p.grad for p in layer.parameters())))


@for_each("bias, shape", product([True, False], [(1, 48), (300, 48), (1, 300, 48), (2, 3, 5, 48)]))
def test_both_passes_agree_with_torchs_own_to_the_last_bits_of_float32(shape, bias) -> None:
    torch.manual_seed(0)
    layer, x = nn.Linear(48, 80, bias=bias), torch.randn(shape)
    plain = passes(layer, x)
    with WideProducts():
        wide = passes(layer, x)
    for ours, theirs in zip(wide, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-4)


def test_a_number_that_bfloat16_would_round_comes_out_whole() -> None:
    fine = torch.full((256, 256), 1 + 2**-12)
    layer = nn.Linear(256, 256, bias=False).requires_grad_(False)
    layer.weight.copy_(torch.eye(256))
    with WideProducts():
        assert torch.equal(layer(fine), fine)


def test_a_frozen_weight_gets_no_gradient() -> None:
    layer, x = nn.Linear(48, 80).requires_grad_(False), torch.randn(7, 48, requires_grad=True)
    with WideProducts():
        layer(x).sum().backward()
    assert layer.weight.grad is None
    assert x.grad is not None


def test_other_formats_go_as_they_did() -> None:
    layer, x = nn.Linear(48, 80).to(torch.bfloat16), torch.randn(7, 48, dtype=torch.bfloat16)
    assert not suits(x, layer.weight)
    plain = layer(x)
    with WideProducts():
        assert torch.equal(layer(x), plain)


@pytest.mark.parametrize(("x", "weight"), [((48,), (80, 48)), ((7, 48), (48,))])
def test_vectors_go_as_they_did(x, weight) -> None:
    given, by = torch.randn(x), torch.randn(weight)
    with WideProducts():
        found = linear(given, by)
    assert torch.equal(found, linear(given, by))


def test_words_may_be_named() -> None:
    layer, x = nn.Linear(48, 80), torch.randn(7, 48)
    with WideProducts():
        found = linear(input=x, weight=layer.weight, bias=layer.bias)
    torch.testing.assert_close(found, layer(x))


class Counted(TorchDispatchMode):
    """How often an operation was called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("recompute", [False, True])
def test_a_scorer_multiplies_by_weights_so_and_so_it_does_on_the_way_back(model, groups, recompute) -> None:
    scorer, batch = Scorer(model(), recompute=recompute).train(), collate(groups())
    (what,), *_ = shares(batch, units(batch, "trajectory"), 10_000, 1)
    packed = pack(batch, what)
    with Counted() as forth:
        loss = scorer(packed, batch.mask_M[packed.token_m])["logp"].sum()
    with Counted() as back:
        loss.backward()
    maps = 2 * 7
    assert forth.calls["_linear_pointwise"] == maps + 1
    assert forth.calls["addmm"] == forth.calls["mm"] == 0
    assert back.calls["_linear_pointwise"] == maps * (3 if recompute else 2)


def test_the_gradient_of_a_gradient_is_refused_not_wrong() -> None:
    layer, x = nn.Linear(4, 4), torch.randn(2, 4, requires_grad=True)
    with WideProducts():
        (grad,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError):
        grad.sum().backward()


def test_layers_that_are_computed_again_are_so_with_the_same_products() -> None:
    torch.manual_seed(0)
    layers, x = nn.Sequential(nn.Linear(48, 80), nn.ReLU(), nn.Linear(80, 48)), torch.randn(5, 48)
    found = []
    for again in (False, True):
        given = x.clone().requires_grad_()
        contexts = partial(computed_again, torch.device("cpu"))
        with WideProducts():
            out = checkpoint(layers, given, use_reentrant=False, context_fn=contexts) if again else layers(given)
        out.square().sum().backward()
        found.append(given.grad)
    assert torch.equal(*found)


def test_under_autocast_products_are_of_its_format() -> None:
    layer, x = nn.Linear(48, 80), torch.randn(7, 48)
    with WideProducts(), torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16


@pytest.mark.parametrize(("maker", "is_wide"), [("GenuineIntel", False), ("AuthenticAMD", True), ("aarch64", True)])
def test_intel_s_own_library_is_left_to_intel_s_processors(maker: str, is_wide: bool, monkeypatch) -> None:
    monkeypatch.setattr(products, "name_maker", lambda: maker)
    assert isinstance(products.products_on(torch.device("cpu")), WideProducts) is is_wide


GROWTH = """
from pathlib import Path

from rlx.hardware.profile import set_threads

set_threads(1)
import torch

from rlx.learner import products

products.name_maker = lambda: "AuthenticAMD"
layers, x = [torch.nn.Linear(192, width) for width in (192, 512, 1100)], torch.randn(320, 192)
with products.products_on(torch.device("cpu")), torch.no_grad():
    for rows in range(200, 320):
        if rows == 220:
            before = int(Path("/proc/self/statm").read_text().split()[1])
        for layer in layers:
            layer(x[:rows])
print(int(Path("/proc/self/statm").read_text().split()[1]) - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="its pages are not told")
def test_kernels_of_passes_that_do_not_come_again_are_not_kept() -> None:
    def pages(kept: dict[str, str]) -> int:
        own = {name: value for name, value in os.environ.items() if name not in KERNELS}
        command = [sys.executable, "-c", GROWTH]
        done = subprocess.run(command, env=own | kept, capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert pages({}) < pages(dict.fromkeys(KERNELS, "1024")) / 2
