"""What `rlx plan` says; the figures behind it are in test_memory.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rlx.algo.parts import Sampler
from rlx.commands.plan import describe_plan, describe_settings, published_lengths, start_command
from rlx.commands.text import LEFT, clock, short
from rlx.hardware.sizing.fit import FitError
from rlx.plan.checks import check_plan
from rlx.plan.disk import save_seconds
from rlx.plan.lengths import NO_HINTS, LengthHints
from rlx.plan.objective import ObjectiveError
from rlx.plan.prospect import Prospect
from rlx.plan.stage import episodes_a_task
from rlx.runs.folder import flatten
from rlx.settings.compose import build_run, compose
from rlx.settings.papers import read_presets
from tests.errors import raises_naming
from tests.loops import for_each

LARGE = ["hardware=a100x8x2", "model=qwen2_5_7b", "algo=grpo", "algo.loss.kl=0.1", "steps=3"]


def prospect_of(*words: str, given: LengthHints = NO_HINTS) -> Prospect:
    return Prospect(run=build_run(compose(words), Path()), length_hints=given)


def plan(*words: str) -> str:
    return describe_plan(prospect_of(*words), words)


def flat(*words: str) -> str:
    """On one line, so that it does not matter where lines are wrapped."""
    return " ".join(plan(*words).split())


def test_a_small_run_is_described_whole() -> None:
    text = flat("model=nano", "hardware=cpu", "hardware.memory_gb=8", "warm_start=none", "algo=grpo")
    assert "1 process: 1 learner process (torch, float32), an engine in each (torch, float32)" in text
    assert "memory this machine: " in text
    assert "of 8.0 GB: fits" in text
    assert "sbatch" not in text
    assert text.endswith("command rlx train model=nano hardware=cpu hardware.memory_gb=8 warm_start=none algo=grpo")


def test_what_cannot_be_is_refused_before_the_plan_and_what_does_not_fit_after_it() -> None:
    told: list[str] = []
    with pytest.raises(ObjectiveError):
        check_plan(prospect_of("objective=nothing"), lambda: told.append("all"))
    assert told == []
    with raises_naming(FitError, "cannot fit"):
        check_plan(prospect_of("hardware.memory_gb=0.1"), lambda: told.append("all"))
    assert told == ["all"]


def test_a_large_run_shows_its_budgets_and_its_batch_script() -> None:
    text, words = plan(*LARGE), flat(*LARGE)
    assert "2 machines of 8 GPUs: 16 learner processes (deepspeed, ZeRO 3, bfloat16), an engine in each (vllm" in words
    assert "memory sampling, each of 16 devices: " in words
    assert "memory updating, each of 16 devices: " in words
    for name in ("weights", "reference", "gradients", "optimizer", "activations", "engine weights", "KV cache"):
        assert f"\n{' ' * LEFT}{name} " in text
    assert "#SBATCH --nodes=2" in text
    assert "#SBATCH --mem=" in text
    assert text.rstrip().splitlines()[-1].endswith("hydra/launcher=slurm")


def test_what_cannot_be_seen_of_a_value_is_escaped() -> None:
    assert r"stops=['\n']" in flat("protocol=direct", "algo=rebn", "env=game/hangman")


def test_what_is_offloaded_is_told() -> None:
    assert "GB for optimizer and gradients, offloaded" in flat("hardware=h200x8x2_async", "model=qwen2_5_72b")


def test_a_model_of_unknown_shape_has_no_estimate() -> None:
    assert "no estimate of memory" in plan("model.path=nobody/nothing")


@for_each(
    "profile, words, start",
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


@for_each(
    "words",
    [
        ["model=qwen2_5_7b", "hardware=a100x8x2"],
        ["model=qwen2_5_0_5b", "hardware=gpu1"],
        ["model=qwen2_5_7b", "hardware=a100x8", "+model/lora=r32"],
        ["model=qwen2_5_72b", "hardware=h200x8x2_async"],
        ["algo=tool_rloo", "model=qwen2_5_0_5b", "evaluate=paper", "hardware=h100x1"],
    ],
)
def test_lines_are_80_wide_but_for_what_is_to_be_copied_whole(words: list[str]) -> None:
    lines = plan(*words).splitlines()
    wide = [line for line in lines[: lines.index("sbatch")] if len(line) > 80]
    assert [line for line in wide if len(line.split()) > 1] == [], "a word is not broken, and no line has two too many"


def test_it_shows_the_settings_that_suit_the_model() -> None:
    words = flat("model=qwen2_5_7b", "hardware=a100x8x2").split()
    for setting in (
        "optimizer.lr=1e-06",
        "algo.optimizer.lr=1e-05",
        "num_prompts=64",
        "max_new_tokens=4096",
        "steps=200",
    ):
        assert setting in words, setting


def test_a_critic_is_part_of_the_plan_at_the_rate_that_suits_the_model() -> None:
    small, large = flat("algo=ppo", "env=game/guess_the_number"), flat("algo=ppo", "model=qwen2_5_7b")
    assert "critic=Critic critic.lr=0.0002" in small
    num, num_trained = (
        int(found.replace(",", "")) for found in re.findall(r"([\d,]+) (?:parameters|of them)", small)[:2]
    )
    assert num_trained > num, "the head is beside the model"
    assert "critic=Critic critic.lr=1e-05" in large


def test_twins_may_double_what_is_played() -> None:
    plain, twins = flat("algo=expa_grpo", "env=sorting/sort"), flat("algo=earl", "env=sorting/sort")
    assert "run 40 steps, 2,560 episodes," in plain
    assert "run 40 steps, 2,560 episodes and at most 2,560 forks," in twins
    assert "forks may add as much rollout again" in twins
    assert "forks may add" not in plain


def test_forks_that_are_always_played_are_counted_in_episodes_tokens_and_time() -> None:
    lite = flat("algo=carl_lite", "env=countdown")
    assert "run 40 steps, 320 episodes and 5,120 forks," in lite
    assert "forks of a task follow one another" in lite
    assert episodes_a_task(Sampler(num_episodes=1, num_forks=16, forks_always=True), turns=5) == 1 + 16 * 6 / 10
    assert episodes_a_task(Sampler(num_episodes=8, num_forks=16, forks_always=True), turns=1) == 24
    assert episodes_a_task(Sampler(num_episodes=8, num_forks=8), turns=5) == 8


@pytest.mark.parametrize(("model", "rows"), [("nano", "description"), ("qwen3_4b", "word"), ("qwen2_5_7b", "word")])
def test_rows_of_actions_are_fitted_for_the_embedded_model_alone(model: str, rows: str) -> None:
    tree = compose(["env=lend", "algo=earl", f"model={model}", "hardware=a100x8"])
    assert tree["protocol"]["rows"] == rows


def test_no_key_of_a_run_is_left_out() -> None:
    tree = compose(["algo=grpo", "hardware=a100x8x2", "model=qwen2_5_7b", "warm_start=tool_sft"])
    said = " ".join(" ".join(line.split()) for line in describe_settings(tree))
    derived = ("model.recipe", "model.shape")
    keys = [key for key in flatten(tree) if not key.endswith("_target_") and not key.startswith(derived)]
    assert len(keys) > 90
    for key in keys:
        assert f" {key.partition('.')[2] or key}=" in f" {said}", key
    assert "protocol Tags" in said
    assert "algo grpo" in said
    assert "warm_start WarmStart steps=" in said
    assert "algo=tool_sft algo.num_prompts=" in said


def test_values_that_all_parts_of_a_mixture_have_stand_once() -> None:
    parts = {"x": {"weight": 1, "env": {"n": 2, "m": 3}}, "y": {"weight": 4, "env": {"n": 2}}}
    tree = {"env": {"a": 1, "parts": parts}}
    said = " ".join(line[LEFT:] for line in describe_settings(tree)).split()
    assert said == ["a=1", "parts.x.weight=1", "parts.y.weight=4", "parts.*.env.n=2", "parts.x.env.m=3"]


def test_settings_are_spelled_as_one_would_override_them() -> None:
    tree = compose(["model=qwen2_5_3b", "algo.loss.kl=0.5"])
    rows = {row[:LEFT].strip(): row[LEFT:].split() for row in describe_settings(tree)}
    words = [f"{part}.{word}" for part in ("model", "checkpoint") for word in rows[part][1:]]
    assert compose(["model=qwen2_5_3b", "algo.loss.kl=0.5", *words]) == tree
    assert "kl=0.5" in " ".join(describe_settings(tree))


def first(*words: str, given: LengthHints = NO_HINTS) -> str:
    """The lines before the settings, on one line."""
    text = describe_plan(prospect_of(*words, given=given), words)
    return " ".join(text.partition("\n\n")[0].split())


def test_the_verdict_comes_first() -> None:
    said = first("model=qwen2_5_7b", "hardware=a100x8x2")
    assert said.startswith("verdict fits: ")
    assert "limit most of a step is " in said
    assert first("model=qwen2_5_7b", "hardware=a100x1").startswith("verdict it will NOT fit: ")
    assert first("model.path=nobody/nothing").startswith("verdict nothing is known")


def test_one_time_where_the_length_is_known_and_a_usual_one_in_a_bracket_where_it_is_not() -> None:
    large = ("model=qwen2_5_7b", "hardware=a100x8x2", "algo=ppo")
    unknown = first(*large)
    assert re.search(r"time [\d,]+ tokens: .* if episodes are as long as usual \(model\.recipe\.usual_turn\)", unknown)
    assert len(re.findall(r"[\d,]+ tokens: [\d.]+ \w+, [\d,.]+ GPU-hours", unknown)) == 3
    assert "(all that fits: sampling.max_new_tokens=" in unknown
    assert "--tokens N" in unknown
    known = first(*large, given=LengthHints(tokens=800))
    assert len(re.findall(r"[\d,]+ tokens: ", known)) == 1
    assert "time 800 tokens: " in known
    assert "within a factor of two; twice the tokens take " in known


def test_the_time_of_a_warm_start_that_doubles_is_stated() -> None:
    """Nano's warm start may double three times, and one of a given length never."""
    assert re.search(r"the longest warm start takes [\d.]+ min more", first())
    assert "longest warm start" not in first("warm_start.steps=31")
    assert "longest warm start" not in first("warm_start=none")


def test_time_and_disk_are_estimates_and_say_so() -> None:
    text = flat("model=qwen2_5_7b", "hardware=a100x8x2")
    assert "91.4 GB a checkpoint, one every 50 steps: 4 and 365.5 GB in all; 2 are kept" in text
    assert "within a factor of two, from an A100's published peaks" in text
    assert "runs on one thread of an AMD EPYC" in flat()


def test_gpus_that_would_be_idle_are_told() -> None:
    assert "IDLE 16 of 32 engines sample nothing: a step has 16 episodes" in flat(
        "algo.num_prompts=1", "algo.optimizer.num_minibatches=1", "algo.num_samples=16", "hardware=a100x8x4"
    )
    assert "IDLE" not in flat("algo.num_prompts=16", "hardware=a100x8x4")
    assert "IDLE" not in flat("algo=sft", "algo.num_prompts=1", "hardware=a100x8x4"), "nothing is sampled"
    assert "IDLE" not in flat("model=qwen2_5_7b", "hardware=a100x8x4")


def test_a_gpu_that_nothing_names_has_no_time() -> None:
    assert "hardware.gpu=a100, h100 or h200" in first("hardware=gpu1")
    assert "GPU-hours" not in flat("hardware=gpu1")
    assert "from an H100's published peaks" in flat("hardware=gpu1", "hardware.gpu=h100")


def test_a_card_without_published_runs_has_a_time_that_claims_no_precision() -> None:
    said = flat("hardware=gpu24x1", "model=qwen2_5_0_5b", "hardware.gpu=rtx4090")
    assert "from an RTX 4090's published peaks and the shares of them that published runs of other GPUs reached" in said
    assert "checked by no run on such a GPU" in said
    assert "within a factor of two" not in said
    assert "benchmarks/bench_gpu.py" in flat("hardware=gpu24x1"), "what a user of another GPU gets"


def test_what_a_run_does_beside_its_steps_is_told_and_counted() -> None:
    words = ("model=qwen2_5_7b", "hardware=a100x8x2")
    said = flat(*words)
    assert "rehearsal 3 episodes of the environment, played twice with a script instead of a model, before the" in said
    assert "evaluation 3 of 800 episodes each (of the untrained model, the start and the end): about " in said
    told = flat(*words, "evaluate.interval=50", "steps=100")
    assert "evaluation 4 of 800 episodes each (of the untrained model, the start, every 50 steps and the end)" in told
    told = flat(*words, "evaluate.interval=50", "steps=0")
    assert "evaluation 2 of 800 episodes each (of the untrained model, the start, which is the end)" in told
    assert "182.8 GB more for the warm start's 2 checkpoints, in " in said
    assert "at an assumed 0.5 GB/s to write and 1 GB/s to read again, and 37 min in all, counted in the time" in said
    assert "grace a job is warned 13 min before its limit, to end its update and write 91.4 GB at an assumed" in said
    assert "#SBATCH --signal=B:USR2@780" in said
    few, many = (prospect_of(*words, f"checkpoint.interval={every}").forecast for every in ("200", "1"))
    assert few is not None
    assert many is not None
    seconds = [seconds for forecast in (few, many) for _, seconds in forecast.totals]
    assert seconds[1] - seconds[0] == pytest.approx(358 * save_seconds(12 * 7_615_616_512)), "360 against 2"
    assert "rehearsal" not in flat("steps=0")
    assert "rehearsal 3 episodes of each of first, second," in flat("env=mixture", "algo=grpo")


def test_a_run_that_cannot_start_says_so_first_with_a_key_that_works() -> None:
    words = ("model=qwen2_5_14b", "+model/lora=r32", "hardware=h100x1")
    assert not first(*words).startswith("verdict it will NOT"), "the share is chosen"
    said = first(*words, "hardware.engine_memory=0.4")
    assert said.startswith("verdict it will NOT start: hardware.engine_memory=0.4 of 80.0 GB is 32.0 GB")
    assert "time none, as it cannot start" in said
    for way in re.findall(r"hardware\.engine_memory=0\.[\d]+", said)[1:]:
        assert not first(*words, way).startswith("verdict it will NOT"), way
    (tried,) = re.findall(r"try these words fit this machine: (.+?) time none", said)
    assert "hardware.engine_memory=null" in tried
    assert first(*words, "hardware.engine_memory=0.4", *tried.split()).startswith("verdict fits")
    full = first(*words, "hardware.engine_memory=0.5")
    (way,) = re.findall(r"if so, (hardware\.micro_batch_tokens=\d+)", full)
    assert first(*words, "hardware.engine_memory=0.5", way).startswith("verdict fits")


def test_a_context_that_no_episode_can_use_is_told_with_its_keys() -> None:
    words = ("model=qwen2_5_7b", "env=math", "hardware=a100x8x2", "model.max_context=32768")
    assert "UNUSED an episode samples at most 4,096 tokens, of sampling.max_context=32768" in first(*words)
    assert "UNUSED" not in first(*words, "sampling.max_new_tokens=30000")
    assert "UNUSED" not in first(*words[:3])


def test_a_cache_that_holds_few_of_the_episodes_is_told_with_a_share_that_fits() -> None:
    words = ("model=qwen2_5_7b", "+model/lora=r32", "hardware=h100x1", "env=math", "sampling.max_new_tokens=8000")
    tokens = LengthHints(tokens=7000)
    said = first(*words, "hardware.engine_memory=0.3", given=tokens)
    assert "CROWDED an engine's cache holds " in said
    (share,) = re.findall(r"raise hardware\.engine_memory to (0\.\d+)", said)
    assert first(*words, f"hardware.engine_memory={share}").startswith("verdict fits")
    assert "CROWDED" not in first("model=qwen2_5_0_5b", "hardware=h100x1")


def test_the_limit_of_a_step_names_a_key() -> None:
    assert "sampling (67%); a lower sampling.max_new_tokens" in first("model=qwen2_5_0_5b", "hardware=h100x1")
    served = first("model=qwen2_5_72b", "hardware=h200x8x2_async")
    assert "the weights' way to the engines (57%); a larger algo.num_prompts" in served
    small = ("model=qwen2_5_0_5b", "hardware=a100x1", "algo.num_samples=64")
    assert "hardware.recompute=false saves a fifth of the update and fits" in first(*small)
    assert "all 8,067 that fit " in first("model=qwen2_5_7b", "hardware=a100x8"), "the most that it may cost"


def test_a_model_type_that_rlx_cannot_size_is_named_in_place_of_an_estimate() -> None:
    words = ("model=qwen2_5_7b", "hardware=a100x8", "model.shape.model_type=dbrx")
    said = flat(*words)
    assert said.startswith("verdict nothing is known of memory, time or disk: ")
    assert said.count("dbrx") >= 3, "of the verdict, the time and the model"
    assert "GPU-hours" not in said
    assert prospect_of(*words).forecast is None


def test_the_share_that_was_chosen_stands_in_the_plan_with_its_reason() -> None:
    words = ("model=qwen2_5_7b", "hardware=a100x8", "algo=grpo")
    share = prospect_of(*words).share
    assert share is not None
    assert f"chosen hardware.engine_memory={share.share:g}: {share.reason}" in flat(*words)
    assert "chosen hardware.engine_memory" not in flat(*words, "hardware.engine_memory=0.5")
    assert "chosen hardware.engine_memory" not in flat("hardware=cpu")


def test_numbers_for_people() -> None:
    assert clock(99.6) == "1.7 min"
    assert [short(num) for num in (7, 1500, 71_700_000, 3 * 10**9)] == ["7", "1.5k", "71.7M", "3G"]
    assert [clock(num) for num in (0.001, 0.25, 14, 210, 7560, 400_000)] == [
        "0 s",
        "0.25 s",
        "14 s",
        "3.5 min",
        "2.1 h",
        "4.6 days",
    ]


def test_every_preset_has_a_verdict_and_a_time() -> None:
    for preset in read_presets():
        words = [f"+paper={preset}"]
        prospect = Prospect(
            run=build_run(compose(words), Path()), length_hints=LengthHints(published=published_lengths(words))
        )
        assert prospect.forecast is not None, preset
        assert describe_plan(prospect, words).startswith("verdict"), preset
