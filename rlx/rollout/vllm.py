"""vLLM itself, in this process, stepped by hand: started, given weights and requests. The only file that imports it.

Weights. vLLM starts from a config alone, with dummy weights, and takes a policy's by the way that every later load
goes: the model's own `load_weights`, in place. A weight of the model's that got none is an error, not noise. On CPU
vLLM packs weights for its own kernels as it builds the model, and what is loaded later is silently not used; so its
choice of kernel is replaced, while the model is built, by torch's linear map, which reads the weights where they lie.

Lives. Starting takes seconds and much of a device's memory, and vLLM allows a process one instance that can sleep. So
an instance whose engine is gone waits for the next engine of the same settings, a warm start's for its run's; another
one ends it. When vLLM ends an instance it also ends torch.distributed's process group, which is not its own: the
learner's processes speak through it. That is taken out of its hands here.

It speaks the interface for logits processors of the older model runner (VLLM_USE_V2_MODEL_RUNNER=0): there rows are
requests, one token each.
"""

from __future__ import annotations

import atexit
import gc
import json
import logging
import tempfile
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlx.rollout.automaton import Masks
from rlx.rollout.row import Row
from rlx.rollout.vllm_settings import Settings, launch_settings, memory_settings, set_environment
from rlx.rollout.vllm_weights import take_weights, take_weights_file, weights_file
from rlx.types import Sampling

STEP_TOKENS = 8192
"""Tokens that one engine step takes: of a longer prompt the rest waits for the next."""


class Vllm:
    """One running vLLM."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.rows: dict[str, Row] = {}
        """Requests under way, by the id vLLM knows them by: their place in the order of `add`."""
        self.masks = Masks(settings.num_ids, torch.device(settings.device))
        self.scores: dict[str, Tensor] = {}
        """Log-probs before top-k and top-p, of the newest token's place, for requests that filter."""
        self.asleep = False
        set_environment()
        with quiet():
            import_vllm()
            processor = processor_type(self.rows, self.masks, self.scores)
            self._llm = start_vllm(settings, processor if settings.in_process else None)

    def load(self, weights: Mapping[str, Tensor]) -> None:
        self.wake()
        if self.settings.in_process:
            self._llm.apply_model(partial(take_weights, weights=weights))
        else:
            with weights_file(weights) as path:
                self._llm.apply_model(partial(take_weights_file, path=path))
        if not self._llm.llm_engine.reset_prefix_cache():
            raise RuntimeError("vLLM engine: the prefix cache is in use and still holds what the old weights computed")

    def add(self, row: Row, eos_ids: Iterable[int]) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        self.wake()
        name, request, sampling = str(row.order), row.request, row.request.sampling
        parameters = SamplingParams(
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            seed=request.stream % 2**63,
            max_tokens=row.limit - len(row.ids),
            stop_token_ids=sorted(eos_ids),
            ignore_eos=True,
            logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            extra_args={"row": name},
        )
        prompt = {"type": "token", "prompt_token_ids": list(request.prompt_ids)}
        self._llm.llm_engine.add_request(name, prompt, parameters)
        self.rows[name] = row

    def step(self) -> list[tuple[Row, Any]]:
        """What each row that was sampled for got."""
        if not self.rows:
            return []
        return [(self.rows[output.request_id], output) for output in self._llm.llm_engine.step()]

    def drop(self, row: Row, abort: bool) -> None:
        """Forget a row; `abort` tells vLLM, which does not know yet."""
        name = str(row.order)
        self.scores.pop(name, None)
        if self.rows.pop(name, None) is not None and abort:
            self._llm.llm_engine.abort_request([name])

    def sleep(self) -> None:
        """Give the device's memory back: weights go to the machine's, caches are dropped."""
        if not self.asleep:
            self._llm.sleep(level=1)
            self.asleep = True

    def wake(self) -> None:
        if self.asleep:
            self._llm.wake_up()
            self.asleep = False


IDLE: list[Vllm] = []
"""The instance whose engine is gone, if there is one."""


def lend(settings: Settings) -> Vllm:
    """The idle instance if it will do, or a new one, after what is idle has ended."""
    if IDLE and IDLE[0].settings == settings:
        return IDLE.pop()
    if IDLE:
        IDLE.clear()
        gc.collect()
    return Vllm(settings)


def give_back(vllm: Vllm) -> None:
    """Keep an instance that nobody uses any more for the next engine."""
    for row in list(vllm.rows.values()):
        vllm.drop(row, abort=True)
    if vllm.settings.sleeps:
        vllm.sleep()
    IDLE[:] = [vllm]


def end_idle() -> None:
    """End the idle instance, unless it sleeps: of those a process has one, for its whole life."""
    if IDLE and not IDLE[0].settings.sleeps:
        IDLE.clear()
        gc.collect()


def import_vllm() -> None:
    """In a thread, whose stack is bare: something that vLLM imports keeps the frame of its import for good, and with it
    every frame below, of which one has a learner in it."""
    with ThreadPoolExecutor(1) as thread:
        for name in ("vllm", "vllm.v1.sample.logits_processor", "vllm.model_executor.layers.utils"):
            thread.submit(import_module, name).result()


def start_vllm(settings: Settings, processor: type | None) -> Any:
    """An LLM with dummy weights, from a config alone, that leaves this process's torch as it was."""
    set_num_threads = torch.set_num_threads
    with tempfile.TemporaryDirectory(prefix="rlx-vllm-") as folder, plain_kernels(settings.device):
        from vllm import LLM

        (Path(folder) / "config.json").write_text(json.dumps(settings.config), encoding="utf-8")
        llm = LLM(
            model=folder,
            skip_tokenizer_init=True,
            load_format="dummy",
            generation_config="vllm",
            enable_prefix_caching=True,
            async_scheduling=False,
            logprobs_mode="processed_logprobs",
            enforce_eager=settings.device == "cpu",
            seed=0,
            dtype=str(settings.dtype).removeprefix("torch."),
            max_model_len=settings.max_context,
            max_num_seqs=settings.num_slots,
            max_num_batched_tokens=step_tokens(settings),
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


def step_tokens(settings: Settings) -> int:
    """On a GPU, whose memory grows with it, no more for long contexts; on CPU a whole prompt, since a seed's generator
    there cannot take back what was drawn after a part of one."""
    return STEP_TOKENS if settings.device != "cpu" else max(STEP_TOKENS, settings.max_context)


def leave_no_file() -> None:
    """At this process's end remove the file by which vLLM's process group, where it made one, finds its members."""
    group = torch.distributed.distributed_c10d
    store: Any = group._get_default_store() if torch.distributed.is_initialized() else None
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    path = getattr(store, "path", None)
    if path is not None:
        atexit.register(Path(path).unlink, missing_ok=True)


def spare_process_group(client: Any) -> None:
    """Let vLLM's end, whenever its garbage is collected, be that of its worker alone."""
    client._finalizer.detach()
    weakref.finalize(client, client.engine_core.model_executor.shutdown)


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings that vLLM gives on its way, which are nobody's here."""
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
    """While a model is built on CPU, give its linear maps torch's kernel, which reads weights where they lie.

    And for good, count ranks of tokens (which nobody here asks for) without a kernel that a C compiler has to make at
    the first step: that takes seconds, and is slower afterwards.
    """
    if device != "cpu":
        yield
        return
    from vllm.model_executor.layers import utils
    from vllm.v1.sample import sampler

    sampler.batched_count_greater_than = count_greater
    kept = utils.dispatch_cpu_unquantized_gemm
    utils.dispatch_cpu_unquantized_gemm = use_torch
    try:
        yield
    finally:
        utils.dispatch_cpu_unquantized_gemm = kept


def count_greater(values_BV: Tensor, of_B1: Tensor) -> Tensor:
    return (values_BV >= of_B1).sum(-1)


def use_torch(layer: Any, remove_weight: bool) -> None:
    layer.cpu_linear = torch.nn.functional.linear


def is_filtered(sampling: Sampling) -> bool:
    """Whether its log-probs before and after the filters differ."""
    return sampling.temperature > 0 and (sampling.top_k > 0 or sampling.top_p < 1)


def processor_type(rows: Mapping[str, Row], masks: Masks, scores: dict[str, Tensor]) -> type:
    """vLLM's logits processor for one engine: masks by automata, and writes the `scores` that filters would change."""
    from vllm.v1.sample.logits_processor import LogitsProcessor
    from vllm.v1.sample.logits_processor.builtin import process_dict_updates

    def row_of(params: Any, *_: object) -> Row | None:
        row = rows.get((params.extra_args or {}).get("row", ""))
        return row if row is not None and (row.walk is not None or is_filtered(row.request.sampling)) else None

    class Processor(LogitsProcessor):
        def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None:
            self.places: dict[int, Row] = {}

        def is_argmax_invariant(self) -> bool:
            return False

        def update_state(self, batch_update: Any) -> None:
            process_dict_updates(self.places, batch_update, row_of)

        def apply(self, logits: Tensor) -> Tensor:
            walks = [getattr(self.places.get(place), "walk", None) for place in range(len(logits))]
            masked = masks.apply(logits, walks) if any(walks) else logits
            keep_scores(masked, {place: row for place, row in self.places.items() if place < len(logits)}, scores)
            return masked

    return Processor


def keep_scores(logits_BV: Tensor, places: Mapping[int, Row], scores: dict[str, Tensor]) -> None:
    """Log-probs of the rows whose sampling filters, at their temperature."""
    filtered = {place: row for place, row in places.items() if is_filtered(row.request.sampling)}
    if not filtered:
        return
    temperatures = [[row.request.sampling.temperature] for row in filtered.values()]
    logits = logits_BV[list(filtered)] / torch.tensor(temperatures, device=logits_BV.device)
    for row, line in zip(filtered.values(), torch.log_softmax(logits, -1), strict=True):
        scores[str(row.order)] = line
