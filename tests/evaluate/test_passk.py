from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.commands.last_words import one_line_of
from rlx.evaluation.compare import find_gains
from rlx.evaluation.intervals import mean_of
from rlx.evaluation.passk import UnpairedError, compare, pass_at_k, require_same_tasks
from rlx.runs.folder import MARK
from rlx.runs.store import save
from rlx.types import Group, Task, Trajectory
from tests.errors import raises_naming
from tests.loops import for_each


@for_each(
    "num_samples, num_correct, k, expected",
    [
        (4, 1, 1, 1 / 4),
        (4, 1, 2, 1 / 2),
        (4, 2, 2, 5 / 6),
        (5, 2, 3, 9 / 10),
        (16, 3, 4, 1105 / 1820),
        (16, 1, 16, 1),
    ],
)
def test_pass_at_k_equals_the_hand_computed_chance(num_samples: int, num_correct: int, k: int, expected: float) -> None:
    assert pass_at_k(num_samples, num_correct, k) == expected


@given(st.integers(1, 8), st.data())
def test_pass_at_k_is_the_share_of_subsets_with_a_correct_sample(num_samples: int, data: st.DataObject) -> None:
    num_correct = data.draw(st.integers(0, num_samples))
    k = data.draw(st.integers(1, num_samples))
    subsets = list(combinations(range(num_samples), k))
    assert pass_at_k(num_samples, num_correct, k) == sum(min(s) < num_correct for s in subsets) / len(subsets)


@given(st.integers(1, 400), st.data())
def test_pass_at_k_stays_in_bounds_and_never_falls_with_k(num_samples: int, data: st.DataObject) -> None:
    num_correct = data.draw(st.integers(0, num_samples))
    k = data.draw(st.integers(1, num_samples))
    assert 0 <= pass_at_k(num_samples, num_correct, 1) <= pass_at_k(num_samples, num_correct, k) <= 1
    assert pass_at_k(num_samples, num_correct, 1) == num_correct / num_samples
    assert pass_at_k(num_samples, num_correct, num_samples) == float(num_correct > 0)


def test_pass_at_k_keeps_its_precision_for_many_samples() -> None:
    assert pass_at_k(10_000, 1, 100) == 0.01
    assert pass_at_k(10_000, 5_000, 5_000) == 1.0


@for_each("num_samples, num_correct, k", [(4, 5, 1), (4, -1, 1), (4, 1, 0), (4, 1, 5)])
def test_pass_at_k_refuses_what_cannot_be(num_samples: int, num_correct: int, k: int) -> None:
    with raises_naming(ValueError, "pass@"):
        pass_at_k(num_samples, num_correct, k)


def test_pairing_cancels_what_makes_a_problem_hard() -> None:
    hard = np.random.default_rng(1).random(60)
    gap = compare({"a": mean_of(hard + 0.1)}, {"a": mean_of(hard)})["a"]
    assert gap.value == pytest.approx(0.1)
    assert gap.high - gap.low < 1e-9


@pytest.mark.parametrize("theirs", [("a", "b", "c"), ("a", "a")])
def test_other_tasks_are_refused_by_name(theirs: tuple[str, ...]) -> None:
    with raises_naming(ValueError, "same tasks"):
        require_same_tasks(("a", "b"), theirs)


def test_runs_on_other_tasks_are_told_apart_in_one_line(tmp_path: Path) -> None:
    task, other = (Task(id=name, prompt=(), data={}) for name in ("a", "b\n"))
    for folder, asked in ((tmp_path / "ours", task), (tmp_path / "theirs", other)):
        (folder / "trajectories").mkdir(parents=True)
        (folder / "config.yaml").write_text(f"{MARK}evaluate: {{ks: [1]}}\n")
        (folder / "trajectories" / "eval-mine.jsonl").write_text("not a run's")
        episode = Trajectory(task=asked, sample=0, turns=(), status="done", success=False, error="")
        save(folder / "trajectories" / "eval-8.jsonl", [Group(task=asked, trajectories=(episode,))], max_rounds=8)
    with raises_naming(UnpairedError, "1 and 1 tasks", 2) as refused:
        find_gains(tmp_path / "ours", tmp_path / "theirs")
    told = one_line_of(refused.value)
    assert told is not None
    assert "\n" not in told
