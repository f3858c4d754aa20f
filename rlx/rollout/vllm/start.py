"""The start of vLLM in this process, from a config alone.

Kernels. On CPU vLLM packs weights for its own kernels while it builds the model, and silently ignores weights loaded
later. So its choice of kernel is replaced, during the build, by torch's linear map, which reads the weights in place.

End. At its end vLLM also ends torch.distributed's process group, which the learner's processes still use. This file
prevents that.
"""

from __future__ import annotations

import atexit
import gc
import json
import logging
import warnings
import weakref
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlx.base.regular import write_aside
from rlx.rollout.vllm.settings import Settings, launch_settings, memory_settings
from rlx.runs.cache import cache_folder, refusal, scratch_folder
from rlx.runs.folder import digest_of

STEP_TOKENS = 8192
"""Tokens of one engine step; the rest of a longer prompt waits for the next step."""


def import_vllm() -> None:
    """Import vLLM in a thread with an empty stack. vLLM keeps the frame of its import forever, with every frame below
    it, and one of these holds a learner."""
    with ThreadPoolExecutor(1) as thread:
        for name in ("vllm", "vllm.v1.sample.logits_processor", "vllm.model_executor.layers.utils"):
            thread.submit(import_module, name).result()


def start_vllm(settings: Settings, processor: type | None) -> Any:
    """Start an LLM with dummy weights from a config alone, and restore this process's torch settings."""
    set_num_threads = torch.set_num_threads
    with plain_kernels(settings.device):
        from vllm import LLM

        llm = LLM(
            model=str(model_folder(settings.config)),
            skip_tokenizer_init=True,
            load_format="dummy",
            generation_config="vllm",
            enable_prefix_caching=settings.caches_prefixes,
            async_scheduling=False,
            logprobs_mode="processed_logprobs",
            enforce_eager=settings.device == "cpu",
            seed=0,
            dtype=str(settings.dtype).removeprefix("torch."),
            max_model_len=settings.max_context,
            max_num_seqs=settings.num_slots,
            max_num_batched_tokens=STEP_TOKENS,
            tensor_parallel_size=settings.tensor_parallel,
            enable_sleep_mode=settings.sleeps,
            logits_processors=processor and [processor],
            **launch_settings(settings.device),
            **memory_settings(settings),
        )
    torch.set_num_threads = set_num_threads
    gc.unfreeze()  # vLLM freezes all there is, the learner too: none of it would ever be collected
    spare_process_group(llm.llm_engine.engine_core)
    leave_no_file()
    return llm


def model_folder(config: Mapping[str, Any]) -> Path:
    """Write the config into a folder and return the folder; vLLM reads nothing else. vLLM's cache of compiled
    models depends on the folder's name, so equal configs share a folder. The folder stays, for processes that start
    together."""
    place = scratch_folder() if refusal() else cache_folder()
    folder = place / "vllm" / digest_of(config)
    folder.mkdir(parents=True, exist_ok=True)
    write_aside(folder / "config.json", json.dumps(config))
    return folder


def leave_no_file() -> None:
    """Remove, at this process's exit, the file of vLLM's process group through which its members find each other."""
    group = torch.distributed.distributed_c10d
    store: Any = group._get_default_store() if torch.distributed.is_initialized() else None
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    path = getattr(store, "path", None)
    if path is not None:
        atexit.register(Path(path).unlink, missing_ok=True)


def spare_process_group(client: Any) -> None:
    """Restrict vLLM's cleanup to its worker, so that torch.distributed's process group survives."""
    client._finalizer.detach()
    weakref.finalize(client, client.engine_core.model_executor.shutdown)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress vLLM's warnings during its start."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def plain_kernels(device: str) -> Iterator[None]:
    """Give linear maps torch's kernel, which reads weights in place, while a model is built on CPU.

    Ranks of tokens, which nobody requests here, are counted without vLLM's kernel from then on. A C compiler would have
    to build that kernel at the first step, which takes seconds and is slower afterwards.
    """
    if device != "cpu":
        yield
        return
    from vllm.model_executor.layers import utils
    from vllm.v1.sample import sampler

    sampler.batched_count_greater_than = count_greater
    original = utils.dispatch_cpu_unquantized_gemm
    utils.dispatch_cpu_unquantized_gemm = use_torch
    try:
        yield
    finally:
        utils.dispatch_cpu_unquantized_gemm = original


def count_greater(values_BV: Tensor, reference_B1: Tensor) -> Tensor:
    return (values_BV >= reference_B1).sum(-1)


def use_torch(layer: Any, remove_weight: bool) -> None:
    layer.cpu_linear = torch.nn.functional.linear
