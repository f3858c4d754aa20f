"""vLLM's start: versions, environment, launcher and memory.

Nothing of vLLM is imported, so a run can be refused before any heavy import.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from rlx.hardware.packages import how_to_get, lacks
from rlx.model.logits import family_of
from rlx.model.shape import read_shape

REMEDY = f"{how_to_get('vllm')} on a machine with CUDA; on CPU, `make setup-cluster` and .venv-cluster/bin/rlx"
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_PLUGINS": "",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
"""Environment variables of vLLM, set before its import."""
PROVENANCE = ("_name_or_path", "transformers_version", "dtype", "torch_dtype")
"""Keys of a config that do not affect the model's shape."""
CPU_BLOCK = 32
"""Tokens of a cache block on CPU. vLLM's default, 128, would rarely share the prefix of a short prompt."""


class VllmError(RuntimeError):
    """Unusable vLLM: a message of one line with the cause, the place and the remedy."""

    exit_code = 2


def check_vllm() -> None:
    """Raise VllmError unless a tested vLLM is installed, without an import of it."""
    wrong = lacks("vllm")
    if wrong:
        raise VllmError(f"hardware.engine=vllm: {wrong}; {REMEDY}")


def set_environment() -> None:
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Start settings of a vLLM instance. Instances with equal settings are interchangeable."""

    config: Mapping[str, Any]
    num_slots: int
    device: str
    dtype: torch.dtype
    max_context: int
    memory: float
    tensor_parallel: int
    sleeps: bool

    @property
    def num_ids(self) -> int:
        return int(self.config["vocab_size"])

    @property
    def caches_prefixes(self) -> bool:
        """Flag: contexts share cached prefixes. vLLM's cache for layers with recurrent state gives wrong output and few
        hits, and is off by default there."""
        return not family_of(self.config).recurrent

    @property
    def in_process(self) -> bool:
        """Flag: the only worker is this process."""
        return self.tensor_parallel == 1


def config_of(config: Any) -> dict[str, Any]:
    """Return config.json without provenance but with the class's name. A config made by hand lacks the name, and the
    language model inside a wrapper has the wrapper's."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as NAMES

    tree = {key: value for key, value in config.to_dict().items() if key not in PROVENANCE}
    name = NAMES.get(config.model_type)
    return tree | {"architectures": [name] if name else tree.get("architectures")}


def launch_settings(device: str) -> dict[str, Any]:
    """Return launcher settings: each of several learner processes has an engine within the existing process group."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1):
        return {}
    os.environ.setdefault("RANK", str(distributed.get_rank()))
    os.environ.setdefault("LOCAL_RANK", str(torch.cuda.current_device() if device == "cuda" else 0))
    return {"distributed_executor_backend": "external_launcher"}


def memory_settings(settings: Settings) -> dict[str, Any]:
    """Return memory settings: on CUDA a share of the device, on CPU a cache for every slot's context within a share."""
    if settings.device != "cpu":
        return {"gpu_memory_utilization": settings.memory}
    token = read_shape(settings.config).cached * settings.dtype.itemsize
    wanted = token * (settings.num_slots * settings.max_context + CPU_BLOCK)
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"kv_cache_memory_bytes": min(wanted, int(settings.memory * machine)), "block_size": CPU_BLOCK}
