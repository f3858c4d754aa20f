from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rlx.learner import logprob
from rlx.learner.logprob import Head, log_probs
from rlx.model.masks import Masks
from rlx.protocol.automaton import Actions, Automaton, State
from tests.errors import raises_naming


def naive(hidden, weight, bias, target, temperature, allowed=None):
    z = torch.nn.functional.linear(hidden, weight, bias) / temperature
    if allowed is not None:
        z = z.masked_fill(~allowed, float("-inf"))
    logp = z.log_softmax(-1)
    p = logp.exp()
    entropy = -torch.where(p > 0, p * logp.clamp(min=-1e9), 0.0).sum(-1)
    return logp.gather(1, target[:, None])[:, 0], entropy


def inputs(bias=True):
    generator = torch.Generator().manual_seed(0)
    make = lambda *shape: torch.randn(*shape, generator=generator, requires_grad=True)  # noqa: E731
    return make(70, 8), make(30, 8), make(30) if bias else None, torch.randint(0, 30, (70,), generator=generator)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_values_and_gradients_equal_log_softmax(monkeypatch, temperature, masked, bias):
    monkeypatch.setitem(logprob.CHUNK_ELEMENTS, "cpu", 16 * 30)
    hidden, weight, b, target = inputs(bias)
    low = frozenset(range(15))
    masks = Masks(Automaton(states=(State(allowed=low), State(forbidden=low))), 30, torch.device("cpu"))
    state = torch.where(torch.arange(70) % 3 == 0, -1, target // 15)
    full = ((torch.arange(30) // 15) == state[:, None]) | (state < 0)[:, None]
    mix = torch.linspace(-1, 1, 70)
    leaves = [x for x in (hidden, weight, b) if x is not None]
    results = []
    head = Head(weight_VH=weight, bias_V=b, temperature=temperature, masks=masks if masked else None)
    for logp, entropy in (
        log_probs(head, hidden, target, state)[:2],
        naive(hidden, weight, b, target, temperature, full if masked else None),
    ):
        gradients = torch.autograd.grad((logp * mix).sum() + (entropy * mix.flip(0)).sum(), leaves, retain_graph=True)
        results.append((logp, entropy, *gradients))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("which", [0, 1])
def test_each_output_has_its_gradient_alone(which):
    hidden, weight, bias, target = inputs()
    head = Head(weight_VH=weight, bias_V=bias)
    ours = torch.autograd.grad(log_probs(head, hidden, target, target)[which].sum(), hidden)[0]
    theirs = torch.autograd.grad(naive(hidden, weight, bias, target, 1.0)[which].sum(), hidden)[0]
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


ADDED = Actions(first=30, names=("a", "b", "c", "d"), descriptions=((1,), (2,), (3,), (4,)))


def test_the_vocabularys_share_beside_added_actions_is_its_softmax_alone():
    hidden, weight, bias, target = inputs()
    rows = torch.randn(4, 8, generator=torch.Generator().manual_seed(1), requires_grad=True)
    masks = Masks(Automaton(states=(State(forbidden=frozenset({31, 33})),), actions=ADDED), 30, torch.device("cpu"))
    head = Head(weight_VH=weight, bias_V=bias, rows_AH=rows, temperature=0.7, masks=masks)
    logp, _, share = log_probs(head, hidden, target, torch.zeros(70, dtype=torch.long))
    alone, _ = naive(hidden, weight, bias, target, 0.7)
    mix, leaves = torch.linspace(-1, 1, 70), (hidden, weight, bias)
    torch.testing.assert_close(logp - share, alone, atol=2e-5, rtol=1e-4)
    ours = torch.autograd.grad(((logp - share) * mix).sum(), (*leaves, rows))
    theirs = torch.autograd.grad((alone * mix).sum(), leaves)
    for one, other in zip(ours, theirs, strict=False):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(ours[-1], torch.zeros_like(rows), atol=1e-4, rtol=0)  # an action's row is no part of it


def test_where_only_actions_may_be_chosen_the_vocabularys_share_passes_no_gradient_on():
    hidden, weight, bias, _ = inputs()
    rows = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    masks = Masks(Automaton(states=(State(allowed=frozenset({30, 32})),), actions=ADDED), 30, torch.device("cpu"))
    head = Head(weight_VH=weight, bias_V=bias, rows_AH=rows, masks=masks)
    logp, _, share = log_probs(head, hidden, torch.full((70,), 30), torch.zeros(70, dtype=torch.long))
    ours = torch.autograd.grad((logp + share * 0.0).sum(), hidden, retain_graph=True)[0]
    theirs = torch.autograd.grad(logp.sum(), hidden)[0]
    assert torch.equal(ours, theirs)


def test_a_frozen_head_gets_no_gradient_but_passes_it_on():
    hidden, weight, _, target = inputs()
    frozen = weight.detach()
    log_probs(Head(weight_VH=frozen), hidden, target, target)[0].sum().backward()
    assert frozen.grad is None
    assert hidden.grad.abs().sum() > 0


def test_a_token_outside_its_mask_is_refused():
    masks = Masks(Automaton(states=(State(allowed=frozenset({1})),)), 3, torch.device("cpu"))
    head = Head(weight_VH=torch.zeros(3, 2), masks=masks)
    with raises_naming(ValueError, "log_probs:", "mask"):
        log_probs(head, torch.zeros(1, 2), torch.tensor([2]), torch.tensor([0]))
    logp, entropy, _ = log_probs(head, torch.zeros(1, 2), torch.tensor([1]), torch.tensor([0]))
    assert logp.item() == 0.0
    assert entropy.item() == 0.0


class Spy(TorchDispatchMode):
    """Formats of every product of matrices, and how often a matrix of this shape was cast."""

    def __init__(self, shape: tuple[int, int]) -> None:
        super().__init__()
        self.shape, self.products, self.num_casts = shape, set(), 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm):
            self.products |= {x.dtype for x in args if isinstance(x, torch.Tensor)}
        self.num_casts += func.overloadpacket is torch.ops.aten._to_copy and out.shape == self.shape
        return out


@pytest.mark.parametrize("bias", [False, True])
def test_under_autocast_both_passes_multiply_in_its_format_and_the_head_is_cast_once(monkeypatch, bias):
    monkeypatch.setitem(logprob.CHUNK_ELEMENTS, "cpu", 16 * 30)
    hidden, weight, b, target = inputs(bias)
    with Spy((30, 8)) as spy:
        with torch.autocast("cpu", torch.bfloat16):
            logp, _, _ = log_probs(Head(weight_VH=weight, bias_V=b), hidden, target, target)
        logp.sum().backward()
    assert spy.products == {torch.bfloat16}
    assert spy.num_casts == 1
    assert logp.dtype == hidden.grad.dtype == weight.grad.dtype == torch.float32
    exact = torch.autograd.grad(naive(hidden, weight, b, target, 1.0)[0].sum(), [hidden, weight])
    torch.testing.assert_close(hidden.grad, exact[0], atol=0.05, rtol=0.05)
    torch.testing.assert_close(weight.grad, exact[1], atol=0.1, rtol=0.05)
