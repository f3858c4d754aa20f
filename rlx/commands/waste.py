"""Lines of `rlx plan` about settings that waste what is paid for, each with the key to change."""

from __future__ import annotations

from rlx.commands.text import row
from rlx.commands.timing import Timing
from rlx.console import counted
from rlx.hardware.profile import Hardware
from rlx.preflight.duration import RunStage, num_idle
from rlx.preflight.fit import demand_of, device_memory, largest_share
from rlx.preflight.scaling import busiest, cached_rows, num_engines

CROWDED = 0.25
"""Share of the episodes under way whose context the cache does not hold, above which the plan warns."""


def describe_warnings(timing: Timing) -> list[str]:
    """Name what ends episodes early, and memory and engines that are paid for and not used."""
    context = timing.run.sampling.max_context
    lines = describe_cut(timing.main, context) + describe_unused(timing)
    return lines + describe_crowd(timing) + describe_idle(timing.run.hardware, timing.main)


def describe_cut(stage: RunStage, context: int) -> list[str]:
    """Name the parts whose episodes cannot be played to their end."""
    lines = []
    for name, lengths in stage.expected.experts.items():
        if lengths.longest > context:
            whose = f"an expert's episode of {name}" if name else "an expert's episode"
            text = (
                f"{whose} takes up to {lengths.longest:,} tokens, and sampling.max_context={context:,} ends it before"
            )
            lines += row("CUT OFF", f"{text}; raise model.max_context, or let turns be forgotten: protocol.window")
    return lines


def describe_idle(hardware: Hardware, stage: RunStage) -> list[str]:
    """Count the engines that get no episode of a step."""
    idle, engines = num_idle(hardware, stage.load.episodes), num_engines(hardware)
    if not idle or not stage.load.plays:
        return []
    text = f"{idle} of {engines} engines sample nothing: a step has {counted(stage.load.episodes, 'episode')}"
    return row("IDLE", f"{text}; raise algo.num_prompts or algo.num_samples, or choose a smaller profile")


def describe_unused(timing: Timing) -> list[str]:
    """Name a context of which no episode can use the half, though memory is kept for all of it."""
    run, expected = timing.run, timing.main.expected
    longest = expected.most + round(expected.usual.prompt + expected.usual.observed)
    if 2 * longest >= run.sampling.max_context or not timing.main.load.plays:
        return []
    text = (
        f"an episode samples at most {expected.most:,} tokens, of sampling.max_context={run.sampling.max_context} "
        f"that memory is kept for; raise sampling.max_new_tokens={run.sampling.max_new_tokens}, or lower "
        "model.max_context"
    )
    return row("UNUSED", text)


def describe_crowd(timing: Timing) -> list[str]:
    """Say that the cache holds too few of the episodes under way, whose contexts are then read again every turn."""
    run, load = timing.run, timing.main.load
    if timing.shape is None or timing.machine is None or not load.plays or run.hardware.engine != "vllm":
        return []
    live = min(run.hardware.num_live, busiest(run.hardware, load))
    held = cached_rows(timing.shape, run.hardware, timing.machine, load)
    if held >= (1 - CROWDED) * live:
        return []
    demand, have = demand_of(run), device_memory(run.hardware)
    most = None if demand is None or have is None else largest_share(run.hardware, demand, have)
    raised = f"raise hardware.engine_memory to {most}, or " if most and most > run.hardware.engine_memory else ""
    text = (
        f"an engine's cache holds {held:,} of its {live:,} episodes of {load.prompt + load.sampled + load.observed:,} "
        f"tokens at a time, and the others wait or are read again; {raised}choose a larger profile, or shorter episodes"
    )
    return row("CROWDED", text)
