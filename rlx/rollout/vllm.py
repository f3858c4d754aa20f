"""The vLLM engine: vLLM in this process, stepped by hand. The only file that imports vLLM, and late.

Token ids go in and come out: vLLM gets no tokenizer, and stop strings are heard here, in the bytes of tokens, just as
the torch engine hears them. Log-probs are taken at temperature and mask ("processed_logprobs"); those of requests with
top-k or top-p are taken before these filters, by our own logits processor. It also masks by token automata, and a
sample outside its automaton raises. It speaks the interface of the older model runner (VLLM_USE_V2_MODEL_RUNNER=0):
there rows are requests, one token each.

Weights. vLLM starts from a config alone, with dummy weights, and takes the policy's by the way that every later `load`
goes: the model's own `load_weights`, in place. A weight of the model's that got none is an error, not noise. On CPU
vLLM packs weights for its own kernels as it builds the model, and what is loaded later is silently not used; so its
choice of kernel is replaced, while the model is built, by torch's linear map, which reads the weights where they lie.

Caches. vLLM's prefix cache finds what was computed before, in whole blocks; `release` leaves it to be evicted, `load`
empties it. `num_reused` counts tokens found that the session itself had computed, `num_shared` those of others.

Promises. A request's random numbers come from its own seed, its stream. The schedule depends on the requests alone. A
tick is one engine step; prompts of more tokens than one step takes need several.

A colocated engine on a GPU sleeps while no session is held: its weights wait in the machine's memory and its caches are
gone while the learner works; the next `add` or `load` wakes it.

A checkpoint with added output rows (an expanded action space) needs nothing here but a config whose `vocab_size` counts
them, and input rows for them, as vLLM looks sampled ids up in its input embedding; masks are `vocab_size` wide.
"""

from __future__ import annotations

import gc
import json
import logging
import math
import tempfile
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlx.rollout.automaton import Masks
from rlx.rollout.engine import Counts
from rlx.rollout.row import Row, common_prefix, open_row
from rlx.rollout.sampling import check_sampling
from rlx.rollout.stops import listen, token_bytes
from rlx.rollout.vllm_settings import (
    VllmError,
    check_vllm,
    config_of,
    launch_settings,
    memory_settings,
    set_environment,
)
from rlx.rollout.vllm_weights import take_weights, take_weights_file, weights_file
from rlx.types import Completion, Request, Sampling

STEP_TOKENS = 8192
"""Tokens that one engine step takes, at least."""


class VllmEngine:
    """See the module's docstring, and rlx.rollout.engine.Engine for the methods."""

    def __init__(
        self,
        *,
        config: Any,
        weights: Mapping[str, Tensor],
        tokenizer: Any,
        eos_ids: Collection[int],
        num_slots: int = 64,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        version: int = 0,
        max_context: int | None = None,
        memory: float = 0.4,
        tensor_parallel: int = 1,
        sleeps: bool = False,
    ) -> None:
        """As for the torch engine. `max_context`: tokens of the longest session, at most what the model can hold;
        `memory`: share of the device's memory to take; `sleeps`: give it back while no session is held (CUDA)."""
        check_vllm()
        set_environment()
        if device == "cpu" and tensor_parallel > 1:
            raise VllmError(f"hardware.tensor_parallel={tensor_parallel} needs device=cuda with engine=vllm")
        self.eos_ids = frozenset(eos_ids)
        self.max_context = min(max_context or math.inf, config.max_position_embeddings)
        self.sleeps = sleeps and device == "cuda"
        self._tick = self._num_added = 0
        self._counts = Counts()
        self._spelled = token_bytes(tokenizer)
        self._refused: list[Row] = []
        """Without room for a token; they end at the next step."""
        self._rows: dict[str, Row] = {}
        """Requests under way, by the id vLLM knows them by: their place in the order of `add`."""
        self._known: dict[int, list[int]] = {}
        """Sessions that were not released, and the context they have had computed."""
        self._masks = Masks(config.vocab_size, torch.device(device))
        self._scores: dict[str, Tensor] = {}
        self._num_ids = config.vocab_size
        self._in_process = tensor_parallel == 1
        with quiet():
            processor = processor_type(self._rows, self._masks, self._scores) if self._in_process else None
            self._llm = start_vllm(
                config,
                device,
                dtype=str(dtype).removeprefix("torch."),
                max_model_len=int(self.max_context),
                max_num_seqs=num_slots,
                max_num_batched_tokens=max(STEP_TOKENS, int(self.max_context)),
                tensor_parallel_size=tensor_parallel,
                enable_sleep_mode=self.sleeps,
                logits_processors=processor and [processor],
                **memory_settings(config, device, dtype, memory, num_slots * int(self.max_context)),
            )
        self._engine = self._llm.llm_engine
        self._asleep = False
        self.load(weights, version)
        self._doze()

    @property
    def tick(self) -> int:
        return self._tick

    @property
    def counts(self) -> Counts:
        return self._counts

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        if self._rows:
            raise ValueError("vLLM engine: a request is being decoded; step until it ends or release it before load")
        self._wake()
        if self._in_process:
            self._llm.apply_model(partial(take_weights, weights=weights))
        else:
            with weights_file(weights) as path:
                self._llm.apply_model(partial(take_weights_file, path=path))
        if not self._engine.reset_prefix_cache():
            raise RuntimeError("vLLM engine: the prefix cache is in use and still holds what the old weights computed")
        self._known = {session: [] for session in self._known}
        self.version = version

    def add(self, request: Request) -> None:
        where = f"session {request.session}"
        if self._under_way(request.session):
            raise ValueError(f"{where} has a request under way; wait for it or release the session")
        if not request.prompt_ids:
            raise ValueError(f"{where}: the prompt is empty; give it at least one token")
        if not (min(request.prompt_ids) >= 0 and max(request.prompt_ids) < self._num_ids):
            raise ValueError(f"{where}: the prompt has ids outside the model's vocabulary")
        check_sampling(request.sampling)
        self._check(request)
        row = open_row(self._num_added, request, self._masks)
        self._num_added += 1
        self._known.setdefault(request.session, [])
        if row.limit <= len(row.ids):
            self._refused.append(row)
            return
        self._wake()
        self._rows[str(row.order)] = row
        prompt = {"type": "token", "prompt_token_ids": list(request.prompt_ids)}
        self._engine.add_request(str(row.order), prompt, self._params(row))

    def _under_way(self, session: int) -> list[Row]:
        return [row for row in (*self._rows.values(), *self._refused) if row.request.session == session]

    def _check(self, request: Request) -> None:
        """What the torch engine can and vLLM cannot."""
        where, sampling = f"session {request.session}", request.sampling
        listen(request.stops)
        if sampling.max_context > self.max_context:
            raise ValueError(f"{where}: sampling.max_context is {sampling.max_context}, the model's {self.max_context}")
        if sampling.temperature > 2 or 0 < sampling.temperature < 0.01:
            raise ValueError(f"{where}: sampling.temperature is {sampling.temperature}; vLLM takes 0, or 0.01 to 2")
        if request.automaton is not None and not self._in_process:
            raise ValueError(f"{where}: a token automaton needs hardware.tensor_parallel=1 with engine=vllm")

    def _params(self, row: Row) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        sampling = row.request.sampling
        return SamplingParams(
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            seed=row.request.stream % 2**63,
            max_tokens=row.limit - len(row.ids),
            stop_token_ids=sorted(self.eos_ids),
            ignore_eos=True,
            logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            extra_args={"row": str(row.order)},
        )

    def release(self, session: int) -> None:
        for row in self._under_way(session):
            self._drop(row, abort=True)
        self._known.pop(session, None)
        self._doze()

    def _drop(self, row: Row, abort: bool) -> None:
        name = str(row.order)
        if self._rows.pop(name, None) is None:
            self._refused = [refused for refused in self._refused if refused is not row]
        elif abort:
            self._engine.abort_request([name])
        self._scores.pop(name, None)

    def step(self) -> list[tuple[Request, Completion]]:
        self._tick += 1
        finished = [(row, row.complete("context", self.version)) for row in self._refused]
        self._refused.clear()
        for row in self._rows.values():
            if row.walk is not None:
                row.walk.check(row.request.session)
        for output in self._engine.step() if self._rows else ():
            row = self._rows[output.request_id]
            completion = self._hear(row, output)
            if completion is not None:
                finished.append((row, completion))
        return [(row.request, completion) for row, completion in sorted(finished, key=lambda item: item[0].order)]

    def _hear(self, row: Row, output: Any) -> Completion | None:
        """Take what a row has sampled; its completion, if it ends with it."""
        if not row.logprobs:
            self._count(row, output.num_cached_tokens or 0)
        told, stop = output.outputs[0], None
        for token, scores in zip(told.token_ids, told.logprobs or (), strict=True):
            stop = row.take(token, self._score(row, token, scores[token].logprob), self.eos_ids, self._spelled)
            self._counts.num_sampled += 1
        if stop is None and output.finished:
            raise RuntimeError(f"session {row.request.session}: vLLM ended its request: {told.finish_reason}")
        if stop is None:
            return None
        self._drop(row, abort=not output.finished)
        self._known[row.request.session] = row.ids
        return row.complete(stop, self.version)

    def _score(self, row: Row, token: int, logprob: float) -> float:
        """A token's log-prob before top-k and top-p."""
        scores = self._scores.get(str(row.order))
        logprob = logprob if scores is None else float(scores[token])
        if not math.isfinite(logprob):
            raise FloatingPointError(
                f"session {row.request.session}: policy version {self.version} gives logits that are not finite; "
                "load good weights"
            )
        return logprob

    def _count(self, row: Row, cached: int) -> None:
        own = min(cached, common_prefix(self._known[row.request.session], row.request.prompt_ids))
        self._counts.num_reused += own
        self._counts.num_shared += cached - own
        self._counts.num_prefilled += len(row.request.prompt_ids) - cached

    def _doze(self) -> None:
        if self.sleeps and not self._asleep and not self._known:
            self._llm.sleep(level=1)
            self._asleep = True

    def _wake(self) -> None:
        if self._asleep:
            self._llm.wake_up()
            self._asleep = False


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


def start_vllm(config: Any, device: str, **settings: Any) -> Any:
    """An LLM with dummy weights, from a config alone, that leaves this process's torch as it was."""
    set_num_threads = torch.set_num_threads
    with tempfile.TemporaryDirectory(prefix="rlx-vllm-") as folder, plain_kernels(device):
        from vllm import LLM

        (Path(folder) / "config.json").write_text(json.dumps(config_of(config)), encoding="utf-8")
        llm = LLM(
            model=folder,
            skip_tokenizer_init=True,
            load_format="dummy",
            generation_config="vllm",
            enable_prefix_caching=True,
            async_scheduling=False,
            logprobs_mode="processed_logprobs",
            enforce_eager=device == "cpu",
            seed=0,
            **launch_settings(device),
            **settings,
        )
    torch.set_num_threads = set_num_threads
    gc.unfreeze()  # vLLM freezes all there is, the learner too: none of it would ever be collected
    return llm


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
