"""Check that a profile's packages and devices are on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping

from rlx.hardware.machine import gpus
from rlx.hardware.packages import find_version, how_to_get, lacks
from rlx.hardware.profile import Hardware
from rlx.hardware.sizing.fit import FitError

CPU_VLLM = "make setup-cluster in a checkout, and start the run with .venv-cluster/bin/rlx"


def check_packages(hardware: Hardware) -> None:
    torch = find_version("torch") or ""
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
    num_gpus, wanted = len(gpus()), hardware.devices_per_node
    if not num_gpus:
        raise FitError(
            "the profile wants a GPU and this machine has none: choose hardware=cpu, or submit it with "
            "hydra/launcher=slurm"
        )
    if wanted > num_gpus and "SLURM_JOB_ID" not in environ:
        raise FitError(
            f"the profile wants {wanted} GPUs on a machine and this one has {num_gpus}: choose a smaller profile (`rlx "
            "list hardware`), or submit it with hydra/launcher=slurm"
        )
