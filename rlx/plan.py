"""What a run would do, before anything is loaded: memory, tokens, steps and how it is started."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from rlx.fit import FitError, check_devices, check_packages, device_memory, job_of, verdict
from rlx.hardware import Hardware
from rlx.launch.command import devices_per_node
from rlx.launch.sbatch import sbatch_script
from rlx.machine import size
from rlx.memory import Amount, Budget, Job, budgets, host_amounts
from rlx.model.shape import num_parameters
from rlx.run import Run

Tree = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Load:
    """Of one stage: steps to come, and episodes and tokens at most."""

    steps: int
    episodes: int
    tokens: int


def describe_plan(run: Run, words: Sequence[str]) -> str:
    """The whole answer of `rlx plan`, as text."""
    tree = run.config
    lines = [yaml.safe_dump(json.loads(json.dumps(tree)), sort_keys=False, allow_unicode=True).rstrip(), ""]
    lines += describe_devices(run.hardware)
    lines += describe_memory(run)
    warm = tree["warm_start"]
    if warm["steps"]:
        lines.append(describe_load("warm start", estimate_load(tree, warm["algo"], warm["steps"])))
    lines.append(describe_load("run", estimate_load(tree, tree["algo"], tree["steps"])))
    return "\n".join([*lines, *describe_start(run.hardware, words)])


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
    lines = [
        f"devices  {nodes}{each} {unit if each == 1 else ends[unit]}: {learner} ({hardware.learner}{zero}, "
        f"{hardware.learner_dtype}), {engines} ({hardware.engine}, {hardware.dtype})"
    ]
    try:
        check_devices(hardware)
        check_packages(hardware)
    except FitError as error:
        lines.append(f"here     cannot start: {error}")
    return lines


def describe_memory(run: Run) -> list[str]:
    job = job_of(run)
    if job is None:
        return ["model    its config.json is not here yet: no estimate of memory"]
    have, num = device_memory(run.hardware), num_parameters(job.shape)
    lines = [f"model    {num:,} parameters, {job.num_trained:,} of them trained"]
    for budget in budgets(run.hardware, job, have):
        lines += describe_budget(run.hardware, budget, have)
    return lines + describe_host(run.hardware, job)


def describe_budget(hardware: Hardware, budget: Budget, have: int | None) -> list[str]:
    where = f"{budget.name}, each of {budget.devices} devices" if budget.devices > 1 else budget.name
    rows = [f"         {name:<16} {between(amount)}" for name, amount in budget.amounts.items() if amount.most]
    head = f"memory   {where}: {between(budget.total)} {verdict(hardware, budget, have)}"
    return [head, *rows, *(f"         {note}" for note in budget.notes)]


def between(amount: Amount) -> str:
    least, most = size(amount.least), size(amount.most)
    return least if least == most else f"{least} to {most}"


def describe_host(hardware: Hardware, job: Job) -> list[str]:
    amounts = host_amounts(hardware, job)
    return [f"memory   each machine's own: {size(num)} for {name}" for name, num in amounts.items()]


def describe_load(name: str, load: Load) -> str:
    return f"{name + ':':<12} {load.steps:,} steps, {load.episodes:,} episodes, at most {load.tokens:,} tokens"


def estimate_load(tree: Tree, algo: Tree, steps: int) -> Load:
    """Tokens of prompts, completions and observations: no episode has more than the context holds."""
    episodes = steps * algo.get("num_prompts", 1) * algo.get("num_samples", 1)
    return Load(steps=steps, episodes=episodes, tokens=episodes * tree["sampling"]["max_context"])


def describe_start(hardware: Hardware, words: Sequence[str]) -> list[str]:
    """The command; for GPUs, several machines, or where SLURM is asked for, also the batch script."""
    command = f"command  {start_command(hardware, words)}"
    if hardware.device == "cpu" and hardware.num_nodes == 1 and not any("launcher=slurm" in word for word in words):
        return [command]
    script = sbatch_script(hardware, [word for word in words if not word.startswith("hydra/launcher=")])
    return ["sbatch", *(f"         {line}" for line in script.splitlines()), command]


def start_command(hardware: Hardware, words: Sequence[str]) -> str:
    """One process, several on one machine (by torchrun), or handed to SLURM."""
    submitted = any(word.startswith("hydra/launcher=") for word in words)
    if hardware.num_nodes > 1 and not submitted:
        return shlex.join(["rlx", "train", *words, "hydra/launcher=slurm"])
    if hardware.num_processes > 1 and not submitted:
        return shlex.join(["rlx", "launch", *words]) + f"  (torchrun, {hardware.num_processes} processes)"
    return shlex.join(["rlx", "train", *words])
