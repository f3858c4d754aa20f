"""Estimate the bytes that each machine's own memory must hold beside its GPUs: a batch script asks for them.

Models are loaded there on their way to the GPUs. Engines of a frozen policy leave their weights there while they sleep;
others give them up, as new ones follow. Offloaded optimizers stay. vLLM's copies are in pinned blocks, which torch
rounds up to powers of two: twice the weights at worst.
"""

from __future__ import annotations

from rlx.hardware.profile import BYTES, Hardware
from rlx.preflight.memory import sleeps
from rlx.preflight.memory_amounts import Demand, share

PROGRAM = 6_000_000_000
"""Bytes of one process: Python, torch and vLLM with their libraries, pinned buffers, its episodes."""
WRITING = 10_000_000_000
"""Bytes of the process that writes a checkpoint: a piece of it, twice."""


def host_amounts(hardware: Hardware, demand: Demand) -> dict[str, int]:
    """All of it, whenever it is there; nothing on cpu, where there is but one memory."""
    return {**while_loading(hardware, demand), **while_running(hardware, demand), **always(hardware, demand)}


def host_peak(hardware: Hardware, demand: Demand) -> int:
    """Return the largest sum that is there at once: models are on the GPUs before an engine sleeps."""
    loading, running = (sum(part(hardware, demand).values()) for part in (while_loading, while_running))
    return sum(always(hardware, demand).values()) + max(loading, running)


def while_loading(hardware: Hardware, demand: Demand) -> dict[str, int]:
    num_copies = 2 if demand.needs_reference and not demand.adapted else 1
    learners = num_learners(hardware) * num_copies * BYTES[hardware.loaded_dtype]
    numbers = learners + num_servers(hardware) * BYTES[hardware.dtype]
    return limit(hardware, {"weights while they are loaded, by every process": numbers * demand.shape.num_parameters})


def while_running(hardware: Hardware, demand: Demand) -> dict[str, int]:
    weights = BYTES[hardware.dtype] * demand.shape.num_parameters
    asleep = num_learners(hardware) * 2 * weights if sleeps(hardware) and demand.frozen else 0
    start = "the start's weights at the end, by one process at a time"
    return limit(hardware, {"engines asleep": asleep, start: weights})


def always(hardware: Hardware, demand: Demand) -> dict[str, int]:
    each = share(demand.num_trained * 16, hardware.num_processes, shared=True) if hardware.offload else 0
    programs = (num_learners(hardware) + num_servers(hardware)) * PROGRAM + WRITING
    offloaded = num_learners(hardware) * each
    return limit(hardware, {"optimizer and gradients, offloaded": offloaded, "programs and checkpoints": programs})


def limit(hardware: Hardware, amounts: dict[str, int]) -> dict[str, int]:
    return {name: num for name, num in amounts.items() if num and hardware.device != "cpu"}


def num_learners(hardware: Hardware) -> int:
    """Learner processes on each machine."""
    return hardware.num_processes // hardware.num_nodes


def num_servers(hardware: Hardware) -> int:
    """Rollout servers on each machine."""
    return -(-hardware.num_servers // hardware.num_nodes)
