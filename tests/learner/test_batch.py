from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from rlx.algo.credit import episode_returns, leave_one_out, per_row
from rlx.algo.parts import Credited, PerRow, PerToken
from rlx.base.limits import MistakeError
from rlx.learner.batch import collate
from rlx.learner.returned import call_credit
from rlx.learner.rows import rows
from rlx.learner.shares import count, units
from rlx.types import Completion, Fork, Group, Task, Text, Trajectory
from tests.errors import raises_naming

TASK = Task(id="t", prompt=(), data={})


def segments(batch):
    return [ids.tolist() for ids in batch.token_ids_N.split(batch.start_S.diff().tolist())]


def trajectory(*turns, sample=0, **more):
    return Trajectory(task=TASK, sample=sample, turns=turns, status="done", **more)


def test_a_prompt_is_stored_once_and_observations_carry_no_loss(turn):
    a = trajectory(turn([1, 2], [3, 4]), turn([1, 2, 3, 4, 9, 9], [5]))
    b = trajectory(turn([1, 2], [6, 7, 8]), sample=1)
    batch = collate([Group(task=TASK, trajectories=(a, b))])
    assert segments(batch) == [[1, 2], [3, 4, 9, 9, 5], [6, 7, 8]]
    assert batch.parent_S.tolist() == [-1, 0, 0]
    assert batch.joint_S.tolist() == [0, 2, 2]
    assert batch.context_S.tolist() == [0, 2, 2]
    assert batch.token_ids_N[batch.position_M].tolist() == [3, 4, 5, 6, 7, 8]
    assert batch.row_M.tolist() == [0, 0, 1, 2, 2, 2]
    assert batch.engine_logp_M[:2].tolist() == pytest.approx([-1.03, -1.04])


def test_groups_do_not_share_prompts(turn):
    group = Group(task=TASK, trajectories=(trajectory(turn([1, 2], [3])),))
    assert segments(collate([group, group])) == [[1, 2], [3], [1, 2], [3]]


def test_a_rewritten_context_goes_on_from_what_it_has_in_common(turn):
    a = trajectory(turn([1, 2], [3, 4]), turn([1, 7], [5]), turn([1, 7, 5, 8], [6]))
    batch = collate([Group(task=TASK, trajectories=(a,))])
    assert segments(batch) == [[1, 2], [3, 4], [7, 5, 8, 6]]
    assert batch.parent_S.tolist() == [-1, 0, 0]
    assert batch.joint_S.tolist() == [0, 2, 1]
    assert batch.trajectory_S.tolist() == [-1, 0, 0]
    assert batch.token_ids_N[batch.position_M].tolist() == [3, 4, 5, 6]


def test_episodes_that_ended_in_an_error_are_left_out(turn):
    good, bad = trajectory(turn([1], [2])), replace(trajectory(turn([1], [3]), sample=1), status="error")
    groups = [Group(task=TASK, trajectories=(bad, good))]
    assert segments(collate(groups)) == [[1], [2]]
    assert rows(groups, collate(groups)).trajectory == (0,)
    with raises_naming(MistakeError, "collate:", "no episode"):
        collate([Group(task=TASK, trajectories=(bad,))])


def test_mask_ids_are_kept_and_missing_ones_are_minus_one(turn):
    masked = turn([1], [2, 3])
    completion = Completion(token_ids=(2, 3), logprobs=(-1.0, -1.0), mask_ids=(0, 4), stop="stop")
    a = trajectory(replace(masked, completion=completion), turn([9], [1]))
    batch = collate([Group(task=TASK, trajectories=(a,))])
    assert batch.mask_M.tolist() == [0, 4, -1]


def test_rows_say_who_came_before_and_what_was_earned(turn):
    a = trajectory(turn([1], [2], 0.5), turn([1, 2], [3, 4], 1.0), success=True)
    b = trajectory(turn([1], [5], -1.0), sample=1)
    groups = [Group(task=TASK, trajectories=(a, b)), Group(task=TASK, trajectories=(a,))]
    table = rows(groups, collate(groups))
    assert table.group == (0, 0, 0, 1, 1)
    assert table.trajectory == (0, 0, 1, 2, 2)
    assert table.turn == (0, 1, 0, 0, 1)
    assert table.parent == (-1, 0, -1, -1, 3)
    assert table.reward == (0.5, 1.0, -1.0, 0.5, 1.0)
    assert table.num_tokens == (1, 2, 1, 1, 2)
    assert table.success == (True, True, False, True, True)
    assert table.value == ()


def test_a_fork_trains_only_what_it_did_not_replay(turn):
    a = trajectory(turn([1], [2]), turn([1, 2], [3]))
    b = trajectory(turn([1], [2]), turn([1, 2], [4, 5]), sample=1, fork=Fork(parent=0, turn=1))
    groups = [Group(task=TASK, trajectories=(a, b))]
    batch = collate(groups)
    assert batch.token_ids_N[batch.position_M].tolist() == [2, 3, 4, 5]
    assert segments(batch) == [[1], [2, 3], [4, 5]]
    assert (batch.parent_S.tolist(), batch.joint_S.tolist()) == ([-1, 0, 1], [0, 1, 1])
    assert rows(groups, batch).parent == (-1, 0, 0)
    assert rows(groups, batch).fork == (-1, -1, 1)


def test_a_forks_return_has_what_it_replays(turn):
    # Returns: -.3 + 1 = .7; again .7; a fork of that one, -.3 + 1 - .5 = .2; one that replays nothing, .1. They sum to
    # 1.7, so that the first is worth .7 - (1.7 - .7) / 3.
    base = trajectory(turn([1], [2], -0.3), turn([1, 2], [3], 1.0))
    fork = trajectory(turn([1], [2], -0.3), turn([1, 2], [4], 1.0), sample=1, fork=Fork(parent=0, turn=1))
    again = trajectory(
        *(turn([1], [2], -0.3), turn([1, 2], [4], 1.0), turn([1, 2, 4], [6], -0.5)),
        sample=2,
        fork=Fork(parent=1, turn=2),
    )
    afresh = trajectory(turn([1], [5], 0.1), sample=3, fork=Fork(parent=0, turn=0))
    groups = [Group(task=TASK, trajectories=(base, fork, again, afresh))]
    table = rows(groups, collate(groups))
    assert table.replayed == pytest.approx((0.0, 0.0, -0.3, 0.7, 0.0))
    returns = episode_returns(table)[0]
    assert list(returns.values()) == pytest.approx([t.reward for t in groups[0].trajectories])
    assert leave_one_out()(table).advantage.values == pytest.approx([*[0.7 - 1 / 3] * 3, 0.2 - 1.5 / 3, 0.1 - 1.6 / 3])
    pair = [Group(task=TASK, trajectories=(base, fork))]
    assert leave_one_out()(rows(pair, collate(pair))).advantage.values == [0.0, 0.0, 0.0]


def test_values_reach_the_rows_they_belong_to(turn):
    a = trajectory(turn([1], [2, 3]), turn([1, 2, 3], [4]))
    groups = [Group(task=TASK, trajectories=(a,))]
    batch = replace(collate(groups), old_M={"value": torch.tensor([0.5, 0.25, 2.0])})
    assert rows(groups, batch).value == ((0.5, 0.25), (2.0,))


def test_advantages_come_per_row_or_per_token_by_name(turn):
    # two rows of one token each: as many rows as tokens, so that a length says nothing
    batch = collate([Group(task=TASK, trajectories=(trajectory(turn([1], [2, 3]), turn([1, 2, 3], [4])),))])
    assert batch.with_credit(per_row([1.0, -2.0])).advantage_M.tolist() == [1.0, 1.0, -2.0]
    tokens = Credited(advantage=PerToken([(1.0, 2.0), (3.0,)]))
    assert batch.with_credit(tokens).advantage_M.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (Credited(advantage=PerRow([0.0] * 3)), ["advantage", "3 rows", "has 2"]),
        (Credited(advantage=PerToken([(0.0,) * 3])), ["advantage", "1 rows", "has 2"]),
        (
            Credited(advantage=PerToken([(0.0,), (0.0, 0.0)])),
            ["advantage", "1 tokens", "row 0", "has 2"],
        ),
        (Credited(advantage=PerRow([0.0] * 2), keep=PerRow([1])), ["keep", "1 rows", "has 2"]),
        (Credited(advantage=[0.0] * 2), ["advantage", "list", "PerRow"]),
        (Credited(advantage=PerRow([0.0] * 2), counts_as=[0]), ["counts_as", "1 rows", "has 2"]),
        (Credited(advantage=PerRow([[0.0]] * 2)), ["advantage", "no numbers", "PerRow"]),
        (Credited(advantage=PerRow(["a"] * 2)), ["advantage", "no numbers", "PerRow"]),
        (Credited(advantage=PerRow([None] * 2)), ["advantage", "no numbers", "PerRow"]),
        (Credited(advantage=PerToken([("a", "b"), (0.0,)])), ["advantage", "no numbers", "PerToken"]),
        (Credited(advantage=PerRow([0.0] * 2), multiplicity=PerRow([1, -1])), ["multiplicity", "-1", "row 1"]),
        (Credited(advantage=PerRow([0.0] * 2), multiplicity=PerRow([1, math.nan])), ["multiplicity", "nan", "row 1"]),
        ([0.0] * 2, ["list", "Credited"]),
        (None, ["NoneType", "Credited"]),
    ],
)
def test_credit_of_another_shape_is_refused(turn, given, names):
    batch = collate([Group(task=TASK, trajectories=(trajectory(turn([1], [2, 3]), turn([1, 2, 3], [4])),))])
    with raises_naming(MistakeError, *names):
        batch.with_credit(given)


@pytest.mark.parametrize("column", ["value", "reference_logp"])
def test_credit_that_reads_a_column_nobody_asked_for_is_told_so(turn, column):
    groups = [Group(task=TASK, trajectories=(trajectory(turn([1], [2, 3])),))]
    with pytest.raises(IndexError) as error:
        call_credit(lambda table: PerRow([getattr(table, column)[0][0]]), rows(groups, collate(groups)))
    assert any(f"`{column}`" in note for note in error.value.__notes__)


def test_credit_gives_a_critic_targets(turn):
    groups = [Group(task=TASK, trajectories=(trajectory(turn([1], [2, 3])),))]
    valued = rows(groups, replace(collate(groups), old_M={"value": torch.tensor([0.5, 0.25])}))
    alone = Credited(advantage=PerRow([1.0]))
    with raises_naming(MistakeError, "credit:", "returns", "critic"):
        call_credit(lambda table: alone, valued)
    for taught in (replace(alone, returns=PerRow([1.0])), replace(alone, returns_after=PerRow([1.0]))):
        assert call_credit(lambda table, taught=taught: taught, valued) == taught
    assert call_credit(lambda table: alone, rows(groups, collate(groups))) == alone


def test_what_is_not_kept_is_not_trained(turn):
    a = trajectory(turn([1], [2, 3]), turn([1, 2, 3], [4]))
    b = trajectory(turn([1], [5, 6]), sample=1)
    batch = collate([Group(task=TASK, trajectories=(a, b))])
    by_row = batch.with_credit(Credited(advantage=PerRow([1.0, 2.0, 3.0]), keep=PerRow([False, True, False])))
    assert by_row.token_ids_N[by_row.position_M].tolist() == [4]
    assert by_row.advantage_M.tolist() == [2.0]
    assert by_row.row_M.tolist() == [1]
    assert by_row.engine_logp_M.tolist() == batch.engine_logp_M[2:3].tolist()
    keep = PerToken([(True, False), (False,), (False, True)])
    by_token = batch.with_credit(Credited(advantage=PerRow([1.0, 2.0, 3.0]), keep=keep))
    assert by_token.token_ids_N[by_token.position_M].tolist() == [2, 6]


def test_rows_say_how_episodes_ended_where_they_were_played_and_what_was_likely(turn):
    task = replace(TASK, env="chess")
    a = Trajectory(task=task, sample=0, turns=(turn([1], [2, 3]), turn([1, 2, 3], [4])), status="truncated")
    groups = [Group(task=task, trajectories=(a, trajectory(turn([1], [5]), sample=1)))]
    batch = collate(groups)
    table = rows(groups, batch)
    assert table.status == ("truncated", "truncated", "done")
    assert table.env == ("chess", "chess", "")
    assert table.logp == tuple(pytest.approx(row) for row in ((-1.02, -1.03), (-1.04,), (-1.05,)))
    assert table.reference_logp == ()
    measured = replace(batch, old_M={"logp": -torch.arange(4.0)}, reference_M={"logp": -2 * torch.arange(4.0)})
    assert rows(groups, measured).logp == table.logp
    assert rows(groups, replace(measured, weight_M=torch.ones(4))).logp == ((0.0, -1.0), (-2.0,), (-3.0,))
    assert rows(groups, measured).reference_logp == ((0.0, -2.0), (-4.0,), (-6.0,))


def test_a_forks_first_row_follows_the_turn_before_and_says_what_it_left(turn):
    # b leaves a at its second turn, c leaves b at its third, d leaves c at a turn that c has of a
    first, second, third = turn([1], [2]), turn([1, 2], [3]), turn([1, 2, 3], [4])
    other = turn([1, 2], [5])
    a = trajectory(first, second, third)
    b = trajectory(first, other, turn([1, 2, 5], [6]), sample=1, fork=Fork(parent=0, turn=1))
    c = trajectory(first, other, turn([1, 2, 5], [7]), sample=2, fork=Fork(parent=1, turn=2))
    d = trajectory(turn([1], [8]), turn([1, 8], [9]), sample=3, fork=Fork(parent=2, turn=0))
    groups = [Group(task=TASK, trajectories=(a, b, c, d))]
    table = rows(groups, collate(groups))
    assert table.turn == (0, 1, 2, 1, 2, 2, 0, 1)
    assert table.parent == (-1, 0, 1, 0, 3, 3, -1, 6)
    assert table.fork == (-1, -1, -1, 1, -1, 4, 0, -1)


def test_a_row_trained_twice_is_a_row_of_multiplicity_two(turn):
    """What counts 0 times is left out, and totals count copies."""
    episodes = [Trajectory(task=TASK, sample=i, turns=(turn([1], [2, 3 + i]),), status="done") for i in range(3)]
    batch = collate([Group(task=TASK, trajectories=tuple(episodes))])
    credited = Credited(advantage=PerRow([1.0, 2.0, 3.0]), multiplicity=PerRow([2.0, 1.0, 0.0]))
    trained = batch.with_credit(credited)
    assert trained.multiplicity_M.tolist() == [2, 2, 1, 1]
    assert trained.advantage_M.tolist() == [1, 1, 2, 2]
    totals = count(trained, units(trained, "trajectory"))
    assert (totals.num_tokens, totals.num_copies) == (4, 6.0)
    once = batch.with_credit(Credited(advantage=PerRow([1.0, 2.0, 3.0])))
    assert once.multiplicity_M is None
    assert count(once, units(once, "trajectory")).num_copies is None


def test_rows_number_equal_observations_whatever_came_before(turn):
    """A first turn answers the opening, which may be seen again; a summary changes nothing, and answers apart."""

    def episode(sample, *seen):
        turns = [turn([1, sample, i], [2]) for i in range(len(seen) + 1)]
        answered = [replace(one, observation=(Text(text),)) for one, text in zip(turns, seen)]
        opening = (Text("hall"),)
        return trajectory(*answered, turns[-1], sample=sample, spare=sample == 1, opening=opening)

    one = Group(task=TASK, trajectories=(episode(0, "wall", "door"), episode(1, "door", "hall")))
    found = rows([one, one], collate([one, one]))
    assert found.observation == (0, 1, 2, 0, 2, 0, 3, 4, 5, 3, 5, 3)
    assert found.spare == (False,) * 3 + (True,) * 3 + (False,) * 3 + (True,) * 3
    assert not any(found.invalid)
    act, last = (turn([1, i], [2]) for i in range(2))
    summary = replace(turn([1, 2], [3]), action=replace(act.action, kind="summary"))
    told = trajectory(replace(act, observation=(Text("wall"),)), summary, last)
    plain = trajectory(replace(act, observation=(Text("wall"),)), last, sample=1)
    group = Group(task=TASK, trajectories=(told, plain))
    assert rows([group], collate([group])).observation == (0, 1, 2, 0, 2)
