"""Time and disk of a run, by hand where that can be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rlx.hardware.profile import Hardware
from rlx.plan.expected import TAIL
from rlx.plan.forecast import Forecast
from rlx.plan.lengths import NO_HINTS, LengthHints
from rlx.plan.peaks import MACHINES
from rlx.plan.prospect import Prospect
from rlx.plan.stage import Stage, num_tokens
from rlx.plan.step import StepTime
from rlx.plan.timer import machine_of
from rlx.run.run import Run
from rlx.settings.compose import build_run, compose

SEVEN_CONTEXT = 8192
SEVEN = ["model=qwen2_5_7b", "hardware=a100x8x2", f"model.max_context={SEVEN_CONTEXT}"]


def run_of(*words: str) -> Run:
    return build_run(compose(words), Path())


def prospect_of(*words: str, given: LengthHints = NO_HINTS) -> Prospect:
    return Prospect(run=run_of(*words), length_hints=given)


def stages_of(*words: str) -> tuple[Stage, ...]:
    return prospect_of(*words).stages


def forecast_of(prospect: Prospect) -> Forecast:
    assert prospect.forecast is not None
    return prospect.forecast


def step(prospect: Prospect, index: int = -1) -> StepTime:
    """The time of a stage's step, at the length in the middle."""
    stage = prospect.stages[index]
    return forecast_of(prospect).times[stage.name][len(stage.loads) // 2]


def evaluation_seconds(*words: str) -> float:
    prospect = prospect_of(*words)
    return forecast_of(prospect).evaluation_seconds(prospect.main.load)


def test_a_warm_start_and_a_run_are_two_stages() -> None:
    warm, own = stages_of(*SEVEN)
    assert (warm.run.steps, warm.load.episodes, warm.load.plays) == (160, 64, False)
    assert (own.run.steps, own.load.episodes, own.load.plays) == (200, 512, True)
    assert own.load.reference
    assert own.load.longest == TAIL * own.load.sampled
    assert len(stages_of("warm_start=none")) == 1


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
    first, second, own = stages_of(*SEVEN, "warm_start=tool_sft", *before, *short)
    assert (first.name, second.name, own.name) == ("stage 1", "stage 2", "run")
    assert (first.run.steps, first.load.episodes) == (3, 5)
    assert first.expected.most < 300
    lengths = second.expected.usual
    assert second.expected.most == int(SEVEN_CONTEXT - lengths.prompt - lengths.observed)


def test_no_episode_is_longer_than_its_context() -> None:
    short = stages_of("sampling.max_context=100", "model.max_context=100", "sampling.max_new_tokens=50")
    assert num_tokens(short[-1].load) <= 64 * 101


def test_demonstrations_are_not_sampled() -> None:
    found = step(prospect_of(*SEVEN), 0)
    assert (found.rollout, found.sync) == (0, 0)
    assert found.update > 0


def test_a_step_lasts_as_long_as_the_busiest_engine() -> None:
    half, sixteen, seventeen = (prospect_of(*SEVEN, f"algo.num_prompts={num}") for num in (8, 16, 17))
    assert step(half).rollout < step(sixteen).rollout < step(seventeen).rollout


def test_engines_without_an_episode_are_idle() -> None:
    few, all_busy = (
        prospect_of(*SEVEN, f"algo.num_prompts={num}", "algo.num_samples=8", "algo.optimizer.num_minibatches=1")
        for num in (1, 2)
    )
    assert (few.main.load.episodes, few.num_idle) == (8, 8)
    assert (all_busy.main.load.episodes, all_busy.num_idle) == (16, 0)


def test_adapters_save_time_and_disk() -> None:
    whole, adapted = prospect_of(*SEVEN), prospect_of(*SEVEN, "+model/lora=r32")
    assert step(adapted).seconds < step(whole).seconds
    assert whole.checkpoint_bytes == 12 * 7_615_616_512
    assert adapted.checkpoint_bytes == 4 * 7_615_616_512 + 12 * 80_740_352


def test_a_run_of_demonstrations_is_evaluated_by_playing() -> None:
    assert evaluation_seconds(*SEVEN, "algo=sft", "warm_start=none") > 0


def test_the_untrained_model_is_one_evaluation_more_where_a_warm_start_stands_before_the_run() -> None:
    words = (*SEVEN, "warm_start=tool_sft")
    seconds = [evaluation_seconds(*words), evaluation_seconds(*words, "evaluate.untrained=false")]
    assert seconds[0] == pytest.approx(1.5 * seconds[1])


def test_several_limits_of_turns_cost_one_evaluation() -> None:
    """Episodes are played under the largest, and cut for the others."""
    one, three = (evaluation_seconds(*SEVEN, f"evaluate.max_rounds=[{limits}]") for limits in ("8", "8,5,3"))
    assert one == three


def test_which_machine_a_profile_is() -> None:
    timer = forecast_of(prospect_of(*SEVEN)).timer
    shape = timer.shape
    assert timer.machine == MACHINES["a100"]
    assert machine_of(Hardware(device="cuda"), shape) is None
    plain = machine_of(Hardware(device="cuda", gpu="h200"), shape)
    assert plain is not None
    assert plain.flops == MACHINES["h200"].float32


def test_every_profile_with_gpus_but_the_plain_one_names_them() -> None:
    from rlx.settings.compose import list_options

    for option in list_options("hardware"):
        hardware = run_of(f"hardware={option}").hardware
        assert hardware.gpu == (option[:4] if option[0] in "ah" else None)


def test_the_estimate_of_a_cpu_is_near_what_was_measured() -> None:
    """Steps of 16 tasks took 13 to 16 s on a busy core, each of 128 episodes of 194 to 220 sampled tokens."""
    assert 13 / 2 < step(prospect_of("algo.num_prompts=16")).seconds < 16 * 2


def test_evaluation_is_of_the_start_the_end_and_the_way() -> None:
    words = (*SEVEN, "evaluate.untrained=false")
    seconds = [evaluation_seconds(*words), evaluation_seconds(*words, "evaluate.interval=20")]
    assert seconds[1] == pytest.approx(5.5 * seconds[0]), "at steps 20 to 180 too, and step 200 is the end"


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
    prospect = prospect_of(*GEM)
    assert not prospect.main.expected.is_certain
    quarter, half, whole = (seconds for _, seconds in forecast_of(prospect).totals)
    assert quarter < half < whole


@pytest.mark.parametrize("tokens", [768, 1536])
def test_a_published_run_takes_what_it_took_at_usual_lengths_of_a_turn(tokens: int) -> None:
    """Its lengths are not published: these are a fifth and two fifths of its limit."""
    ((_, seconds),) = forecast_of(prospect_of(*GEM, given=LengthHints(tokens=4.5 * tokens))).totals
    gpu_hours = 8 * seconds / 3600
    assert 190 / 2 <= gpu_hours < 190 * 2


def test_a_length_that_is_given_gives_one_time() -> None:
    stage = prospect_of(*GEM, given=LengthHints(tokens=800, turns=5, observed=300, prompt=90)).main
    (load,) = stage.loads
    assert (load.sampled, load.turns, load.observed, load.prompt) == (800, 5, 300, 90)
    assert stage.load == load


def test_a_critic_and_importance_weights_share_one_forward_pass_more() -> None:
    compute = []
    for words in (("algo=grpo", "hardware.importance_cap=null"), ("algo=grpo",), ("algo=ppo",)):
        prospect = prospect_of(*SEVEN, *words, given=LengthHints(tokens=500, turns=1, prompt=50, observed=0))
        load = replace(prospect.main.load, episodes=1024, samples=8, epochs=1, reference=False)
        compute.append(forecast_of(prospect).timer.step(prospect.hardware, load).compute)
    assert compute[0] < compute[1] == pytest.approx(compute[2])
