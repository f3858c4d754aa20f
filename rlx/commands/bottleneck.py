"""Line of `rlx plan` about the largest part of a step, and the keys that make it smaller."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from rlx.commands.text import row
from rlx.commands.timing import Timing
from rlx.hardware.profile import Hardware
from rlx.preflight.duration import estimate
from rlx.preflight.fit import demand_of, device_memory
from rlx.preflight.memory import budgets
from rlx.preflight.step import StepTime
from rlx.run.run import Run

PARTS = {
    "decode": "sampling",
    "prefill": "reading prompts",
    "update": "the update",
    "messages": "messages between processes",
    "optimizer": "the optimizer",
    "sync": "the weights' way to the engines",
    "host": "Python on every process",
}
"""Parts of a step, as a person calls them."""


def describe_limits(timing: Timing) -> list[str]:
    """Name the largest part of a step, at each length where it is another, and the keys that make it smaller."""
    shape, machine = timing.shape, timing.machine
    if shape is None or machine is None:
        return []
    steps = [(load.sampled, estimate(timing.main, load, shape, machine)) for load in timing.main.loads]
    groups = [(PARTS[limit], list(same)) for limit, same in groupby(steps, key=lambda pair: pair[1].limit)]
    if len(groups) == 1:
        _, step = steps[len(steps) // 2]
        text = f"most of a step is {groups[0][0]} ({100 * share(step):.0f}%)"
    else:
        text = "most of a step is " + ", ".join(f"{name} up to {same[-1][0]:,} tokens" for name, same in groups)
    ways = dict.fromkeys(way for _, step in steps if (way := shorten(timing, step.limit)))
    return row("limit", "; ".join([text, *ways]))


def share(step: StepTime) -> float:
    """Return the share of a step's seconds that its largest part takes."""
    largest = {"decode": step.decode, "prefill": step.prefill, "update": step.compute, "messages": step.messages}
    largest |= {"optimizer": step.optimizer, "sync": step.sync, "host": step.host}
    return largest[step.limit] / sum(largest.values())


def shorten(timing: Timing, limit: str) -> str:
    """Return the keys that make the largest part of a GPU's step shorter; empty where there are none."""
    run = timing.run
    if run.hardware.device == "cpu":
        return ""
    ways = {
        "decode": "a lower sampling.max_new_tokens ends the longest episodes sooner",
        "prefill": "a larger hardware.engine_memory keeps more contexts",
        "update": faster_update(run),
        "messages": "a larger hardware.micro_batch_tokens sends less often",
        "optimizer": "hardware.offload=false is faster, where it fits" if run.hardware.offload else "",
        "sync": "a larger algo.num_prompts moves the weights less often for as many episodes",
        "host": "fewer tokens a step: algo.num_prompts, algo.num_samples",
    }
    return ways[limit]


def faster_update(run: Run) -> str:
    """Return the key that saves the update a pass, if memory allows it; else what more devices do."""
    if run.hardware.recompute and fits(run, replace(run.hardware, recompute=False)):
        return "hardware.recompute=false saves a fifth of the update and fits"
    return "more GPUs share it (`rlx list hardware`)"


def fits(run: Run, hardware: Hardware) -> bool:
    """Tell whether every budget of the run fits its devices surely, with such hardware."""
    demand, have = demand_of(run), device_memory(hardware)
    if demand is None or have is None:
        return False
    return all(budget.total.most <= have for budget in budgets(hardware, demand, have))
