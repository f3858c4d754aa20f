"""Write what a run would do, before anything is loaded: a verdict, its settings, memory, time and disk, and how it is
started."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlx.commands.bottleneck import describe_limits
from rlx.commands.overhead import describe_disk, describe_evaluations, describe_grace, describe_rehearsal
from rlx.commands.parts import show, split_run
from rlx.commands.text import LEFT, between, row
from rlx.commands.timing import (
    Timing,
    describe_time,
    describe_verdict_time,
    describe_work,
    timing_of,
)
from rlx.commands.waste import describe_warnings
from rlx.config.check import spell, visible
from rlx.config.compose import build_run, choices_of, compose
from rlx.config.saved import load_tree
from rlx.hardware.machine import size
from rlx.hardware.profile import Hardware
from rlx.launch.sbatch import sbatch_script
from rlx.preflight.checks import check_plan
from rlx.preflight.duration import checkpoint_bytes
from rlx.preflight.fit import (
    FitError,
    check_devices,
    check_packages,
    check_share,
    check_split,
    demand_of,
    device_memory,
    shape_of,
    verdict,
)
from rlx.preflight.lengths import Given
from rlx.preflight.measured import read_measured
from rlx.preflight.memory import Budget, Demand, budgets
from rlx.preflight.memory_host import host_amounts, host_peak
from rlx.record.folder import flatten
from rlx.run.choose import Choice
from rlx.run.run import Run

Tree = Mapping[str, Any]

DERIVED = ("model.recipe", "model.shape")
"""Keys that settings leave out: other keys have taken their values from them, or the model's config.json has them."""
REFUSED = "it will NOT"
"""Beginning of the verdict on a run that cannot start."""


def plan_run(words: Sequence[str] | None, given: Given) -> None:
    """Show what the words of a command would do, and refuse what cannot be or does not fit."""
    named, rest = split_run(list(words or []))
    tree = compose(rest, writes=True) if named is None else load_tree(named, rest)
    run = build_run(tree, Path())
    measured = None if named is None else read_measured(named, tree)
    choices = choices_of(rest) if named is None else []
    # The estimate reads the model's folder, so it comes after the check of that folder.
    check_plan(run, lambda: show(describe_plan(run, rest, timing_of(run, given, measured), choices)))


def describe_plan(run: Run, words: Sequence[str], timing: Timing | None = None, choices: Sequence[Choice] = ()) -> str:
    """Write the whole answer of `rlx plan`: the verdict first, then what it follows from."""
    timing = timing or timing_of(run)
    lines = describe_verdict(run, timing)
    lines += describe_choices(choices)
    lines += describe_settings(run.config)
    lines += describe_devices(run.hardware)
    lines += describe_memory(run)
    lines += [*describe_rehearsal(run), *describe_work(timing), *describe_evaluations(timing)]
    shape = shape_of(run)
    lines += [] if shape is None else [*describe_disk(timing, shape), *describe_time(timing)]
    start = describe_start(run, words, timing)
    # The grace period is of a job, so it is said where a job is shown.
    lines += describe_grace(timing, shape) if shape is not None and start[0] == "sbatch" else []
    return "\n".join([*lines, *start])


def describe_verdict(run: Run, timing: Timing) -> list[str]:
    """Say whether the run fits, how long it takes and what limits it, and what is wrong with it."""
    fit = describe_fit(run)
    if fit.startswith(REFUSED):
        return [*row("verdict", fit), *row("time", "none, as it cannot start"), ""]
    lines = [*row("verdict", fit), *describe_verdict_time(timing), *describe_limits(timing)]
    return [*lines, *describe_warnings(timing), ""]


def describe_choices(choices: Sequence[Choice]) -> list[str]:
    """Give the reason for each option that the command leaves to be chosen."""
    lines = [line for choice in choices for line in row("chosen", f"{choice.word.lstrip('+')}: {choice.reason}")]
    return [*lines, ""] if lines else []


def describe_fit(run: Run) -> str:
    """Say of the fullest budget whether it fits, and whether the engine starts."""
    demand = demand_of(run)
    if demand is None:
        return "nothing is known of memory, time or disk: the model's config.json is not here yet"
    have = device_memory(run.hardware)
    each = budgets(run.hardware, demand, have)
    fullest = max(each, key=lambda budget: (budget.total.least > (have or 0), budget.total.most))
    where = f"{fullest.name}, each of {fullest.devices} devices" if fullest.devices > 1 else fullest.name
    try:
        check_split(run.hardware, demand.shape)
        if fullest.total.least <= (have or 0):
            check_share(run.hardware, demand, have)
    except FitError as error:
        return f"{REFUSED} start: {str(error).removeprefix('it cannot fit: ')}"
    amount, _, said = verdict(run.hardware, fullest, have, demand.adapted, demand).partition(": ")
    if have is None:
        return f"{between(fullest.total)} {amount}: {said}"
    state, _, remedy = said.partition(", ")
    return f"{state}: {between(fullest.total)} {amount} ({where})" + (f", {remedy}" if remedy else "")


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
    """Say which processes work on which devices, and whether this machine could do it."""
    each, unit = hardware.devices_per_node, "GPU" if hardware.device == "cuda" else "process"
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
    have, num = device_memory(run.hardware), demand.shape.num_parameters
    lines = row("model", f"{num:,} parameters, {demand.num_trained:,} of them trained")
    for budget in budgets(run.hardware, demand, have):
        lines += describe_budget(run.hardware, budget, have, demand)
    return lines + describe_host(run.hardware, demand)


def describe_budget(hardware: Hardware, budget: Budget, have: int | None, demand: Demand) -> list[str]:
    where = f"{budget.name}, each of {budget.devices} devices" if budget.devices > 1 else budget.name
    parts = [f"{' ' * LEFT}{name:<16} {between(amount)}" for name, amount in budget.amounts.items() if amount.most]
    head = row("memory", f"{where}: {between(budget.total)} {verdict(hardware, budget, have, demand.adapted, demand)}")
    return [*head, *parts, *(line for note in budget.notes for line in row("", note))]


def describe_host(hardware: Hardware, demand: Demand) -> list[str]:
    amounts = host_amounts(hardware, demand)
    return [
        line for name, num in amounts.items() for line in row("memory", f"each machine's own: {size(num)} for {name}")
    ]


def describe_start(run: Run, words: Sequence[str], timing: Timing) -> list[str]:
    """The command; for GPUs, several machines, or where SLURM is asked for, also the batch script."""
    hardware, shape, demand = run.hardware, timing.shape, demand_of(run)
    command = f"{'command':<{LEFT}}{start_command(hardware, words)}"
    if hardware.device == "cpu" and hardware.num_nodes == 1 and not any("launcher=slurm" in word for word in words):
        return [command]
    memory = host_peak(hardware, demand) if demand is not None else 0
    checkpoint = 0 if shape is None else checkpoint_bytes(run, shape)
    took = None if timing.saved is None else timing.saved.saving
    own = [word for word in words if not word.startswith("hydra/launcher=")]
    script = sbatch_script(hardware, own, memory, checkpoint, took)
    return ["sbatch", *(f"{' ' * LEFT}{line}" for line in script.splitlines()), command]


def start_command(hardware: Hardware, words: Sequence[str]) -> str:
    """One process, several on one machine (by torchrun), or handed to SLURM."""
    submitted = any(word.startswith("hydra/launcher=") for word in words)
    if hardware.num_nodes > 1 and not submitted:
        return shlex.join(["rlx", "train", *words, "hydra/launcher=slurm"])
    if hardware.num_processes > 1 and not submitted:
        return shlex.join(["rlx", "launch", *words]) + f"  (torchrun, {hardware.num_processes} processes)"
    return shlex.join(["rlx", "train", *words])
