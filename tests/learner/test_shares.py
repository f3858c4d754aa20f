"""What the ranks share out is the whole, once, evenly, and in step."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlx.algo.parts import Credited, PerRow
from rlx.learner.batch import collate
from rlx.learner.forest import forest_of, num_reached
from rlx.learner.shares import balance, micro_batches, segments_of, shares, units


def test_one_rank_has_everything_in_order(groups):
    batch = collate(groups(4, 4))
    forest, chosen = forest_of(batch), units(batch, "trajectory")
    assert balance(forest, chosen, 1) == [chosen]
    assert shares(batch, chosen, 40, 1) == [list(micro_batches(forest, chosen, 40))]
    assert not any(what.is_filler for what in shares(batch, chosen, 40, 1)[0])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(num_groups=st.integers(1, 6), num_samples=st.integers(1, 6), size=st.integers(1, 5), seed=st.integers(0, 99))
def test_every_segment_is_learned_from_once(groups, num_groups, num_samples, size, seed):
    batch = collate(groups(num_groups, num_samples, seed, rewrite=0.3))
    chosen = units(batch, "trajectory")
    found = shares(batch, chosen, 60, size)
    assert len({len(share) for share in found}) == 1
    real = [s for share in found for what in share if not what.is_filler for s in what.segments]
    assert sorted(real) == sorted(segments_of(chosen))


def test_shares_are_even_even_where_groups_are_not(groups):
    batch = collate(groups(3, 8, seed=1))
    forest, chosen = forest_of(batch), units(batch, "trajectory")
    for size in (2, 3, 4):
        loads = [num_reached(forest, segments_of(share)) for share in balance(forest, chosen, size)]
        assert max(loads) < 1.15 * sum(loads) / size


def test_groups_stay_whole_where_that_is_no_worse(groups):
    batch = collate(groups(1, 4) + groups(1, 4))
    found = balance(forest_of(batch), units(batch, "trajectory"), 2)
    assert [{unit.group for unit in share} for share in found] == [{0}, {1}]


def test_pairs_are_never_split(groups):
    batch = collate(groups(4, 4))
    signs = [(1.0, -1.0, 0.0, 0.0)[trajectory % 4] for trajectory in batch.trajectory_R.tolist()]
    batch = batch.with_credit(Credited(advantage=PerRow(signs), keep=PerRow(signs)))
    for share in balance(forest_of(batch), units(batch, "group"), 3):
        for unit in share:
            assert len({int(batch.trajectory_S[s]) for s in unit.segments}) == 2


def test_where_one_rank_computes_layers_again_all_do(groups):
    batch = collate(groups(3, 4, seed=2))
    found = shares(batch, units(batch, "trajectory"), 20, 3)
    assert len({tuple(what.recompute for what in share) for share in found}) == 1
    beyond = [max(what.num_tokens for what in at_once) > 20 for at_once in zip(*found)]
    assert [what.recompute for what in found[0]] == beyond
    assert set(beyond) == {True, False}


def test_a_rank_without_units_keeps_step(groups):
    batch = collate(groups(1, 1))
    found = shares(batch, units(batch, "trajectory"), 1000, 3)
    assert [[what.is_filler for what in share] for share in found] == [[False], [True], [True]]
    assert shares(batch, [], 1000, 2) == [[], []]
