from __future__ import annotations

import pytest
import torch

from rlx.algo.parts import Credited, PerRow
from rlx.learner.batch import collate
from rlx.learner.forest import forest_of, num_reached
from rlx.learner.layout import SLACK, SPREAD
from rlx.learner.packing import pack
from rlx.learner.shares import by_group, count, micro_batch, micro_batches, minibatches, segments_of, units


def num_tokens(batch, segments):
    """Of these and all they follow, counted one by one."""
    parent, joint = batch.parent_S.tolist(), batch.joint_S.tolist()
    seen = set()
    for s in segments:
        num = int(batch.start_S[s + 1] - batch.start_S[s])
        while s >= 0:
            seen |= {(s, offset) for offset in range(num)}
            s, num = parent[s], joint[s]
    return len(seen)


@pytest.mark.parametrize("budget", [10, 40, 90, 10_000])
def test_every_segment_is_trained_once_and_the_budget_holds(groups, budget):
    batch = collate(groups(4, 5, rewrite=0.3))
    chosen = units(batch, "trajectory")
    found = list(micro_batches(forest_of(batch), chosen, budget))
    assert [s for what in found for s in what.segments] == [s for s, t in enumerate(batch.trajectory_S) if t >= 0]
    singles = {tuple(unit.segments) for unit in chosen}
    for what in found:
        assert sum(what.reach.values()) == num_tokens(batch, what.segments) == pack(batch, what).input_ids_BL.shape[1]
        assert num_tokens(batch, what.segments) <= budget or tuple(what.segments) in singles
        for unit in singles:
            assert set(unit) <= set(what.segments) or not set(unit) & set(what.segments)


def test_a_group_that_fits_is_not_split(groups):
    batch = collate(groups(6, 3))
    forest, chosen = forest_of(batch), units(batch, "trajectory")
    largest = max(num_reached(forest, segments_of(members)) for members in by_group(chosen))
    found = list(micro_batches(forest, chosen, largest))
    prompts = [s for what in found for s in what.reach if batch.parent_S[s] < 0]
    assert len(prompts) == 6


def test_minibatches_hold_whole_groups(groups):
    chosen = units(collate(groups(5, 3)), "trajectory")
    for num, sizes in ((1, [5]), (2, [2, 3]), (5, [1] * 5), (9, [1] * 5)):
        found = minibatches(chosen, num)
        assert [len({unit.group for unit in part}) for part in found] == sizes
        assert [unit for part in found for unit in part] == chosen


def test_a_unit_may_be_what_is_kept_of_a_group(groups):
    batch = collate(groups(2, 4))
    keep_R = (batch.trajectory_R == 5) | (batch.trajectory_R == 7)
    batch = batch.with_credit(Credited(advantage=PerRow(keep_R), keep=PerRow(keep_R)))
    unit, *rest = units(batch, "group")
    assert (unit.group, rest) == (1, [])
    assert [int(batch.trajectory_S[s]) for s in unit.segments] == [5, 7]
    assert [what.segments for what in micro_batches(forest_of(batch), [unit], 1)] == [unit.segments]
    totals = count(batch, [unit])
    assert (totals.num_trajectories, totals.num_groups) == (2, 1)
    assert totals.num_tokens == int((batch.advantage_M != 0).sum())


@pytest.mark.parametrize("seed", range(6))
def test_packing_keeps_every_token_its_position_and_its_target(groups, seed):
    given = groups(3, 3, seed=seed, rewrite=0.4)
    batch = collate(given)
    turns = [turn for group in given for trajectory in group.trajectories for turn in trajectory.turns]
    seen = []
    for what in micro_batches(forest_of(batch), units(batch, "trajectory"), 50):
        packed = pack(batch, what)
        ids, positions = packed.input_ids_BL[0], packed.position_ids_BL[0]
        seen += packed.token_m.tolist()
        for at, target, token in zip(packed.predict_m, packed.target_m, packed.token_m):
            row = int(batch.row_M[token])
            offset = int(token - (batch.row_M < row).sum())
            whole = turns[row].prompt_ids + turns[row].completion.token_ids
            place = len(turns[row].prompt_ids) + offset
            assert (int(target), int(positions[at]), int(ids[at])) == (whole[place], place - 1, whole[place - 1])
    assert seen == list(range(batch.num_tokens))


@pytest.mark.parametrize("seed", range(4))
def test_attention_sees_rectangles_of_like_length_that_restore_every_token(groups, seed):
    batch = collate(groups(4, 4, seed=seed, rewrite=0.3))
    packed = pack(batch, micro_batch(forest_of(batch), range(len(batch.trajectory_S))))
    seen = packed.layout.visibility
    for part in seen.rectangles:
        lengths = [len(row.unique()) for row in part.queries_sl]
        assert max(lengths) <= SPREAD * min(lengths) + (0 if len(part.context_s) else SLACK)
    outputs = torch.cat([part.queries_sl.flatten() for part in seen.rectangles])
    assert outputs[seen.restore_T].tolist() == list(range(packed.input_ids_BL.shape[1]))
