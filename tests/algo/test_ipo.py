from __future__ import annotations

import pytest

from rlx.algo.ipo import ipo
from rlx.algo.parts import Optimizer, SamplerContext
from rlx.runs.store import StoreError, save
from rlx.types import Action, Completion, Group, Task, Trajectory, Turn
from tests.errors import raises_naming


def grown(sample, task):
    """The group that a growth returns which has nothing played."""
    growth = sample.grow(SamplerContext(task=task))
    assert next(growth) == ()
    with pytest.raises(StopIteration) as end:
        growth.send([])
    return end.value.value


def test_ipo_regresses_the_margin_of_one_pair_a_group(rows, tokens, totals):
    algorithm = ipo(optimizer=Optimizer(), beta=0.5)
    table = rows((0, [0.1], False), (0, [1.0], True), (0, [1.0], True), (1, [0.1], False), (1, [0.1], False))
    assert algorithm.credit(table).advantage.values == [-1.0, 1.0, 0.0, 0.0, 0.0]
    assert algorithm.credit(table).keep.values == [True, True, False, False, False]
    seen = tokens([-2.0, -1.0], reference=[-1.5, -1.2], advantage=[-1.0, 1.0], trajectory=[0, 1])
    # margin .2 + .5, target 1
    assert algorithm.loss(seen, totals(seen)).value.item() == pytest.approx(0.09)


def test_ipo_learns_from_the_start_policys_pairs():
    algorithm = ipo(optimizer=Optimizer())
    assert algorithm.frozen_policy
    assert algorithm.needs == frozenset({"reference"})
    assert algorithm.unit == "group"


def test_ipo_takes_its_pairs_from_a_file(tmp_path):
    task = Task(id="a", prompt=(), data={})
    done = Completion(token_ids=(1,), logprobs=(-0.5,), stop="stop")
    turn = Turn(prompt_ids=(0,), completion=done, action=Action(kind="answer", text="1"))
    pair = tuple(
        Trajectory(task=task, sample=i, turns=(turn,), status="done", success=success)
        for i, success in enumerate((True, False))
    )
    groups = [Group(task=task, trajectories=pair), Group(task=task, trajectories=pair[:1])]
    save(tmp_path / "pairs.jsonl", groups, max_rounds=0)
    sample = ipo(optimizer=Optimizer(), pairs_from=str(tmp_path / "pairs.jsonl")).sample
    asked = [Task(id=str(i), prompt=(), data={}) for i in range(20)]
    got = [grown(sample, task) for task in asked]
    assert all(group in groups for group in got)
    assert all(group in got for group in groups)
    assert [grown(sample, task) for task in asked[7:9]] == got[7:9]


def test_a_file_without_pairs_is_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    with raises_naming(StoreError, "no episodes"):
        grown(
            ipo(optimizer=Optimizer(), pairs_from=str(tmp_path / "empty.jsonl")).sample,
            Task(id="a", prompt=(), data={}),
        )
