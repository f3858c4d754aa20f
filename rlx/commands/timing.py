"""Lines of `rlx plan` about work and time: tokens of episodes, seconds of a step, hours of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rlx.algo.parts import Sampler
from rlx.commands.text import LEFT, clock, hours, row, short
from rlx.console import counted
from rlx.model.shape import Shape
from rlx.preflight.duration import (
    RunStage,
    estimate,
    machine_of,
    num_tokens,
    stages_of,
    total_seconds,
)
from rlx.preflight.fit import shape_of
from rlx.preflight.lengths import AFTER_COPYING, NOTHING_GIVEN, TAIL, Given
from rlx.preflight.measured import ENOUGH, Measured
from rlx.preflight.peaks import MACHINES, Machine
from rlx.preflight.step import Load
from rlx.run.run import Run

HOW = f"Say --tokens N, or plan run=DIR, a run that has taken {ENOUGH} steps."
NO_SHAPE = "the model's config.json is not here yet"
NO_GPU = (
    "nothing says which GPU it is: hardware.gpu=a100, h100 or h200, or another that `rlx keys hardware.gpu` lists. Of "
    "other GPUs rlx estimates memory (hardware.memory_gb) and no time; benchmarks/bench_gpu.py measures it there"
)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Everything that the time of a plan is computed from."""

    run: Run
    stages: list[RunStage]
    shape: Shape | None
    machine: Machine | None
    measured: Measured | None = None

    @property
    def main(self) -> RunStage:
        """The run's stage, after its warm starts."""
        return self.stages[-1]

    @property
    def unit(self) -> str:
        return "GPU-hours" if self.run.hardware.device == "cuda" else "process-hours"

    @property
    def saved(self) -> Measured | None:
        """The measured run, where it has the planned run's settings and has timed a checkpoint."""
        return self.measured if self.measured is not None and self.is_measured and self.measured.saving else None

    @property
    def is_measured(self) -> bool:
        """The run's own steps are timed, not estimated."""
        return self.measured is not None and self.measured.is_same


def timing_of(run: Run, given: Given = NOTHING_GIVEN, measured: Measured | None = None) -> Timing:
    """Gather what the time of a plan is computed from; lengths that are given win over measured ones."""
    is_silent = given == NOTHING_GIVEN
    lengths = measured.given if measured is not None and is_silent else given
    shape = shape_of(run)
    machine = None if shape is None else machine_of(run.hardware, shape)
    used = measured if is_silent else None
    return Timing(run=run, stages=stages_of(run, lengths), shape=shape, machine=machine, measured=used)


def totals(timing: Timing) -> list[tuple[Load, float]]:
    """Estimate the seconds of the whole run at each length that its episodes may have."""
    if timing.shape is None or timing.machine is None:
        return []
    sized = timing.shape, timing.machine
    loads = timing.main.loads
    indices = range(len(loads)) if len(loads) > 1 else [1]
    return [
        (load, total_seconds(timing.run, timing.stages, *sized, index, timing.measured))
        for load, index in zip(loads, indices, strict=True)
    ]


def describe_verdict_time(timing: Timing) -> list[str]:
    """Say first how long the run takes, or what that depends on."""
    found = totals(timing)
    if not found or timing.shape is None or timing.machine is None:
        return row("time", f"no estimate: {NO_SHAPE if timing.shape is None else NO_GPU}")
    said = [cost(timing, load, seconds) for load, seconds in found]
    if timing.measured is not None and timing.is_measured:
        done = counted(timing.measured.steps, "step")
        lines = row("time", f"{said[0].strip()}, as measured, for what is left after {done}")
    elif timing.main.expected.is_certain:
        longer = describe_longer(timing) + describe_extension(timing)
        lines = row("time", f"{said[0].strip()}, {precision(timing)}{longer}")
    else:
        lines = row("time", "unknown, as is the length of episodes. If one samples, on average,")
        lines += [f"{'':<{LEFT}}{each}{' (all that fits)' * (each == said[-1])}" for each in said]
        lines += row("", f"{fitting(timing)} set what fits.")
        lines += row("", HOW)
    return lines


def describe_longer(timing: Timing) -> str:
    """Say what longer episodes cost, which a policy may learn: twice as long, and as long as they can be."""
    load, most = timing.main.load, timing.main.expected.most
    if not load.plays:
        return ""
    twice = f"; twice the tokens take {clock(seconds_at(timing, 2 * load.sampled))}"
    limit = f", all {most:,} that fit {clock(seconds_at(timing, most))} (sampling.max_new_tokens caps them)"
    return twice + (limit if most > 2 * load.sampled else "")


def seconds_at(timing: Timing, tokens: int) -> float:
    """Estimate the whole run with episodes of so many sampled tokens."""
    load, most = timing.main.load, timing.main.expected.most
    longer = replace(load, sampled=tokens, longest=min(TAIL * tokens, max(most, tokens)))
    own = replace(timing.main, loads=(longer,))
    (_, seconds), *_ = totals(replace(timing, stages=[*timing.stages[:-1], own]))
    return seconds


def describe_extension(timing: Timing) -> str:
    """Say how much longer a run becomes if its warm starts double as often as they may."""
    if timing.shape is None or timing.machine is None:
        return ""
    steps = [(stage, (stage.steps << stage.extend) - stage.steps) for stage in timing.stages[:-1]]
    seconds = sum(more * estimate(stage, stage.load, timing.shape, timing.machine).seconds for stage, more in steps)
    return f"; the longest warm start takes {clock(seconds)} more" if seconds else ""


def fitting(timing: Timing) -> str:
    """Name the keys that limit the tokens of an episode, with their values."""
    sampling = timing.run.sampling
    return f"sampling.max_new_tokens={sampling.max_new_tokens} and sampling.max_context={sampling.max_context}"


def cost(timing: Timing, load: Load, seconds: float) -> str:
    """Spell what a run takes at a length of episodes."""
    devices = timing.run.hardware.num_devices
    spent = f", {hours(seconds * devices)} {timing.unit}" if devices > 1 or timing.run.hardware.device == "cuda" else ""
    return f"{load.sampled:>9,} tokens: {clock(seconds)}{spent}"


def describe_work(timing: Timing) -> list[str]:
    """Say the steps, episodes and tokens of each stage, and what an episode is taken to be."""
    lines = [line for stage in timing.stages for line in row(stage.name, describe_stage(stage))]
    return lines + row("episode", describe_episode(timing.main))


def describe_stage(stage: RunStage) -> str:
    """Count what a stage plays and reads."""
    sampler, tasks = stage.sampler, stage.steps * stage.num_prompts
    episodes = tasks * sampler.num_episodes if counts_forks(sampler) else stage.steps * stage.load.episodes
    most = "" if sampler.forks_always else "at most "
    forks = f" and {most}{counted(tasks * sampler.num_forks, 'fork')}" if sampler.num_forks else ""
    tokens = [short(stage.steps * num_tokens(load)) for load in stage.loads]
    amount = f"about {tokens[0]}" if len(tokens) == 1 else f"{tokens[0]} to {tokens[-1]}"
    most = f"up to {stage.steps << stage.extend} while its policy does not speak or earns nothing"
    longer = f" ({most})" if stage.extend else ""
    return f"{counted(stage.steps, 'step')}{longer}, {counted(episodes, 'episode')}{forks}, {amount} tokens"


def describe_episode(stage: RunStage) -> str:
    """Say the tokens of an episode, and where they are known from."""
    load, expected = stage.load, stage.expected
    turns = f" in {counted(load.turns, 'turn')}" if load.turns > 1 else ""
    seen = f", {load.observed:,} seen after the first turn" if load.observed else ""
    prompt = f"{load.prompt:,} tokens of prompt{seen}"
    if expected.is_certain:
        is_copy = expected.source == "demonstrations" and load.plays
        source = f"{AFTER_COPYING:g} times its demonstrations, as nano's were" if is_copy else expected.source
        return f"{prompt}, {load.sampled:,} sampled{turns} ({source})"
    each = [f"{one.sampled:,}" for one in stage.loads]
    return f"{prompt}; sampled{turns}: unknown, taken as {', '.join(each[:-1])} or {each[-1]}, which is all that fits"


def describe_time(timing: Timing) -> list[str]:
    """Say the seconds of each stage's step at each length, and what they are computed from."""
    if timing.shape is None or timing.machine is None:
        return []
    sized = timing.shape, timing.machine
    lines = [
        line
        for stage in timing.stages
        for load in stage.loads
        for line in row("step", describe_step(stage, load, *sized, measured=timing.measured))
    ]
    return lines + row("", f"{basis(timing)} (docs/scaling.md)")


def describe_step(
    stage: RunStage, load: Load, shape: Shape, machine: Machine, *, measured: Measured | None = None
) -> str:
    """Say what a step takes, in all and by part."""
    if measured is not None and measured.is_same and stage.name == "run":
        parts = f"rollout {clock(measured.rollout)}, update {clock(measured.update)}"
        return f"of the {stage.name}, measured: {clock(measured.seconds)} ({parts})"
    step = estimate(stage, load, shape, machine)
    parts = f"rollout {clock(step.rollout)}, update {clock(step.update)}, weights {clock(step.sync)}"
    detail = f" ({parts})" if load.plays else ""
    where = f" at {load.sampled:,} tokens" if len(stage.loads) > 1 else ""
    return f"of the {stage.name}{where}: about {clock(step.seconds)}{detail}"


def basis(timing: Timing) -> str:
    """Say what the seconds are computed from, and how far they may be off."""
    assert timing.machine is not None
    sampler = timing.main.sampler
    follow = "of a task follow one another, and take longer where few are under way"
    most = follow if counts_forks(sampler) else "may add as much rollout again"
    forks = f"; forks {most}" if sampler.num_forks else ""
    if timing.run.hardware.device == "cpu":
        source = "runs on one thread of an AMD EPYC"
    else:
        name = timing.machine.name
        article, runs = "a" if name[0] in "BG" else "an", "" if is_checked(timing) else " of other GPUs"
        source = f"{article} {name}'s published peaks and the shares of them that published runs{runs} reached"
    return f"estimates are for episodes of that length, {precision(timing)}, from {source}{forks}"


def counts_forks(sampler: Sampler) -> bool:
    """Tell whether the episodes of a load count forks in."""
    return sampler.forks_always or sampler.fork_turns is not None


def precision(timing: Timing) -> str:
    """Say how far an estimate may be off, where published runs of such a GPU tell that."""
    return "within a factor of two" if is_checked(timing) else "checked by no run on such a GPU"


def is_checked(timing: Timing) -> bool:
    """Tell whether the estimates were compared with runs on such a machine (docs/scaling.md)."""
    return timing.machine is not None and timing.machine.name.lower() in (*MACHINES, "cpu")
