"""Estimate the bytes that each machine's own memory must hold beside its GPUs: a batch script asks for them.

Models are loaded there on their way to the GPUs. A sleeping engine of a frozen policy leaves its weights there; other
engines drop their weights, because new weights follow. Offloaded optimizers stay. vLLM's copies are in pinned
blocks, which torch rounds up to powers of two: twice the weights at worst.
"""

from __future__ import annotations

from rlx.hardware.profile import BYTES, Hardware
from rlx.hardware.sizing.amounts import Demand, share
from rlx.hardware.sizing.budgets import sleeps

PROGRAM = 6_000_000_000
"""Bytes of one process: Python, torch and vLLM with their libraries, pinned buffers."""
EPISODES = "episodes of a step, in every process"
TOKEN_BYTES, POINTER = 290, 8
"""Bytes of a sampled token at the peak, and of each id of a turn's context. Measured with 16 episodes: 367 bytes a
sampled token in 30 turns of 1,000, and 1,982 in 256 turns of 64 sampled and 36 seen. This formula: 410 and 1,890."""
WRITING = 10_000_000_000
"""Bytes of the process that writes a checkpoint: a piece of it, twice."""


def host_amounts(hardware: Hardware, demand: Demand, episodes: int = 0) -> dict[str, int]:
    """Return each amount, whenever it is there; none on cpu, where there is but one memory. `episodes`: bytes of a
    step's episodes, which every learner process holds."""
    steady = always(hardware, demand) | limit(hardware, {EPISODES: num_learners(hardware) * episodes})
    return {**while_loading(hardware, demand), **while_running(hardware, demand), **steady}


def host_peak(hardware: Hardware, demand: Demand, episodes: int = 0) -> int:
    """Return the largest sum that is there at once: models are on the GPUs before an engine sleeps, and episodes are
    played after that."""
    loading, running = (sum(part(hardware, demand).values()) for part in (while_loading, while_running))
    played = sum(limit(hardware, {EPISODES: num_learners(hardware) * episodes}).values())
    return sum(always(hardware, demand).values()) + max(loading, running + played)


def episode_bytes(num_episodes: float, sampled: float, turns: float, context: float) -> int:
    """Estimate the bytes of episodes as each process holds them while it makes a batch: of every sampled token, and of
    the context of every turn, which is a tuple of its own."""
    return round(num_episodes * (TOKEN_BYTES * sampled + POINTER * turns * context))


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
