"""Print the tables of docs/scaling.md: `python scripts/scaling.py`. Loads nothing and measures nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from rlx.hardware.profile import Hardware
from rlx.hardware.sizing.amounts import Demand
from rlx.hardware.sizing.budgets import budgets
from rlx.hardware.sizing.share import choose_share, device_memory
from rlx.model.shape import Shape, read_shape
from rlx.plan.peaks import MACHINES
from rlx.plan.scaling import estimate_step
from rlx.plan.step import Load, StepTime
from rlx.settings.build import build_value
from rlx.settings.folders import read_option

MODELS = ("0_5b", "1_5b", "3b", "7b", "14b", "32b", "72b")
PROFILES = ("a100x1", "a100x8", "a100x8_async", "a100x8x2", "h100x8", "h200x8", "h200x8x2", "h200x8x2_async")
LOAD = Load(longest=800)
"""16 prompts x 16 samples of 200 tokens, 800 at most, with 50 tokens of tool output: as small models play Countdown."""


def read_model(name: str) -> Shape:
    return read_shape(read_option("model", f"qwen2_5_{name}")["shape"])


def read_profile(name: str, **changes: Any) -> Hardware:
    hardware: Hardware = build_value(read_option("hardware", name) | changes, "hardware")
    return hardware


def settle(shape: Shape, hardware: Hardware, load: Load) -> Hardware | None:
    """Return the profile with the engine's share chosen; None where even the lower bound of memory does not fit."""
    context = 2 * (load.prompt + load.sampled + load.observed)
    demand = Demand(shape=shape, num_trained=shape.num_parameters, max_context=context, num_episodes=load.episodes)
    have = device_memory(hardware)
    share = choose_share(hardware, demand, have)
    chosen = hardware if share is None else replace(hardware, engine_memory=share.share)
    is_small = have is None or all(budget.total.least <= have for budget in budgets(chosen, demand, have))
    return chosen if is_small else None


def entry(shape: Shape, profile: str, load: Load = LOAD, **changes: Any) -> str:
    hardware = settle(shape, read_profile(profile, **changes), load)
    if hardware is None:
        return "-"
    step = estimate_step(shape, hardware, MACHINES[profile[:4]], load)
    return f"{seconds(step.seconds)} {step.limit}"


def parts(step: StepTime) -> list[str]:
    durations = (
        step.decode,
        step.prefill,
        step.compute,
        step.messages,
        step.optimizer,
        step.sync,
        step.host,
        step.seconds,
    )
    return [seconds(part) for part in durations]


def seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [title, "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])


def by_profile() -> str:
    rows = ([name.replace("_", ".").upper(), *(entry(read_model(name), p) for p in PROFILES)] for name in MODELS)
    return table("Seconds a step and its largest part, by model and profile:", ["", *PROFILES], rows)


def by_part(model: str, profiles: Sequence[str]) -> str:
    shape = read_model(model)
    settled = {p: settle(shape, read_profile(p), LOAD) for p in profiles}
    steps = {
        p: estimate_step(shape, chosen, MACHINES[p[:4]], LOAD) for p, chosen in settled.items() if chosen is not None
    }
    head = ["", "decode", "prefill", "update", "messages", "optimizer", "sync", "Python", "step"]
    title = f"Seconds of each part, {model.replace('_', '.').upper()}:"
    return table(title, head, ([p, *parts(step)] for p, step in steps.items()))


def by_load(title: str, values: Sequence[int], change: Callable[[int], Load]) -> str:
    cases = (("0_5b", "a100x8"), ("7b", "a100x8"), ("32b", "h200x8x2"), ("72b", "h200x8x2_async"))
    head = ["", *(f"{model.replace('_', '.').upper()} on {profile}" for model, profile in cases)]
    rows = ([str(value), *(entry(read_model(m), p, change(value)) for m, p in cases)] for value in values)
    return table(title, head, rows)


def main() -> None:
    print(by_profile())
    print(by_part("7b", PROFILES))
    print(by_part("72b", ["h200x8x2_async"]))
    print(
        by_load(
            "By tokens sampled in an episode:",
            (200, 1000, 4000, 16000),
            lambda n: replace(LOAD, sampled=n, longest=min(4 * n, 32000)),
        )
    )
    print(by_load("By episodes a step:", (64, 256, 1024, 4096), lambda n: replace(LOAD, episodes=n)))


if __name__ == "__main__":
    main()
