"""Estimate the bytes of an engine on each of its devices."""

from __future__ import annotations

from rlx.hardware.profile import BYTES, Hardware
from rlx.hardware.sizing.amounts import SHORT, Amount, Demand, exactly
from rlx.model.shape import Shape

VLLM_GRAPHS = 1_000_000_000
"""CUDA graphs of a vLLM engine, which stay while it sleeps."""

STEP_TOKENS = 8192
"""Tokens of vLLM's largest pass, as in rlx/rollout/vllm/start.py."""


def engine_amounts(hardware: Hardware, demand: Demand, have: int | None) -> dict[str, Amount]:
    """Return the memory of an engine on each of its devices."""
    weights = -(-BYTES[hardware.dtype] * demand.shape.num_parameters // hardware.tensor_parallel)
    context = context_bytes(hardware, demand)
    if not (hardware.engine == "vllm" and hardware.device == "cuda"):
        policy_amounts = {"engine weights": exactly(weights), **slots(hardware, context, demand.max_context)}
        beside = sum(policy_amounts.values(), exactly(0)) * demand.num_opponents
        return policy_amounts | ({"other policies": beside} if demand.num_opponents else {})
    work = vllm_work(hardware, demand.shape)
    room = context if have is None else max(context, int(hardware.engine_share * have) - weights - work)
    return {"engine weights": exactly(weights), "engine work": exactly(work), "KV cache": exactly(room)}


def slots(hardware: Hardware, context: int, max_context: int) -> dict[str, Amount]:
    """Return the caches of slots that are decoded at once, `context` bytes each. The torch engine's are one buffer, an
    eighth longer than its longest row at most, and there twice where it is laid out anew; contexts that wait for a
    tool, or have ended and may be left, are copies outside it (rlx/rollout/torch/prefix_store.py)."""
    full = context * hardware.num_slots
    short = min(full, full * SHORT // max_context)
    if hardware.engine == "vllm":
        return {"KV cache": Amount(least=short, most=full)}
    return {"KV cache": Amount(least=short, most=2 * full * 9 // 8), "kept contexts": Amount(least=0, most=full)}


def vllm_work(hardware: Hardware, shape: Shape) -> int:
    """Count the bytes of a vLLM engine on a GPU beside weights and cache: graphs, its largest pass (gate and up, their
    product, four vectors of the residual width), and a float32 logit of every slot and token three times."""
    widest = max(layer.wide for layer in shape.stack)
    wide = -(-3 * widest // hardware.tensor_parallel) + 4 * shape.width
    logits = 3 * 4 * hardware.num_slots * (shape.vocabulary + shape.added)
    return VLLM_GRAPHS + STEP_TOKENS * BYTES[hardware.dtype] * wide + logits


def context_bytes(hardware: Hardware, demand: Demand) -> int:
    """Count the bytes of one full context on each device of an engine: keys, values and recurrent state."""
    return round(demand.shape.cache_bytes(demand.max_context, BYTES[hardware.dtype], hardware.tensor_parallel))


def cache_notes(hardware: Hardware, demand: Demand, have: int | None) -> tuple[str, ...]:
    """Say how many full contexts a vLLM engine's share of the memory holds."""
    if not (hardware.engine == "vllm" and hardware.device == "cuda") or have is None:
        return ()
    cache = engine_amounts(hardware, demand, have)["KV cache"].most
    num, full = cache // context_bytes(hardware, demand), demand.max_context
    return (f"the cache holds {num:,} x a full context of {full:,} tokens for {hardware.num_slots:,} slots",)
