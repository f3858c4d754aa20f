"""One seed gives one result where adapters learn, with dropout, for every algorithm: begun again and gone on with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rlx.base.console import Screen
from rlx.run.execution import Execution, record_step
from rlx.run.run import Run
from rlx.run.trainee import Trainee
from rlx.runs.track import is_clock
from rlx.settings.compose import build_run, compose
from rlx.training import train

ALGORITHMS = sorted(path.stem for path in (Path(__file__).parents[1] / "conf" / "algo").glob("*.yaml"))
ACTIONS = ("earl", "earl_released", "expa_grpo", "cpo", "prompt_cpo")
"""Algorithms that need declared actions, which Countdown has not."""
ADAPTERS = ("+model/lora=r8", "model.lora.dropout=0.3", "model.lora.targets=[q_proj,down_proj]")
QUICK = ["ppo", "sft"]
"""With a critic, and without an engine; the others take minutes."""
SIZES = {
    "carl": ["algo.num_fresh=2", "algo.num_forks=3"],
    "aepo": ["algo.num_samples=3"],
    "arpo": ["algo.num_samples=3", "algo.num_fresh=2"],
    "at2po": ["algo.num_fresh=2", "algo.num_rounds=1", "algo.num_forks=2"],
    "branpo": ["algo.num_samples=2", "algo.threshold=0.05"],
    "vineppo": ["algo.num_samples=2", "algo.num_rollouts=2"],
    "treerl": ["algo.num_trees=2", "algo.num_forks=1", "algo.num_leaves=3"],
    "tree_grpo": ["algo.num_leaves=2"],
}
"""Numbers of episodes of algorithms that do not have `num_samples` alone."""
SMALL = ("algo.num_prompts=1", "algo.optimizer.num_minibatches=1", "sampling.max_new_tokens=8", "checkpoint.interval=1")
PLAYED = (*SMALL, "sampling.max_context=384")
JUDGED = ("num_tasks=1", "num_samples=1", "ks=[1]", "max_new_tokens=4", "num_resamples=10", "max_rounds=[1]")


class CutOffError(Exception):
    """A kill, as far as a process can kill itself and go on."""


def words_of(algorithm: str, model: Path) -> list[str]:
    """A run of two steps that is over as soon as can be."""
    env = ["env=sorting/sort4"] if algorithm in ACTIONS else ["env=countdown", "env.max_rounds=2"]
    judged = [f"evaluate.{word}" for word in JUDGED]
    chosen = [*env, f"algo={algorithm}", f"model.path={model}", "warm_start=none", "track=disabled", "steps=2"]
    return [*chosen, *ADAPTERS, *PLAYED, *judged, *sizes_of(algorithm)]


def sizes_of(algorithm: str) -> list[str]:
    """The number of episodes of a task, as small as it can be."""
    for name, sizes in SIZES.items():
        if algorithm.startswith(name):
            return sizes
    return [] if "sft" in algorithm else ["algo.num_samples=2"]


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not is_clock(k)} for line in lines]


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    """Weights, adapters, heads and the optimizer's moments of the last checkpoint."""
    files = sorted((folder / "checkpoints" / "step-2").glob("*.safetensors"))
    return {f"{file.name}:{name}": x for file in files for name, x in load_file(file).items()}


def play(run: Run, folder: Path) -> None:
    torch.seed()  # another state of the global generator each time
    train(replace(run, folder=folder), Screen(silent=True))


@pytest.mark.parametrize(
    "names",
    [QUICK, pytest.param([name for name in ALGORITHMS if name not in QUICK], marks=pytest.mark.slow)],
    ids=["quick", "others"],
)
def test_algorithms_with_adapters_and_dropout_repeat_and_resume_to_the_same_bits(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    def cut_off(execution: Execution, trainee: Trainee, step: int, *told: Any) -> None:
        record_step(execution, trainee, step, *told)
        raise CutOffError

    for algorithm in names:
        whole, cut = tmp_path / algorithm / "whole", tmp_path / algorithm / "cut"
        run = build_run(compose(words_of(algorithm, tiny)), whole)
        play(run, whole)
        with monkeypatch.context() as patch:
            patch.setattr("rlx.training.record_step", cut_off)
            with pytest.raises(CutOffError):
                play(run, cut)
        play(run, cut)
        assert metrics_of(cut) == metrics_of(whole), algorithm
        mine, theirs = tensors_of(whole), tensors_of(cut)
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(x, theirs[name]) for name, x in mine.items()), algorithm
        assert [x for name, x in mine.items() if ":adapter." in name and ".lora_B." in name], algorithm
        assert (run.algo.critic is None) == (not any(":heads.value" in name for name in mine))
