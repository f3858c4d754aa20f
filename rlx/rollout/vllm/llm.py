"""vLLM itself, in this process, stepped by hand: started, given weights and requests. The only file that imports it.

Weights. vLLM starts from a config alone, with dummy weights, and takes a policy's by the way that every later load
goes: the model's own `load_weights`, in place. A weight of the model's that got none is an error, not noise. On CPU
vLLM packs weights for its own kernels as it builds the model, and what is loaded later is silently not used; so its
choice of kernel is replaced, while the model is built, by torch's linear map, which reads the weights where they lie.

Lives. Starting takes seconds and much of a device's memory, and vLLM allows a process one instance that can sleep. So
an instance whose engine is gone waits for the next engine of the same settings, a warm start's for its run's; another
one ends it. When vLLM ends an instance it also ends torch.distributed's process group, which is not its own: the
learner's processes speak through it. That is taken out of its hands here.

Added actions. Their logits are joined to the model's own where it computes them; vLLM is told to have sampled what the
action is read as, so that it never sees an added id.

Sampling. Every token is chosen here, as the torch engine chooses: a logits processor draws for all rows at once, each
from its own stream, and leaves vLLM one choice. vLLM's own way, a seed for each request, is a generator and a kernel a
row and tick. It speaks the interface of the older model runner (VLLM_USE_V2_MODEL_RUNNER=0): there rows are requests,
one token each. Workers that are processes of their own (tensor_parallel > 1) sample vLLM's way.
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
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlx.model.expand import ROWS
from rlx.model.masks import Masks
from rlx.protocol.automaton import Automaton
from rlx.record.cache import cache_folder, refusal, scratch_folder
from rlx.record.folder import digest_of, write_aside
from rlx.rollout.choice import Chooser, force
from rlx.rollout.row import Row
from rlx.rollout.vllm.settings import Settings, launch_settings, memory_settings, set_environment
from rlx.rollout.vllm.weights import take_weights, take_weights_file, weights_file, widen
from rlx.types import Request

STEP_TOKENS = 8192
"""Tokens that one engine step takes: of a longer prompt the rest waits for the next."""


class Vllm:
    """One running vLLM."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.rows: dict[str, Row] = {}
        """Requests under way, by the id vLLM knows them by: their place in the order of `add`."""
        self.chooser = Chooser()
        self.added: list[Tensor] = []
        """The output rows of added actions, where requests may choose some."""
        self.num_added = 0
        self.chosen: dict[str, tuple[int, float]] = {}
        """Each row's newest token and its log-prob before top-k and top-p."""
        self.asleep = False
        set_environment()
        with quiet():
            import_vllm()
            processor = processor_type(self.rows, self.chooser, self.chosen)
            self._llm = start_vllm(settings, processor if settings.in_process else None)
        if settings.in_process:
            self._llm.apply_model(partial(widen, added=self.added))

    def use(self, automaton: Automaton | None) -> None:
        device, vocabulary = torch.device(self.settings.device), self.settings.num_ids
        self.chooser.masks = None if automaton is None else Masks(automaton, vocabulary, device)
        self.num_added = 0 if automaton is None else automaton.num_added

    def load(self, weights: Mapping[str, Tensor]) -> None:
        self.wake()
        self.added[:] = [self._rows(weights)] if self.num_added else []
        if self.settings.in_process:
            self._llm.apply_model(partial(take_weights, weights=weights))
        else:
            with weights_file(weights) as path:
                self._llm.apply_model(partial(take_weights_file, path=path))
        if not self._llm.llm_engine.reset_prefix_cache():
            raise RuntimeError("vLLM engine: the prefix cache is in use and still holds what the old weights computed")

    def _rows(self, weights: Mapping[str, Tensor]) -> Tensor:
        rows_AH = weights.get(ROWS)
        if rows_AH is None or len(rows_AH) != self.num_added:
            has = 0 if rows_AH is None else len(rows_AH)
            raise ValueError(f"vLLM engine: {has} action rows for an automaton of {self.num_added} actions")
        return rows_AH.detach().to(self.settings.device, self.settings.dtype, copy=True)

    def add(self, row: Row) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        self.wake()
        name, request = str(row.order), row.request
        parameters = SamplingParams(
            **(NO_CHOICE if self.settings.in_process else own_sampling(request)),
            max_tokens=row.limit - len(row.ids),
            stop_token_ids=sorted(row.vocabulary.eos_ids),
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            extra_args={"row": name},
        )
        prompt = {"type": "token", "prompt_token_ids": list(row.ids)}
        self._llm.llm_engine.add_request(name, prompt, parameters)
        self.rows[name] = row

    def step(self) -> list[tuple[Row, Any, list[tuple[int, float]]]]:
        """What each row that was sampled for got: vLLM's word, and its tokens with their log-probs."""
        if not self.rows:
            return []
        outputs = self._llm.llm_engine.step()
        return [(self.rows[output.request_id], output, self._sampled(output)) for output in outputs]

    def _sampled(self, output: Any) -> list[tuple[int, float]]:
        """What was chosen; vLLM knows an added action by what it is read as."""
        told = output.outputs[0]
        if not self.settings.in_process:
            return [(token, scores[token].logprob) for token, scores in zip(told.token_ids, told.logprobs or ())]
        chosen = [self.chosen[output.request_id]] if told.token_ids else []
        read = self.rows[output.request_id].read
        if [read(token) for token, _ in chosen] != list(told.token_ids):
            raise RuntimeError(f"vLLM engine: {chosen} was chosen and vLLM says {list(told.token_ids)}")
        return chosen

    def drop(self, row: Row, abort: bool) -> None:
        """Forget a row; `abort` tells vLLM, which does not know yet."""
        name = str(row.order)
        self.chosen.pop(name, None)
        if self.rows.pop(name, None) is not None and abort:
            self._llm.llm_engine.abort_request([name])

    def sleep(self, keep: bool) -> None:
        """Give the device's memory back: weights go to the machine's, or with the caches, if a load will follow."""
        if not self.asleep:
            self._llm.sleep(level=1 if keep else 2)
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
        vllm.sleep(keep=False)
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
    with plain_kernels(settings.device):
        from vllm import LLM

        llm = LLM(
            model=str(model_folder(settings.config)),
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
    """A folder with the config alone, which is all vLLM reads. Its name is part of what vLLM keeps compiled models by,
    so that equal configs have one folder; it stays, for processes that start together."""
    place = scratch_folder() if refusal() else cache_folder()
    folder = place / "vllm" / digest_of(config)
    folder.mkdir(parents=True, exist_ok=True)
    write_aside(folder / "config.json", json.dumps(config))
    return folder


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


NO_CHOICE = {"temperature": 0.0}
"""What vLLM is asked where the choice is made before it looks."""


def own_sampling(request: Request) -> dict[str, Any]:
    """What vLLM is asked where it chooses itself."""
    sampling = request.sampling
    return {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "seed": request.stream % 2**63,
        "logprobs": 0,
    }


def processor_type(rows: Mapping[str, Row], chooser: Chooser, chosen: dict[str, tuple[int, float]]) -> type:
    """vLLM's logits processor for one engine: it chooses, and leaves vLLM nothing else to take."""
    from vllm.v1.sample.logits_processor import LogitsProcessor
    from vllm.v1.sample.logits_processor.builtin import process_dict_updates

    def row_of(params: Any, *_: object) -> Row | None:
        return rows.get((params.extra_args or {}).get("row", ""))

    class Processor(LogitsProcessor):
        def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None:
            self.places: dict[int, Row] = {}

        def is_argmax_invariant(self) -> bool:
            return False

        def update_state(self, batch_update: Any) -> None:
            process_dict_updates(self.places, batch_update, row_of)

        def apply(self, logits: Tensor) -> Tensor:
            here = [self.places[place] for place in range(len(logits))]
            ids, tokens, scores = chooser.choose(logits, here)
            chosen.update(zip((str(row.order) for row in here), zip(tokens, scores)))
            read = [row.read(token) for row, token in zip(here, tokens)]
            return force(logits, ids if read == tokens else torch.tensor(read, device=logits.device))

    return Processor
