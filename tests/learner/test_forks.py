"""What a fork has in common with others is computed once and trained once, and changes nothing else."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
import torch

from rlx.algo.losses import policy_gradient, policy_loss
from rlx.algo.parts import Credited, Optimizer, PerToken
from rlx.learner.batch import collate
from rlx.learner.forest import forest_of
from rlx.learner.packing import pack
from rlx.learner.rows import decisions, rows
from rlx.learner.shares import micro_batch, segments_of, units
from rlx.learner.torch import TorchLearner
from rlx.types import Fork, Group, Task, Trajectory

TASK = Task(id="t", prompt=(), data={})
LOSS = policy_loss(policy_gradient())


def episode(sample, *turns, fork=None):
    return Trajectory(task=TASK, sample=sample, turns=turns, status="done", fork=fork)


def family(turn):
    """Two turns; a fork two tokens into the second, forced to say 30, 31; a fork of that one, three tokens of its turn
    later (30, 31 and one that it sampled); one between turns; and a sample of its own."""
    first = turn([1, 2, 3], [4, 5, 6, 7])
    context = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    return [
        episode(0, first, turn(context, [10, 11, 12, 13])),
        episode(
            1, first, turn(context, [10, 11, 30, 31, 14, 15]), fork=Fork(parent=0, turn=1, token=2, forced=(30, 31))
        ),
        episode(
            2, first, turn(context, [10, 11, 30, 31, 14, 32, 16]), fork=Fork(parent=1, turn=1, token=5, forced=(32,))
        ),
        episode(3, first, turn(context, [17, 18]), fork=Fork(parent=0, turn=1)),
        episode(4, turn([1, 2, 3], [4, 5, 19])),
    ]


def own_tokens(groups):
    """Of each row: what it read, and where what it sampled itself begins."""
    for d in decisions(groups):
        fork = d.episode.fork
        given = fork.token + len(fork.forced) if fork and fork.turn == d.turn else 0
        yield d.sampled_turn.prompt_ids + d.sampled_turn.completion.token_ids, len(d.sampled_turn.prompt_ids) + given


def alone(model, groups):
    """Log-probs row by row, each with its whole context, through the model's own attention."""
    model.set_attn_implementation("eager")
    found = []
    for ids, start in own_tokens(groups):
        logp = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        found += [logp[i - 1, ids[i]] for i in range(start, len(ids))]
    return torch.stack(found)


def learner(model, micro=10_000):
    optimizer = Optimizer(lr=0.0, max_gradient_norm=math.inf)
    return TorchLearner(model, optimizer=optimizer, num_steps=1, micro_batch_tokens=micro)


def gradients(trainer, batch):
    kept, move = [], trainer.move
    trainer.move = lambda: kept.append([p.grad for p in trainer.model.parameters()]) or move()
    trainer.update(batch, LOSS)
    return kept[0]


def check_equal(network, groups, micro):
    batch = collate(groups)
    advantages = torch.linspace(-1, 1, batch.num_tokens).split(rows(groups, batch).num_tokens)
    batch = batch.with_credit(Credited(advantage=PerToken(advantages)))
    expected = alone(network, groups)
    loss = -(expected * batch.advantage_M).sum() / batch.num_tokens
    by_rows = torch.autograd.grad(loss, list(network.parameters()))
    trainer = learner(network, micro)
    torch.testing.assert_close(trainer.measure(batch)["logp"], expected.detach(), atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(gradients(trainer, batch), by_rows, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("micro", [12, 10_000])
def test_forks_have_the_log_probs_and_gradients_of_their_rows_alone(model, turn, micro):
    check_equal(model(), [Group(task=TASK, trajectories=tuple(family(turn)))], micro)


def test_what_forks_have_in_common_goes_through_the_model_once(turn):
    groups = [Group(task=TASK, trajectories=tuple(family(turn)))]
    batch = collate(groups)
    packed = pack(batch, micro_batch(forest_of(batch), segments_of(units(batch, "trajectory"))))
    # prompt 3; 4..13 ten; forced 2 and sampled 2; forced 1 and sampled 1; 17, 18; the last sample's own three
    assert packed.input_ids_BL.shape[1] == 3 + 10 + 4 + 2 + 2 + 3
    assert sum(len(ids) for ids, _ in own_tokens(groups)) == 7 + 13 + 15 + 16 + 11 + 6
    assert packed.position_ids_BL.max() == 15
    assert batch.token_ids_N[batch.position_M].tolist() == [4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17, 18, 4, 5, 19]


def test_a_fork_alone_in_its_micro_batch_takes_only_what_it_follows(turn):
    batch = collate([Group(task=TASK, trajectories=tuple(family(turn)))])
    second = units(batch, "trajectory")[2]
    what = micro_batch(forest_of(batch), second.segments)
    # prompt 3; 4..11 of its grandparent; 30, 31, 14 of its parent; its own two
    assert sorted(what.reach.values()) == [2, 3, 3, 8]
    assert pack(batch, what).input_ids_BL[0].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 30, 31, 14, 32, 16]


def test_rows_count_what_a_fork_sampled_itself(turn):
    groups = [Group(task=TASK, trajectories=tuple(family(turn)))]
    table = rows(groups, collate(groups))
    assert table.num_tokens == (4, 4, 2, 1, 2, 3)
    assert table.parent == (-1, 0, 0, 0, 0, -1)
    assert table.fork == (-1, -1, 1, 2, 1, -1)


def test_a_fork_whose_parent_is_lost_has_its_context_all_the_same(model, turn):
    group = family(turn)
    lost = (replace(group[0], status="error"), *group[1:])
    batch = collate([Group(task=TASK, trajectories=lost)])
    assert batch.token_ids_N[batch.position_M].tolist() == [14, 15, 16, 17, 18, 4, 5, 19]
    check_equal(model(), [Group(task=TASK, trajectories=lost)], 10_000)


def grown(turn, seed):
    """A random tree: each further episode leaves an earlier one somewhere in a turn, or begins afresh."""
    draw = random.Random(seed)
    ids = lambda low, high: [draw.randrange(50) for _ in range(draw.randint(low, high))]  # noqa: E731
    prompts = [ids(2, 6), ids(2, 6)]
    found = []
    for sample in range(8):
        parent = draw.choice(found) if found and draw.random() < 0.8 else None
        at = draw.randrange(len(parent.turns)) if parent else 0
        turns = list(parent.turns[:at]) if parent else []
        context = list(parent.turns[at].prompt_ids) if parent else draw.choice(prompts)
        token = draw.randint(0, len(parent.turns[at].completion.token_ids)) if parent else 0
        forced = tuple(ids(0, 2)) if parent else ()
        given = [*parent.turns[at].completion.token_ids[:token], *forced] if parent else []
        for _ in range(draw.randint(1, 3)):
            sampled = [*given, *ids(1, 5)]
            turns.append(turn(context, sampled))
            context = ids(2, 4) + context[-4:] if draw.random() < 0.3 else context + sampled + ids(0, 3)
            given = []
        fork = Fork(parent=parent.sample, turn=at, token=token, forced=forced) if parent else None
        found.append(episode(sample, *turns, fork=fork))
    return Group(task=TASK, trajectories=tuple(found))


@pytest.mark.parametrize("seed", range(6))
def test_any_tree_has_the_log_probs_and_gradients_of_its_rows_alone(model, turn, seed):
    check_equal(model(), [grown(turn, seed), grown(turn, seed + 100)], 40)


def test_rows_of_a_group_whose_contexts_are_equal_have_one_state(turn):
    groups = [Group(task=TASK, trajectories=tuple(family(turn))), Group(task=TASK, trajectories=(family(turn)[4],))]
    found = rows(groups, collate(groups)).state
    # the root's turns, a fork in mid-turn, a fork of that, a fork between turns, a sample and one of another group
    assert found == (0, 1, 2, 3, 1, 0, 4)
