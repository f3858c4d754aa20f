"""How long a step takes on a profile: rollout, update and sync from the sizes of the model and of the machine.

    rollout  ticks x max(bytes read / bandwidth, FLOPs / peak) + overheads, and the prefill's FLOPs
    update   max(FLOPs / peak, bytes sent / link) over micro-batches, the optimizer's bytes, the weights' way back
    sync     the weights' way to the engines

Decoding reads every weight and every cached key and value once a tick; a token costs 2 FLOPs a parameter forward and 4
backward (Kaplan et al. 2020, arXiv:2001.08361), 2 more where activations are recomputed; a ring moves (n-1)/n of a
message over its slowest link, twice to add up (Rajbhandari et al. 2020, arXiv:1910.02054, section 7). Everything is
per process and assumes that work is spread evenly and episodes are alike: a lower bound with efficiencies put in.
What the efficiencies are, and how the model compares with measured runs, is in docs/scaling.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlx.hardware.memory import layer_parameters, vllm_work, zero_stage
from rlx.hardware.profile import BYTES, Hardware
from rlx.model.shape import Shape, num_parameters

ADAM_BYTES = 28
"""Of one parameter's step: weight, gradient and two moments read, three written, float32."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What one device does in a second, and how devices reach each other. Peaks as published."""

    name: str
    flops: float
    """Of the learner's and the engine's dtype, dense."""
    bandwidth: float
    """Bytes a second between a device and its memory."""
    memory: float = float("inf")
    """Bytes of one device."""
    link: float = float("inf")
    """Bytes a second from one device to another in the same machine, one way."""
    network: float = float("inf")
    """Bytes a second from one machine to another, all adapters together, one way."""
    host: float = float("inf")
    """Bytes a second between a device and its machine's memory, one way."""


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """The share of each peak that is reached, and what every tick and layer costs whatever the size."""

    update: float = 0.40
    prefill: float = 0.50
    decode: float = 0.60
    """Of the memory's bandwidth."""
    links: float = 0.70
    tick: float = 0.005
    """Seconds of a decoding tick beside the model: schedule, sampling, launches."""
    layer: float = 0.0
    """Seconds of a layer in a decoding tick beside its arithmetic."""
    hop: float = 20e-6
    """Seconds of one sum over the devices of an engine."""
    http: float = 1.0e9
    """Bytes a second of weights to one server."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """The episodes of one step: tokens of each, and how many share a prompt."""

    episodes: int = 256
    samples: int = 16
    prompt: int = 100
    sampled: int = 200
    observed: int = 50
    """Of tools' answers, prefilled but not sampled."""
    reference: bool = False
    critic: bool = False
    plays: bool = True
    """A policy samples them; demonstrations cost no rollout."""
    forked: float = 0.0
    """Forks of each: more to decode, and no more to prefill or to learn, as a twin is learned from instead."""
    epochs: int = 1
    """Passes of the update over them."""
    updates: int = 1
    """Optimizer steps of all passes together."""
    trained: int | None = None
    """Parameters of adapters, where these alone are trained: no gradient of the others is taken, sent or stepped."""

    @property
    def context(self) -> float:
        """Tokens that a sampled token sees, on average."""
        return self.prompt + (self.sampled + self.observed) / 2

    @property
    def tokens(self) -> float:
        """That an update passes over: a group's prompt stands once."""
        return self.episodes * (self.prompt / self.samples + self.sampled + self.observed)


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Seconds of the three parts, and of the whole as they overlap."""

    decode: float
    prefill: float
    compute: float
    messages: float
    optimizer: float
    sync: float
    overlaps: bool

    @property
    def rollout(self) -> float:
        return self.decode + self.prefill

    @property
    def update(self) -> float:
        return max(self.compute, self.messages) + self.optimizer

    @property
    def seconds(self) -> float:
        both = max(self.rollout, self.update) if self.overlaps else self.rollout + self.update
        return both + self.sync

    @property
    def limit(self) -> str:
        """The largest part."""
        parts = {
            "decode": self.decode,
            "prefill": self.prefill,
            "update": self.compute,
            "messages": self.messages if self.messages > self.compute else 0.0,
            "optimizer": self.optimizer,
            "sync": self.sync,
        }
        return max(parts, key=lambda name: parts[name])


def estimate_step(
    shape: Shape, hardware: Hardware, machine: Machine, load: Load, efficiency: Efficiency | None = None
) -> StepTime:
    """One step of a run on a profile of such machines."""
    shares, adam = efficiency or Efficiency(), load.trained or num_parameters(shape)
    flops = update_flops(shape, hardware, load)
    return StepTime(
        decode=(1 + load.forked) * decode_seconds(shape, hardware, machine, load, shares) if load.plays else 0.0,
        prefill=prefill_seconds(shape, hardware, machine, load, shares) if load.plays else 0.0,
        compute=flops / hardware.num_processes / machine.flops / shares.update,
        messages=message_bytes(shape, hardware, load) / ring(hardware, machine, shares),
        optimizer=load.updates * optimizer_seconds(adam, hardware, machine, shares),
        sync=sync_seconds(shape, hardware, machine, shares) if load.plays else 0.0,
        overlaps=hardware.staleness > 0,
    )


def body_parameters(shape: Shape) -> int:
    """Of the matrices that every token passes: the layers."""
    return shape.layers * layer_parameters(shape)


def head_parameters(shape: Shape) -> int:
    return shape.vocabulary * shape.width


def attention_flops(shape: Shape, context: float) -> float:
    """Of one token forward: its query with every key, its weights with every value."""
    return 4 * shape.layers * shape.heads * shape.head_size * context


def num_engines(hardware: Hardware) -> int:
    return hardware.num_servers or max(1, hardware.num_processes // hardware.tensor_parallel)


def decode_seconds(shape: Shape, hardware: Hardware, machine: Machine, load: Load, shares: Efficiency) -> float:
    """Every slot takes `sampled` ticks, as often as the episodes of the busiest engine fill its slots, or its cache."""
    episodes = -(-load.episodes // num_engines(hardware))
    rows = min(hardware.num_slots, episodes, cached_rows(shape, hardware, machine, load))
    ticks = load.sampled * -(-episodes // rows)
    return ticks * tick_seconds(shape, hardware, machine, rows, load.context, shares)


def cache_bytes(shape: Shape, hardware: Hardware, context: float) -> float:
    """Keys and values of one context."""
    return context * shape.cached * BYTES[hardware.dtype]


def cached_rows(shape: Shape, hardware: Hardware, machine: Machine, load: Load) -> int:
    """Contexts of average length that a vLLM engine's share of the memory holds, one at least."""
    if hardware.engine != "vllm" or math.isinf(machine.memory):
        return hardware.num_slots
    room = hardware.engine_memory * machine.memory - vllm_work(hardware, shape)
    free = hardware.tensor_parallel * room - BYTES[hardware.dtype] * num_parameters(shape)
    return max(1, int(free / cache_bytes(shape, hardware, load.context)))


def tick_seconds(
    shape: Shape, hardware: Hardware, machine: Machine, rows: int, context: float, shares: Efficiency
) -> float:
    """One token for each of `rows` contexts."""
    number, split = BYTES[hardware.dtype], hardware.tensor_parallel
    weights = number * (body_parameters(shape) + head_parameters(shape))
    cache = rows * cache_bytes(shape, hardware, context)
    read = (weights + cache) / split / machine.bandwidth / shares.decode
    flops = rows * (2 * (body_parameters(shape) + head_parameters(shape)) + attention_flops(shape, context))
    sums = 2 * shape.layers * (shares.hop + rows * shape.width * number / machine.link) if split > 1 else 0.0
    return max(read, flops / split / machine.flops / shares.prefill) + sums + shares.tick + shape.layers * shares.layer


def prefill_seconds(shape: Shape, hardware: Hardware, machine: Machine, load: Load, shares: Efficiency) -> float:
    """Each group's prompt once, and every observation, of the busiest engine."""
    episodes = -(-load.episodes // num_engines(hardware))
    tokens = episodes * (load.prompt / load.samples + load.observed)
    flops = tokens * (2 * body_parameters(shape) + attention_flops(shape, load.context))
    return flops / hardware.tensor_parallel / machine.flops / shares.prefill


def update_flops(shape: Shape, hardware: Hardware, load: Load) -> float:
    """Forward and backward of all tokens in each epoch, the head's at sampled tokens only and forward twice
    (logprob.py), after what is measured before."""
    frozen, measured = 2 * (load.trained is not None), 2 * num_measured(hardware, load)
    body = body_parameters(shape) + attention_flops(shape, load.context) / 2
    passes = load.epochs * ((8 if hardware.recompute else 6) - frozen) + measured
    of_head = load.epochs * (8 - frozen) + measured
    return load.tokens * passes * body + load.episodes * load.sampled * of_head * head_parameters(shape)


def num_measured(hardware: Hardware, load: Load) -> int:
    """Forward passes before the update: under the start policy, and under the weights that are about to move."""
    return load.reference + (load.critic or (load.plays and hardware.importance_cap is not None))


def num_micro_batches(hardware: Hardware, load: Load) -> int:
    """Of each process."""
    return max(1, -(-int(load.tokens) // hardware.num_processes // hardware.micro_batch_tokens))


def message_bytes(shape: Shape, hardware: Hardware, load: Load) -> float:
    """What each process sends in a step: gradients in float32, added up once an update (stage 0, 1) or scattered after
    every micro-batch (2, 3); weights gathered once an update (1, 2), or for every pass of every micro-batch (3)."""
    num, count = num_parameters(shape), num_micro_batches(hardware, load)
    stage, number = zero_stage(hardware), BYTES[hardware.learner_dtype]
    passes, scattered = load.epochs * (2 + hardware.recompute) + num_measured(hardware, load), load.epochs * count
    gradients = (
        4 * (load.trained or num) * {0: 2 * load.updates, 1: 2 * load.updates, 2: scattered, 3: scattered}[stage]
    )
    weights = number * num * {0: 0, 1: load.updates, 2: load.updates, 3: passes * count}[stage]
    return (gradients + weights) * (hardware.num_processes - 1) / hardware.num_processes


def ring(hardware: Hardware, machine: Machine, shares: Efficiency) -> float:
    """Bytes a second around all processes: several rings leave a machine, each by another adapter."""
    slowest = min(machine.link, machine.network) if hardware.num_nodes > 1 else machine.link
    return slowest * shares.links


def optimizer_seconds(trained: int, hardware: Hardware, machine: Machine, shares: Efficiency) -> float:
    """Adam on this process's share; offloaded, gradients come down, weights go up, and the host is the slowest."""
    num = trained / (hardware.num_processes if zero_stage(hardware) else 1)
    if hardware.offload:
        return num * (ADAM_BYTES + 4 + BYTES[hardware.learner_dtype]) / (machine.host * shares.links)
    return num * ADAM_BYTES / (machine.bandwidth * shares.decode)


def sync_seconds(shape: Shape, hardware: Hardware, machine: Machine, shares: Efficiency) -> float:
    """Gather what ZeRO 3 shares out, then to servers by HTTP, or into the same device, where an engine that slept has
    none."""
    num, processes = num_parameters(shape), hardware.num_processes
    gathered = BYTES[hardware.learner_dtype] * num * (processes - 1) / processes if zero_stage(hardware) == 3 else 0.0
    seconds = gathered / ring(hardware, machine, shares)
    weights = BYTES[hardware.dtype] * num
    if hardware.num_servers:
        return seconds + weights / min(shares.http, machine.network * shares.links / hardware.num_servers)
    return seconds + 2 * weights / (machine.bandwidth * shares.decode)
