"""A hardware profile: what a run may use, and the settings that only speed and memory depend on."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Literal

Device = Literal["cpu", "cuda"]
Dtype = Literal["float32", "bfloat16"]

BYTES = {"float32": 4, "bfloat16": 2}
"""Of one number of each dtype."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """One profile of `conf/hardware`."""

    num_processes: int = 1
    """Learner processes."""
    num_threads: int = 1
    """Of one process's matrix arithmetic; set before torch is imported."""
    device: Device = "cpu"
    dtype: Dtype = "float32"
    """Of the engine's weights and caches; the learner keeps float32."""
    num_slots: int = 64
    """Completions that are decoded at the same time; further ones wait for a free slot."""
    num_live: int = 80
    """Episodes under way at the same time: more than slots, so that these stay full while tools run."""
    num_tool_workers: int = 2
    """Threads that run environment steps and tool calls beside decoding."""
    tool_ticks: int = 1
    """Decoding ticks after which an observation is admitted: fixed, so that no schedule depends on the clock."""
    micro_batch_tokens: int = 4096
    """Tokens of one forward and backward pass; memory depends on it, the update does not."""

    def __post_init__(self) -> None:
        for name in ("num_processes", "num_threads", "num_slots", "num_live", "num_tool_workers", "tool_ticks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.micro_batch_tokens < 1:
            raise ValueError(f"micro_batch_tokens must be at least 1, not {self.micro_batch_tokens}")


def set_threads(num_threads: int, environ: MutableMapping[str, str] = os.environ) -> None:
    """Choose thread counts and passive waiting; useless once torch is imported.

    Spinning waits on a busy machine made one small product 145 times slower, hence OMP_WAIT_POLICY.
    """
    for name in THREAD_VARIABLES:
        environ[name] = str(num_threads)
    environ["OMP_WAIT_POLICY"] = "PASSIVE"
    environ["KMP_BLOCKTIME"] = "0"
    environ["TOKENIZERS_PARALLELISM"] = "true" if num_threads > 1 else "false"
