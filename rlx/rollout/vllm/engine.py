"""The vLLM engine: rlx.rollout.engine.Engine over vLLM in this process (rlx.rollout.vllm.llm).

Token ids go in and come out: vLLM gets no tokenizer, and stop strings are heard here, in the bytes of tokens, just as
the torch engine hears them. Tokens are chosen as that engine chooses them, by a logits processor: the same streams give
the same tokens, but for rounding. Log-probs are taken at temperature and mask, before top-k and top-p; a sample outside
its automaton raises.

Caches. vLLM's prefix cache is off for models with recurrent layers (rlx.model.families), which compute each context
anew. For the others it finds what was computed before, in whole blocks; `release` leaves it to be evicted, `load`
empties it. `num_reused` counts tokens found that the session itself had computed, `num_shared` those of others.

Promises. A request's random numbers are a function of its stream and the token's place. The schedule depends on the
requests alone. A tick is one engine step; prompts of more tokens than one step takes need several.

A colocated engine on a GPU sleeps while it rests: its caches are gone while the learner works, and its weights wait in
the machine's memory, or are gone too where others will be loaded; the next `add` or `load` wakes it.

With processes of its own (tensor_parallel > 1) vLLM samples by itself, with the stream as a seed: no automata,
temperatures of 0 or 0.01 to 2, and log-probs after top-k and top-p.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rlx.hardware.profile import SPLIT_TEMPERATURES
from rlx.protocol.automaton import Automaton
from rlx.rollout.engine import Counts, RequestError, WeightsError
from rlx.rollout.row import RequestRow, Vocabulary, open_row
from rlx.rollout.stops import listen, token_bytes
from rlx.rollout.vllm.llm import end_idle, give_back, lend
from rlx.rollout.vllm.settings import Settings, check_vllm, config_of
from rlx.runs.codec import common_prefix
from rlx.types import Completion, Request


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
        automaton: Automaton | None = None,
    ) -> None:
        """Build it as the torch engine. `max_context`: tokens of the longest session, at most what the model can hold;
        `memory`: share of the device's memory to take; `sleeps`: give it back while no session is held (CUDA)."""
        check_vllm()
        text = config.get_text_config()
        self.max_context = min(max_context or text.max_position_embeddings, text.max_position_embeddings)
        self.vocabulary = Vocabulary(
            num_ids=text.vocab_size, eos_ids=frozenset(eos_ids), spelled=token_bytes(tokenizer)
        )
        self.counts = Counts()
        self.tick = self._num_added = 0
        self._refused: list[RequestRow] = []
        """Without room for a token; they end at the next step."""
        self._session_ids: dict[int, list[int]] = {}
        """Sessions that were not released, and the context they have had computed."""
        self._vllm = lend(
            Settings(
                config=config_of(config),
                num_slots=num_slots,
                device=device,
                dtype=dtype,
                max_context=self.max_context,
                memory=memory,
                tensor_parallel=tensor_parallel,
                sleeps=sleeps and device == "cuda",
            )
        )
        self._end = weakref.finalize(self, give_back, self._vllm)
        self._end.atexit = False
        self.use(automaton)
        self.load(weights, version)

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        if self._vllm.rows:
            raise ValueError("vLLM engine: a request is being decoded; step until it ends or release it before load")
        self._vllm.load(weights)
        self._session_ids = {session: [] for session in self._session_ids}
        self.version = version

    def use(self, automaton: Automaton | None) -> None:
        if self._vllm.rows:
            raise ValueError("vLLM engine: a request is being decoded; step until it ends or release it before use")
        if automaton is not None and not self._vllm.settings.in_process:
            raise ValueError("vLLM engine: an automaton needs hardware.tensor_parallel=1 with engine=vllm")
        self._automaton = automaton
        self._vllm.use(automaton)

    def add(self, request: Request) -> None:
        if self.version < 0:
            raise ValueError(f"session {request.session}: the engine gave its weights up; load some first")
        if self._under_way(request.session):
            raise ValueError(f"session {request.session} has a request under way; wait for it or release the session")
        self._check(request)
        row = open_row(self._num_added, request, self._automaton, self.vocabulary)
        self._num_added += 1
        self._session_ids.setdefault(request.session, [])
        if row.stop is not None:
            self._refused.append(row)
        else:
            self._vllm.add(row)

    def _under_way(self, session: int) -> list[RequestRow]:
        return [row for row in (*self._vllm.rows.values(), *self._refused) if row.request.session == session]

    def _check(self, request: Request) -> None:
        """Refuse what the torch engine can do and vLLM cannot."""
        where, sampling = f"session {request.session}", request.sampling
        listen(request.stops)
        if sampling.max_context > self.max_context:
            raise RequestError(
                f"{where}: sampling.max_context is {sampling.max_context} and the engine holds {self.max_context}; "
                "raise model.max_context, as far as the model goes"
            )
        if self._vllm.settings.in_process:
            return
        low, high = SPLIT_TEMPERATURES
        if sampling.temperature and not low <= sampling.temperature <= high:
            raise RequestError(
                f"{where}: sampling.temperature is {sampling.temperature}; vLLM takes 0, or {low} to {high}"
            )
        if request.watch or request.entropy_of:
            raise RequestError(f"{where}: watched ids and entropies need hardware.tensor_parallel=1 with engine=vllm")

    def release(self, session: int) -> None:
        for row in self._under_way(session):
            self._vllm.drop(row, abort=True)
        self._refused = [row for row in self._refused if row.request.session != session]
        self._session_ids.pop(session, None)

    def step(self) -> list[tuple[Request, Completion]]:
        self.tick += 1
        finished = [(row, row.complete(row.stop or "context", self.version)) for row in self._refused]
        self._refused.clear()
        for row, output, sampled in self._vllm.step():
            completion = self._hear(row, output, sampled)
            if completion is not None:
                finished.append((row, completion))
        return [(row.request, completion) for row, completion in sorted(finished, key=lambda item: item[0].order)]

    def _hear(self, row: RequestRow, output: Any, sampled: Sequence[tuple[int, float]]) -> Completion | None:
        """Take a row's sampled tokens; return the completion if these tokens end it."""
        if len(row.logprobs) == len(row.request.completion_prefix):
            self._count(row, output.num_cached_tokens or 0)
        stop = None
        for token, logprob in sampled:
            stop = row.take(token, self._finite(row, logprob))
            self.counts.num_sampled += 1
        if stop is None and output.finished:
            raise RuntimeError(
                f"session {row.request.session}: vLLM ended its request: {output.outputs[0].finish_reason}"
            )
        if stop is None:
            return None
        self._vllm.drop(row, abort=not output.finished)
        self._session_ids[row.request.session] = row.ids
        return row.complete(stop, self.version)

    def _finite(self, row: RequestRow, logprob: float) -> float:
        if not math.isfinite(logprob):
            raise WeightsError(
                f"session {row.request.session}: policy version {self.version} gives logits that are not finite; "
                "load good weights"
            )
        return logprob

    def _count(self, row: RequestRow, cached: int) -> None:
        num_reused = min(cached, common_prefix(self._session_ids[row.request.session], row.ids))
        self.counts.num_reused += num_reused
        self.counts.num_shared += cached - num_reused
        self.counts.num_prefilled += len(row.ids) - cached

    def rest(self, keep: bool = True) -> None:
        if self._vllm.settings.sleeps and not self._session_ids:
            self._vllm.sleep(keep)
            self.version = self.version if keep else -1

    def close(self) -> None:
        self._end()
        vars(self).clear()
        end_idle()
