from __future__ import annotations

import pytest
import torch

from rlx.learner.batch import collate
from rlx.learner.packing import SPREAD, count, micro_batches, minibatches, pack, units


def total_tokens(batch, sequences):
    prefixes = {int(batch.prefix_S[s]) for s in sequences}
    return sum(int(batch.prefix_start_G.diff()[p]) for p in prefixes) + sum(
        int(batch.start_S.diff()[s]) for s in sequences
    )


@pytest.mark.parametrize("budget", [10, 40, 90, 10_000])
def test_every_sequence_goes_once_and_the_budget_holds(groups, budget):
    batch = collate(groups(4, 5, rewrite=0.3))
    parts = units(batch, "trajectory")
    plan = list(micro_batches(batch, parts, budget))
    assert [s for part in plan for s in part] == list(range(len(batch.prefix_S)))
    singles = {tuple(sequences) for _, sequences in parts}
    for sequences in plan:
        assert total_tokens(batch, sequences) <= budget or tuple(sequences) in singles
        for part in singles:
            assert set(part) <= set(sequences) or not set(part) & set(sequences)


def test_a_group_that_fits_is_not_split(groups):
    batch = collate(groups(6, 3))
    parts = units(batch, "trajectory")
    largest = max(total_tokens(batch, [s for g, ss in parts if g == group for s in ss]) for group in range(6))
    prefixes = [{int(batch.prefix_S[s]) for s in part} for part in micro_batches(batch, parts, largest)]
    assert sum(len(p) for p in prefixes) == 6


def test_minibatches_hold_whole_groups(groups):
    parts = units(collate(groups(5, 3)), "trajectory")
    for num, sizes in ((1, [5]), (2, [2, 3]), (5, [1] * 5), (9, [1] * 5)):
        found = minibatches(parts, num)
        assert [len({g for g, _ in part}) for part in found] == sizes
        assert [p for part in found for p in part] == parts


def test_pairs_are_a_groups_credited_trajectories(groups):
    batch = collate(groups(2, 4))
    advantages = torch.zeros(len(batch.trajectory_R))
    advantages[batch.trajectory_R == 5] = 1.0
    advantages[batch.trajectory_R == 7] = -1.0
    batch = batch.with_advantages(advantages)
    (group, sequences), *rest = units(batch, "pair")
    assert (group, rest) == (1, [])
    assert [int(batch.trajectory_S[s]) for s in sequences] == [5, 7]
    assert list(micro_batches(batch, [(group, sequences)], 1)) == [sequences]
    totals = count(batch, [sequences])
    assert (totals.num_trajectories, totals.num_groups) == (2, 1)
    assert totals.num_tokens == int((batch.advantage_M != 0).sum())


@pytest.mark.parametrize("seed", range(6))
def test_packing_keeps_every_token_its_position_and_its_target(groups, seed):
    given = groups(3, 3, seed=seed, rewrite=0.4)
    batch = collate(given)
    turns = [turn for group in given for trajectory in group.trajectories for turn in trajectory.turns]
    seen = []
    for sequences in micro_batches(batch, units(batch, "trajectory"), 50):
        packed = pack(batch, sequences)
        ids, positions = packed.input_ids_1T[0], packed.position_ids_1T[0]
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
    sequences = list(range(len(batch.prefix_S)))
    packed = pack(batch, sequences)
    layout = packed.layout
    own = [[len(row.unique()) for row in part.own_sl] for part in layout.rectangles]
    assert sorted(length for lengths in own for length in lengths) == sorted(batch.start_S.diff().tolist())
    assert all(max(lengths) <= SPREAD * min(lengths) for lengths in own)
    outputs = torch.cat([layout.prefix_gp.flatten(), *(part.own_sl.flatten() for part in layout.rectangles)])
    assert outputs[layout.restore_T].tolist() == list(range(packed.input_ids_1T.shape[1]))
