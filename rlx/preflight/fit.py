"""Check that a run fits its hardware: packages, devices, memory. This is done before any model is loaded.

What cannot be is a `FitError`, one line with the numbers and the remedy. What only may not fit is told, not refused.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace

from rlx.hardware.machine import gpus, machine_memory, size
from rlx.hardware.packages import how_to_get, installed, lacks
from rlx.hardware.profile import Hardware
from rlx.limits import MistakeError
from rlx.model.shape import Shape, find_shape
from rlx.preflight.memory import Budget, Demand, budgets, engine_amounts, num_trained
from rlx.protocol.drawn import added_by
from rlx.run.run import Run

MOST_SHARE = 0.95
"""Share of a device that a remedy may fill, as the figures are estimates."""
LEAST_MICRO_BATCH = 512
"""Tokens of a micro-batch below which a GPU waits for its own launches."""
CPU_VLLM = "make setup-cluster in a checkout, and start the run with .venv-cluster/bin/rlx"


class FitError(MistakeError):
    """A run that its hardware cannot do: one line that says what is missing and the remedy."""


def check_run(run: Run, *, here: bool = True, trains: bool = True) -> None:
    """Refuse what cannot work. `here`: the run's processes are on this machine, not submitted to others."""
    if here:
        check_devices(run.hardware)
    check_packages(run.hardware)
    check_fit(run, trains=trains)


def check_fit(run: Run, *, trains: bool = True) -> None:
    """Refuse what its devices' memory cannot hold."""
    demand = demand_of(run)
    if demand is not None:
        check_split(run.hardware, demand.shape)
        check_memory(run.hardware, demand, device_memory(run.hardware), trains=trains)


def check_packages(hardware: Hardware) -> None:
    torch = installed("torch") or ""
    if hardware.device == "cuda" and "+cpu" in torch:
        raise FitError(f"torch {torch} is without CUDA: pip install --force-reinstall torch, or choose hardware=cpu")
    for extra, key in needed_extras(hardware).items():
        wrong = lacks(extra)
        if wrong:
            get = CPU_VLLM if (extra, hardware.device) == ("vllm", "cpu") else how_to_get(extra)
            raise FitError(f"{key} needs the extra {extra!r}, and {wrong}: {get}")


def needed_extras(hardware: Hardware) -> dict[str, str]:
    """Each extra that a profile needs, and the key that needs it."""
    wanted = {"deepspeed": hardware.learner == "deepspeed", "vllm": hardware.engine == "vllm"}
    keys = {"deepspeed": "hardware.learner=deepspeed", "vllm": "hardware.engine=vllm"}
    return {extra: keys[extra] for extra, is_needed in wanted.items() if is_needed}


def check_devices(hardware: Hardware, environ: Mapping[str, str] = os.environ) -> None:
    """Refuse fewer machines or GPUs than the profile has; a cluster's own launcher has checked them."""
    started = "WORLD_SIZE" in environ or "SLURM_JOB_ID" in environ
    if hardware.num_nodes > 1 and not started:
        raise FitError(
            f"the profile wants {hardware.num_nodes} machines and this is one: add hydra/launcher=slurm to submit it, "
            "or start it on each of them with torchrun"
        )
    if hardware.device == "cpu":
        return
    found, wanted = len(gpus()), hardware.devices_per_node
    if not found:
        raise FitError(
            "the profile wants a GPU and this machine has none: choose hardware=cpu, or submit it with "
            "hydra/launcher=slurm"
        )
    if wanted > found and "SLURM_JOB_ID" not in environ:
        raise FitError(
            f"the profile wants {wanted} GPUs on a machine and this one has {found}: choose a smaller profile (`rlx "
            "list hardware`), or submit it with hydra/launcher=slurm"
        )


def check_split(hardware: Hardware, shape: Shape) -> None:
    """vLLM gives every device of an engine as many heads and as much of each layer's width; key heads, where there are
    fewer than devices, to several each."""
    heads, keys = shape.heads, shape.key_heads
    even = (num for num in range(1, heads + 1) if heads % num == 0 and shape.feed_forward % num == 0)
    fits = [num for num in even if keys % num == 0 or num % keys == 0]
    if hardware.tensor_parallel not in fits:
        raise FitError(
            f"hardware.tensor_parallel={hardware.tensor_parallel} does not divide the model, which has {heads} heads "
            f"and {keys} key heads: choose one of {', '.join(map(str, fits))}"
        )


def check_memory(hardware: Hardware, demand: Demand, have: int | None, *, trains: bool = True) -> None:
    for budget in budgets(hardware, demand, have, trains=trains):
        if have is not None and budget.total.least > have:
            raise FitError(explain(hardware, budget, have, demand.adapted))
    check_share(hardware, demand, have)


def check_share(hardware: Hardware, demand: Demand, have: int | None) -> None:
    """vLLM does not start unless its share holds the weights and one full context."""
    if have is None or hardware.engine != "vllm" or hardware.device != "cuda":
        return
    least = sum(amount.least for amount in engine_amounts(hardware, demand, have).values())
    if least > hardware.engine_memory * have:
        needed, most = math.ceil(100 * least / have) / 100, largest_share(hardware, demand, have)
        better = f"hardware.engine_memory={most}, or at least " if most is not None and most > needed else ""
        raise FitError(
            f"it cannot fit: hardware.engine_memory={hardware.engine_memory} of {size(have)} is "
            f"{size(int(hardware.engine_memory * have))}, and weights, work and one context of {demand.max_context:,} "
            f"tokens take {size(least)}: try {better}hardware.engine_memory={needed}"
        )


def largest_share(hardware: Hardware, demand: Demand, have: int) -> float | None:
    """Return the largest `engine_memory`, in steps of 0.05, that leaves a twentieth of the device free beside what the
    learner keeps there; None where no share does."""
    for step in range(19, 0, -1):
        share = step / 20
        found = budgets(replace(hardware, engine_memory=share), demand, have)
        if share <= MOST_SHARE and all(b.total.most <= MOST_SHARE * have for b in found if "KV cache" in b.amounts):
            return share
    return None


def largest_micro_batch(hardware: Hardware, demand: Demand, have: int) -> int | None:
    """Return the largest half, quarter and so on of `micro_batch_tokens` with which every budget fits; None where none
    does."""
    tokens = hardware.micro_batch_tokens // 2
    while tokens >= LEAST_MICRO_BATCH:
        found = budgets(replace(hardware, micro_batch_tokens=tokens), demand, have)
        if all(budget.total.most <= have for budget in found):
            return tokens
        tokens //= 2
    return None


def explain(hardware: Hardware, budget: Budget, have: int, adapted: bool) -> str:
    """Why a budget cannot be held, what is largest in it, and what makes that smaller."""
    name = max(budget.amounts, key=lambda key: budget.amounts[key].least)
    parts = ", ".join(f"{key} {size(amount.least)}" for key, amount in budget.amounts.items())
    where = f"each {hardware.device} device ({budget.name})" if hardware.device != "cpu" else budget.name
    return (
        f"it cannot fit: {where} needs at least {size(budget.total.least)} and has {size(have)} ({parts}); {name} "
        f"decides: try {remedy(hardware, name, adapted)}"
    )


def verdict(
    hardware: Hardware, budget: Budget, have: int | None, adapted: bool = False, demand: Demand | None = None
) -> str:
    """`fits`, or what may be too large; with `demand` the remedy is a number."""
    if have is None:
        return "(the device's memory is unknown: set hardware.memory_gb)"
    if budget.total.least > have:
        return f"of {size(have)}: it will NOT fit"
    if budget.total.most <= have:
        return f"of {size(have)}: fits"
    name = max(budget.amounts, key=lambda key: budget.amounts[key].most - budget.amounts[key].least)
    tokens = None if demand is None or name != "activations" else largest_micro_batch(hardware, demand, have)
    way = remedy(hardware, name, adapted) if tokens is None else f"hardware.micro_batch_tokens={tokens}"
    return f"of {size(have)}: may not fit when full, most of all for {name}; if so, {way}"


def remedy(hardware: Hardware, name: str, adapted: bool = False) -> str:
    """Return what makes an amount smaller that the run does not do yet; one that is `adapted` trains adapters."""
    many = hardware.learner == "deepspeed"
    adapters = "+model/lora=r32"
    ways = {
        "weights": [(many and hardware.zero_stage < 3, "hardware.zero_stage=3"), (many, "more processes")],
        "reference": [(many and hardware.zero_stage < 3, "hardware.zero_stage=3"), (True, "an algorithm without KL")],
        "gradients": [(many and hardware.zero_stage < 2, "hardware.zero_stage=2"), (many, "more processes")],
        "optimizer": [
            (many and hardware.zero_stage < 1, "hardware.zero_stage=1"),
            (many and hardware.device == "cuda" and not hardware.offload, "hardware.offload=true"),
            (many, "more processes"),
        ],
        "activations": [
            (not hardware.recompute, "hardware.recompute=true"),
            (True, "a smaller hardware.micro_batch_tokens or sampling.max_context"),
        ],
        "engine weights": [
            (hardware.dtype == "float32" and hardware.device == "cuda", "hardware.dtype=bfloat16"),
            (hardware.engine == "vllm" and not hardware.num_servers, "hardware.num_servers and"),
            (hardware.engine == "vllm", "a larger hardware.tensor_parallel"),
        ],
        "engine work": [(True, "a smaller model")],
        "engine asleep": [(True, "hardware.num_servers")],
        "KV cache": [
            (hardware.engine == "vllm", "a smaller sampling.max_context, hardware.num_slots or hardware.engine_memory"),
            (hardware.engine == "torch", "a smaller sampling.max_context or hardware.num_slots"),
        ],
        "kept contexts": [(True, "a smaller sampling.max_context or hardware.num_slots")],
        "program": [(True, "fewer processes on a machine")],
        "communication": [(not adapted, adapters)],
        "gradient bucket": [(not adapted, adapters)],
        "weight casts": [(True, "hardware.learner=deepspeed")],
    }
    trained = name in ("weights", "reference", "gradients", "optimizer")
    found = [text for holds, text in ways[name] if holds] + ([adapters] if trained and not adapted else [])
    return " or ".join([*found, "a smaller model or a larger profile"]).replace(" and or ", " and ")


def device_memory(hardware: Hardware) -> int | None:
    """Bytes of one device: as the profile says, else as this machine has it."""
    if hardware.memory_gb is not None:
        return int(hardware.memory_gb * 10**9)
    if hardware.device == "cpu":
        return machine_memory()
    return min((gpu.memory for gpu in gpus() if gpu.memory is not None), default=None)


def demand_of(run: Run) -> Demand | None:
    """Return what memory depends on; None where the model's shape is not known yet."""
    shape = shape_of(run)
    if shape is None:
        return None
    stages = run.stages()
    num_head = shape.width + 1 if any(stage.algo.critic for stage in stages) else 0
    return Demand(
        shape=shape,
        num_trained=num_trained(run.model.lora, shape) + num_head,
        adapted=run.model.lora is not None,
        needs_reference=any("reference" in stage.algo.needs for stage in stages),
        max_context=max(stage.sampling.max_context for stage in stages),
        num_head=num_head,
        num_episodes=run.algo.num_prompts * (run.algo.sample.num_episodes + run.algo.sample.num_forks),
        frozen=any(stage.algo.frozen_policy for stage in stages),
    )


def shape_of(run: Run) -> Shape | None:
    """Return the shape of the run's model, with a row for every action that it has or that the run's protocols add."""
    found = find_shape({"path": run.model.path, "shape": run.model.shape})
    return found and replace(found, added=max(found.added, len(added_by(run.dialects))))
