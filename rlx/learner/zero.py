"""Configuration of DeepSpeed's ZeRO, and access to the tensors of its optimizers; DeepSpeed itself is not imported."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rlx.hardware.profile import Hardware
from rlx.hardware.sizing.update_sizes import bucket_elements
from rlx.learner.scorer import Scorer

MOMENTS = ("exp_avg", "exp_avg_sq")
"""Names of Adam's moments of a parameter."""
PERSISTENT = 10_000
"""Under ZeRO 3, parameters with fewer elements stay whole on every rank."""


def num_trained(scorer: Scorer) -> int:
    """Count the elements of all trained parameters."""
    return sum(p.numel() for _, p in scorer.trained())


def engine_config(hardware: Hardware, stage: int, low: bool, max_norm: float, num_elements: int) -> dict[str, Any]:
    """Build the configuration that DeepSpeed reads.

    The training loop chooses micro-batches and ends steps, so both counts are 1 here.
    """
    # The gradient bucket takes its full size however few gradients are in it, hence `num_elements`.
    # memory_efficient_linear puts DeepSpeed's linear product into torch, for the whole process and for good. On a CPU
    # the products are ours (rlx/learner/products.py), so it is off there.
    zero: dict[str, Any] = {
        "stage": stage,
        "memory_efficient_linear": hardware.device == "cuda",
        "stage3_param_persistence_threshold": PERSISTENT,
        "reduce_bucket_size": bucket_elements(num_elements),
    }
    if hardware.offload:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": hardware.device == "cuda"}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": max_norm if stage else 0.0,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "communication_data_type": "fp32",
        **({"bf16": {"enabled": True, "check_grad_overflow": True}} if low else {}),
        **({"data_types": {"grad_accum_dtype": "fp32"}} if low else {}),
    }


def base_optimizer(engine: Any) -> Any:
    """Return torch's optimizer from inside DeepSpeed's."""
    return getattr(engine.optimizer, "optimizer", engine.optimizer)


def flats(optimizer: Any, stage: int) -> list[Tensor]:
    """Return the tensors that Adam updates on this rank: parameters, or under ZeRO flat partitions of them."""
    if stage == 0:
        return [p for group in optimizer.param_groups for p in group["params"]]
    return list(optimizer.fp32_partitioned_groups_flat if stage == 3 else optimizer.single_partition_of_fp32_groups)
