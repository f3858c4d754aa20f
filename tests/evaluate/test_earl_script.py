"""scripts/earl.py: what it says of a policy that is an algorithm is what that algorithm costs."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.base.limits import MistakeError
from rlx.env.sorting.sorting import Sorting
from rlx.environment.expert import demonstration
from rlx.environment.world import dialect_of
from rlx.protocol.direct import Direct
from rlx.runs.store import save
from rlx.types import Completion, Group, Trajectory, Turn
from tests.errors import raises_naming

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "earl.py"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def shown(num: int) -> list[Trajectory]:
    """The optimum's episodes, over all orders."""
    env = Sorting(sizes=(num,), shares=(1,), test_sizes=(num,), test_shares=(1,), test="orders", expert="optimum")
    done, found = Completion(token_ids=(), logprobs=(), stop="stop"), []
    for task in env.tasks("test", 0):
        turns = tuple(
            Turn(
                prompt_ids=(),
                completion=done,
                action=one.move.action,
                observation=one.step.observation,
                reward=one.step.reward,
                metrics=one.step.metrics,
            )
            for one in demonstration(env, dialect_of(env, Direct()), task, 0)[1]
        )
        found.append(Trajectory(task=task, sample=0, turns=turns, status="done", success=True))
    return found


def test_swaps_and_comparisons_stand_beside_the_algorithms_of_table_2(script: dict[str, Any]) -> None:
    told = script["swaps"]({"mine": shown(4)}).splitlines()
    assert "| optimum | 1.917 | 4.667 | 100% |" in told
    assert "| mine | 1.917 | 4.667 | 100% |" in told
    assert "| insertion | 3.000 | 4.917 | 100% |" in told
    assert "| network of five |" not in script["swaps"]({"mine": shown(3)})
    with raises_naming(MistakeError, "2 sizes"):
        script["swaps"]({"mine": shown(3) + shown(2)})


def test_what_was_right_is_told_by_the_swaps_that_were_needed(script: dict[str, Any]) -> None:
    episodes = shown(3)
    wrong = replace(episodes[0], turns=episodes[0].turns[:-1], success=False)
    lines = script["strata"]({"all": episodes, "but one": [wrong, *episodes[1:]]}).splitlines()
    assert lines[2] == "|  | sort 3 needs 0 | sort 3 needs 1 | sort 3 needs 2 |"
    assert "| all | 100.0% of 1 | 100.0% of 3 | 100.0% of 2 |" in lines
    assert "| but one | 0.0% of 1 | 100.0% of 3 | 100.0% of 2 |" in lines


def test_a_part_of_a_mixture_is_told_of_alone(script: dict[str, Any], tmp_path: Path) -> None:
    first, second = (replace(one, task=replace(one.task, env=part)) for one, part in zip(shown(2), ("a", "b")))
    path = tmp_path / "trajectories" / "eval-own.jsonl"
    save(path, [Group(task=one.task, trajectories=(one,)) for one in (first, second)], max_rounds=None)
    assert len(script["evaluated"](tmp_path)) == 2
    assert [one.task.env for one in script["evaluated"](tmp_path, "b")] == ["b"]
    with raises_naming(MistakeError, "'c'", "a, b"):
        script["evaluated"](tmp_path, "c")


def test_the_tree_of_a_policy_is_drawn(script: dict[str, Any], tmp_path: Path) -> None:
    told = script["draw_tree"](shown(4), tmp_path / "tree.svg")
    assert told.endswith("24 ends of 24 episodes, 24 of them right")
    assert (tmp_path / "tree.svg").read_text().startswith("<svg ")


def test_the_tree_of_a_mixtures_part_is_drawn(script: dict[str, Any], tmp_path: Path) -> None:
    parts = {"sort2": shown(2), "sort3": shown(3)}
    episodes = [replace(one, task=replace(one.task, env=part)) for part, rows in parts.items() for one in rows]
    groups = [Group(task=one.task, trajectories=(one,)) for one in episodes]
    save(tmp_path / "trajectories" / "eval-own.jsonl", groups, max_rounds=None)
    drawn = lambda *words: script["main"](["tree", str(tmp_path / "tree.svg"), str(tmp_path), *words])  # noqa: E731
    assert "2 ends of 2 episodes" in drawn("part=sort2")
    assert "6 ends of 6 episodes" in drawn("part=sort3")
    with raises_naming(MistakeError, "'sort9'", "sort2, sort3"):
        drawn("part=sort9")


def test_untrained_nano_names_the_fewest_swaps_of_every_order(script: dict[str, Any]) -> None:
    assert script["main"](["untrained"]) == "24 of 24 orders of four sorted, 1.917 swaps on average"
    assert script["swapped"]("BAC", [("A", "B"), ("A", "C")]) == ["C", "B", "A"]
