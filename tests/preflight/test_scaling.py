"""The scaling model by hand on a model of 66 parameters, and how it moves with what it depends on."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from rlx.hardware.profile import GpuName, Hardware
from rlx.model.shape import Shape, read_shape
from rlx.plan.peaks import H100, MACHINES, OTHERS, Machine, in_float32, machine_named
from rlx.plan.scaling import (
    attention_flops,
    cached_rows,
    estimate_evicted,
    estimate_step,
    head_parameters,
    matrix_flops,
    message_bytes,
    mixing_flops,
)
from rlx.plan.step import Efficiency, Load, StepTime
from rlx.settings.folders import read_option
from tests.loops import for_each

SMALL = Shape(
    width=2, layers=1, heads=1, key_heads=1, head_size=2, feed_forward=3, vocabulary=5, tied=False, biased=True
)
BODY, HEAD = 4 * 4 + 3 * 6, 5 * 2
UNIT = Machine(name="unit", flops=1.0, bandwidth=1.0, link=1.0, network=1.0, host=1.0)
WHOLE = Efficiency(
    update=1,
    half_width=0,
    prefill=1,
    decode=1,
    links=1,
    tick=0,
    row=0,
    launch=0,
    handover=0,
    host=0,
    hop=0,
    http=1,
)
LOAD = Load(episodes=4, samples=2, prompt=10, sampled=6, observed=2)
QWEN_7B = read_shape(read_option("model", "qwen2_5_7b")["shape"])
A100 = Machine(name="A100", flops=312e12, bandwidth=2e12, link=300e9, network=200e9, host=32e9)


def update_flops(shape: Shape, hardware: Hardware, load: Load) -> float:
    """Count all arithmetic of an update."""
    return matrix_flops(shape, hardware, load) + mixing_flops(shape, hardware, load)


def step(shape: Shape = SMALL, load: Load = LOAD, machine: Machine = UNIT, **fields: Any) -> StepTime:
    return estimate_step(shape, Hardware(**{"num_slots": 4, **fields}), machine, load, WHOLE)


def many(**fields: Any) -> Hardware:
    return Hardware(**{"learner": "deepspeed", "num_processes": 2, "micro_batch_tokens": 10, **fields})


def test_counts_by_hand() -> None:
    assert SMALL.active_parameters == BODY
    assert head_parameters(SMALL) == HEAD
    assert LOAD.context == 10 + 4
    assert LOAD.tokens == 4 * (5 + 6 + 2)
    assert attention_flops(SMALL, 14) == 4 * 2 * 14


def test_decoding_reads_weights_and_caches_once_a_tick() -> None:
    fast = replace(UNIT, flops=math.inf)
    cache = 4 * 14 * 2 * 2 * 4
    assert step(machine=fast).decode == pytest.approx(6 * (4 * (BODY + HEAD) + cache))
    assert step(machine=fast, num_slots=2).decode == pytest.approx(2 * 6 * (4 * (BODY + HEAD) + cache / 2))


def test_keys_and_values_that_no_cache_holds_come_at_their_own_rate() -> None:
    slow = replace(UNIT, flops=math.inf, contexts=0.5)
    assert step(machine=slow).decode == pytest.approx(6 * (4 * (BODY + HEAD) + 2 * 4 * 14 * 2 * 2 * 4))


def test_the_torch_engine_reads_every_row_as_far_as_the_longest() -> None:
    fast, load = replace(UNIT, flops=math.inf), replace(LOAD, longest=10)
    read = {name: step(machine=fast, load=load, engine=name).decode for name in ("torch", "vllm")}
    assert read["torch"] - read["vllm"] == pytest.approx(6 * 4 * 2 * 2 * 2 * 4), "two columns more in four rows"


def test_decoding_many_rows_on_a_fast_memory_is_bound_by_arithmetic() -> None:
    fast = replace(UNIT, bandwidth=math.inf)
    assert step(machine=fast).decode == pytest.approx(6 * 4 * (2 * (BODY + HEAD) + 112))


def test_a_tick_costs_what_it_costs_whatever_the_model_and_more_with_every_row() -> None:
    instant = replace(UNIT, flops=math.inf, bandwidth=math.inf)
    costs = replace(WHOLE, tick=5.0, row=0.5)
    four, one = (estimate_step(SMALL, Hardware(num_slots=slots), instant, LOAD, costs).decode for slots in (4, 1))
    assert four == pytest.approx(6 * (5 + 4 * 0.5))
    assert one == pytest.approx(4 * 6 * (5 + 0.5)), "one slot takes the episodes one by one"


def test_the_longest_episode_goes_on_alone() -> None:
    instant = replace(UNIT, flops=math.inf, bandwidth=math.inf)
    costs = replace(WHOLE, tick=5.0)
    load = replace(LOAD, longest=10)
    assert estimate_step(SMALL, Hardware(num_slots=4), instant, load, costs).decode == pytest.approx(5 * 10)


def test_contexts_that_do_not_stay_in_the_cache_are_read_again_at_every_turn() -> None:
    gpu = Hardware(device="cuda", engine="vllm", dtype="bfloat16", num_slots=256, num_live=320)
    load = Load(episodes=320, sampled=16000, observed=8000, turns=20)
    kept = cached_rows(QWEN_7B, gpu, H100, load)
    assert estimate_evicted(QWEN_7B, gpu, H100, load) == pytest.approx(1 - kept / 320)
    prefills = [estimate_step(QWEN_7B, gpu, H100, replace(load, turns=turns)).prefill for turns in (1, 20)]
    assert prefills[1] > 10 * prefills[0]
    assert estimate_evicted(QWEN_7B, gpu, H100, replace(load, sampled=200, observed=0)) == 0


def test_small_micro_batches_cost_a_launch_a_layer_each() -> None:
    costs = replace(WHOLE, launch=1.0)
    instant = replace(UNIT, flops=math.inf)
    sizes = {tokens: Hardware(micro_batch_tokens=tokens, recompute=True) for tokens in (52, 26)}
    found = {tokens: estimate_step(SMALL, one, instant, LOAD, costs).compute for tokens, one in sizes.items()}
    assert found == {52: 4.0, 26: 8.0}, "forward, forward again and twice backward, of one layer"


def test_narrow_models_reach_less_of_the_peak() -> None:
    wide = replace(SMALL, width=200)
    assert Efficiency(update=0.4, half_width=2).of_update(SMALL) == pytest.approx(0.2)
    assert Efficiency(update=0.4, half_width=2).of_update(wide) > 0.39


def test_python_takes_time_for_every_sampled_token() -> None:
    assert step().host == 0
    costs = replace(WHOLE, host=2.0)
    found = estimate_step(SMALL, Hardware(num_slots=4), UNIT, LOAD, costs)
    assert found.host == 2 * 4 * 6
    assert found.update == step().update + found.host


def test_an_engine_that_sleeps_takes_time_to_fall_asleep_and_wake() -> None:
    colocated, served = big(4), big(4, num_servers=4, zero_stage=3)
    assert colocated.sync > Efficiency().handover
    assert served.sync < 2 * 2 * 7.7e9 / Efficiency().http


@for_each(
    "name, found",
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA A10", "A10"),
        ("Tesla T4", None),
    ],
)
def test_a_gpu_is_known_by_a_word_of_its_name(name: str, found: str | None) -> None:
    machine = machine_named([name])
    assert (machine and machine.name) == found


def test_a_profile_may_name_every_card_with_peaks() -> None:
    assert set(get_args(GpuName)) == {*MACHINES, *OTHERS}


def test_every_card_has_a_peak_in_float32() -> None:
    for machine in (MACHINES | OTHERS).values():
        assert in_float32(machine).flops < machine.flops


def test_a_groups_prompt_is_prefilled_and_trained_once() -> None:
    assert step().prefill == pytest.approx(4 * (5 + 2) * (2 * BODY + 112))
    assert update_flops(SMALL, Hardware(), LOAD) == pytest.approx(52 * 6 * (BODY + 56) + 24 * 8 * HEAD)


def test_recomputing_and_comparing_are_passes_more() -> None:
    plain, again = (update_flops(SMALL, Hardware(recompute=recompute), LOAD) for recompute in (False, True))
    assert again - plain == pytest.approx(52 * 2 * (BODY + 56))
    compared = update_flops(SMALL, Hardware(), replace(LOAD, reference=True))
    assert compared - plain == pytest.approx(52 * 2 * (BODY + 56) + 24 * 2 * HEAD)
    weighed, valued = Hardware(importance_cap=2.0), replace(LOAD, critic=True)
    assert update_flops(SMALL, weighed, LOAD) == compared
    assert update_flops(SMALL, Hardware(), valued) == update_flops(SMALL, weighed, valued) == compared
    assert update_flops(SMALL, weighed, replace(LOAD, plays=False)) == plain, "demonstrations are weighed by nothing"


def test_what_is_measured_before_an_update_is_measured_once_whatever_the_epochs() -> None:
    plain, compared = LOAD, replace(LOAD, reference=True)
    once, twice = ({"epochs": num, "updates": 2 * num} for num in (1, 2))
    more = [update_flops(SMALL, Hardware(), replace(compared, **by)) for by in (once, twice)]
    less = [update_flops(SMALL, Hardware(), replace(plain, **by)) for by in (once, twice)]
    assert less[1] == 2 * less[0]
    assert more[1] - less[1] == more[0] - less[0]
    for stage in (0, 1, 2):
        sent = [message_bytes(SMALL, many(zero_stage=stage), replace(plain, **by)) for by in (once, twice)]
        assert sent[1] == pytest.approx(2 * sent[0])


@for_each("stage, expected", [(0, 2 * 264), (1, 3 * 264), (2, 4 * 264), (3, 9 * 264)])
def test_messages_of_each_zero_stage(stage: int, expected: int) -> None:
    """66 float32 parameters on two processes, three micro-batches each."""
    load = replace(LOAD, episodes=5, observed=0, prompt=8)
    assert load.tokens == 50
    assert message_bytes(SMALL, many(zero_stage=stage), load) == expected / 2


def test_stale_rollouts_run_beside_the_update() -> None:
    alone = StepTime(decode=3, prefill=1, compute=5, messages=2, optimizer=1, sync=1, overlaps=False)
    assert alone.seconds == 4 + 6 + 1
    assert replace(alone, overlaps=True).seconds == 6 + 1
    assert alone.limit == "update"
    assert replace(alone, messages=7).limit == "messages"
    assert replace(alone, sync=9).limit == "sync"


def big(num_processes: int, load: Load = LOAD, **fields: Any) -> StepTime:
    gpu: dict[str, Any] = {"device": "cuda", "engine": "vllm", "learner_dtype": "bfloat16", "dtype": "bfloat16"}
    more = {"learner": "deepspeed", "zero_stage": 2, "micro_batch_tokens": 32768, "num_slots": 256}
    return estimate_step(QWEN_7B, Hardware(num_processes=num_processes, **{**gpu, **more, **fields}), A100, load)


def test_more_processes_divide_the_update_and_not_the_ticks() -> None:
    load = Load(episodes=1024)
    two, eight = big(2, load), big(8, load)
    assert two.compute == pytest.approx(4 * eight.compute, rel=0.05)
    assert eight.decode > two.decode / 4
    assert eight.seconds < two.seconds


def test_longer_episodes_make_caches_the_limit() -> None:
    short, long = big(8, Load(sampled=200)), big(8, Load(sampled=16000))
    assert long.decode / short.decode > 80
    assert long.limit == "decode"


def test_servers_get_weights_by_http_and_colocated_engines_in_place() -> None:
    served = big(4, num_servers=4, staleness=1, zero_stage=3)
    assert served.overlaps
    assert served.sync > 2 * 7.6e9 / Efficiency().http
    assert big(4).sync - Efficiency().handover == pytest.approx(2 * 2 * 7_615_616_512 / (2e12 * 0.6))


def test_a_full_cache_makes_episodes_wait() -> None:
    load = Load(episodes=256, sampled=8000)
    gpu = Hardware(device="cuda", engine="vllm", dtype="bfloat16", num_slots=256)
    small, large = (
        estimate_step(QWEN_7B, gpu, replace(A100, memory=memory), load).decode for memory in (80e9, math.inf)
    )
    assert small > 1.2 * large


def test_offload_costs_time() -> None:
    assert big(8, offload=True).optimizer > 10 * big(8).optimizer


def test_the_page_holds_the_scripts_tables() -> None:
    root = Path(__file__).resolve().parents[2]
    words = [sys.executable, str(root / "scripts" / "scaling.py")]
    said = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=600, check=True).stdout
    rows = [line for line in said.splitlines() if line.startswith("|")]
    page = (root / "docs" / "scaling.md").read_text().splitlines()
    assert len(rows) > 30
    assert not set(rows) - set(page)
