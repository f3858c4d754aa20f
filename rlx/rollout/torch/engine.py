"""The torch engine: continuous batching on one device, on CPU or CUDA.

Every tick each active request gets one token: those admitted this tick from the prefill of their prompt, the others
from one decoding pass. A completion keeps all sampled tokens, its end-of-sequence token or stop string too. A stop
string is matched against the tokens' bytes. The token that completes the string is kept in full, with any text after
the string: all sampled tokens are trained. A prompt that leaves no room in max_context gets an empty completion, stop
"context".

Two runners compute logits: the fused decoder (decoder.py) for the families that it knows, and transformers' own forward
pass and caches (forward.py) for all others.

Caches. The last sampled token is not in the cache yet when a request ends. The row is settled at the next tick: parked
(copied out) unless its session was released meanwhile, then overwritten by the last row, so active rows stay
contiguous. A later prompt of the session reuses the longest common prefix, and so does a fork: other sessions of its
group are open to it until they are released, as many as need no more memory than all slots' caches (prefix_store.py).
`release` or `load` drops the copies. The prompts of new sessions are kept too, the last `NUM_PROMPTS` of them, so a
group's prompt is prefilled once even if its members come at different ticks.

Determinism: the *schedule* is deterministic; the arithmetic of a row is not independent of its neighbours. Matrix
products that give a row the same bits in every batch cost a multiple in speed on small models and need kernels of their
own. A schedule that counts ticks (first come, first served; a tool's answer admitted a fixed number of ticks later)
costs nothing. It gives the same rows in the same order to the same kernels. So the bits are the same on one machine
with the same number of threads. A request's random numbers are a function of (stream, token) alone, so between two
schedules only rounding differs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from rlx.model.masks import Masks
from rlx.protocol.automaton import Automaton
from rlx.rollout.choice import Chooser
from rlx.rollout.engine import Counts, WeightsError
from rlx.rollout.row import RequestRow, Vocabulary, open_row
from rlx.rollout.stops import token_bytes
from rlx.rollout.torch.decoder import build_decoder, misfit
from rlx.rollout.torch.forward import ForwardRunner
from rlx.rollout.torch.prefix_store import PrefixStore, Saved
from rlx.rollout.torch.runner import Runner
from rlx.types import Completion, Request, Stop

NUM_PROMPTS = 32
"""First prompts whose caches are kept for others that are equal."""


Finished = tuple[int, Request, Completion]
"""A completion with its place in the order of `add`."""


def open_runner(
    config: Any,
    weights: Mapping[str, Tensor],
    num_added: int,
    num_slots: int,
    device: torch.device,
    dtype: torch.dtype,
) -> Runner | ForwardRunner:
    """Load a model into the fused decoder if that computes it, else into transformers' own."""
    if not misfit(config):
        return Runner(build_decoder(config, weights, device, dtype, num_added), num_slots, device, dtype)
    runner = ForwardRunner(config, device, dtype)
    runner.load(config, weights, num_added)
    return runner


class TorchEngine:
    """See the module's docstring, and rlx.rollout.engine.Engine for the methods."""

    def __init__(
        self,
        *,
        config: Any,
        weights: Mapping[str, Tensor],
        tokenizer: Any,
        eos_ids: Collection[int],
        num_slots: int = 64,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        version: int = 0,
        automaton: Automaton | None = None,
    ) -> None:
        """`config`: a Hugging Face config; `weights`: its tensors by name; `num_slots`: rows decoded at once;
        `automaton`: whose states requests name."""
        if num_slots < 1:
            raise ValueError(f"torch engine: num_slots is {num_slots}; it must be 1 or more")
        self.config, self.num_slots, self.dtype = config, num_slots, dtype
        self.device = torch.device(device)
        self.vocabulary = Vocabulary(
            num_ids=config.get_text_config().vocab_size, eos_ids=frozenset(eos_ids), spelled=token_bytes(tokenizer)
        )
        self.counts = Counts()
        self.tick = self._num_added = 0
        self._waiting: deque[RequestRow] = deque()
        self._rows: list[RequestRow] = []
        self._active: dict[int, RequestRow | None] = {}
        """Sessions with a request under way; None while it waits."""
        self._longest = 0
        """The longest context that a request may come to."""
        self._prompts: dict[tuple[int, ...], Saved] = {}
        self.use(automaton)
        self._runner = open_runner(config, weights, self._num_actions, num_slots, self.device, dtype)
        self._store = self._new_store()
        self.version = version

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        if any(not row.over for row in self._rows):
            raise ValueError("torch engine: a request is being decoded; step until it ends or release it before load")
        self._runner.load(self.config, weights, self._num_actions)
        self.version = version
        self._rows.clear()
        self._store = self._new_store()
        self._prompts.clear()

    def _new_store(self) -> PrefixStore:
        return PrefixStore(can_shorten=self._runner.cache.can_shorten)

    @property
    def _num_actions(self) -> int:
        """Number of added actions."""
        return 0 if self._automaton is None else self._automaton.num_added

    def use(self, automaton: Automaton | None) -> None:
        if self._active:
            raise ValueError("torch engine: a request is being decoded; step until it ends or release it before use")
        masks = None if automaton is None else Masks(automaton, self.vocabulary.num_ids, self.device)
        self._automaton, self._chooser = automaton, Chooser(masks)

    def add(self, request: Request) -> None:
        """Queue a request."""
        if request.session in self._active:
            raise ValueError(f"session {request.session} has a request under way; wait for it or release the session")
        row = open_row(self._num_added, request, self._automaton, self.vocabulary)
        self._longest = max(self._longest, request.sampling.max_context)
        self._active[request.session] = None
        self._waiting.append(row)
        self._num_added += 1

    def rest(self, keep: bool = True) -> None:
        """Nothing: weights and caches stay on the device."""

    def close(self) -> None:
        vars(self).clear()

    def release(self, session: int) -> None:
        self._store.release(session)
        if session in self._active and self._active.pop(session) is None:
            self._waiting = deque(row for row in self._waiting if row.request.session != session)
        for row in self._rows:
            if row.request.session == session:
                row.over, row.reusable = True, False

    @torch.inference_mode()
    def step(self) -> list[tuple[Request, Completion]]:
        """Sample one token of every request; return the completions that end with it."""
        self.tick += 1
        self._settle()
        admitted, finished = self._admit()
        rows = self._rows
        logits = []
        if rows:
            logits.append(self._runner.decode([row.ids[-1] for row in rows], [len(row.ids) - 1 for row in rows]))
        if admitted:
            logits += self._prefill(admitted)
        if logits:
            finished += self._choose(logits[0] if len(logits) == 1 else torch.cat(logits))
        return [(request, completion) for _, request, completion in sorted(finished, key=lambda item: item[0])]

    def _settle(self) -> None:
        """Park or drop the rows that are over, keeping the others contiguous."""
        for index in reversed([index for index, row in enumerate(self._rows) if row.over]):
            row, last = self._rows[index], self._rows.pop()
            if row.reusable:
                most = self.num_slots * self._longest
                self._store.park(self._runner.cache, index, row.request.session, row.ids[:-1], most)
            if row is not last:
                self._runner.cache.move(len(self._rows), index, len(last.ids) - 1)
                self._rows[index] = last

    def _admit(self) -> tuple[list[RequestRow], list[Finished]]:
        """Requests from the queue's head while there are slots; those without a token to sample end at once."""
        admitted: list[RequestRow] = []
        refused: list[Finished] = []
        while self._waiting and len(self._rows) + len(admitted) < self.num_slots:
            row = self._waiting.popleft()
            if row.stop is not None:
                refused.append(self._end(row, row.stop))
            else:
                self._active[row.request.session] = row
                admitted.append(row)
        return admitted, refused

    def _prefill(self, admitted: list[RequestRow]) -> list[Tensor]:
        """Append admitted rows and compute their logits: first those with something to compute, then the copies."""
        computed: list[tuple[RequestRow, Saved | None, int]] = []
        copies: dict[tuple[int, ...], list[RequestRow]] = {}
        first_here: set[tuple[int, ...]] = set()
        for row in admitted:
            context = tuple(row.ids)
            saved, reused, is_own = self._store.find(row.request.session, row.request.group, context)
            if not is_own and (context in self._prompts or context in first_here):
                copies.setdefault(context, []).append(row)
                continue
            computed.append((row, saved, reused))
            self._count(len(context), reused, is_own)
            if not reused:
                first_here.add(context)
        computed.sort(key=lambda item: len(item[0].ids) - item[2])
        logits = [self._compute(computed)] if computed else []
        logits += [self._copy(self._prompts[context], rows) for context, rows in copies.items()]
        for prompt in list(self._prompts)[:-NUM_PROMPTS]:
            del self._prompts[prompt]
        return logits

    def _count(self, length: int, reused: int, is_own: bool) -> None:
        self.counts.num_prefilled += length - reused
        self.counts.num_reused += reused if is_own else 0
        self.counts.num_shared += 0 if is_own else reused

    def _compute(self, computed: list[tuple[RequestRow, Saved | None, int]]) -> Tensor:
        """Prefill what is new to each row, after what is kept of it."""
        first = len(self._rows)
        cache = self._runner.cache
        if not first:
            cache.shed(max(len(row.ids) for row, _, _ in computed), 0)
        cache.reserve(first + len(computed), max(reused for _, _, reused in computed))
        for index, (_, saved, reused) in enumerate(computed, first):
            if saved is not None:
                saved.restore(cache, index, reused)
        self._rows += [row for row, _, _ in computed]
        logits = self._runner.extend(
            first, [row.ids[reused:] for row, _, reused in computed], [reused for _, _, reused in computed]
        )
        for place, (row, _, reused) in enumerate(computed):
            if not reused:
                prompt = tuple(row.ids)
                self._prompts[prompt] = Saved(prompt, cache.save(first + place, len(prompt)), logits[place].clone())
        return logits

    def _copy(self, saved: Saved, rows: list[RequestRow]) -> Tensor:
        """Give rows the cache and the logits of an equal prompt."""
        assert saved.logits is not None
        first, length = len(self._rows), len(saved.ids)
        self._runner.cache.reserve(first + len(rows), length)
        self._runner.cache.restore(first, len(rows), saved.cache, length)
        self._rows += rows
        self.counts.num_shared += length * len(rows)
        return saved.logits.repeat(len(rows), 1)

    def _choose(self, logits_BV: Tensor) -> list[Finished]:
        """One token for every row; the rows that end with it."""
        rows = self._rows
        _, tokens, scores = self._chooser.choose(logits_BV, rows)
        if not math.isfinite(sum(scores)):
            self._refuse([row.request.session for row, score in zip(rows, scores) if not math.isfinite(score)])
        self.counts.num_sampled += len(rows)
        ends = [row.take(token, score) for row, token, score in zip(rows, tokens, scores)]
        return [self._end(row, stop) for row, stop in zip(rows, ends) if stop is not None]

    def _refuse(self, sessions: list[int]) -> None:
        self._runner.cache.clear()
        raise WeightsError(
            f"session {sessions[0]}: policy version {self.version} gives logits that are not finite; load good weights"
        )

    def _end(self, row: RequestRow, stop: Stop) -> Finished:
        row.over = True
        del self._active[row.request.session]
        return row.order, row.request, row.complete(stop, self.version)
