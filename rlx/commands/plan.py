"""Write what a run would do, before anything is loaded: a verdict, its settings, memory, time and disk, and how it is
started."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlx.cluster.sbatch import grace_of, sbatch_script
from rlx.commands.parts import show, split_run
from rlx.commands.plan_verdict import describe_verdict
from rlx.commands.plan_work import describe_work
from rlx.commands.text import LEFT, between, clock, row
from rlx.hardware.machine import size
from rlx.hardware.profile import Hardware
from rlx.hardware.sizing.amounts import Budget, Demand
from rlx.plan.checks import check_plan
from rlx.plan.disk import RATES
from rlx.plan.lengths import NO_HINTS, LengthHints, Published
from rlx.plan.measured import read_measured
from rlx.plan.prospect import Prospect
from rlx.run.choose import Choice
from rlx.runs.folder import flatten
from rlx.settings.check import spell, visible
from rlx.settings.compose import build_run, choices_of, compose
from rlx.settings.papers import read_lengths
from rlx.settings.saved import load_tree

Tree = Mapping[str, Any]

PARTS = "parts."
"""Beginning of the keys of a mixture's parts."""
DERIVED = ("model.recipe", "model.shape")
"""Keys that settings leave out: other keys have taken their values from them, or the model's config.json has them."""


def plan_run(words: Sequence[str] | None, length_hints: LengthHints) -> None:
    """Show what the words of a command would do, and refuse what cannot be or does not fit."""
    named, rest = split_run(list(words or []))
    tree = compose(rest, writes=True) if named is None else load_tree(named, rest, tracks=False)
    run = build_run(tree, Path())
    measured = None if named is None or length_hints != NO_HINTS else read_measured(named, tree)
    lengths = replace(length_hints if measured is None else measured.length_hints, published=published_lengths(rest))
    prospect = Prospect(run=run, length_hints=lengths, measured=measured)
    choices = choices_of(rest) if named is None else []
    # The estimate reads the model's folder, so it comes after the check of that folder.
    check_plan(prospect, lambda: show(describe_plan(prospect, rest, choices)))


def published_lengths(words: Sequence[str]) -> Published | None:
    """Return the published lengths of the episodes of the preset that these words choose, where it has some."""
    presets = [word.partition("=")[2] for word in words if word.lstrip("+").startswith("paper=")]
    lengths = read_lengths(presets[-1]) if presets else None
    return None if lengths is None else Published(**lengths)


def describe_plan(prospect: Prospect, words: Sequence[str], choices: Sequence[Choice] = ()) -> str:
    """Write the whole answer of `rlx plan`: the verdict first, then what it follows from."""
    lines = describe_verdict(prospect)
    lines += describe_choices([*choices, *choose_hardware(prospect)])
    lines += describe_settings(prospect.run.config)
    lines += describe_devices(prospect)
    lines += describe_memory(prospect)
    lines += describe_work(prospect)
    return "\n".join([*lines, *describe_start(prospect, words)])


def describe_choices(choices: Sequence[Choice]) -> list[str]:
    """Give the reason for each option that the command leaves to be chosen."""
    lines = [line for choice in choices for line in row("chosen", f"{choice.word.lstrip('+')}: {choice.reason}")]
    return [*lines, ""] if lines else []


def choose_hardware(prospect: Prospect) -> list[Choice]:
    """Return the values of the profile that were left to be chosen."""
    share = prospect.share
    return [] if share is None else [Choice("hardware.engine_memory", f"{share.share:g}", share.reason)]


def describe_settings(tree: Tree) -> list[str]:
    """Describe every part of the run: target, and keys as overrides. `parts.*` stands for each part of a mixture."""
    lines = row(
        "run", " ".join(describe_setting(key, value) for key, value in tree.items() if not isinstance(value, Mapping))
    )
    for part, value in tree.items():
        if isinstance(value, Mapping) and value:
            flat = {key: leaf for key, leaf in flatten(value).items() if not f"{part}.{key}".startswith(DERIVED)}
            settings = share_parts(flat)
            keys = sorted(settings, key=lambda key: (key.count("."), key != "_target_"))
            lines += row(part, " ".join(describe_setting(key, settings[key]) for key in keys))
    return lines


def share_parts(flat: Tree) -> dict[str, Any]:
    """Return the keys of an environment, where `parts.*.KEY` stands for a value that all of several parts have."""
    by_end: dict[str, dict[str, Any]] = defaultdict(dict)
    for key, value in flat.items():
        if key.startswith(PARTS):
            name, _, end = key.removeprefix(PARTS).partition(".")
            by_end[end][name] = value
    names = {name for values in by_end.values() for name in values}
    if len(names) < 2:
        return dict(flat)
    shared = {
        end for end, values in by_end.items() if values.keys() == names and len({*map(repr, values.values())}) == 1
    }
    alone = {key: value for key, value in flat.items() if not is_shared(key, shared)}
    return {f"{PARTS}*.{end}": next(iter(by_end[end].values())) for end in by_end if end in shared} | alone


def is_shared(key: str, ends: Set[str]) -> bool:
    return key.startswith(PARTS) and key.removeprefix(PARTS).partition(".")[2] in ends


def describe_setting(key: str, value: Any) -> str:
    """`lr=0.001`; of what is called, the last word of its name: the part's own stands alone."""
    owner, _, last = key.rpartition(".")
    if last != "_target_":
        return f"{key}={visible(spell(value))}"
    name = str(value).rpartition(".")[2]
    return f"{owner}={name}" if owner else name


def describe_devices(prospect: Prospect) -> list[str]:
    """Describe the processes and their devices; add a row if this machine cannot start the run."""
    hardware = prospect.hardware
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
    return lines + (row("here", f"cannot start: {prospect.lacking}") if prospect.lacking else [])


def describe_memory(prospect: Prospect) -> list[str]:
    """Say the model's size, and the memory of each device and machine."""
    demand = prospect.demand
    if demand is None:
        return row("model", f"{prospect.why_unsized}: no estimate of memory, time or disk")
    lines = row("model", describe_model(demand))
    for budget, verdict in zip(prospect.budgets, prospect.verdicts):
        lines += describe_budget(budget, verdict)
    texts = [f"each machine's own: {size(num)} for {name}" for name, num in prospect.host_amounts.items() if num]
    return lines + [line for text in texts for line in row("memory", text)]


def describe_model(demand: Demand) -> str:
    """Say the parameters of a model, and those that a token passes where experts are routed."""
    shape = demand.shape
    routed = any(layer.experts for layer in shape.stack)
    active = f", {shape.num_active:,} of them for each token" if routed else ""
    state = f"; a sequence has {size(shape.state)} of recurrent state" if shape.state else ""
    return f"{shape.num_parameters:,} parameters{active}, {demand.num_trained:,} of them trained{state}"


def describe_budget(budget: Budget, verdict: str) -> list[str]:
    """Say the memory of one budget, and of each of its parts."""
    where = f"{budget.name}, each of {budget.devices} devices" if budget.devices > 1 else budget.name
    parts = [f"{' ' * LEFT}{name:<16} {between(amount)}" for name, amount in budget.amounts.items() if amount.most]
    head = row("memory", f"{where}: {between(budget.total)} {verdict}")
    return [*head, *parts, *(line for note in budget.notes for line in row("", note))]


def describe_start(prospect: Prospect, words: Sequence[str]) -> list[str]:
    """Write the command; for GPUs, several machines, or where SLURM is asked for, also the batch script."""
    hardware = prospect.hardware
    command = f"{'command':<{LEFT}}{start_command(hardware, words)}"
    if hardware.device == "cpu" and hardware.num_nodes == 1 and not any("launcher=slurm" in word for word in words):
        return [command]
    script_words = [word for word in words if not word.startswith("hydra/launcher=")]
    script = sbatch_script(hardware, script_words, prospect.host_peak, grace_of(prospect))
    lines = ["sbatch", *(f"{' ' * LEFT}{line}" for line in script.splitlines()), command]
    return lines if prospect.shape is None else [*describe_grace(prospect), *lines]


def describe_grace(prospect: Prospect) -> list[str]:
    """Say what the warning before a job's time limit leaves room for."""
    each, took = prospect.checkpoint_bytes, prospect.saving
    source = f"at {RATES}" if took is None else f"which took {clock(took)} in this run"
    warned = f"a job is warned {clock(grace_of(prospect))} before its limit"
    text = f"{warned}, to end its update and write {size(each)} {source}"
    slower = "" if took is not None else "; with slower disks raise --signal (hydra.launcher.signal_delay_s)"
    return row("grace", f"{text}{slower}")


def start_command(hardware: Hardware, words: Sequence[str]) -> str:
    """One process, several on one machine (by torchrun), or handed to SLURM."""
    submitted = any(word.startswith("hydra/launcher=") for word in words)
    if hardware.num_nodes > 1 and not submitted:
        return shlex.join(["rlx", "train", *words, "hydra/launcher=slurm"])
    if hardware.num_processes > 1 and not submitted:
        return shlex.join(["rlx", "launch", *words]) + f"  (torchrun, {hardware.num_processes} processes)"
    return shlex.join(["rlx", "train", *words])
