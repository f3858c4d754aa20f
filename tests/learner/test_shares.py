"""What the ranks share out is the whole, once, evenly, and in step."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlx.learner.batch import collate
from rlx.learner.packing import micro_batches, units
from rlx.learner.shares import cost_in, shares, work_of


def test_one_rank_has_everything_in_order(groups):
    batch = collate(groups(4, 4))
    parts = units(batch, "trajectory")
    assert shares(batch, parts, 1) == [parts]
    (plan,) = work_of(batch, parts, 40, 1)
    assert [work.sequences for work in plan] == list(micro_batches(batch, parts, 40))
    assert not any(work.is_filler for work in plan)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(num_groups=st.integers(1, 6), num_samples=st.integers(1, 6), size=st.integers(1, 5), seed=st.integers(0, 99))
def test_every_sequence_is_learned_from_once(groups, num_groups, num_samples, size, seed):
    batch = collate(groups(num_groups, num_samples, seed, rewrite=0.3))
    parts = units(batch, "trajectory")
    plans = work_of(batch, parts, 60, size)
    assert len({len(plan) for plan in plans}) == 1
    real = [s for plan in plans for work in plan if not work.is_filler for s in work.sequences]
    assert sorted(real) == sorted(s for _, sequences in parts for s in sequences)


def test_shares_are_even_even_where_groups_are_not(groups):
    batch = collate(groups(3, 8, seed=1))
    parts, cost = units(batch, "trajectory"), cost_in(batch)
    for size in (2, 3, 4):
        loads = [cost([s for _, sequences in share for s in sequences]) for share in shares(batch, parts, size)]
        assert max(loads) < 1.15 * sum(loads) / size


def test_groups_stay_whole_where_that_is_no_worse(groups):
    batch = collate(groups(1, 4) + groups(1, 4))
    parts = units(batch, "trajectory")
    assert [{group for group, _ in share} for share in shares(batch, parts, 2)] == [{0}, {1}]


def test_pairs_are_never_split(groups):
    batch = collate(groups(4, 4))
    signs = [(1.0, -1.0, 0.0, 0.0)[trajectory % 4] for trajectory in batch.trajectory_R.tolist()]
    batch = batch.with_advantages(batch.trajectory_R.new_tensor(signs, dtype=batch.engine_logp_M.dtype))
    for share in shares(batch, units(batch, "pair"), 3):
        for _, sequences in share:
            assert len({int(batch.trajectory_S[s]) for s in sequences}) == 2


def test_a_rank_without_work_keeps_step(groups):
    batch = collate(groups(1, 1))
    plans = work_of(batch, units(batch, "trajectory"), 1000, 3)
    assert [[work.is_filler for work in plan] for plan in plans] == [[False], [True], [True]]
