"""Choose the share of a device that a vLLM engine takes, where `hardware.engine_memory` leaves it open."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rlx.hardware.machine import gpus, machine_memory, size
from rlx.hardware.profile import Hardware
from rlx.hardware.sizing.amounts import Demand
from rlx.hardware.sizing.budgets import budgets
from rlx.hardware.sizing.engine import context_bytes, engine_amounts

MOST_SHARE = 0.95
"""Share of a device that a choice or a remedy may fill, as the figures are estimates."""
LARGEST = 0.9
"""Largest share that is chosen: torch keeps freed blocks that the estimate does not count."""
STEPS = 20
"""Shares are multiples of a twentieth."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """Chosen share of a device, and its reason."""

    share: float
    reason: str


def device_memory(hardware: Hardware) -> int | None:
    """Return the bytes of one device: the profile's number, else this machine's."""
    if hardware.memory_gb is not None:
        return int(hardware.memory_gb * 10**9)
    if hardware.device == "cpu":
        return machine_memory()
    return min((gpu.memory for gpu in gpus() if gpu.memory is not None), default=None)


def choose_share(hardware: Hardware, demand: Demand | None, have: int | None) -> Share | None:
    """Choose the smallest share that holds a full context of every episode under way, else the largest that fits. None
    where no vLLM engine runs on a GPU, or the user has chosen."""
    if hardware.engine_memory is not None or hardware.engine != "vllm" or hardware.device != "cuda":
        return None
    if demand is None or have is None:
        unknown = "the model's size" if demand is None else "the device's memory"
        return Share(share=hardware.engine_share, reason=f"{unknown} is not known yet")
    fitting = [share for share in shares() if share_fits(hardware, demand, have, share)]
    least = least_share(hardware, demand, have)
    enough = [share for share in fitting if holds_all(hardware, demand, have, share)]
    if enough:
        reason = f"holds a full context of each of {num_contexts(hardware, demand):,} episodes under way"
        return Share(share=enough[0], reason=reason)
    if fitting and fitting[-1] >= least:
        beside = "beside the learner" if not hardware.num_servers else "on a server"
        return Share(share=fitting[-1], reason=f"the most of {size(have)} that fits {beside}")
    return Share(share=min(1.0, least), reason="the least that holds the weights and one full context")


def shares() -> list[float]:
    """List the shares that may be chosen, in ascending order."""
    return [step / STEPS for step in range(1, round(STEPS * LARGEST) + 1)]


def share_fits(hardware: Hardware, demand: Demand, have: int, share: float) -> bool:
    """Return True if an engine with this share leaves a twentieth of the device free."""
    engines = budgets(replace(hardware, engine_memory=share), demand, have)
    return all(budget.total.most <= MOST_SHARE * have for budget in engines if "KV cache" in budget.amounts)


def least_share(hardware: Hardware, demand: Demand, have: int) -> float:
    """Return the least share, in hundredths, that holds the weights, the engine's work and one full context."""
    least = sum(amount.least for amount in engine_amounts(with_least_cache(hardware), demand, have).values())
    return math.ceil(100 * least / have) / 100


def with_least_cache(hardware: Hardware) -> Hardware:
    """Return a profile whose engine has the smallest cache that it starts with."""
    return replace(hardware, engine_memory=1 / STEPS**2)


def num_contexts(hardware: Hardware, demand: Demand) -> int:
    """Count the episodes that one engine plays at the same time."""
    return min(hardware.num_live, -(-demand.num_episodes // hardware.num_engines))


def holds_all(hardware: Hardware, demand: Demand, have: int, share: float) -> bool:
    """Return True if the cache holds a full context of every episode under way."""
    cache = engine_amounts(replace(hardware, engine_memory=share), demand, have)["KV cache"].most
    return cache >= num_contexts(hardware, demand) * context_bytes(hardware, demand)


def largest_share(hardware: Hardware, demand: Demand, have: int) -> float | None:
    """Return the largest share that fits; None where no share does."""
    return max((share for share in shares() if share_fits(hardware, demand, have, share)), default=None)
