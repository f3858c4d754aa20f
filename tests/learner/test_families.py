"""Every listed model family: packed log-probs and gradients are those of transformers' own forward pass."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor

from rlx.learner import layout
from rlx.learner.attention import Rule, attention_over
from rlx.learner.batch import Batch, collate
from rlx.learner.packing import pack
from rlx.learner.scorer import Scorer
from rlx.learner.shares import shares, units
from rlx.model.families import FAMILIES
from rlx.types import Fork, Group, Task, Trajectory
from tests.learner.conftest import make_turn
from tests.model.tiny import TINY, tiny_model

TASK = Task(id="t", prompt=(), data={})


def ids(draw: random.Random, num: int) -> list[int]:
    return [draw.randrange(3, 200) for _ in range(num)]


def groups_of(seed: int = 0) -> list[Group]:
    """Episodes of 40 tokens and of 13, and forks in mid-turn on both sides of a window's edge."""
    draw = random.Random(seed)
    prompt, sampled = ids(draw, 9), ids(draw, 31)
    first = make_turn(prompt, sampled)
    twin = make_turn(prompt, [*sampled[:6], *ids(draw, 12)])
    late = make_turn(prompt, [*sampled[:25], *ids(draw, 3)])
    seen = ids(draw, 4)
    long = [make_turn(ids(draw, 7), ids(draw, 9))]
    long.append(make_turn([*long[0].prompt_ids, *long[0].completion.token_ids, *seen], ids(draw, 20)))
    short = [
        Trajectory(task=TASK, sample=i, status="done", turns=(make_turn(ids(draw, 5), ids(draw, 8)),)) for i in (0, 1)
    ]
    trees = [
        Trajectory(task=TASK, sample=0, status="done", turns=(first,)),
        Trajectory(task=TASK, sample=1, status="done", turns=(twin,), fork=Fork(parent=0, turn=0, token=6)),
        Trajectory(task=TASK, sample=2, status="done", turns=(late,), fork=Fork(parent=0, turn=0, token=25)),
        Trajectory(task=TASK, sample=3, status="done", turns=tuple(long)),
    ]
    return [Group(task=TASK, trajectories=tuple(trees)), Group(task=TASK, trajectories=tuple(short))]


def rows_of(batch: Batch) -> list[tuple[list[int], Tensor]]:
    """Each trained segment's tokens after its context, and the trained tokens among M."""
    found = []
    for s in range(len(batch.parent_S)):
        first, last = batch.token_start_S[s : s + 2].tolist()
        if first < last:
            above, num, tokens = s, int(batch.start_S[s + 1] - batch.start_S[s]), []
            while above >= 0:
                start = int(batch.start_S[above])
                tokens = batch.token_ids_N[start : start + num].tolist() + tokens
                num, above = int(batch.joint_S[above]), int(batch.parent_S[above])
            found.append((tokens, torch.arange(first, last)))
    return found


def plain(model: Any, batch: Batch, temperature: float = 1.0) -> Tensor:
    """Log-probs by the model's own forward pass, one sequence at a time."""
    logp_M = torch.zeros(batch.num_tokens)
    for tokens, of_row in rows_of(batch):
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].float() / temperature
        s = int((batch.token_start_S <= of_row[0]).sum()) - 1
        place = batch.position_M[of_row] - batch.start_S[s] + batch.context_S[s]
        target = torch.tensor(tokens)[place]
        logp_M = logp_M.index_put((of_row,), logits.log_softmax(-1)[place - 1].gather(1, target[:, None])[:, 0])
    return logp_M


def packed(scorer: Scorer, batch: Batch, budget: int = 10_000) -> Tensor:
    logp_M = torch.zeros(batch.num_tokens)
    for micro_batch in shares(batch, units(batch, "trajectory"), budget, 1, scorer.packing)[0]:
        laid = pack(batch, micro_batch)
        columns = scorer(laid, batch.mask_M[laid.token_m])
        logp_M = logp_M.index_put((laid.token_m,), columns["logp"])
    return logp_M


def gradients(model: Any, logp_M: Tensor) -> Tensor:
    weight_M = torch.linspace(-1, 1, len(logp_M))
    model.zero_grad()
    (logp_M * weight_M).sum().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def test_every_family_has_a_tiny_configuration() -> None:
    assert sorted(TINY) == sorted(FAMILIES) == list(FAMILIES)


@pytest.mark.parametrize("kind", FAMILIES)
def test_log_probs_and_gradients_of_a_family_are_those_of_transformers(kind: str) -> None:
    model, batch = tiny_model(kind), collate(groups_of())
    theirs = plain(model, batch)
    their_gradient = gradients(model, theirs)
    scorer = Scorer(model)
    ours = packed(scorer, batch)
    our_gradient = gradients(model, ours)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    assert (our_gradient - their_gradient).norm() < 1e-5 * their_gradient.norm()
    for budget in (1, 60):
        with torch.no_grad():
            torch.testing.assert_close(packed(scorer, batch, budget), theirs, atol=1e-5, rtol=1e-5)
