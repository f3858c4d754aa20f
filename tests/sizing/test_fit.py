"""What cannot run is refused with the numbers and the remedy, before any model is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlx.hardware import packages
from rlx.hardware.machine import Gpu
from rlx.hardware.profile import Hardware
from rlx.hardware.sizing.amounts import Amount, Budget
from rlx.hardware.sizing.fit import FitError, remedy, verdict
from rlx.plan import checks, devices
from rlx.plan.devices import check_devices, check_packages
from rlx.plan.prospect import Prospect
from rlx.run.run import Run
from rlx.settings.compose import build_run, compose
from tests.errors import raises_naming
from tests.loops import for_each


def run_of(*words: str) -> Run:
    return build_run(compose(words), Path())


def check_fit(run: Run, *, trains: bool = True) -> None:
    checks.check_fit(Prospect(run=run, trains=trains))


def cuda(**fields: Any) -> Hardware:
    return Hardware(**{"device": "cuda", **fields})


def has_gpus(monkeypatch: pytest.MonkeyPatch, num: int) -> None:
    monkeypatch.setattr(devices, "gpus", lambda: [Gpu(name="A100", memory=80 * 10**9)] * num)


def test_what_cannot_fit_is_refused_with_the_numbers() -> None:
    with raises_naming(FitError, "24.0 GB", "optimizer decides"):
        check_fit(run_of("model=qwen2_5_7b", "hardware.device=cpu", "hardware.memory_gb=24"))
    with raises_naming(FitError, "cuda device (sampling)", "engine weights", "hardware.tensor_parallel"):
        check_fit(run_of("model=qwen2_5_72b", "hardware=a100x8x2"))


def test_vllm_needs_a_share_that_holds_the_weights() -> None:
    words = ["model=qwen2_5_7b", "hardware=a100x8x2", "algo=grpo", "model.max_context=4096"]
    check_fit(run_of(*words, "hardware.engine_memory=0.23"))
    with raises_naming(FitError, "hardware.engine_memory=0.2", "16.0 GB", "18.1 GB", "hardware.engine_memory=0.23"):
        check_fit(run_of(*words, "hardware.engine_memory=0.2"))


def test_every_device_of_a_split_engine_gets_as_many_heads() -> None:
    words = [
        "model=qwen2_5_7b",
        "hardware=h200x8x2_async",
        "model.max_context=4096",
        "hardware.node_gpus=16",
    ]  # 28 heads, 4 key heads
    for split in (1, 2, 4):
        check_fit(run_of(*words, f"hardware.tensor_parallel={split}"))
    for split in (3, 7, 8):
        with raises_naming(FitError, f"hardware.tensor_parallel={split}", "1, 2, 4"):
            check_fit(run_of(*words, f"hardware.tensor_parallel={split}"))


def test_what_only_might_not_fit_is_told_and_not_refused() -> None:
    amounts = {"weights": Amount(least=5, most=5), "activations": Amount(least=1, most=9)}
    budget = Budget(name="learner", amounts=amounts, devices=1)
    assert verdict(cuda(), budget, 14).endswith("fits")
    told = "may not fit when full, most of all for activations; if so, hardware.recompute=true"
    assert told in verdict(cuda(), budget, 13)
    assert "NOT fit" in verdict(cuda(), budget, 5)
    assert "hardware.memory_gb" in verdict(cuda(), budget, None)


def test_an_evaluation_needs_the_engine_alone() -> None:
    run = run_of("model=qwen2_5_0_5b", "hardware.memory_gb=6", "model.max_context=512", "sampling.max_new_tokens=256")
    check_fit(run, trains=False)
    with pytest.raises(FitError):
        check_fit(run)


@for_each(
    "profile, model",
    [
        ("cpu", "nano"),
        ("cpu", "smollm2_135m"),
        ("gpu1 hardware.memory_gb=24", "qwen2_5_0_5b"),
        ("a100x1", "qwen2_5_1_5b"),
        ("a100x4", "qwen2_5_7b_instruct"),
        ("a100x8", "qwen2_5_7b"),
        ("a100x8_async", "qwen2_5_7b"),
        ("a100x8x2", "qwen2_5_14b"),
        ("h200x8", "qwen2_5_14b"),
        ("h200x8x2", "qwen2_5_32b"),
        ("h200x8x2_async", "qwen2_5_72b"),
    ],
)
def test_profiles_fit_the_models_they_are_for(profile: str, model: str) -> None:
    words = [f"hardware={profile.split()[0]}", f"model={model}", "algo=grpo", "model.max_context=4096"]
    check_fit(run_of(*words, *profile.split()[1:]))


@for_each(
    "words, needs",
    [(["algo=grpo"], False), (["algo=grpo", "algo.loss.kl=0.1"], True), (["algo=ipo"], True), (["algo=sft"], False)],
)
def test_a_reference_is_counted_where_the_algorithm_needs_one(words: list[str], needs: bool) -> None:
    demand = Prospect(run=run_of(*words)).demand
    assert demand is not None
    assert demand.needs_reference is needs


@pytest.mark.parametrize(
    ("words", "frozen"),
    [(["algo=grpo"], False), (["algo=ipo"], True), (["algo@warm_start.algo=ipo"], True)],
)
def test_an_engine_that_keeps_its_weights_asleep_is_counted_where_a_stage_has_a_frozen_policy(
    words: list[str], frozen: bool
) -> None:
    demand = Prospect(run=run_of(*words)).demand
    assert demand is not None
    assert demand.frozen is frozen


def test_a_profile_larger_than_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    has_gpus(monkeypatch, 2)
    check_devices(cuda(num_processes=2, learner="deepspeed"), {})
    with raises_naming(FitError, "4 GPUs", "has 2", "hydra/launcher=slurm"):
        check_devices(cuda(num_processes=2, learner="deepspeed", engine="vllm", num_servers=1, tensor_parallel=2), {})
    with raises_naming(FitError, "2 machines", "slurm", "torchrun"):
        check_devices(cuda(num_nodes=2, num_processes=2, learner="deepspeed"), {})
    check_devices(cuda(num_nodes=2, num_processes=4, learner="deepspeed"), {"WORLD_SIZE": "4"})
    check_devices(cuda(num_processes=8, learner="deepspeed"), {"SLURM_JOB_ID": "7"})


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    has_gpus(monkeypatch, 0)
    for environ in ({}, {"SLURM_JOB_ID": "7"}):
        with raises_naming(FitError, "GPU", "none", "hardware=cpu"):
            check_devices(cuda(), environ)
    check_devices(Hardware(), {})


def test_missing_packages_name_the_extra_that_brings_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "find_version", lambda name: None)
    monkeypatch.setattr(devices, "find_version", lambda name: None)
    with raises_naming(FitError, "hardware.learner=deepspeed", "pip install", "[deepspeed]'"):
        check_packages(Hardware(learner="deepspeed"))
    with raises_naming(FitError, "hardware.engine=vllm", "pip install", "[vllm]'"):
        check_packages(cuda(engine="vllm"))
    with raises_naming(FitError, "hardware.engine=vllm", "make setup-cluster"):
        check_packages(Hardware(engine="vllm"))
    check_packages(Hardware())


def test_a_torch_without_cuda_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "find_version", lambda name: "2.13.0+cpu")
    with raises_naming(FitError, "torch 2.13.0+cpu", "CUDA", "pip install"):
        check_packages(cuda())
    check_packages(Hardware())


def test_a_remedy_is_none_that_the_profile_has_already() -> None:
    assert "recompute" in remedy(cuda(), "activations")
    assert "recompute" not in remedy(cuda(recompute=True), "activations")
    assert "zero_stage" not in remedy(cuda(), "optimizer")
    assert "zero_stage=1" in remedy(cuda(learner="deepspeed"), "optimizer")
    assert "bfloat16" not in remedy(cuda(dtype="bfloat16"), "engine weights")
    assert "engine_memory" in remedy(cuda(engine="vllm"), "KV cache")
    assert "engine_memory" not in remedy(cuda(), "KV cache"), "a share of vLLM's alone"


def test_adapters_are_no_remedy_where_adapters_are_trained() -> None:
    for name in ("weights", "gradients", "optimizer", "communication", "gradient bucket"):
        assert "model/lora" in remedy(cuda(learner="deepspeed"), name)
        assert "model/lora" not in remedy(cuda(learner="deepspeed"), name, adapted=True)


@for_each(
    "profile, words",
    [
        ("h100x1", ("model=qwen2_5_3b",)),
        ("h100x1", ("model=qwen2_5_14b", "+model/lora=r32", "hardware.engine_memory=0.45")),
        ("gpu24x1", ("model=qwen2_5_3b", "+model/lora=r32")),
        ("gpu24x1", ("model=qwen2_5_0_5b",)),
    ],
)
def test_these_models_start_on_one_gpu(profile: str, words: tuple[str, ...]) -> None:
    check_fit(build_run(compose(["env=countdown", f"hardware={profile}", *words]), Path()))
