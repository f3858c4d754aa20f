from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from rlx.algo.parts import Algorithm, demonstrations, independent
from rlx.types import Task, Trajectory

CONF = Path(__file__).parents[2] / "conf" / "algo"
TASKS = [Task(id=name, prompt=(), data={}) for name in "ab"]


class Echo:
    """Plays nothing; answers with an episode for every start."""

    def play(self, starts):
        return [Trajectory(task=s.task, sample=s.sample, turns=(), status="done") for s in starts]

    def demonstrate(self, tasks):
        return [Trajectory(task=task, sample=0, turns=(), status="done", success=True) for task in tasks]


def test_independent_samples_come_back_by_task_in_order():
    groups = independent(3)(Echo(), TASKS)
    assert [g.task.id for g in groups] == ["a", "b"]
    assert [[(t.task.id, t.sample) for t in g.trajectories] for g in groups] == [
        [("a", 0), ("a", 1), ("a", 2)],
        [("b", 0), ("b", 1), ("b", 2)],
    ]


def test_demonstrations_are_groups_of_one():
    assert [[t.success for t in g.trajectories] for g in demonstrations()(Echo(), TASKS)] == [[True], [True]]


@pytest.mark.parametrize("path", sorted(CONF.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_file_makes_an_algorithm(path):
    config = OmegaConf.load(path)
    name = config["_target_"].rsplit(".", 1)[-1]
    assert config["_target_"] == f"rlx.algo.{name}.{name}"
    assert path.stem.startswith(name)
    assert path.read_text().startswith("# ")
    algorithm = instantiate({key: value for key, value in config.items() if key != "defaults"})
    assert isinstance(algorithm, Algorithm)
    assert len(algorithm.sample(Echo(), TASKS)) == 2


def test_reading_algorithms_does_not_load_torch():
    names = ", ".join(f"rlx.algo.{path.stem}" for path in (CONF.parents[1] / "rlx" / "algo").glob("[!_]*.py"))
    code = f"import sys, {names}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=CONF.parents[1]).returncode == 0
