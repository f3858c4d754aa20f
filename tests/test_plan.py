"""What `rlx plan` says; the figures behind it are in test_memory.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.config import build_run, compose
from rlx.plan import describe_plan, start_command

LARGE = ["hardware=a100x8x2", "model=qwen2_5_7b", "algo=grpo", "algo.kl=0.1", "steps=3"]


def plan(*words: str) -> str:
    return describe_plan(build_run(compose(words), Path()), words)


def test_a_small_run_is_described_whole() -> None:
    text = plan("model=nano", "hardware=cpu", "hardware.memory_gb=8", "warm_start=none", "algo=grpo")
    assert "1 process: 1 learner process (torch, float32), an engine in each (torch, float32)" in text
    assert "memory   this machine: " in text
    assert "of 8.0 GB: fits" in text
    assert "sbatch" not in text
    assert text.endswith("command  rlx train model=nano hardware=cpu hardware.memory_gb=8 warm_start=none algo=grpo")


def test_a_large_run_shows_its_budgets_and_its_batch_script() -> None:
    text = plan(*LARGE)
    assert "2 machines of 8 GPUs: 16 learner processes (deepspeed, ZeRO 3, bfloat16), an engine in each (vllm" in text
    assert "memory   sampling, each of 16 devices: " in text
    assert "memory   updating, each of 16 devices: " in text
    for name in ("weights", "reference", "gradients", "optimizer", "activations", "engine weights", "KV cache"):
        assert f"\n         {name} " in text
    assert "#SBATCH --nodes=2" in text
    assert text.rstrip().splitlines()[-1].endswith("hydra/launcher=slurm")


def test_what_is_offloaded_is_told() -> None:
    assert "GB for optimizer and gradients, offloaded" in plan("hardware=h200x8x2_async", "model=qwen2_5_72b")


def test_a_model_of_unknown_shape_has_no_estimate() -> None:
    assert "no estimate of memory" in plan("model.path=nobody/nothing")


@pytest.mark.parametrize(
    ("profile", "words", "start"),
    [
        ("cpu", [], "rlx train"),
        ("a100x8", [], "rlx launch  (torchrun, 8 processes)"),
        ("a100x8", ["hydra/launcher=slurm"], "rlx train hydra/launcher=slurm"),
        ("a100x8x2", [], "rlx train hydra/launcher=slurm"),
    ],
)
def test_the_command_starts_as_many_processes_as_the_profile_has(profile: str, words: list[str], start: str) -> None:
    hardware = build_run(compose([f"hardware={profile}"]), Path()).hardware
    assert start_command(hardware, words) == start
