"""Time and disk of a run, by hand where that can be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rlx.config.compose import build_run, compose
from rlx.hardware.profile import Hardware
from rlx.model.shape import Shape
from rlx.preflight.duration import (
    checkpoint_bytes,
    estimate,
    evaluation_seconds,
    machine_of,
    num_idle,
    num_tokens,
    stages_of,
    total_seconds,
)
from rlx.preflight.fit import shape_of
from rlx.preflight.lengths import TAIL, Given
from rlx.preflight.peaks import MACHINES, Machine
from rlx.run.run import Run

SEVEN_CONTEXT = 8192
SEVEN = ["model=qwen2_5_7b", "hardware=a100x8x2", f"model.max_context={SEVEN_CONTEXT}"]


def run_of(*words: str) -> Run:
    return build_run(compose(words), Path())


def sized(run: Run) -> tuple[Shape, Machine]:
    shape = shape_of(run)
    assert shape is not None
    machine = machine_of(run.hardware, shape)
    assert machine is not None
    return shape, machine


def step(run: Run, index: int = -1) -> float:
    stage = stages_of(run)[index]
    return estimate(stage, stage.load, *sized(run)).seconds


def test_a_warm_start_and_a_run_are_two_stages() -> None:
    warm, own = stages_of(run_of(*SEVEN))
    assert (warm.steps, warm.load.episodes, warm.load.plays) == (160, 64, False)
    assert (own.steps, own.load.episodes, own.load.plays) == (200, 512, True)
    assert own.load.reference
    assert own.load.longest == TAIL * own.load.sampled
    assert len(stages_of(run_of("warm_start=none"))) == 1


def test_every_stage_of_a_curriculum_is_counted_with_its_own_context() -> None:
    before = (
        "+warm_start@warm_start.before=tool_sft",
        "warm_start.before.steps=3",
        "warm_start.before.algo.num_prompts=5",
    )
    short = (
        "+sampling@warm_start.before.sampling=default",
        "warm_start.before.sampling.max_context=300",
        "warm_start.before.sampling.max_new_tokens=99",
    )
    first, second, own = stages_of(run_of(*SEVEN, "warm_start=tool_sft", *before, *short))
    assert (first.name, second.name, own.name) == ("stage 1", "stage 2", "run")
    assert (first.steps, first.load.episodes) == (3, 5)
    assert first.expected.most < 300
    assert 0 < SEVEN_CONTEXT - second.expected.most < 100


def test_no_episode_is_longer_than_its_context() -> None:
    short = run_of("sampling.max_context=100", "model.max_context=100", "sampling.max_new_tokens=50")
    assert num_tokens(stages_of(short)[-1].load) <= 64 * 101


def test_demonstrations_are_not_sampled() -> None:
    run = run_of(*SEVEN)
    stage = stages_of(run)[0]
    found = estimate(stage, stage.load, *sized(run))
    assert (found.rollout, found.sync) == (0, 0)
    assert found.update > 0


def test_a_step_lasts_as_long_as_the_busiest_engine() -> None:
    half, sixteen, seventeen = (run_of(*SEVEN, f"algo.num_prompts={num}") for num in (8, 16, 17))
    rollout = []
    for run in (half, sixteen, seventeen):
        stage = stages_of(run)[-1]
        rollout.append(estimate(stage, stage.load, *sized(run)).rollout)
    assert rollout[0] < rollout[1] < rollout[2]
    assert (num_idle(half.hardware, 8), num_idle(half.hardware, 16)) == (8, 0)


def test_adapters_save_time_and_disk() -> None:
    whole, adapted = run_of(*SEVEN), run_of(*SEVEN, "+model/lora=r32")
    assert step(adapted) < step(whole)
    shape, _ = sized(whole)
    assert checkpoint_bytes(whole, shape) == 12 * 7_615_616_512
    assert checkpoint_bytes(adapted, shape) == 4 * 7_615_616_512 + 12 * 80_740_352


def test_a_run_of_demonstrations_is_evaluated_by_playing() -> None:
    run = run_of(*SEVEN, "algo=sft", "warm_start=none")
    assert evaluation_seconds(run, stages_of(run)[-1].load, *sized(run)) > 0


def test_the_untrained_model_is_one_evaluation_more_where_a_warm_start_stands_before_the_run() -> None:
    seconds = [
        evaluation_seconds(run, stages_of(run)[-1].load, *sized(run))
        for run in (
            run_of(*SEVEN, "warm_start=tool_sft"),
            run_of(*SEVEN, "warm_start=tool_sft", "evaluate.untrained=false"),
        )
    ]
    assert seconds[0] == pytest.approx(1.5 * seconds[1])


def test_which_machine_a_profile_is() -> None:
    shape, machine = sized(run_of(*SEVEN))
    assert machine == MACHINES["a100"]
    assert machine_of(Hardware(device="cuda"), shape) is None
    plain = machine_of(Hardware(device="cuda", gpu="h200"), shape)
    assert plain is not None
    assert plain.flops == MACHINES["h200"].float32


def test_every_profile_with_gpus_but_the_plain_one_names_them() -> None:
    from rlx.config.compose import list_options

    for option in list_options("hardware"):
        hardware = run_of(f"hardware={option}").hardware
        assert hardware.gpu == (option[:4] if option[0] in "ah" else None)


def test_the_estimate_of_a_cpu_is_near_what_was_measured() -> None:
    """Steps of 16 tasks took 13 to 16 s on a busy core, each of 128 episodes of 194 to 220 sampled tokens."""
    assert 13 / 2 < step(run_of("algo.num_prompts=16")) < 16 * 2


def test_evaluation_is_of_the_start_the_end_and_the_way() -> None:
    words = (*SEVEN, "evaluate.untrained=false")
    once, often = run_of(*words), run_of(*words, "evaluate.every=20")
    shape, machine = sized(once)
    seconds = [evaluation_seconds(run, stages_of(run)[-1].load, shape, machine) for run in (once, often)]
    assert seconds[1] == pytest.approx(6 * seconds[0])


GEM = (
    "env=game/guess_the_number",
    "algo=rebn",
    "algo.num_prompts=28",
    "algo.num_samples=1",
    "algo.optimizer.num_epochs=2",
    "model=qwen3_1_7b",
    "model.max_context=32768",
    "sampling.max_new_tokens=4096",
    "hardware=a100x8",
    "protocol=boxed",
    "warm_start=none",
    "steps=500",
)
"""GEM (arXiv:2510.01051, appendix F): 500 steps of 128 turns, here 28 episodes, of 4,096 tokens a turn at most, two
epochs each, on 8 A100, in about one day."""


def test_a_published_run_without_lengths_has_no_single_time() -> None:
    run = run_of(*GEM)
    stages = stages_of(run)
    assert not stages[-1].expected.is_certain
    quarter, half, whole = (total_seconds(run, stages, *sized(run), index) for index in range(3))
    assert quarter < half < whole


@pytest.mark.parametrize("tokens", [768, 1536])
def test_a_published_run_takes_what_it_took_at_usual_lengths_of_a_turn(tokens: int) -> None:
    """Its lengths are not published: these are a fifth and two fifths of its limit."""
    run = run_of(*GEM)
    stages = stages_of(run, Given(tokens=4.5 * tokens))
    gpu_hours = 8 * total_seconds(run, stages, *sized(run)) / 3600
    assert 190 / 2 <= gpu_hours < 190 * 2


def test_a_length_that_is_given_gives_one_time() -> None:
    run = run_of(*GEM)
    stage = stages_of(run, Given(tokens=800, turns=5, seen=300, prompt=90))[-1]
    (load,) = stage.loads
    assert (load.sampled, load.turns, load.observed, load.prompt) == (800, 5, 300, 90)
    assert stage.at(0) == stage.at(2) == load


def test_a_critic_and_importance_weights_share_one_forward_pass_more() -> None:
    plain = run_of(*SEVEN, "algo=grpo", "hardware.importance_cap=null")
    capped = run_of(*SEVEN, "algo=grpo")
    critic = run_of(*SEVEN, "algo=ppo")
    given = Given(tokens=500, turns=1, prompt=50, seen=0)
    compute = []
    for run in (plain, capped, critic):
        load = replace(stages_of(run, given)[-1].load, episodes=1024, samples=8, epochs=1, reference=False)
        compute.append(estimate(stages_of(run, given)[-1], load, *sized(run)).compute)
    assert compute[0] < compute[1] == pytest.approx(compute[2])
