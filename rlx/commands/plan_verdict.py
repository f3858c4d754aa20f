"""First lines of `rlx plan`: verdict on memory, time with its limit, idle devices, each with the key to change."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from rlx.base.console import format_count
from rlx.cluster.sbatch import HOURS
from rlx.commands.text import between, clock, hours, precision, row
from rlx.hardware.sizing.fit import EngineError
from rlx.plan.expected import TAIL
from rlx.plan.forecast import Forecast
from rlx.plan.measured import ENOUGH
from rlx.plan.prospect import Prospect
from rlx.plan.search import describe_fitting
from rlx.plan.step import Load, StepTime
from rlx.run.alarm import drift_warning

REFUSED = "it will NOT"
"""Beginning of the verdict on a run that cannot start."""
HOW = f"Say --tokens N, or plan run=DIR, a run that has taken {ENOUGH} steps."
NO_GPU = (
    "nothing says which GPU it is: hardware.gpu=a100, h100 or h200, or another that `rlx keys hardware.gpu` lists. Of "
    "other GPUs rlx estimates memory (hardware.memory_gb) and no time; benchmarks/bench_gpu.py measures it there"
)
CROWDED = 0.25
"""Share of the episodes under way whose context the cache does not hold, above which the plan warns."""
FASTER = 0.75
"""Share of a step's time below which the plan names the configuration that is faster."""
LIMIT_NAMES = {
    "decode": "sampling",
    "prefill": "reading prompts",
    "update": "the update",
    "messages": "messages between processes",
    "optimizer": "the optimizer",
    "sync": "the weights' way to the engines",
    "host": "Python on every process",
}
"""Parts of a step, as a person calls them."""


def describe_verdict(prospect: Prospect) -> list[str]:
    """Describe the verdict on memory, the time with its limit, and faults of the settings."""
    fit = describe_fit(prospect)
    if fit.startswith(REFUSED):
        words = row("try", describe_fitting(prospect.fitting))
        return [*row("verdict", fit), *words, *row("time", "none, as it cannot start"), ""]
    lines = [*row("verdict", fit), *describe_total(prospect), *describe_limits(prospect)]
    return [*lines, *describe_warnings(prospect), ""]


def describe_fit(prospect: Prospect) -> str:
    """Say of the fullest budget whether it fits, and whether the engine starts."""
    if prospect.demand is None:
        return f"nothing is known of memory, time or disk: {prospect.why_unsized}"
    if isinstance(prospect.misfit, EngineError):
        return f"{REFUSED} start: {str(prospect.misfit).removeprefix('it cannot fit: ')}"
    fullest, verdict = prospect.fullest
    where = f"{fullest.name}, each of {fullest.devices} devices" if fullest.devices > 1 else fullest.name
    amount, _, text = verdict.partition(": ")
    if prospect.device_memory is None:
        return f"{between(fullest.total)} {amount}: {text}"
    state, _, remedy = text.partition(", ")
    return f"{state}: {between(fullest.total)} {amount} ({where})" + (f", {remedy}" if remedy else "")


def describe_total(prospect: Prospect) -> list[str]:
    """Say how long the run takes, or what that depends on."""
    forecast = prospect.forecast
    if forecast is None:
        return row("time", f"no estimate: {prospect.why_unsized if prospect.shape is None else NO_GPU}")
    costs = [cost(prospect, load, seconds) for load, seconds in forecast.totals]
    if prospect.measured is not None and prospect.is_measured:
        done = format_count(prospect.measured.steps, "step")
        return row("time", f"{costs[0].strip()}, as measured, for what is left after {done}")
    if prospect.main.expected.is_certain:
        longer = describe_longer(forecast) + describe_extension(forecast)
        return row("time", f"{costs[0].strip()}, {precision(forecast.timer)}{longer}")
    low, usual, most = (cost.strip() for cost in costs)
    checked, source = precision(forecast.timer), prospect.main.expected.usual_source
    lines = row("time", f"{usual}, {checked}, if episodes are as long as usual ({source})")
    lines += row("", f"between {low}, and {most} (all that fits: {fitting(prospect)})")
    return lines + row("", HOW)


def cost(prospect: Prospect, load: Load, seconds: float) -> str:
    """Spell what a run takes at a length of episodes."""
    devices, is_gpu = prospect.hardware.num_devices, prospect.hardware.device == "cuda"
    unit = "GPU-hours" if is_gpu else "process-hours"
    spent = f", {hours(seconds * devices)} {unit}" if devices > 1 or is_gpu else ""
    return f"{load.sampled:>9,} tokens: {clock(seconds)}{spent}"


def describe_longer(forecast: Forecast) -> str:
    """Describe the cost of longer episodes, which a policy may learn: of twice the length, and of the limit."""
    load, most = forecast.main.load, forecast.main.expected.most
    if not load.plays:
        return ""
    twice = f"; twice the tokens take {clock(seconds_at(forecast, 2 * load.sampled))}"
    limit = f", all {most:,} that fit {clock(seconds_at(forecast, most))} (sampling.max_new_tokens caps them)"
    return twice + (limit if most > 2 * load.sampled else "")


def seconds_at(forecast: Forecast, tokens: int) -> float:
    """Estimate the whole run with episodes of so many sampled tokens."""
    longest = min(TAIL * tokens, max(forecast.main.expected.most, tokens))
    return forecast.seconds(replace(forecast.main.load, sampled=tokens, longest=longest))


def describe_extension(forecast: Forecast) -> str:
    """Say how much longer a run becomes if its warm starts double as often as they may."""
    seconds = sum(
        (stage.num_extended - stage.run.steps) * forecast.times[stage.name][len(stage.loads) // 2].seconds
        for stage in forecast.stages[:-1]
    )
    return f"; the longest warm start takes {clock(seconds)} more" if seconds else ""


def fitting(prospect: Prospect) -> str:
    """Name the keys that limit the tokens of an episode, with their values."""
    sampling = prospect.run.sampling
    return f"sampling.max_new_tokens={sampling.max_new_tokens} and sampling.max_context={sampling.max_context}"


def describe_limits(prospect: Prospect) -> list[str]:
    """Name the largest part of a step, at each length where it is another, and the keys that make it smaller."""
    if prospect.forecast is None:
        return []
    steps = list(zip(prospect.main.loads, prospect.forecast.times[prospect.main.name]))
    groups = [(LIMIT_NAMES[limit], list(same)) for limit, same in groupby(steps, key=lambda pair: pair[1].limit)]
    if len(groups) == 1:
        _, step = steps[len(steps) // 2]
        text = f"most of a step is {groups[0][0]} ({100 * share(step):.0f}%)"
    else:
        text = "most of a step is " + ", ".join(f"{name} up to {same[-1][0].sampled:,} tokens" for name, same in groups)
    ways = dict.fromkeys(way for _, step in steps if (way := shorten(prospect, step.limit)))
    return row("limit", "; ".join([text, *ways]))


def share(step: StepTime) -> float:
    """Return the share of a step's seconds that its largest part takes."""
    largest = {"decode": step.decode, "prefill": step.prefill, "update": step.compute, "messages": step.messages}
    largest |= {"optimizer": step.optimizer, "sync": step.sync, "host": step.host}
    return largest[step.limit] / sum(largest.values())


def shorten(prospect: Prospect, limit: str) -> str:
    """Return the keys that make the largest part of a GPU's step shorter; empty where there are none."""
    hardware = prospect.hardware
    if hardware.device == "cpu":
        return ""
    ways = {
        "decode": "a lower sampling.max_new_tokens ends the longest episodes sooner",
        "prefill": "a larger hardware.engine_memory keeps more contexts",
        "update": faster_update(prospect),
        "messages": "a larger hardware.micro_batch_tokens sends less often",
        "optimizer": "hardware.offload=false is faster, where it fits" if hardware.offload else "",
        "sync": "a larger algo.num_prompts moves the weights less often for as many episodes",
        "host": "fewer tokens a step: algo.num_prompts, algo.num_samples",
    }
    return ways[limit]


def faster_update(prospect: Prospect) -> str:
    """Return the key that saves the update a pass, if memory allows it; else what more devices do."""
    if prospect.hardware.recompute and prospect.fits_without_recompute:
        return "hardware.recompute=false saves a fifth of the update and fits"
    return "more GPUs share it (`rlx list hardware`)"


def describe_warnings(prospect: Prospect) -> list[str]:
    """Name what ends episodes early, and memory and engines that are paid for and not used."""
    lines = describe_cut(prospect)
    if prospect.run.algo.drifts:
        lines += row("DRIFT", drift_warning(prospect.run))
    lines += describe_apart(prospect)
    if prospect.main.load.plays:
        lines += describe_unused(prospect) + describe_crowd(prospect) + describe_idle(prospect)
    return lines


def describe_cut(prospect: Prospect) -> list[str]:
    """Name the parts whose episodes cannot be played to their end."""
    lines, context = [], prospect.run.sampling.max_context
    for name, lengths in prospect.main.expected.experts.items():
        if lengths.longest > context:
            whose = f"an expert's episode of {name}" if name else "an expert's episode"
            text = (
                f"{whose} takes up to {lengths.longest:,} tokens, and sampling.max_context={context:,} ends it before"
            )
            lines += row("CUT OFF", f"{text}; raise model.max_context, or let turns be forgotten: protocol.window")
    return lines


def describe_apart(prospect: Prospect) -> list[str]:
    """Name checkpoints that are more than a job apart."""
    run, forecast = prospect.run, prospect.forecast
    step = 0.0 if forecast is None else forecast.timer.step(run.hardware, forecast.main.load).seconds
    apart, settings = step * min(run.checkpoint.interval, run.steps), run.checkpoint
    if run.hardware.device == "cuda" and settings.minutes is None and apart > HOURS * 3600:
        text = f"checkpoint.interval={settings.interval} steps may take {clock(apart)}, and a job has {HOURS} h"
        return row("APART", f"{text}: set checkpoint.minutes=60, or a job that ends without a warning loses all of it")
    return []


def describe_unused(prospect: Prospect) -> list[str]:
    """Name a context of which no episode can use the half, though memory is kept for all of it."""
    sampling, expected = prospect.run.sampling, prospect.main.expected
    if "--observed" in expected.unknown:
        return []
    longest = expected.most + round(expected.usual.prompt + expected.usual.observed)
    if 2 * longest >= sampling.max_context:
        return []
    text = (
        f"an episode samples at most {expected.most:,} tokens, of sampling.max_context={sampling.max_context} "
        f"that memory is kept for; raise sampling.max_new_tokens={sampling.max_new_tokens}, or lower "
        "model.max_context"
    )
    return row("UNUSED", text)


def describe_crowd(prospect: Prospect) -> list[str]:
    """Say that the cache holds too few of the episodes under way, whose contexts are then read again every turn."""
    if prospect.forecast is None or prospect.hardware.engine != "vllm":
        return []
    num, live = prospect.forecast.num_cached
    if num >= (1 - CROWDED) * live:
        return []
    load, most = prospect.main.load, prospect.largest_share
    raised = f"raise hardware.engine_memory to {most}, or " if most and most > prospect.hardware.engine_share else ""
    text = (
        f"an engine's cache holds {num:,} of its {live:,} episodes of {load.context_end:,} "
        f"tokens at a time, and the others wait or are read again; {raised}choose a larger profile, or shorter episodes"
    )
    return row("CROWDED", text) + describe_faster(prospect)


def describe_faster(prospect: Prospect) -> list[str]:
    """Name words with which the same machine needs much less time for a step, and that train the same parameters."""
    best, forecast = prospect.fitting, prospect.forecast
    if best is None or forecast is None or best.trains_adapters:
        return []
    step = forecast.timer.step(prospect.hardware, prospect.main.load).seconds
    if best.seconds > FASTER * step:
        return []
    text = f"a step would take {clock(best.seconds)} rather than {clock(step)} with {' '.join(best.words)}"
    return row("FASTER", text)


def describe_idle(prospect: Prospect) -> list[str]:
    """Count the engines that get no episode of a step."""
    if not prospect.num_idle:
        return []
    episodes = format_count(prospect.main.load.episodes, "episode")
    text = f"{prospect.num_idle} of {prospect.num_engines} engines sample nothing: a step has {episodes}"
    return row("IDLE", f"{text}; raise algo.num_prompts or algo.num_samples, or choose a smaller profile")
