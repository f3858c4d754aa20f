"""Lines of `rlx plan` about what a run does beside its steps: rehearsal, evaluations, checkpoints, and the time that a
job needs before its limit."""

from __future__ import annotations

from rlx.commands.text import clock, row
from rlx.commands.timing import Timing
from rlx.console import counted
from rlx.hardware.machine import size
from rlx.launch.sbatch import grace_seconds
from rlx.model.shape import Shape
from rlx.preflight.disk import RATES
from rlx.preflight.duration import (
    checkpoint_bytes,
    evaluation_seconds,
    num_checkpoints,
    num_evaluations,
    saving_seconds,
)
from rlx.record.cache import WARM, cache_folder
from rlx.run.rehearsed import NUM_REHEARSED, rehearsed
from rlx.run.run import Run


def describe_rehearsal(run: Run) -> list[str]:
    """Say which environments are played before anything is trained."""
    played = list(dict.fromkeys(name for _, name, _ in rehearsed(run)))
    if not played:
        return []
    what = "the environment" if played == [""] else f"each of {', '.join(played)}"
    text = f"{NUM_REHEARSED + 1} episodes of {what}, played twice with a script instead of a model"
    return row("rehearsal", f"{text}, before the first step and any warm start; its tools and servers are called")


def describe_evaluations(timing: Timing) -> list[str]:
    """Say how many evaluations a run has, when, and how long all of them take."""
    run, settings, shape, machine = timing.run, timing.run.evaluate, timing.shape, timing.machine
    episodes = settings.num_tasks * settings.num_samples
    first = "of the untrained model, the start" if settings.untrained and run.before() is not None else "of the start"
    way = f", every {counted(settings.every, 'step')}" if settings.every else ""
    text = f"{num_evaluations(run)} of {counted(episodes, 'episode')} each ({first}{way} and the end)"
    if shape is None or machine is None:
        return row("evaluation", text)
    spent = [clock(evaluation_seconds(run, load, shape, machine)) for load in timing.main.loads]
    within = spent[0] if len(spent) == 1 else f"{spent[0]} to {spent[-1]}"
    return row("evaluation", f"{text}: about {within} in all, counted in the time above (evaluate.num_tasks, .every)")


def describe_disk(timing: Timing, shape: Shape) -> list[str]:
    """Say how large checkpoints are, how many there are at a time, and how long all of them take."""
    run, settings, each = timing.run, timing.run.checkpoint, checkpoint_bytes(timing.run, shape)
    written = num_checkpoints(run)
    kept = min(written, settings.keep + 1)
    lines = row(
        "disk",
        f"{size(each)} a checkpoint, one every {counted(settings.every, 'step')}: "
        f"{written} and {size(each * written)} in all; "
        f"{settings.keep} are kept, and one more while it is written: {size(each * kept)}",
    )
    stages = [num_checkpoints(stage) for stage in run.stages()[:-1]]
    if sum(stages):
        stay = sum(min(num, settings.keep) for num in stages)
        where = f"in {cache_folder() / WARM} (RLX_CACHE moves it, `rlx cache clear` removes them)"
        lines += row("", f"{size(each * stay)} more for the warm start's {counted(stay, 'checkpoint')}, {where}")
    seconds = saving_seconds(timing.run, shape, timing.measured)
    source = f"at {RATES}" if timing.saved is None else "as measured in this run"
    sooner = "" if settings.minutes is None else f"; more with checkpoint.minutes={settings.minutes:g}"
    everything = f"{clock(seconds)} each, {source}, and {clock(seconds * (written + sum(stages)))} in all"
    return lines + row(
        "", f"about {everything}, counted in the time above: all devices wait (checkpoint.every){sooner}"
    )


def describe_grace(timing: Timing, shape: Shape) -> list[str]:
    """Say what the warning before a job's time limit leaves room for."""
    each, measured = checkpoint_bytes(timing.run, shape), timing.saved
    took = None if measured is None else measured.saving
    grace = grace_seconds(each, took)
    source = f"at {RATES}" if took is None else f"which took {clock(took)} in this run"
    text = f"a job is warned {clock(grace)} before its limit, to end its update and write {size(each)} {source}"
    slower = "" if took is not None else "; with slower disks raise --signal (hydra.launcher.signal_delay_s)"
    return row("grace", f"{text}{slower}")
