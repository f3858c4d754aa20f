"""Memory of a model of 66 parameters, by hand, and of real ones by their published sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rlx.config_folders import read_option
from rlx.hardware import Hardware
from rlx.memory import (
    PROGRAM,
    Amount,
    Budget,
    Job,
    activation_bytes,
    budgets,
    communication,
    engine_amounts,
    host_amounts,
    learner_state,
    num_trained,
)
from rlx.model.load import Lora
from rlx.model.shape import Shape, linear_maps, num_parameters, read_shape

SMALL = Shape(
    width=2, layers=1, heads=1, key_heads=1, head_size=2, feed_forward=3, vocabulary=5, tied=False, biased=True
)
JOB = Job(shape=SMALL, num_trained=66, max_context=10)
QWEN_05B = read_shape(read_option("model", "qwen2_5_0_5b")["shape"])


def hardware(**fields: Any) -> Hardware:
    return Hardware(**{"learner": "deepspeed", "learner_dtype": "bfloat16", "num_processes": 2, **fields})


def state(job: Job = JOB, **fields: Any) -> dict[str, int]:
    return {name: num for name, num in learner_state(hardware(**fields), job).items() if num}


FP32 = {"learner_dtype": "float32"}


@pytest.mark.parametrize(
    ("stage", "weights", "gradients", "optimizer"),
    [(0, 264, 264, 8 * 66), (1, 264, 264, 12 * 66 // 2), (2, 264, 132, 396), (3, 132, 132, 396)],
)
def test_each_zero_stage_shares_out_one_thing_more(stage: int, weights: int, gradients: int, optimizer: int) -> None:
    expected = {"weights": weights, "gradients": gradients, "optimizer": optimizer}
    assert state(zero_stage=stage, **FP32) == expected


@pytest.mark.parametrize(
    ("stage", "weights", "gradients", "optimizer"),
    [(0, 132, 132, 396), (1, 132, 132, 396), (2, 132, 132, 396), (3, 66, 132, 396)],
)
def test_bfloat16_halves_weights_and_runs_at_stage_2_at_least(
    stage: int, weights: int, gradients: int, optimizer: int
) -> None:
    assert state(zero_stage=stage) == {"weights": weights, "gradients": gradients, "optimizer": optimizer}


def test_shares_are_rounded_up() -> None:
    assert state(zero_stage=3, num_processes=4)["weights"] == 33
    assert state(zero_stage=3, num_processes=5)["weights"] == 27


def test_one_torch_process_holds_everything_in_float32_and_casts_it() -> None:
    whole = {"weights": 4 * 66, "reference": 4 * 66, "gradients": 4 * 66, "optimizer": 8 * 66}
    job = replace(JOB, needs_reference=True)
    assert learner_state(Hardware(), job) == {**whole, "weight casts": 0}
    assert learner_state(Hardware(learner_dtype="bfloat16"), job) == {**whole, "weight casts": 2 * 66}


def test_a_reference_is_a_second_set_of_weights_that_adapters_save() -> None:
    job = replace(JOB, needs_reference=True)
    assert state(job, zero_stage=2)["reference"] == 2 * 66
    assert state(job, zero_stage=3)["reference"] == 66
    assert state(replace(job, adapted=True, num_trained=7), zero_stage=2) == {
        "weights": 2 * (66 + 7),
        "gradients": 4 * 7 // 2,
        "optimizer": 12 * 7 // 2,
    }


def test_what_the_machines_own_memory_holds() -> None:
    offloaded = hardware(zero_stage=2, offload=True, num_processes=4, num_nodes=2, device="cuda")
    assert learner_state(offloaded, JOB)["optimizer"] == 0
    assert list(host_amounts(offloaded, JOB).values()) == [2 * 2 * 66, 2 * (66 * 16 // 4), 4 * 66]
    asleep = hardware(device="cuda", engine="vllm", dtype="bfloat16")
    assert list(host_amounts(asleep, JOB).values()) == [2 * 2 * 66, 2 * 2 * 66, 2 * 66]
    whole = replace(asleep, learner_dtype="float32")
    assert list(host_amounts(whole, replace(JOB, needs_reference=True)).values()) == [
        2 * 2 * 4 * 66,
        2 * 2 * 66,
        2 * 66,
    ]
    assert host_amounts(hardware(), JOB) == {}


def test_zero_3_gathers_the_layer_in_use_and_the_next() -> None:
    layer = (4 * 4) + 3 * 6
    gathered = 2 * (layer + layer)
    assert communication(hardware(zero_stage=3), JOB) == Amount(least=2 * 66 + gathered, most=6 * 66 + gathered)
    assert communication(hardware(zero_stage=2), JOB) == Amount(least=2 * 66, most=6 * 66)
    assert communication(hardware(zero_stage=1, **FP32), JOB) == Amount(least=4 * 66, most=4 * 66)
    assert communication(hardware(zero_stage=0, **FP32), JOB) == Amount(least=0, most=0)


def test_activations_kept_and_recomputed() -> None:
    layer = 8 * 2 + 4 * 2 + 4 * 3
    logits, head = 12 * 7 * 5, 4 * 5 * 2
    kept, again = (hardware(learner_dtype="float32", recompute=recompute) for recompute in (False, True))
    assert activation_bytes(kept, SMALL, 7) == 7 * layer * 4 + logits + head
    assert activation_bytes(again, SMALL, 7) == 7 * (2 + layer) * 4 + logits + head
    deep = replace(SMALL, layers=10)
    assert activation_bytes(kept, deep, 7) == 7 * 10 * layer * 4 + logits + head
    assert activation_bytes(again, deep, 7) == 7 * (10 * 2 + layer) * 4 + logits + head


def test_a_torch_engine_caches_no_more_than_its_slots() -> None:
    amounts = engine_amounts(Hardware(num_slots=3, dtype="bfloat16"), JOB, None)
    assert amounts["engine weights"] == Amount(least=132, most=132)
    assert amounts["KV cache"].most == 3 * 10 * 2 * 2 * 2
    assert amounts["KV cache"].least <= amounts["KV cache"].most


def test_a_vllm_engine_takes_its_share_and_tensor_parallel_splits_weights_and_heads() -> None:
    many = Hardware(engine="vllm", device="cuda", dtype="bfloat16", tensor_parallel=2, num_servers=1, engine_memory=0.5)
    job = Job(shape=QWEN_05B, num_trained=1, max_context=1000)
    amounts = engine_amounts(many, job, 20 * 10**9)
    assert amounts["engine weights"].most == 494_032_768
    assert amounts["KV cache"].least == 1000 * 24 * 2 * (1 * 64) * 2
    assert amounts["KV cache"].most == 10 * 10**9 - 494_032_768 - amounts["engine work"].most


def names(found: list[Budget]) -> list[tuple[str, int]]:
    return [(budget.name, budget.devices) for budget in found]


def test_engine_and_learner_take_turns_share_or_have_devices_of_their_own() -> None:
    gpu: dict[str, Any] = {"device": "cuda", "engine": "vllm"}
    assert names(budgets(hardware(**gpu), JOB, None)) == [("sampling", 2), ("updating", 2)]
    assert names(budgets(hardware(device="cuda"), JOB, None)) == [("learner and engine", 2)]
    servers = hardware(**gpu, num_servers=3, tensor_parallel=2)
    assert names(budgets(servers, JOB, None)) == [("learner", 2), ("engine in a server", 6)]
    assert names(budgets(servers, JOB, None, trains=False)) == [("engine", 6)]
    sampling, updating = budgets(hardware(**gpu), JOB, None)
    assert "gradients" not in sampling.amounts
    assert "engine weights" not in updating.amounts


def test_on_cpu_processes_share_their_machine() -> None:
    (both,) = budgets(hardware(num_processes=4, num_nodes=2, learner_dtype="float32"), JOB, None)
    assert both.name == "each machine"
    assert both.amounts["weights"].most == 2 * 4 * 66
    assert both.amounts["program"].most == 2 * PROGRAM["cpu"]


def test_half_a_billion_parameters_learned_in_float32_and_sampled_in_bf16() -> None:
    job = Job(shape=QWEN_05B, num_trained=num_parameters(QWEN_05B), needs_reference=True, max_context=1000)
    (budget,) = budgets(Hardware(dtype="bfloat16", num_slots=4, micro_batch_tokens=1024), job, None)
    most = {name: amount.most for name, amount in budget.amounts.items()}
    assert most["weights"] == most["gradients"] == most["reference"] == 4 * 494_032_768
    assert most["engine weights"] == 2 * 494_032_768
    assert most["optimizer"] == 8 * 494_032_768
    assert most["KV cache"] == 4 * 1000 * 24 * 2 * (2 * 64) * 2


def test_adapters_are_rank_times_in_plus_out() -> None:
    lora = Lora(rank=8, targets=("q_proj", "v_proj"))
    assert linear_maps(QWEN_05B)["v_proj"] == (896, 128)
    assert num_trained(lora, QWEN_05B) == 24 * 8 * (896 + 896 + 896 + 128)
