"""Facts of a run that its memory depends on, and the share of a device that its engine gets."""

from __future__ import annotations

from dataclasses import replace

from rlx.hardware.sizing.amounts import Demand, num_trained
from rlx.hardware.sizing.share import Share, choose_share, device_memory
from rlx.model.shape import Shape, find_shape
from rlx.protocol.drawn import added_by
from rlx.run.policies import Frozen, distinct_policies
from rlx.run.run import Run


def shape_of(run: Run) -> Shape | None:
    """Return the shape of a run's model with a row for every action that the model has or that the run's protocols add;
    None where it is not known."""
    stored = find_shape({"path": run.model.path, "shape": run.model.shape})
    return stored and replace(stored, added=max(stored.added, len(added_by(run.dialects))))


def demand_of(run: Run, shape: Shape | None) -> Demand | None:
    """Return what the memory of a run and its warm starts depends on; None where the model's shape is not known."""
    if shape is None:
        return None
    stages = run.stages()
    algos = [stage.algo for stage in stages]
    num_head = shape.width + 1 if any(algo.critic for algo in algos) else 0
    return Demand(
        shape=shape,
        num_trained=num_trained(run.model.lora, shape) + num_head,
        adapted=run.model.lora is not None,
        needs_reference=any("reference" in algo.needs for algo in algos),
        max_context=max(stage.sampling.max_context for stage in stages),
        num_head=num_head,
        num_episodes=run.algo.num_prompts * (run.algo.sample.num_episodes + run.algo.sample.num_forks),
        frozen=any(algo.frozen_policy for algo in algos),
        num_opponents=sum(isinstance(policy, Frozen) for policy in distinct_policies(run.policies)),
    )


def share_of(run: Run) -> Share | None:
    """Choose the engine's share of a device; None where the user has, or no vLLM engine runs on a GPU."""
    hardware = run.hardware
    if hardware.engine_memory is not None or hardware.engine != "vllm" or hardware.device != "cuda":
        return None
    return choose_share(hardware, demand_of(run, shape_of(run)), device_memory(hardware))


def settle(run: Run) -> Run:
    """Return the run with the engine's share chosen where its profile leaves it open."""
    chosen = share_of(run)
    return run if chosen is None else replace(run, hardware=replace(run.hardware, engine_memory=chosen.share))
