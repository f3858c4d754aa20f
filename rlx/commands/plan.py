"""What a run would do, before anything is loaded: settings, memory, time, disk, and how it is started. 80 columns."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rlx.config.check import spell, visible
from rlx.console import counted, hung
from rlx.hardware.command import devices_per_node
from rlx.hardware.machine import size
from rlx.hardware.memory import Amount, Budget, Demand, budgets
from rlx.hardware.memory_host import host_amounts, host_peak
from rlx.hardware.profile import Hardware
from rlx.hardware.scaling import Machine, num_engines
from rlx.launch.sbatch import sbatch_script
from rlx.model.shape import Shape, num_parameters
from rlx.record.folder import flatten
from rlx.run.duration import (
    RunStage,
    checkpoint_bytes,
    estimate,
    evaluation_seconds,
    machine_of,
    num_idle,
    num_tokens,
    stages_of,
)
from rlx.run.fit import FitError, check_devices, check_packages, demand_of, device_memory, shape_of, verdict
from rlx.run.run import Run

Tree = Mapping[str, Any]

LEFT = 12
DERIVED = ("model.recipe", "model.shape")
"""What settings leave out: what others have taken their values from, and what the model's own config.json says."""


def describe_plan(run: Run, words: Sequence[str]) -> str:
    """The whole answer of `rlx plan`, as text."""
    lines = describe_settings(run.config)
    lines += describe_devices(run.hardware)
    lines += describe_memory(run)
    lines += describe_work(run)
    return "\n".join([*lines, *describe_start(run.hardware, words, demand_of(run))])


def row(label: str, text: str) -> list[str]:
    """A label at the left and what is said of it beside it, wrapped."""
    return hung(f"{label:<{LEFT}}", text)


def describe_settings(tree: Tree) -> list[str]:
    """Every part of the run: what it calls, and every key as one would override it."""
    lines = row(
        "run", " ".join(describe_setting(key, value) for key, value in tree.items() if not isinstance(value, Mapping))
    )
    for part, value in tree.items():
        if isinstance(value, Mapping):
            flat = {key: leaf for key, leaf in flatten(value).items() if not f"{part}.{key}".startswith(DERIVED)}
            own_first = sorted(flat, key=lambda key: (key.count("."), key != "_target_"))
            lines += row(part, " ".join(describe_setting(key, flat[key]) for key in own_first))
    return lines


def describe_setting(key: str, value: Any) -> str:
    """`lr=0.001`; of what is called, the last word of its name: the part's own stands alone."""
    owner, _, last = key.rpartition(".")
    if last != "_target_":
        return f"{key}={visible(spell(value))}"
    name = str(value).rpartition(".")[2]
    return f"{owner}={name}" if owner else name


def describe_devices(hardware: Hardware) -> list[str]:
    """Who works on what, and whether this machine could do it."""
    each, unit = devices_per_node(hardware), "GPU" if hardware.device == "cuda" else "process"
    nodes = f"{hardware.num_nodes} machines of " if hardware.num_nodes > 1 else ""
    learner = f"{hardware.num_processes} learner processes" if hardware.num_processes > 1 else "1 learner process"
    zero = f", ZeRO {hardware.zero_stage}" if hardware.learner == "deepspeed" else ""
    zero += " with offload" if hardware.offload else ""
    spread = f" over {hardware.tensor_parallel} devices" if hardware.tensor_parallel > 1 else ""
    servers = "1 server" if hardware.num_servers == 1 else f"{hardware.num_servers} servers"
    engines = f"{servers}{spread}" if hardware.num_servers else f"an engine in each{spread}"
    ends = {"GPU": "GPUs", "process": "processes"}
    lines = row(
        "devices",
        f"{nodes}{each} {unit if each == 1 else ends[unit]}: {learner} ({hardware.learner}{zero}, "
        f"{hardware.learner_dtype}), {engines} ({hardware.engine}, {hardware.dtype})",
    )
    try:
        check_devices(hardware)
        check_packages(hardware)
    except FitError as error:
        lines += row("here", f"cannot start: {error}")
    return lines


def describe_memory(run: Run) -> list[str]:
    demand = demand_of(run)
    if demand is None:
        return row("model", "its config.json is not here yet: no estimate of memory, time or disk")
    have, num = device_memory(run.hardware), num_parameters(demand.shape)
    lines = row("model", f"{num:,} parameters, {demand.num_trained:,} of them trained")
    for budget in budgets(run.hardware, demand, have):
        lines += describe_budget(run.hardware, budget, have)
    return lines + describe_host(run.hardware, demand)


def describe_budget(hardware: Hardware, budget: Budget, have: int | None) -> list[str]:
    where = f"{budget.name}, each of {budget.devices} devices" if budget.devices > 1 else budget.name
    parts = [f"{' ' * LEFT}{name:<16} {between(amount)}" for name, amount in budget.amounts.items() if amount.most]
    head = row("memory", f"{where}: {between(budget.total)} {verdict(hardware, budget, have)}")
    return [*head, *parts, *(line for note in budget.notes for line in row("", note))]


def between(amount: Amount) -> str:
    least, most = size(amount.least), size(amount.most)
    if not amount.least:
        return f"up to {most}"
    return least if least == most else f"{least} to {most}"


def describe_host(hardware: Hardware, demand: Demand) -> list[str]:
    amounts = host_amounts(hardware, demand)
    return [
        line for name, num in amounts.items() for line in row("memory", f"each machine's own: {size(num)} for {name}")
    ]


def describe_work(run: Run) -> list[str]:
    """Steps, episodes and tokens of each stage; with a known shape also the disk and the time they take."""
    stages, shape = stages_of(run), shape_of(run)
    lines = [line for stage in stages for line in row(stage.name, describe_stage(stage))]
    lines += describe_lengths(stages[-1], run.sampling.max_context)
    lines += describe_idle(run.hardware, stages[-1])
    return lines if shape is None else [*lines, *describe_disk(run, shape), *describe_time(run, stages, shape)]


def describe_stage(stage: RunStage) -> str:
    usual, most = (stage.steps * num_tokens(load) for load in (stage.load, stage.full))
    episodes = stage.steps * stage.load.episodes
    forks = f" and at most {counted(round(episodes * stage.full.forked), 'fork')}" if stage.full.forked else ""
    return (
        f"{counted(stage.steps, 'step')}, {counted(episodes, 'episode')}{forks}, "
        f"about {short(usual)} tokens, at most {short(most)}"
    )


def short(num: int) -> str:
    """72M tokens."""
    for unit, scale in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if num >= scale:
            return f"{num / scale:.3g}{unit}"
    return str(num)


def describe_lengths(stage: RunStage, context: int) -> list[str]:
    """What an episode is taken to be, and which parts' cannot be played to their end."""
    load = stage.load
    least = "by Countdown's and by what an expert plays" if stage.told else "as Countdown's were"
    each = f"{load.prompt:,} tokens of prompt, {load.sampled:,} sampled, {load.observed:,} seen after the first turn"
    lines = row("episode", f"{each}: {least}")
    for name, lengths in stage.told.items():
        if lengths.longest > context:
            whose = f"an expert's episode of {name}" if name else "an expert's episode"
            text = (
                f"{whose} takes up to {lengths.longest:,} tokens, and sampling.max_context={context:,} ends it before"
            )
            lines += row("CUT OFF", f"{text}; raise model.max_context, or let turns be forgotten: protocol.window")
    return lines


def describe_idle(hardware: Hardware, stage: RunStage) -> list[str]:
    """Engines that get no episode of a step."""
    idle, engines = num_idle(hardware, stage.load.episodes), num_engines(hardware)
    if not idle or not stage.load.plays:
        return []
    text = f"{idle} of {engines} engines sample nothing: a step has {counted(stage.load.episodes, 'episode')}"
    return row("IDLE", f"{text}; raise algo.num_prompts or algo.num_samples, or choose a smaller profile")


def describe_disk(run: Run, shape: Shape) -> list[str]:
    """Checkpoints as they lie, and all that is written."""
    settings, each = run.checkpoint, checkpoint_bytes(run, shape)
    written = -(-run.steps // settings.every)
    kept = min(written, settings.keep + 1)
    return row(
        "disk",
        f"{size(each)} a checkpoint, one every {counted(settings.every, 'step')}: "
        f"{written} and {size(each * written)} in all; "
        f"{settings.keep} are kept, and one more while it is written: {size(each * kept)}",
    )


def describe_time(run: Run, stages: Sequence[RunStage], shape: Shape) -> list[str]:
    """Of each stage's step, and of the whole with its devices: an estimate, and says so."""
    machine = machine_of(run.hardware, shape)
    if machine is None:
        return row("time", "no estimate without the GPU: hardware.gpu=a100, h100 or h200 names one")
    lines = [line for stage in stages for line in row("time", describe_step(stage, shape, machine))]
    usual, most = (total_seconds(run, stages, shape, machine, full=full) for full in (False, True))
    devices = run.hardware.num_devices
    unit = "GPU-hours" if run.hardware.device == "cuda" else "process-hours"
    lines += row(
        "time",
        f"evaluation included, {clock(usual)} and {hours(usual * devices)} {unit}; at most {clock(most)} and "
        f"{hours(most * devices)}, if every context has its {run.sampling.max_context:,} tokens",
    )
    return lines + row("", f"{basis(run.hardware, machine)} (docs/scaling.md)")


def describe_step(stage: RunStage, shape: Shape, machine: Machine) -> str:
    usual, most = (estimate(stage, load, shape, machine) for load in (stage.load, stage.full))
    parts = f"rollout {clock(usual.rollout)}, update {clock(usual.update)}, weights {clock(usual.sync)}"
    detail = f" ({parts})" if stage.load.plays else ""
    return f"a step of the {stage.name}: about {clock(usual.seconds)}{detail}, at most {clock(most.seconds)}"


def total_seconds(run: Run, stages: Sequence[RunStage], shape: Shape, machine: Machine, *, full: bool) -> float:
    steps = (estimate(stage, stage.full if full else stage.load, shape, machine) for stage in stages)
    learning = (stage.steps * step.seconds for stage, step in zip(stages, steps, strict=True))
    return sum(learning) + evaluation_seconds(run, stages[-1], shape, machine, full=full)


def basis(hardware: Hardware, machine: Machine) -> str:
    """What the seconds were computed from, and how far they may be off."""
    if hardware.device == "cpu":
        return "an estimate within a factor of two for such episodes: from runs on one thread of an AMD EPYC"
    told = f"from an {machine.name}'s published peaks"
    return f"an estimate, not measured, within a factor of two for such episodes: {told}"


def clock(seconds: float) -> str:
    """0.25 s, 14 s, 3.5 min, 2.1 h, 4 days."""
    for unit, scale, least in (("days", 86400, 48 * 3600), ("h", 3600, 5400), ("min", 60, 100)):
        if seconds >= least:
            return f"{seconds / scale:.2g} {unit}" if seconds < 99.5 * scale else f"{seconds / scale:,.0f} {unit}"
    return f"{seconds:.2g} s" if seconds >= 0.01 else "0 s"


def hours(seconds: float) -> str:
    found = seconds / 3600
    return f"{found:,.0f}" if found >= 10 else f"{found:.2g}"


def describe_start(hardware: Hardware, words: Sequence[str], demand: Demand | None) -> list[str]:
    """The command; for GPUs, several machines, or where SLURM is asked for, also the batch script."""
    command = f"{'command':<{LEFT}}{start_command(hardware, words)}"
    if hardware.device == "cpu" and hardware.num_nodes == 1 and not any("launcher=slurm" in word for word in words):
        return [command]
    memory = host_peak(hardware, demand) if demand is not None else 0
    script = sbatch_script(hardware, [word for word in words if not word.startswith("hydra/launcher=")], memory)
    return ["sbatch", *(f"{' ' * LEFT}{line}" for line in script.splitlines()), command]


def start_command(hardware: Hardware, words: Sequence[str]) -> str:
    """One process, several on one machine (by torchrun), or handed to SLURM."""
    submitted = any(word.startswith("hydra/launcher=") for word in words)
    if hardware.num_nodes > 1 and not submitted:
        return shlex.join(["rlx", "train", *words, "hydra/launcher=slurm"])
    if hardware.num_processes > 1 and not submitted:
        return shlex.join(["rlx", "launch", *words]) + f"  (torchrun, {hardware.num_processes} processes)"
    return shlex.join(["rlx", "train", *words])
