"""Estimate how long a step takes on a profile, from the sizes of the model and of the machine.

    rollout  ticks x max(bytes read / bandwidth, FLOPs / peak) + overheads, the ticks of the longest episode, prefills
    update   max(FLOPs / peak, bytes sent / link) over micro-batches, the optimizer's bytes, batches made in Python
    sync     the weights' way to the engines

Decoding reads every weight and every cached key and value once a tick; a token costs 2 FLOPs a parameter forward and 4
backward (Kaplan et al. 2020, arXiv:2001.08361), 2 more where activations are recomputed; a ring moves (n-1)/n of a
message over its slowest link, twice to add up (Rajbhandari et al. 2020, arXiv:1910.02054, section 7). Work is spread
evenly over processes. docs/scaling.md has the sources of the efficiencies and compares the model with measured runs.
"""

from __future__ import annotations

import math

from rlx.hardware.profile import BYTES, Hardware
from rlx.hardware.sizing.engine import vllm_work
from rlx.model.shape import Shape
from rlx.plan.peaks import Machine
from rlx.plan.step import Efficiency, Load, StepTime

ADAM_BYTES = 28
"""Bytes that one parameter's optimizer step moves: weight, gradient and two moments read, three written, float32."""
TAIL_ROWS = 8
"""The longest episodes are decoded in a batch of one in so many rows."""


def estimate_step(
    shape: Shape, hardware: Hardware, machine: Machine, load: Load, efficiency: Efficiency | None = None
) -> StepTime:
    """Estimate one step of a run on a profile of such machines."""
    shares, adam = efficiency or Efficiency(), load.trained or shape.num_parameters
    return StepTime(
        decode=decode_seconds(shape, hardware, machine, load, shares) if load.plays else 0.0,
        prefill=prefill_seconds(shape, hardware, machine, load, shares) if load.plays else 0.0,
        compute=compute_seconds(shape, hardware, machine, load, shares),
        messages=message_bytes(shape, hardware, load) / ring(hardware, machine, shares),
        optimizer=load.updates * optimizer_seconds(adam, hardware, machine, shares),
        sync=sync_seconds(shape, hardware, machine, shares) if load.plays else 0.0,
        host=shares.host * load.episodes * load.learners * load.sampled,
        overlaps=hardware.staleness > 0,
    )


def head_parameters(shape: Shape) -> int:
    return shape.vocabulary * shape.width


def attention_flops(shape: Shape, context: float) -> float:
    """Count one token's FLOPs forward: its query with every visible key, its weights with every value."""
    return 2 * sum(num * layer.mixed * layer.seen(context) for layer, num in shape.kinds)


def read_parameters(shape: Shape, rows: int) -> float:
    """Count the layers' parameters that a tick of so many rows reads, with the experts that some row chooses."""
    return sum(
        num * (layer.linear_parameters + layer.expert_parameters * layer.chosen(rows)) for layer, num in shape.kinds
    )


def decode_seconds(shape: Shape, hardware: Hardware, machine: Machine, load: Load, shares: Efficiency) -> float:
    """Estimate decoding on the busiest engine: its slots, or its cache, are full until no episode waits; then the
    longest goes on beside few others."""
    episodes = busiest(hardware, load)
    rows = min(hardware.num_slots, episodes, cached_rows(shape, hardware, machine, load))
    beyond = max(0, load.longest - load.sampled)
    # the torch engine reads every row as far as the longest one, which is halfway to its end on average
    width = load.context + (beyond / 2 if hardware.engine == "torch" else 0)
    full = tick_seconds(shape, hardware, machine, rows, width, shares)
    ending = load.prompt + (load.observed + load.sampled + beyond) / load.contexts
    few = tick_seconds(shape, hardware, machine, -(-rows // TAIL_ROWS), ending, shares)
    return load.agents * (load.sampled * episodes / rows * full + beyond * few)


def busiest(hardware: Hardware, load: Load) -> int:
    """Count the episodes of the busiest engine."""
    return -(-load.episodes // hardware.num_engines)


def cache_bytes(shape: Shape, hardware: Hardware, context: float) -> float:
    """Count the bytes of one context's keys, values and state."""
    return shape.cache_bytes(context, BYTES[hardware.dtype])


def cached_rows(shape: Shape, hardware: Hardware, machine: Machine, load: Load) -> int:
    """Count the contexts of average length that a vLLM engine's share of the memory holds, one at least."""
    if hardware.engine != "vllm" or math.isinf(machine.memory):
        return hardware.num_slots
    room = hardware.engine_share * machine.memory - vllm_work(hardware, shape)
    free = hardware.tensor_parallel * room - BYTES[hardware.dtype] * shape.num_parameters
    return max(1, int(free / cache_bytes(shape, hardware, load.context)))


def tick_seconds(
    shape: Shape, hardware: Hardware, machine: Machine, rows: int, context: float, shares: Efficiency
) -> float:
    """Estimate one tick: a token for each of `rows` contexts."""
    number, split = BYTES[hardware.dtype], hardware.tensor_parallel
    weights = number * (read_parameters(shape, rows) + head_parameters(shape))
    cache = rows * cache_bytes(shape, hardware, context)
    read = (weights / machine.bandwidth + cache / (machine.contexts or machine.bandwidth)) / split / shares.decode
    flops = rows * (2 * (shape.active_parameters + head_parameters(shape)) + attention_flops(shape, context))
    sums = 2 * shape.layers * (shares.hop + rows * shape.width * number / machine.link) if split > 1 else 0.0
    beside = shares.tick + rows * shares.row + shape.layers * shares.layer
    return max(read, flops / split / machine.flops / shares.prefill) + sums + beside


def prefill_seconds(shape: Shape, hardware: Hardware, machine: Machine, load: Load, shares: Efficiency) -> float:
    """Estimate the prefill on the busiest engine: each group's prompt once, every observation, and at each further
    turn the whole context of an episode whose cache was given to others."""
    again = (load.turns - 1) * load.context * estimate_evicted(shape, hardware, machine, load)
    tokens = busiest(hardware, load) * load.agents * (load.prompt / load.samples + load.observed + again)
    flops = tokens * (2 * shape.active_parameters + attention_flops(shape, load.context))
    return flops / hardware.tensor_parallel / machine.flops / shares.prefill


def estimate_evicted(shape: Shape, hardware: Hardware, machine: Machine, load: Load) -> float:
    """Return the share of episodes under way whose context does not stay in a vLLM engine's cache."""
    live = load.agents * min(hardware.num_live, busiest(hardware, load))
    if hardware.engine != "vllm":
        return 0.0
    return max(0.0, 1 - cached_rows(shape, hardware, machine, load) / live)


def compute_seconds(shape: Shape, hardware: Hardware, machine: Machine, load: Load, shares: Efficiency) -> float:
    """Estimate the arithmetic of the update, and what each layer costs whatever the size of a micro-batch."""
    matrices = matrix_flops(shape, hardware, load) / shares.of_update(shape)
    attention = mixing_flops(shape, hardware, load) / shares.attention
    passes = load.epochs * (3 + hardware.recompute) + num_measured(hardware, load)
    launches = num_micro_batches(hardware, load) * shape.layers * passes
    return (matrices + attention) / hardware.num_processes / machine.flops + launches * shares.launch


def matrix_flops(shape: Shape, hardware: Hardware, load: Load) -> float:
    """Count the FLOPs of the matrices, forward and backward in each epoch and forward in each measurement before. The
    head is computed at sampled tokens only, forward twice (logprob.py). Frozen matrices get no gradient."""
    frozen, measured = 2 * (load.trained is not None), 2 * num_measured(hardware, load)
    passes = load.epochs * ((8 if hardware.recompute else 6) - frozen) + measured
    head_passes = load.epochs * (8 - frozen) + measured
    head = load.episodes * load.learners * load.sampled * head_passes * head_parameters(shape)
    return load.tokens * passes * shape.active_parameters + head


def mixing_flops(shape: Shape, hardware: Hardware, load: Load) -> float:
    """Count the FLOPs of attention, forward and backward in each epoch and forward in each measurement before."""
    passes = load.epochs * (8 if hardware.recompute else 6) + 2 * num_measured(hardware, load)
    return load.tokens * passes * attention_flops(shape, load.context) / 2


def num_measured(hardware: Hardware, load: Load) -> int:
    """Count the forward passes before the update: under the start policy, and under the weights that are about to move,
    which a critic's values and importance weights share."""
    return load.reference + (load.critic or (load.plays and hardware.importance_cap is not None))


def num_micro_batches(hardware: Hardware, load: Load) -> int:
    """Count the micro-batches of each process."""
    return max(1, -(-int(load.tokens) // hardware.num_processes // hardware.micro_batch_tokens))


def message_bytes(shape: Shape, hardware: Hardware, load: Load) -> float:
    """Count the bytes that each process sends in a step: gradients in float32, added up once an update (stage 0, 1) or
    scattered after every micro-batch (2, 3); weights gathered once an update (1, 2), or for every pass of every
    micro-batch (3)."""
    num, count = shape.num_parameters, num_micro_batches(hardware, load)
    stage, number = hardware.effective_zero_stage, BYTES[hardware.learner_dtype]
    passes, scattered = load.epochs * (2 + hardware.recompute) + num_measured(hardware, load), load.epochs * count
    gradients = (
        4 * (load.trained or num) * {0: 2 * load.updates, 1: 2 * load.updates, 2: scattered, 3: scattered}[stage]
    )
    weights = number * num * {0: 0, 1: load.updates, 2: load.updates, 3: passes * count}[stage]
    return (gradients + weights) * (hardware.num_processes - 1) / hardware.num_processes


def ring(hardware: Hardware, machine: Machine, shares: Efficiency) -> float:
    """Return the bytes a second around all processes: several rings leave a machine, each by another adapter."""
    slowest = min(machine.link, machine.network) if hardware.num_nodes > 1 else machine.link
    return slowest * shares.links


def optimizer_seconds(trained: int, hardware: Hardware, machine: Machine, shares: Efficiency) -> float:
    """Estimate Adam on this process's share; offloaded, gradients come down, weights go up, and the host is the
    slowest."""
    num = trained / (hardware.num_processes if hardware.effective_zero_stage else 1)
    if hardware.offload:
        return num * (ADAM_BYTES + 4 + BYTES[hardware.learner_dtype]) / (machine.host * shares.links)
    return num * ADAM_BYTES / (machine.bandwidth * shares.decode)


def sync_seconds(shape: Shape, hardware: Hardware, machine: Machine, shares: Efficiency) -> float:
    """Estimate the weights' way: gathered where ZeRO 3 shares them out, then to servers by HTTP, or into an engine on
    the same device, which has slept and has none."""
    num, processes, is_gathered = shape.num_parameters, hardware.num_processes, hardware.effective_zero_stage == 3
    gathered = BYTES[hardware.learner_dtype] * num * (processes - 1) / processes if is_gathered else 0.0
    seconds = gathered / ring(hardware, machine, shares)
    weights = BYTES[hardware.dtype] * num
    if hardware.num_servers:
        return seconds + weights / min(shares.http, machine.network * shares.links / hardware.num_servers)
    asleep = shares.handover if hardware.engine == "vllm" and hardware.device == "cuda" else 0.0
    return seconds + asleep + 2 * weights / (machine.bandwidth * shares.decode)
