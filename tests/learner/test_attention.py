"""Every way of attending to a forest of segments is the dense one."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from rlx.learner import attention, layout
from rlx.learner.attention import Rule, attention_over
from rlx.learner.batch import collate
from rlx.learner.forest import contexts_first, depth_first, forest_of
from rlx.learner.layout import BLOCK, Rectangles, Sight
from rlx.learner.packing import pack
from rlx.learner.shares import micro_batch, segments_of, units
from rlx.types import Fork, Group, Task, Trajectory

TASK = Task(id="t", prompt=(), data={})
HEADS, KEY_HEADS, SIZE = 4, 2, 8


def number(draw, low, high):
    return int(torch.randint(low, high, (1,), generator=draw))


def tree(turn, seed, scale=1):
    """Sibling samples of one prompt, a window of rewritten contexts, and forks in mid-turn and of forks."""
    draw = torch.Generator().manual_seed(seed)
    ids = lambda low, high: torch.randint(0, 50, (number(draw, low * scale, high * scale),), generator=draw).tolist()  # noqa: E731
    make = partial(Trajectory, task=TASK, status="done")
    system, prompt, sampled = ids(3, 6), ids(3, 9), ids(6, 12)
    opening = system + prompt
    twin = [*sampled[: 4 * scale], 51, 52, *ids(2, 5)]
    third = [*twin[: 4 * scale + 3], 53, *ids(1, 4)]
    windows = [turn(opening, ids(2, 5)), *(turn(system + ids(3, 6), ids(2, 5)) for _ in range(2))]
    found = [
        make(sample=0, turns=(turn(opening, sampled),)),
        make(sample=1, turns=(turn(opening, ids(5, 9)),)),
        make(sample=2, turns=(turn(opening, twin),), fork=Fork(parent=0, turn=0, token=4 * scale, forced=(51, 52))),
        make(sample=3, turns=(turn(opening, third),), fork=Fork(parent=2, turn=0, token=4 * scale + 3, forced=(53,))),
        make(sample=4, turns=tuple(windows)),
    ]
    return Group(task=TASK, trajectories=tuple(found))


def dense_mask(batch, what, order):
    """Who sees whom, from every token's own path, for the segments in this order."""
    spots = {(s, offset): 0 for s in order for offset in range(what.reach[s])}
    spots = {spot: index for index, spot in enumerate(spots)}
    mask = torch.zeros(len(spots), len(spots), dtype=torch.bool)
    for s, offset in spots:
        above, num = s, offset + 1
        while above >= 0:
            for before in range(num):
                mask[spots[s, offset], spots[above, before]] = True
            num, above = int(batch.joint_S[above]), int(batch.parent_S[above])
    return mask


def cases(turn, seed, device, scale=1):
    """A packed micro-batch and its dense mask."""
    batch = collate([tree(turn, seed, scale), tree(turn, seed + 50, scale)])
    what = micro_batch(forest_of(batch), segments_of(units(batch, "trajectory")))
    order = contexts_first(what.reach, what.segments) if device == "cpu" else depth_first(batch, what.reach)
    return pack(batch, what, device), dense_mask(batch, what, order)


def heads(num_tokens, dtype, seed=0):
    draw = torch.Generator().manual_seed(seed)
    make = lambda num: torch.randn(1, num_tokens, num, SIZE, generator=draw, dtype=torch.float64).to(dtype)  # noqa: E731
    return [make(num).transpose(1, 2).requires_grad_() for num in (HEADS, KEY_HEADS, KEY_HEADS)]


def dense(q, k, v, mask):
    k, v = (x.repeat_interleave(HEADS // KEY_HEADS, dim=1) for x in (k, v))
    scores = (q @ k.mT * 0.3).masked_fill(~mask, float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2)


def compare(packed, mask, dtype, tolerance):
    q, k, v = heads(len(mask), dtype)
    upstream = torch.randn(1, len(mask), HEADS, SIZE, dtype=dtype, generator=torch.Generator().manual_seed(1))
    found = []
    for out in (attention_over(packed.layout).attend(q, k, v, Rule(scaling=0.3)), dense(q, k, v, mask)):
        found.append((out, *torch.autograd.grad(out, (q, k, v), upstream)))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("bias", [layout.BIAS_ELEMENTS, 0])
@pytest.mark.parametrize("seed", range(3))
def test_rectangles_and_spans_equal_dense_attention(monkeypatch, turn, dtype, tolerance, bias, seed):
    monkeypatch.setattr(layout, "BIAS_ELEMENTS", bias)
    packed, mask = cases(turn, seed, "cpu")
    assert isinstance(packed.layout.visibility, Rectangles if bias else tuple)
    compare(packed, mask, dtype, tolerance)


@pytest.mark.parametrize("seed", range(4))
def test_a_token_is_seen_until_its_last_reader(turn, seed):
    packed, mask = cases(turn, seed, "cuda", scale=3)
    until_T, place = packed.layout.visibility.end_T, torch.arange(len(mask))
    assert torch.equal((place <= place[:, None]) & (place[:, None] < until_T), mask)


@pytest.mark.parametrize("seed", range(3))
def test_blocks_hold_what_is_seen_and_no_more(turn, seed):
    packed, mask = cases(turn, seed, "cuda", scale=10)
    assert len(mask) > 4 * BLOCK
    seen, num = packed.layout.visibility, -(-len(mask) // BLOCK)
    for q in range(num):
        for k in range(num):
            block = mask[q * BLOCK : (q + 1) * BLOCK, k * BLOCK : (k + 1) * BLOCK]
            wholly, partly = bool(block.all()) and q != k, bool(block.any())
            assert bool(seen.wholly_qk[q, k]) == wholly
            assert bool(seen.partly_qk[q, k]) == (partly and not wholly)


@pytest.mark.parametrize("seed", range(2))
def test_flex_attention_equals_dense_attention_forward(turn, seed):
    packed, mask = cases(turn, seed, "cuda", scale=4)
    assert isinstance(packed.layout.visibility, Sight)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        q, k, v = (x.detach() for x in heads(len(mask), dtype))
        out = attention_over(packed.layout).attend(q, k, v, Rule(scaling=0.3))
        torch.testing.assert_close(out, dense(q, k, v, mask), atol=tolerance, rtol=tolerance)


@pytest.mark.slow
def test_compiled_flex_attention_skips_blocks_and_equals_dense_attention(monkeypatch, turn):
    compiled = torch.compile(attention.flex_attention, dynamic=False)
    monkeypatch.setattr(attention, "flex", lambda device: compiled)
    packed, mask = cases(turn, 0, "cuda", scale=12)
    assert not (packed.layout.visibility.partly_qk | packed.layout.visibility.wholly_qk).tril().all()
    q, k, v = (x.detach() for x in heads(len(mask), torch.float32))
    out = attention_over(packed.layout).attend(q, k, v, Rule(scaling=0.3))
    torch.testing.assert_close(out, dense(q, k, v, mask), atol=1e-5, rtol=1e-5)


def ruled(q, k, v, mask, rule, position):
    """Dense attention under a rule."""
    k, v = (x.repeat_interleave(HEADS // KEY_HEADS, dim=1) for x in (k, v))
    scores = q @ k.mT * rule.scaling
    if rule.soft_cap is not None:
        scores = rule.soft_cap * (scores / rule.soft_cap).tanh()
    if rule.window is not None:
        mask = mask & (position[:, None] - position < rule.window)
    scores = scores.masked_fill(~mask, float("-inf"))
    if rule.sinks is None:
        return (scores.softmax(-1) @ v).transpose(1, 2)
    sinks = rule.sinks[:, None, None].expand(*scores.shape[:3], 1)
    return (torch.cat((scores, sinks), -1).softmax(-1)[..., :-1] @ v).transpose(1, 2)


RULES = [
    {"window": 5},
    {"soft_cap": 1.5},
    {"sinks": True},
    {"window": 3, "soft_cap": 1.5, "sinks": True},
]


@pytest.mark.parametrize("bias", [layout.BIAS_ELEMENTS, 0])
def test_windows_caps_and_sinks_on_a_cpu_equal_dense_attention_with_gradients(monkeypatch, turn, bias):
    monkeypatch.setattr(layout, "BIAS_ELEMENTS", bias)
    for seed in range(2):
        packed, mask = cases(turn, seed, "cpu")
        assert isinstance(packed.layout.visibility, Rectangles if bias else tuple)
        for words in RULES:
            q, k, v = heads(len(mask), torch.float64)
            sinks = torch.linspace(-2, 2, HEADS, dtype=torch.float64).requires_grad_() if "sinks" in words else None
            rule = Rule(**{"scaling": 0.3, **words, "sinks": sinks})
            given = (q, k, v) if sinks is None else (q, k, v, sinks)
            position = packed.position_ids_BL[0]
            upstream = torch.randn(1, len(mask), HEADS, SIZE, dtype=torch.float64)
            outs = attention_over(packed.layout).attend(q, k, v, rule), ruled(q, k, v, mask, rule, position)
            found = [(out, *torch.autograd.grad(out, given, upstream)) for out in outs]
            for ours, theirs in zip(*found, strict=True):
                torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)


def test_windows_caps_and_sinks_in_flex_attention_equal_dense_attention_forward(turn):
    packed, mask = cases(turn, 1, "cuda", scale=8)
    for words in ({"window": 40}, *RULES):
        q, k, v = (x.detach() for x in heads(len(mask), torch.float32))
        sinks = torch.linspace(-2, 2, HEADS) if "sinks" in words else None
        rule = Rule(**{"scaling": 0.3, **words, "sinks": sinks})
        out = attention_over(packed.layout).attend(q, k, v, rule)
        theirs = ruled(q, k, v, mask, rule, packed.position_ids_BL[0])
        torch.testing.assert_close(out, theirs, atol=1e-5, rtol=1e-5)


def test_blocks_of_a_window_hold_what_it_sees(turn):
    packed, mask = cases(turn, 0, "cuda", scale=10)
    position, num = packed.position_ids_BL[0], -(-len(mask) // BLOCK)
    for window in (1, 100, 300):
        within = mask & (position[:, None] - position < window)
        blocks = layout.blocks_within(packed.layout.visibility, window)
        for q in range(num):
            for k in range(num):
                block = within[q * BLOCK : (q + 1) * BLOCK, k * BLOCK : (k + 1) * BLOCK]
                assert not blocks["wholly_qk"][q, k] or bool(block.all())
                assert not block.any() or blocks["wholly_qk"][q, k] or blocks["partly_qk"][q, k]
        assert (blocks["partly_qk"] | blocks["wholly_qk"]).sum() < (num * num + num) // 2 or window == 300
