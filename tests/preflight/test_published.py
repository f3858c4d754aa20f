"""Hold the estimate of a step to runs that others published, with their lengths: within a factor of two.

Rows are whole steps and updates. What is published without lengths or without a time is named below and stands for
nothing: of such a run the plan says no time (tests/run/test_duration.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from rlx.hardware.profile import Hardware
from rlx.model.shape import Shape, read_shape
from rlx.plan.peaks import H100, H200
from rlx.plan.scaling import estimate_step
from rlx.plan.step import Load
from rlx.settings.build import build_value
from rlx.settings.folders import read_option
from tests.loops import for_each

LLAMA_1B = Shape(
    width=2048,
    layers=16,
    heads=32,
    key_heads=8,
    head_size=64,
    feed_forward=8192,
    vocabulary=128256,
    tied=True,
    biased=False,
)
LLAMA_8B = replace(LLAMA_1B, width=4096, layers=32, head_size=128, feed_forward=14336, tied=False)
QWEN3_32B = replace(LLAMA_8B, width=5120, layers=64, heads=64, feed_forward=25600, vocabulary=151936, normed=True)


def model(name: str) -> Shape:
    return read_shape(read_option("model", name)["shape"])


@dataclass(frozen=True, kw_only=True)
class Published:
    """A run that somebody published: what it did, how long a step took, and where that is written."""

    shape: Shape
    load: Load
    seconds: float
    source: str
    hardware: dict[str, Any] = field(default_factory=dict)
    """Changes to the profile h100x8."""


STEPS = {
    "verl, 0.5B, GSM8K, 8 H100": Published(
        shape=model("qwen2_5_0_5b"),
        load=Load(episodes=512, samples=2, prompt=104, sampled=146, observed=0, longest=192, reference=True),
        seconds=6.6,
        source="github.com/dingxianzhong/play-verl, logs/verl_grpo_qwen2.5b_8gpu.log, steps 17 to 25",
    ),
    "verl, 1B, GSM8K, 8 H100, four episodes a micro-batch": Published(
        shape=LLAMA_1B,
        load=Load(episodes=5120, samples=5, prompt=107, sampled=183, observed=0, longest=1024, reference=True),
        seconds=74.7,
        source="veRL Benchmark Report: GRPO + LLaMA3.2-1B on GSM8K, wandb verl_grpo_example_gsm8k/w73j5mdv",
        hardware={"micro_batch_tokens": 4 * 290},
    ),
    "verl, 7B, GSM8K, 8 H100": Published(
        shape=model("qwen2_5_7b"),
        load=Load(episodes=5120, samples=5, prompt=93, sampled=232, observed=0, longest=1024, reference=True),
        seconds=83.1,
        source="veRL Benchmark Report: GRPO + Qwen2.5-7B on GSM8K, 105 steps in 2:25:28",
    ),
    "NeMo-RL 0.4, 8B, mathematics, 16 H100": Published(
        shape=LLAMA_8B,
        load=Load(episodes=2048, samples=32, prompt=100, sampled=960, observed=0, longest=3840, reference=True),
        seconds=97.7,
        source="docs.nvidia.com/nemo/rl/latest/about/performance-summary.html, average sequence 1,060 of 4,096",
        hardware={"num_nodes": 2, "num_processes": 16, "zero_stage": 3},
    ),
    "NeMo-RL 0.4, 32B, mathematics, 64 H100, a step behind": Published(
        shape=QWEN3_32B,
        load=Load(episodes=2048, samples=32, prompt=100, sampled=3100, observed=0, longest=3996, reference=True),
        seconds=215,
        source="the same page, average sequence 3,207 of 4,096",
        hardware={
            "num_nodes": 8,
            "num_processes": 32,
            "zero_stage": 3,
            "num_servers": 8,
            "tensor_parallel": 4,
            "staleness": 1,
            "engine_memory": 0.85,
        },
    ),
}

UPDATES = {
    "0.6B, 16k, 1 H100": (model("qwen3_0_6b"), 1, 16_384, None, 16_450),
    "0.6B, 64k, 1 H100": (model("qwen3_0_6b"), 1, 65_536, None, 10_765),
    "4B LoRA, 16k, 1 H100": (model("qwen3_4b"), 1, 16_384, 33_000_000, 6_230),
    "4B LoRA, 64k, 1 H100": (model("qwen3_4b"), 1, 65_536, 33_000_000, 4_160),
    "4B, 16k, 8 H100": (model("qwen3_4b"), 8, 16_384, None, 55_900),
    "4B, 64k, 8 H100": (model("qwen3_4b"), 8, 65_536, None, 34_600),
}
"""Tokens a second of an update of prime-rl's RL trainer, two micro-batches of one sequence a GPU: of its `step_time`,
which holds forward, backward and the optimizer. Its `throughput` counts the broadcast of the weights too."""

OURS = {
    "0.6B, 16k": ("qwen3_0_6b", 16_384, None, 1.72),
    "0.6B, 64k": ("qwen3_0_6b", 65_536, None, 14.62),
    "4B, 16k": ("qwen3_4b", 16_384, None, 4.89),
    "0.6B LoRA, 16k": ("qwen3_0_6b", 16_384, 10_092_544, 1.83),
    "4B LoRA, 16k": ("qwen3_4b", 16_384, 33_030_144, 5.04),
}
"""Seconds of our own updates of two sequences on one H200 (docs/performance.md)."""

SILENT = (
    "GEM (arXiv:2510.01051): 500 steps on 8 A100 in about one day; no lengths but a limit of 4,096 tokens a turn",
    "TinyZero: 3B on Countdown for less than 30 dollars; neither hours nor lengths",
    "EARL (sorting, 3B): 2 A100 and at most 384 tokens; no time",
    "DeepScaleR-1.5B: 3,800 A100-hours in three stages; lengths of the first alone",
)


def profile(**changes: Any) -> Hardware:
    hardware: Hardware = build_value(read_option("hardware", "h100x8") | changes, "hardware")
    return hardware


@for_each("name", STEPS)
def test_a_step_is_estimated_within_a_factor_of_two_of_what_was_published(name: str) -> None:
    run = STEPS[name]
    load = replace(run.load, updates=4)
    found = estimate_step(run.shape, profile(**run.hardware), H100, load).seconds
    assert run.source
    assert 0.5 < found / run.seconds < 2


@for_each("name", UPDATES)
def test_an_update_is_estimated_within_a_third_of_what_was_published(name: str) -> None:
    shape, gpus, length, trained, published = UPDATES[name]
    many = {"num_processes": gpus, "zero_stage": 3} if gpus > 1 else {"learner": "torch", "num_processes": 1}
    stage = {"zero_stage": 0} if gpus == 1 else {}
    hardware = profile(**many, **stage, micro_batch_tokens=length, importance_cap=None)
    episodes = 2 * gpus
    load = Load(episodes=episodes, samples=1, prompt=1, sampled=length, observed=0, plays=False, trained=trained)
    found = episodes * length / estimate_step(shape, hardware, H100, load).update
    assert 1 / 1.33 < found / published < 1.33


@for_each("name", OURS)
def test_an_update_is_estimated_within_a_third_of_what_we_measured(name: str) -> None:
    shape, length, trained, measured = OURS[name]
    hardware = profile(num_processes=1, learner="torch", zero_stage=0, micro_batch_tokens=length, importance_cap=None)
    load = Load(episodes=2, samples=1, prompt=1, sampled=length, observed=0, plays=False, trained=trained)
    found = estimate_step(model(shape), hardware, H200, load).update
    assert 1 / 1.33 < found / measured < 1.33
