"""vLLM in this process, advanced step by step: its weights and requests. Only this file and start.py import vLLM.

Weights. vLLM starts with dummy weights. It then takes a policy's weights as in every later load: by the model's
`load_weights`, in place, under the names of a checkpoint. A missing weight of the model is an error, not noise.

Instances. A start takes seconds and much of a device's memory, and vLLM allows a process one instance that can sleep.
So the instance of a closed engine waits for the next engine of the same settings, for example a warm start's for its
run's. An engine of other settings ends it.

Added actions. The patched `compute_logits` of the model appends the actions' logits. vLLM is told that it sampled the
action's description, so it never sees an added id.

Sampling. Every token is chosen here, as in the torch engine: a logits processor draws for all rows at once, for each
row and tick. It implements the interface of the older model runner (VLLM_USE_V2_MODEL_RUNNER=0): there rows are
requests, one token each. Workers in separate processes (tensor_parallel > 1) sample by vLLM's rules.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rlx.model.expand import ROWS
from rlx.model.logits import logit_shape
from rlx.model.masks import Masks
from rlx.model.stored import stored_form
from rlx.protocol.automaton import Automaton
from rlx.rollout.choice import Chooser, force
from rlx.rollout.row import RequestRow
from rlx.rollout.vllm.settings import Settings, set_environment
from rlx.rollout.vllm.start import import_vllm, quiet, start_vllm
from rlx.rollout.vllm.weights import take_weights, take_weights_file, weights_file, widen
from rlx.types import Request


class Vllm:
    """One running vLLM."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.rows: dict[str, RequestRow] = {}
        """Requests under way, by their id in vLLM: their place in the order of `add`."""
        self.chooser = Chooser()
        self.added: list[Tensor] = []
        """Output rows of added actions; empty if there are none."""
        self.num_added = 0
        self.chosen: dict[str, tuple[int, float]] = {}
        """Newest token of each row and its log-prob before top-k and top-p."""
        self.asleep = False
        set_environment()
        with quiet():
            import_vllm()
            processor = processor_type(self.rows, self.chooser, self.chosen)
            self._llm = start_vllm(settings, processor if settings.in_process else None)
        if settings.in_process:
            shape = logit_shape(settings.config)
            self._llm.apply_model(partial(widen, added=self.added, shape=shape))

    def use(self, automaton: Automaton | None) -> None:
        device, vocabulary = torch.device(self.settings.device), self.settings.num_ids
        self.chooser.masks = None if automaton is None else Masks(automaton, vocabulary, device)
        self.num_added = 0 if automaton is None else automaton.num_added

    def load(self, weights: Mapping[str, Tensor]) -> None:
        self.wake()
        self.added[:] = [self._rows(weights)] if self.num_added else []
        named = stored_form(self.settings.config, ((name, weights[name]) for name in weights if name != ROWS))
        if self.settings.in_process:
            self._llm.apply_model(partial(take_weights, named=named))
        else:
            with weights_file(named) as path:
                self._llm.apply_model(partial(take_weights_file, path=path))
        if not self._llm.llm_engine.reset_prefix_cache():
            raise RuntimeError("vLLM engine: the prefix cache is in use and still holds what the old weights computed")

    def _rows(self, weights: Mapping[str, Tensor]) -> Tensor:
        rows_AH = weights.get(ROWS)
        if rows_AH is None or len(rows_AH) != self.num_added:
            has = 0 if rows_AH is None else len(rows_AH)
            raise ValueError(f"vLLM engine: {has} action rows for an automaton of {self.num_added} actions")
        return rows_AH.detach().to(self.settings.device, self.settings.dtype, copy=True)

    def add(self, row: RequestRow) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        self.wake()
        name, request = str(row.order), row.request
        parameters = SamplingParams(
            **(NO_CHOICE if self.settings.in_process else sampling_parameters(request)),
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

    def step(self) -> list[tuple[RequestRow, Any, list[tuple[int, float]]]]:
        """Advance one tick; return each sampled row, vLLM's output, and the new tokens with their log-probs."""
        if not self.rows:
            return []
        outputs = self._llm.llm_engine.step()
        return [(self.rows[output.request_id], output, self._read_sampled(output)) for output in outputs]

    def _read_sampled(self, output: Any) -> list[tuple[int, float]]:
        """Return the chosen tokens with log-probs. vLLM reports an added action as its description."""
        result = output.outputs[0]
        if not self.settings.in_process:
            return [(token, scores[token].logprob) for token, scores in zip(result.token_ids, result.logprobs or ())]
        chosen = [self.chosen[output.request_id]] if result.token_ids else []
        read = self.rows[output.request_id].read
        if [read(token) for token, _ in chosen] != list(result.token_ids):
            raise RuntimeError(f"vLLM engine: {chosen} was chosen and vLLM says {list(result.token_ids)}")
        return chosen

    def drop(self, row: RequestRow, abort: bool) -> None:
        """Remove a row. `abort` also cancels it in vLLM."""
        name = str(row.order)
        self.chosen.pop(name, None)
        if self.rows.pop(name, None) is not None and abort:
            self._llm.llm_engine.abort_request([name])

    def sleep(self, keep: bool) -> None:
        """Release the device's memory. `keep` moves the weights to the machine's memory; else they are discarded."""
        if not self.asleep:
            self._llm.sleep(level=1 if keep else 2)
            self.asleep = True

    def wake(self) -> None:
        if self.asleep:
            self._llm.wake_up()
            self.asleep = False


IDLE: list[Vllm] = []
"""The instance of a closed engine, if any."""


def lend(settings: Settings) -> Vllm:
    """Return the idle instance if its settings match, else end it and start a new one."""
    if IDLE and IDLE[0].settings == settings:
        return IDLE.pop()
    if IDLE:
        IDLE.clear()
        gc.collect()
    return Vllm(settings)


def give_back(vllm: Vllm) -> None:
    """Keep an unused instance for the next engine."""
    for row in list(vllm.rows.values()):
        vllm.drop(row, abort=True)
    if vllm.settings.sleeps:
        vllm.sleep(keep=False)
    IDLE[:] = [vllm]


def end_idle() -> None:
    """End the idle instance unless it can sleep: a process has one such instance for its lifetime."""
    if IDLE and not IDLE[0].settings.sleeps:
        IDLE.clear()
        gc.collect()


NO_CHOICE = {"temperature": 0.0}
"""Sampling parameters for vLLM if the token is chosen before vLLM samples."""


def sampling_parameters(request: Request) -> dict[str, Any]:
    """Return the sampling parameters for vLLM if it samples itself."""
    sampling = request.sampling
    return {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "seed": request.stream % 2**63,
        "logprobs": 0,
    }


def processor_type(rows: Mapping[str, RequestRow], chooser: Chooser, chosen: dict[str, tuple[int, float]]) -> type:
    """Build vLLM's logits processor for one engine. It chooses a token and leaves vLLM no other."""
    from vllm.v1.sample.logits_processor import LogitsProcessor
    from vllm.v1.sample.logits_processor.builtin import process_dict_updates

    def row_of(params: Any, *_: object) -> RequestRow | None:
        return rows.get((params.extra_args or {}).get("row", ""))

    class Processor(LogitsProcessor):
        def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None:
            self.places: dict[int, RequestRow] = {}

        def is_argmax_invariant(self) -> bool:
            return False

        def update_state(self, batch_update: Any) -> None:
            process_dict_updates(self.places, batch_update, row_of)

        def apply(self, logits: Tensor) -> Tensor:
            batch_rows = [self.places[place] for place in range(len(logits))]
            ids, tokens, scores = chooser.choose(logits, batch_rows)
            chosen.update(zip((str(row.order) for row in batch_rows), zip(tokens, scores)))
            read = [row.read(token) for row, token in zip(batch_rows, tokens)]
            return force(logits, ids if read == tokens else torch.tensor(read, device=logits.device))

    return Processor
