"""Check that a run fits the memory of its devices, and find what would make it fit.

A run that cannot fit is a `FitError`, one line with the numbers and the remedy. A run that may not fit is described,
not refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rlx.base.limits import MistakeError
from rlx.hardware.machine import size
from rlx.hardware.profile import Hardware
from rlx.hardware.sizing.amounts import Budget, Demand
from rlx.hardware.sizing.budgets import budgets
from rlx.hardware.sizing.engine import engine_amounts
from rlx.hardware.sizing.share import largest_share, least_share
from rlx.model.shape import Shape

LEAST_MICRO_BATCH = 512
"""Tokens of a micro-batch below which a GPU waits for its own launches."""


class FitError(MistakeError):
    """A run that exceeds its hardware; the message is one line with the shortage and the remedy."""


class EngineError(FitError):
    """An engine that does not start, whatever else the devices hold."""


def find_misfit(hardware: Hardware, demand: Demand, estimates: Iterable[Budget], have: int | None) -> FitError | None:
    """Return the reason why the devices of a profile cannot hold a run; None where they can."""
    try:
        check_split(hardware, demand.shape)
        check_budgets(hardware, estimates, have)
        check_share(hardware, demand, have)
    except FitError as error:
        return error
    return None


def find_host_misfit(amounts: Mapping[str, int], peak: int, have: int) -> FitError | None:
    """Return the reason why a machine's memory beside its GPUs cannot hold a run; None where it can."""
    if peak <= have:
        return None
    parts = ", ".join(f"{name} {size(amount)}" for name, amount in amounts.items())
    return FitError(
        f"it cannot fit: each machine's own memory needs {size(peak)} and has {size(have)} "
        f"(hardware.node_memory_gb; {parts})"
    )


def check_split(hardware: Hardware, shape: Shape) -> None:
    """Refuse a split that vLLM does not make. Every device of an engine gets as many heads and as much of each layer's
    width. Where there are fewer key heads than devices, several devices get the same one."""
    heads, keys = shape.heads, shape.key_heads
    even = (num for num in range(1, heads + 1) if heads % num == 0 and shape.feed_forward % num == 0)
    fits = [num for num in even if keys % num == 0 or num % keys == 0]
    if hardware.tensor_parallel not in fits:
        raise EngineError(
            f"hardware.tensor_parallel={hardware.tensor_parallel} does not divide the model, which has {heads} heads "
            f"and {keys} key heads: choose one of {', '.join(map(str, fits))}"
        )


def check_budgets(hardware: Hardware, estimates: Iterable[Budget], have: int | None) -> None:
    """Refuse a run of which some budget is surely larger than a device."""
    for budget in estimates:
        if have is not None and budget.total.least > have:
            raise FitError(explain(hardware, budget, have))


def check_share(hardware: Hardware, demand: Demand, have: int | None) -> None:
    """Refuse a share of vLLM's that does not hold the weights and one full context: it would not start."""
    if have is None or hardware.engine != "vllm" or hardware.device != "cuda":
        return
    least = sum(amount.least for amount in engine_amounts(hardware, demand, have).values())
    if least > hardware.engine_share * have:
        needed, most = least_share(hardware, demand, have), largest_share(hardware, demand, have)
        better = f"hardware.engine_memory={most}, or at least " if most is not None and most > needed else ""
        raise EngineError(
            f"it cannot fit: hardware.engine_memory={hardware.engine_share} of {size(have)} is "
            f"{size(int(hardware.engine_share * have))}, and weights, work and one context of {demand.max_context:,} "
            f"tokens take {size(least)}: try {better}hardware.engine_memory={needed}"
        )


def fits(hardware: Hardware, demand: Demand | None, have: int | None) -> bool:
    """Tell whether every budget surely fits the devices."""
    if demand is None or have is None:
        return False
    return all(budget.total.most <= have for budget in budgets(hardware, demand, have))


def largest_micro_batch(hardware: Hardware, demand: Demand, have: int) -> int | None:
    """Return the largest half, quarter and so on of `micro_batch_tokens` with which every budget fits; None where none
    does."""
    tokens = hardware.micro_batch_tokens // 2
    while tokens >= LEAST_MICRO_BATCH:
        if fits(replace(hardware, micro_batch_tokens=tokens), demand, have):
            return tokens
        tokens //= 2
    return None


def explain(hardware: Hardware, budget: Budget, have: int) -> str:
    """Say why a budget cannot be held, and its largest amount."""
    name = max(budget.amounts, key=lambda key: budget.amounts[key].least)
    parts = ", ".join(f"{key} {size(amount.least)}" for key, amount in budget.amounts.items())
    where = f"each {hardware.device} device ({budget.name})" if hardware.device != "cpu" else budget.name
    need = f"{where} needs at least {size(budget.total.least)} and has {size(have)}"
    return f"it cannot fit: {need} ({parts}); {name} decides"


def verdict(
    hardware: Hardware, budget: Budget, have: int | None, adapted: bool = False, demand: Demand | None = None
) -> str:
    """Say `fits`, or what may be too large; with `demand` the remedy is a number."""
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
    remedies = [text for holds, text in ways[name] if holds] + ([adapters] if trained and not adapted else [])
    return " or ".join([*remedies, "a smaller model or a larger profile"]).replace(" and or ", " and ")
