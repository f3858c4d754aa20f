"""Memory of a model of 66 parameters, by hand, and of real ones by their published sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rlx.hardware.profile import Hardware
from rlx.hardware.sizing import engine
from rlx.hardware.sizing.amounts import PROGRAM, Amount, Budget, Demand, num_trained
from rlx.hardware.sizing.budgets import budgets
from rlx.hardware.sizing.engine import VLLM_GRAPHS, engine_amounts, vllm_work
from rlx.hardware.sizing.host import EPISODES, WRITING, episode_bytes, host_amounts, host_peak
from rlx.hardware.sizing.host import PROGRAM as HOST_PROGRAM
from rlx.hardware.sizing.learner import activation_bytes, activations, communication, head_bytes, learner_state
from rlx.hardware.sizing.update_sizes import KEYS
from rlx.model.load import Lora
from rlx.model.shape import Shape, read_shape
from rlx.settings.folders import read_option
from tests.loops import for_each

SMALL = Shape(
    width=2, layers=1, heads=1, key_heads=1, head_size=2, feed_forward=3, vocabulary=5, tied=False, biased=True
)
DEMAND = Demand(shape=SMALL, num_trained=66, max_context=10)
QWEN_05B = read_shape(read_option("model", "qwen2_5_0_5b")["shape"])


def hardware(**fields: Any) -> Hardware:
    return Hardware(**{"learner": "deepspeed", "learner_dtype": "bfloat16", "num_processes": 2, **fields})


def state(demand: Demand = DEMAND, **fields: Any) -> dict[str, int]:
    return {name: num for name, num in learner_state(hardware(**fields), demand).items() if num}


FP32 = {"learner_dtype": "float32"}


@for_each(
    "stage, weights, gradients, optimizer",
    [(0, 264, 264, 8 * 66), (1, 264, 264, 12 * 66 // 2), (2, 264, 132, 396), (3, 132, 132, 396)],
)
def test_each_zero_stage_shares_out_one_thing_more(stage: int, weights: int, gradients: int, optimizer: int) -> None:
    expected = {"weights": weights, "gradients": gradients, "optimizer": optimizer}
    assert state(zero_stage=stage, **FP32) == expected | bucket_of(stage)


def test_a_critics_head_is_trained_and_kept_beside_the_model_and_has_no_reference() -> None:
    critic = replace(DEMAND, num_trained=66 + 3, num_head=3, needs_reference=True)
    found = state(critic, zero_stage=0, **FP32)
    assert found == {"weights": 4 * 69, "gradients": 4 * 69, "optimizer": 8 * 69, "reference": 4 * 66}
    adapted = replace(DEMAND, num_trained=8 + 3, num_head=3, adapted=True)
    assert state(adapted, zero_stage=0, **FP32) == {"weights": 4 * 77, "gradients": 44, "optimizer": 88}
    # a float32 copy of the last hidden state, where that is in another format
    extra = activation_bytes(hardware(), critic, 10) - activation_bytes(hardware(), replace(critic, num_head=0), 10)
    assert extra == 10 * 4 * 2
    same = activation_bytes(hardware(**FP32), critic, 10)
    assert same == activation_bytes(hardware(**FP32), replace(critic, num_head=0), 10)


def bucket_of(stage: int, num_trained: int = 66) -> dict[str, int]:
    """ZeRO 3 keeps one from the start, in float32, never larger than what is trained."""
    return {"gradient bucket": 4 * num_trained} if stage == 3 else {}


@for_each(
    "stage, weights, gradients, optimizer",
    [(0, 132, 132, 396), (1, 132, 132, 396), (2, 132, 132, 396), (3, 66, 132, 396)],
)
def test_bfloat16_halves_weights_and_runs_at_stage_2_at_least(
    stage: int, weights: int, gradients: int, optimizer: int
) -> None:
    expected = {"weights": weights, "gradients": gradients, "optimizer": optimizer}
    assert state(zero_stage=stage) == expected | bucket_of(stage)


def test_shares_are_rounded_up() -> None:
    assert state(zero_stage=3, num_processes=4)["weights"] == 33
    assert state(zero_stage=3, num_processes=5)["weights"] == 27


def test_one_torch_process_holds_everything_in_float32_and_casts_it() -> None:
    whole = {"weights": 4 * 66, "reference": 4 * 66, "gradients": 4 * 66, "optimizer": 8 * 66}
    demand = replace(DEMAND, needs_reference=True)
    assert learner_state(Hardware(), demand) == {**whole, "gradient bucket": 0, "weight casts": 0}
    low = learner_state(Hardware(learner_dtype="bfloat16"), demand)
    frozen = 2 * DEMAND.shape.linear_parameters
    assert frozen
    assert low == {**whole, "reference": 4 * 66 - frozen, "gradient bucket": 0, "weight casts": 2 * 66}


def test_one_torch_process_keeps_the_base_below_adapters_in_the_format_of_the_pass() -> None:
    demand = replace(DEMAND, adapted=True, num_trained=7, needs_reference=True)
    halved = 2 * DEMAND.shape.linear_parameters
    low = learner_state(Hardware(learner_dtype="bfloat16"), demand)
    assert (low["weights"], low["reference"]) == (4 * (66 + 7) - halved, 0)
    assert low["weight casts"] == 2 * (66 + 7) - halved


def test_a_reference_is_a_second_set_of_weights_that_adapters_save() -> None:
    demand = replace(DEMAND, needs_reference=True)
    assert state(demand, zero_stage=2)["reference"] == 2 * 66
    assert state(demand, zero_stage=3)["reference"] == 66
    assert state(replace(demand, adapted=True, num_trained=7), zero_stage=2) == {
        "weights": 2 * (66 + 7),
        "gradients": 4 * 7 // 2,
        "optimizer": 12 * 7 // 2,
    }


def test_what_is_offloaded_under_zero_3_takes_its_gradients_along() -> None:
    offloaded = hardware(zero_stage=3, offload=True, device="cuda")
    assert (learner_state(offloaded, DEMAND)["optimizer"], learner_state(offloaded, DEMAND)["gradients"]) == (0, 0)


def test_what_the_machines_own_memory_holds() -> None:
    offloaded = hardware(zero_stage=2, offload=True, num_processes=4, num_nodes=2, device="cuda")
    loaded, start, programs = 2 * 2 * 66, 4 * 66, 2 * HOST_PROGRAM + WRITING
    assert list(host_amounts(offloaded, DEMAND).values()) == [loaded, start, 2 * (66 * 16 // 4), programs]
    asleep = hardware(device="cuda", engine="vllm", dtype="bfloat16")
    assert list(host_amounts(asleep, DEMAND).values()) == [loaded, 2 * 66, programs]
    whole = replace(asleep, learner_dtype="float32")
    reference = host_amounts(whole, replace(DEMAND, needs_reference=True))
    assert list(reference.values()) == [2 * 2 * 4 * 66, 2 * 66, programs]
    assert host_amounts(hardware(), DEMAND) == {}


def test_an_engine_asleep_leaves_only_a_frozen_policys_weights_there_once_models_have_left() -> None:
    asleep, frozen = hardware(device="cuda", engine="vllm", dtype="bfloat16"), replace(DEMAND, frozen=True)
    assert host_amounts(asleep, frozen)["engines asleep"] == 2 * 2 * 2 * 66
    whole = replace(asleep, learner_dtype="float32")
    loading, running, programs = 2 * 4 * 66, 2 * 2 * 2 * 66 + 2 * 66, 2 * HOST_PROGRAM + WRITING
    assert host_peak(whole, frozen) == programs + running > programs + loading == host_peak(whole, DEMAND)
    assert host_peak(whole, replace(frozen, needs_reference=True)) == programs + 2 * loading
    assert host_peak(hardware(), DEMAND) == 0


def test_zero_3_gathers_the_layer_in_use_and_the_next_and_keeps_others_while_there_is_room() -> None:
    layer = (4 * 4) + 3 * 6
    gathered, bucket = 2 * (layer + layer), 4 * 66
    assert communication(hardware(zero_stage=3), DEMAND) == Amount(least=bucket + gathered, most=bucket + 2 * 68)
    assert communication(hardware(zero_stage=2), DEMAND) == Amount(least=2 * 66, most=6 * 66)
    assert communication(hardware(zero_stage=1, **FP32), DEMAND) == Amount(least=4 * 66, most=4 * 66)
    assert communication(hardware(zero_stage=0, **FP32), DEMAND) == Amount(least=0, most=0)


def test_a_matrix_larger_than_the_bucket_is_sent_by_itself() -> None:
    seven = read_shape(read_option("model", "qwen2_5_7b")["shape"])
    demand = Demand(shape=seven, num_trained=seven.num_parameters, max_context=10)
    matrix, layer = 152_064 * 3584, 2 * 3584 * 3584 + 2 * 3584 * 512 + 3 * 3584 * 18_944
    assert communication(hardware(zero_stage=2), demand).most == 2 * 500_000_000 + 4 * matrix
    three = communication(hardware(zero_stage=3), demand)
    assert three == Amount(least=4 * 500_000_000 + 2 * (matrix + layer), most=8 * matrix + 2 * 1_050_000_000)
    adapters = communication(hardware(zero_stage=2), replace(demand, num_trained=1000, adapted=True))
    assert adapters == Amount(least=2 * 1000, most=6 * 1000)


def test_activations_kept_and_recomputed() -> None:
    layer = 24 * 2 + 4 * (5 * 2 + 4 * 3)
    rest = 7 * 16 * 2 + 12 * 7 * 5 + 4 * 5 * 2
    kept, again = (hardware(learner_dtype="float32", recompute=recompute) for recompute in (False, True))
    assert activation_bytes(kept, DEMAND, 7) == 7 * layer + rest
    back = 4 * (2 * 2 + 2 * 3)
    assert activation_bytes(again, DEMAND, 7) == 7 * (4 * 2 + layer + back)
    deep = replace(DEMAND, shape=replace(SMALL, layers=10))
    assert activation_bytes(kept, deep, 7) == 7 * 10 * layer + rest
    assert activation_bytes(again, deep, 7) == 7 * (10 * 4 * 2 + layer + back)
    wide = replace(DEMAND, shape=replace(SMALL, vocabulary=100))
    assert activation_bytes(again, wide, 7) == 7 * (4 * 2 + 16 * 2) + 12 * 7 * 100 + 4 * 100 * 2


def test_what_is_longer_than_a_micro_batch_is_recomputed_and_gathers_no_keys() -> None:
    short, long = hardware(learner_dtype="float32", micro_batch_tokens=7), DEMAND
    assert activation_bytes(short, long, 7) == activation_bytes(replace(short, micro_batch_tokens=8), long, 7)
    layer, back = 24 * 2 + 4 * (4 * 2 + 4 * 3), 4 * (2 * 2 + 2 * 3)
    assert activation_bytes(short, long, 10) == 10 * (4 * 2 + layer + back)
    full = activation_bytes(short, long, 7, KEYS)
    assert full == 7 * (24 * 2 + 4 * ((3 + 2 * 4) * 2 + 4 * 3) + 16 * 2) + 12 * 7 * 5 + 4 * 5 * 2
    assert activations(short, replace(long, num_episodes=9)).most == max(full, activation_bytes(short, long, 10))


def test_under_autocast_what_is_recomputed_starts_from_float32() -> None:
    numbers, deep = 2 * (5 * 2 + 4 * 3 + 2 * 2 + 2 * 3), replace(DEMAND, shape=replace(SMALL, layers=10))
    casts, model = Hardware(learner_dtype="bfloat16", recompute=True), hardware(recompute=True)
    assert activation_bytes(casts, deep, 7) == 7 * (10 * 4 * 2 + 26 * 2 + numbers)
    behind = 7 * 16 * 2 + 12 * 7 * 5 + 8 * 5 * 2
    assert activation_bytes(model, deep, 7) == 7 * 10 * 2 * 2 + max(7 * (16 * 2 + numbers), behind)


def test_a_frozen_head_has_no_gradient() -> None:
    adapted = replace(DEMAND, adapted=True)
    assert [head_bytes(each, adapted) for each in (Hardware(), Hardware(learner_dtype="bfloat16"))] == [0, 2 * 10]
    assert head_bytes(hardware(), adapted) == 0


def test_between_updates_zero_3_keeps_room_for_gradients_and_an_asleep_engine_its_graphs() -> None:
    gpu: dict[str, Any] = {"device": "cuda", "engine": "vllm"}
    for stage in (2, 3):
        sampling, updating = budgets(hardware(**gpu, zero_stage=stage), DEMAND, None)
        assert ("gradients" in sampling.amounts, "gradient bucket" in sampling.amounts) == (stage == 3, stage == 3)
        assert updating.amounts["engine asleep"] == Amount(least=VLLM_GRAPHS, most=VLLM_GRAPHS)


def test_a_torch_engine_holds_its_slots_twice_while_they_are_laid_out_anew_and_keeps_as_much_outside() -> None:
    amounts = engine_amounts(Hardware(num_slots=3, dtype="bfloat16"), DEMAND, None)
    full = 3 * 10 * 2 * 2 * 2
    assert amounts["engine weights"] == Amount(least=132, most=132)
    assert amounts["KV cache"] == Amount(least=full, most=2 * full * 9 // 8)
    assert amounts["kept contexts"] == Amount(least=0, most=full)


def test_vllm_on_cpu_caches_no_more_than_its_slots() -> None:
    amounts = engine_amounts(Hardware(engine="vllm", num_slots=3, dtype="bfloat16"), DEMAND, None)
    assert amounts["KV cache"].most == 3 * 10 * 2 * 2 * 2
    assert "kept contexts" not in amounts


def test_a_vllm_engine_takes_its_share_and_tensor_parallel_splits_weights_and_heads() -> None:
    many = Hardware(engine="vllm", device="cuda", dtype="bfloat16", tensor_parallel=2, num_servers=1, engine_memory=0.5)
    demand = Demand(shape=QWEN_05B, num_trained=1, max_context=1000)
    amounts = engine_amounts(many, demand, 20 * 10**9)
    room = 10 * 10**9 - 494_032_768 - amounts["engine work"].most
    assert amounts["engine weights"].most == 494_032_768
    assert amounts["KV cache"] == Amount(least=room, most=room)
    assert engine_amounts(many, demand, None)["KV cache"].most == 1000 * 24 * 2 * (1 * 64) * 2


def test_vllms_work_is_its_graphs_its_largest_pass_and_its_logits() -> None:
    seven = read_shape(read_option("model", "qwen2_5_7b")["shape"])
    one = Hardware(engine="vllm", device="cuda", dtype="bfloat16", num_slots=256)
    largest, logits = 8192 * 2 * (3 * 18_944 + 4 * 3584), 12 * 256 * 152_064
    assert vllm_work(one, seven) == VLLM_GRAPHS + largest + logits
    spread = replace(one, tensor_parallel=4, num_servers=1)
    assert vllm_work(spread, seven) == VLLM_GRAPHS + 8192 * 2 * (3 * 18_944 // 4 + 4 * 3584) + logits


def test_the_arithmetic_has_the_sizes_that_are_used() -> None:
    from rlx.rollout.vllm import start as vllm

    assert vllm.STEP_TOKENS == engine.STEP_TOKENS


def names(found: list[Budget]) -> list[tuple[str, int]]:
    return [(budget.name, budget.devices) for budget in found]


def test_engine_and_learner_take_turns_share_or_have_devices_of_their_own() -> None:
    gpu: dict[str, Any] = {"device": "cuda", "engine": "vllm"}
    assert names(budgets(hardware(**gpu), DEMAND, None)) == [("sampling", 2), ("updating", 2)]
    assert names(budgets(hardware(device="cuda"), DEMAND, None)) == [("learner and engine", 2)]
    servers = hardware(**gpu, num_servers=3, tensor_parallel=2)
    assert names(budgets(servers, DEMAND, None)) == [("learner", 2), ("engine in a server", 6)]
    assert names(budgets(servers, DEMAND, None, trains=False)) == [("engine", 6)]
    sampling, updating = budgets(hardware(**gpu), DEMAND, None)
    assert "gradients" not in sampling.amounts
    assert "engine weights" not in updating.amounts


def test_on_cpu_processes_share_their_machine() -> None:
    (both,) = budgets(hardware(num_processes=4, num_nodes=2, learner_dtype="float32"), DEMAND, None)
    assert both.name == "each machine"
    assert both.amounts["weights"].most == 2 * 4 * 66
    assert both.amounts["program"].most == 2 * PROGRAM["cpu"]


def test_half_a_billion_parameters_learned_in_float32_and_sampled_in_bf16() -> None:
    demand = Demand(shape=QWEN_05B, num_trained=QWEN_05B.num_parameters, needs_reference=True, max_context=1000)
    (budget,) = budgets(Hardware(dtype="bfloat16", num_slots=4, micro_batch_tokens=1024), demand, None)
    most = {name: amount.most for name, amount in budget.amounts.items()}
    assert most["weights"] == most["gradients"] == most["reference"] == 4 * 494_032_768
    assert most["engine weights"] == 2 * 494_032_768
    assert most["optimizer"] == 8 * 494_032_768
    assert most["kept contexts"] == 4 * 1000 * 24 * 2 * (2 * 64) * 2


def test_adapters_are_rank_times_in_plus_out() -> None:
    lora = Lora(rank=8, targets=("q_proj", "v_proj"))
    assert QWEN_05B.stack[0].maps["v_proj"] == (896, 128)
    assert num_trained(lora, QWEN_05B) == 24 * 8 * (896 + 896 + 896 + 128)


@pytest.mark.parametrize("num", [1, 3])
def test_policies_in_engines_of_their_own_take_what_the_runs_takes(num: int) -> None:
    profile = Hardware(num_slots=3, dtype="bfloat16")
    alone = engine_amounts(profile, DEMAND, None)
    beside = engine_amounts(profile, replace(DEMAND, num_opponents=num), None)
    assert beside.pop("other policies") == sum(alone.values(), Amount(least=0, most=0)) * num
    assert beside == alone


@pytest.mark.parametrize(("turns", "sampled", "seen", "measured"), [(30, 1000, 0, 367), (256, 64, 36, 1982)])
def test_episodes_on_the_host_are_near_the_measured_bytes_of_a_token(
    turns: int, sampled: int, seen: int, measured: int
) -> None:
    """The peaks of a process that held 16 episodes and made a batch of them, by sampled token."""
    context = turns * (sampled + seen) / 2
    each = episode_bytes(16, turns * sampled, turns, context) / (16 * turns * sampled)
    assert each == pytest.approx(measured, rel=0.15)


def test_every_process_of_a_machine_holds_the_episodes_beside_its_program() -> None:
    many = hardware(device="cuda", num_processes=8)
    start = 4 * DEMAND.shape.num_parameters
    assert host_peak(many, DEMAND, 10**10) == 8 * HOST_PROGRAM + WRITING + start + 8 * 10**10
    assert host_amounts(many, DEMAND, 10**10)[EPISODES] == 8 * 10**10
    assert host_amounts(hardware(), DEMAND, 10**10) == {}
