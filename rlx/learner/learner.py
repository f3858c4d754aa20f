"""Common part of all learners: a batch is annotated, and moves the weights by a sum of micro-batches.

Each micro-batch goes through the model packed (packing.py, attention.py), and its log-probs come in chunks
(logprob.py). Its loss is its share of the whole (`Totals`). So the gradients add up to those of one large batch, on one
process or, shared out by shares.py, on many. A learner of its own kind says how gradients are computed, how weights
move by them, and how both are kept.

Legend: M trained tokens of the batch, m those of a micro-batch (batch.py, packing.py).
"""

from __future__ import annotations

import gc
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlx.algo.parts import Columns, Need, Optimizer, TokenLoss, Tokens, Totals, Unit
from rlx.hardware.pulse import nothing
from rlx.hardware.ranks import ALONE, Ranks
from rlx.learner.batch import Batch
from rlx.learner.figures import (
    average_metrics,
    evidence,
    kl_per_token,
    measure_explained,
    measure_uncredited,
    sum_metrics,
)
from rlx.learner.lora import adapters_off, is_adapted
from rlx.learner.optimizer import learning_rate
from rlx.learner.packing import MiniBatch, Packed, pack, prepare, to_device
from rlx.learner.returned import check_critic, check_loss, column_gradients
from rlx.learner.scorer import Kind, Scorer
from rlx.learner.shares import MicroBatch, minibatches, shares, units
from rlx.types import Metrics


class NotFiniteError(RuntimeError):
    """A loss or a gradient that is not finite. The weights are as they were before the step; `micro_batch` did it."""

    def __init__(self, quantity: str, num_updates: int, micro_batch: Mapping[str, Tensor]) -> None:
        super().__init__(f"the {quantity} of update {num_updates} is not finite, and the weights did not move")
        self.quantity = quantity
        """`loss` or `gradient`."""
        self.micro_batch = dict(micro_batch)
        """Named tensors, ready for safetensors."""


class Learner(ABC):
    """Owner of the trained weights, their optimizer and, where the algorithm needs it, a frozen copy of the start.

    A subclass sets these attributes and implements the abstract methods. Add it to `Hardware.learner` and `learner_of`
    (rlx/run/trainee.py).
    """

    scorer: Scorer
    optimizer: Optimizer
    num_steps: int
    """Steps of the run, which the learning rate follows."""
    num_updates: int
    """Steps done. Each is num_epochs x num_minibatches steps of the optimizer, or fewer with `max_kl`."""
    micro_batch_tokens: int
    gap_cap: float | None
    """Weigh tokens by min(learner's probability / engine's, cap), truncated importance sampling for engines whose
    policy or arithmetic differs; None trusts the engine."""
    device: torch.device
    ranks: Ranks = ALONE
    beat: Callable[[], None] = staticmethod(nothing)
    """Is called at each micro-batch: a long update does not hang."""

    @property
    def model(self) -> Any:
        """The Hugging Face model, with its adapters."""
        return self.scorer.model

    @abstractmethod
    def score(self, packed: Packed, state_m: Tensor, kind: Kind = "policy") -> Columns:
        """Return the scorer's columns under the current weights, with gradient unless that is off."""

    @abstractmethod
    def score_start(self, packed: Packed, state_m: Tensor) -> Columns:
        """The same under the frozen copy of the start, where there is one."""

    @abstractmethod
    def adam_groups(self) -> list[dict[str, Any]]:
        """The optimizer's groups, whose learning rate is set before each update."""

    @abstractmethod
    def clear(self) -> None:
        """Drop the gradients, and free their memory."""

    @abstractmethod
    def backward(self, value: Tensor, is_last: bool) -> None:
        """Add the gradient of a share of the loss; `is_last` of the step."""

    @abstractmethod
    def move(self) -> float:
        """Take the optimizer's step, unless the gradient's norm is not finite; the norm before it is clipped."""

    @abstractmethod
    def weights(self) -> Mapping[str, Tensor]:
        """The policy under Hugging Face names, adapters merged: live tensors, to be copied by whoever keeps them. With
        several ranks, all read it in the same order."""

    @abstractmethod
    def save(self, folder: Path | None, progress: Callable[[], None] = nothing) -> None:
        """A plain Hugging Face model folder, with what continuing takes beside it. With several ranks all call it;
        those without a folder only lend their part. `progress` is called after every tensor, here and in `load`."""

    @abstractmethod
    def load(self, folder: Path, progress: Callable[[], None] = nothing) -> None:
        """Continue exactly where `save` was called, by whatever learner on however many ranks."""

    def close(self) -> None:
        """Let go of weights, gradients and optimizer, whoever still holds the learner: it can do nothing any more."""
        is_cuda = self.device.type == "cuda"
        vars(self).clear()
        gc.collect()
        if is_cuda:
            torch.cuda.empty_cache()

    def annotate(self, batch: Batch, needs: frozenset[Need]) -> Batch:
        """Measure columns before the update: `reference_M` if needed, `old_M` with a critic or a `gap_cap`, and the
        log-probs of forced tokens. Other batches stay as they are: the engine's log-probs are the old ones."""
        if "reference" in needs:
            model = self.scorer.model
            with adapters_off(model) if is_adapted(model) else nullcontext():
                batch = replace(batch, reference_M=self.measure(batch, use_start_policy=not is_adapted(model)))
        if self.scorer.heads or (self.gap_cap is not None and batch.sampled):
            batch = replace(batch, old_M=self.measure(batch))
        batch = self.with_forced_logp(batch)
        if self.gap_cap is not None and batch.sampled:
            weight_M = (batch.old_M["logp"] - batch.engine_logp_M).exp().clamp(max=self.gap_cap)
            batch = replace(batch, weight_M=weight_M)
        return batch

    def with_forced_logp(self, batch: Batch) -> Batch:
        """Add the log-probs of tokens that no engine sampled, computed for the trajectories of these tokens alone."""
        is_forced_M = batch.engine_logp_M.isnan()
        if not is_forced_M.any():
            return batch
        forced = set(batch.trajectory_R[batch.row_M[is_forced_M]].tolist())
        logp_M = (batch.old_M or self.measure(batch, only=forced))["logp"]
        return replace(batch, engine_logp_M=batch.engine_logp_M.where(~is_forced_M, logp_M))

    @torch.no_grad()
    def measure(self, batch: Batch, use_start_policy: bool = False, only: Container[int] | None = None) -> Columns:
        """Return the scorer's columns of trained tokens, on the CPU; of `only` some trajectories, 0 elsewhere."""
        self.scorer.eval()
        measured: dict[str, Tensor] = {}
        for micro_batch in self.share(batch, only):
            self.beat()
            packed = pack(batch, micro_batch, self.device.type)
            for name, column_m in self.score_columns(batch, packed, use_start_policy).items():
                column_M = measured.setdefault(name, torch.zeros(batch.num_tokens))
                if not micro_batch.is_filler:
                    column_M[packed.token_m] = column_m.float().cpu()
        return {name: self.ranks.add(column_M) for name, column_M in measured.items()}

    def share(self, batch: Batch, only: Container[int] | None = None) -> list[MicroBatch]:
        """This rank's of the whole batch, or of some of its trajectories."""
        chosen = units(batch, "trajectory", only)
        share_settings = self.micro_batch_tokens, self.ranks.size, self.scorer.packing
        return shares(batch, chosen, *share_settings)[self.ranks.rank]

    def score_columns(self, batch: Batch, packed: Packed, use_start_policy: bool = False) -> Columns:
        """Return the scorer's columns of a micro-batch, on the device. The automaton's states stay on the CPU."""
        score = self.score_start if use_start_policy else self.score
        return score(to_device(packed, self.device), batch.mask_M[packed.token_m])

    def update(self, batch: Batch, loss: TokenLoss, unit: Unit = "trajectory") -> Metrics:
        """Pass over the batch `num_epochs` times, and move the weights. A batch without credit changes nothing."""
        for group in self.adam_groups():
            group["lr"] = learning_rate(self.optimizer, group["peak"], self.num_updates, self.num_steps)
        lr = learning_rate(self.optimizer, self.optimizer.lr, self.num_updates, self.num_steps)
        settings = self.micro_batch_tokens, self.ranks, self.device.type, self.scorer.packing
        chosen = minibatches(units(batch, unit), self.optimizer.num_minibatches)
        parts = [prepare(batch, part, *settings) for part in chosen]
        steps: list[Metrics] = []
        num_tokens = 0
        for number, part in enumerate(parts * self.optimizer.num_epochs):
            self.scorer.step = (self.num_updates, number)
            steps.append(self.step(batch, part, loss))
            num_tokens += part.totals.num_tokens
            if self.optimizer.max_kl is not None and steps[-1]["kl/step"] > self.optimizer.max_kl:
                break
        self.num_updates += 1
        first = {name: steps[0][name] for name in ("gap/engine",) if steps and batch.sampled}
        optimizer_metrics = {} if self.optimizer.max_kl is None else {"optimizer/steps": float(len(steps))}
        update_metrics = {"optimizer/lr": lr, "update/tokens": float(num_tokens)}
        credited = measure_explained(batch) | measure_uncredited(batch)
        return {**average_metrics(steps), **first, **credited, **optimizer_metrics, **update_metrics}

    def step(self, batch: Batch, part: MiniBatch, loss: TokenLoss) -> Metrics:
        """Take one optimizer step on a part of the batch."""
        mine = part.shares[self.ranks.rank]
        self.clear()
        self.scorer.train()
        metrics_by_rank = self.ranks.gather(
            [
                self.accumulate(batch, micro_batch, packed, loss, part.totals, micro_batch is mine[-1])
                for micro_batch, packed in zip(mine, part.packed, strict=True)
            ]
        )
        metrics = sum_metrics([share for shares in metrics_by_rank for share in shares])
        if not math.isfinite(metrics["loss/value"]):
            self.clear()
            sound = [[math.isfinite(share.get("loss/value", 0.0)) for share in shares] for shares in metrics_by_rank]
            raise self.fault("loss", batch, part, sound)
        norm = self.move()
        self.clear()  # while the engine samples nothing of them is left
        if not math.isfinite(norm):
            raise self.fault("gradient", batch, part, self.ranks.gather(self.sound(batch, part, loss)))
        return {**metrics, "gradient/norm": norm}

    def accumulate(
        self, batch: Batch, micro_batch: MicroBatch, packed: Packed, loss: TokenLoss, totals: Totals, is_last: bool
    ) -> Metrics:
        """Add the gradient of one micro-batch; return its shares of the loss and of the metrics."""
        self.beat()
        tokens = self.tokens(batch, packed)
        result = check_loss(loss(tokens, totals))
        if self.num_updates == 0:
            check_critic(loss, tokens, totals)
        if micro_batch.is_filler:
            # no more than the others go back through: ranks of ZeRO 3 wait for each other at every weight
            self.backward(result.value * 0.0, is_last)
            return {}
        self.backward(result.value, is_last)
        shares = {name: share.item() for name, share in result.metrics.items()}
        if self.optimizer.max_kl is not None:
            shares["kl/step"] = kl_per_token(tokens).sum().item() / totals.num_tokens
        if batch.sampled:
            gap_m = tokens.now["logp"].detach() - batch.engine_logp_M[packed.token_m].to(self.device)
            shares["gap/engine"] = gap_m.abs().sum().item() / totals.num_tokens
        return {"loss/value": result.value.item(), **shares}

    def sound(self, batch: Batch, part: MiniBatch, loss: TokenLoss) -> list[bool]:
        """Return whether each micro-batch's loss has a finite gradient in what was computed of its tokens."""
        flags = []
        for packed in part.packed:
            with torch.no_grad():
                batch_tokens = self.tokens(batch, packed)
            gradients = column_gradients(loss, batch_tokens, part.totals).values()
            flags.append(all(bool(grad.isfinite().all()) for grad in gradients if grad is not None))
        return flags

    @torch.no_grad()
    def fault(self, quantity: str, batch: Batch, part: MiniBatch, sound: Sequence[Sequence[bool]]) -> NotFiniteError:
        """The error that shows the first micro-batch that is not sound; the very first if its cause lies deeper."""
        pairs = zip(chain(*part.shares), chain(*sound), strict=True)
        culprit = next((micro_batch for micro_batch, flag in pairs if not flag), part.shares[0][0])
        packed = pack(batch, culprit, self.device.type)
        return NotFiniteError(quantity, self.num_updates, evidence(packed, self.tokens(batch, packed)))

    def tokens(self, batch: Batch, packed: Packed) -> Tokens:
        """Return the loss's input for a micro-batch: its rows of the batch's columns, on the device."""
        now, row_m = self.score_columns(batch, packed), batch.row_M[packed.token_m]

        def take(column_M: Tensor) -> Tensor:
            return column_M[packed.token_m].to(self.device)

        def take_all(columns_M: Columns) -> Columns:
            return {name: take(column_M) for name, column_M in columns_M.items()}

        if batch.advantage_M is None:
            raise ValueError("update: the batch has no advantages; call batch.with_credit(credit(rows)) first")
        length_M = batch.length_M
        return Tokens(
            now=now,
            old=take_all({**batch.old_M, "logp": batch.old_logp_M}),
            reference=take_all(batch.reference_M),
            advantage=take(batch.advantage_M),
            returns=None if batch.returns_M is None else take(batch.returns_M),
            returns_after=None if batch.returns_after_M is None else take(batch.returns_after_M),
            weight=torch.ones_like(now["logp"]) if batch.weight_M is None else take(batch.weight_M),
            row=row_m.to(self.device),
            trajectory=batch.trajectory_R[row_m].to(self.device),
            multiplicity=None if batch.multiplicity_M is None else take(batch.multiplicity_M),
            length=None if length_M is None else take(length_M),
            group=batch.group_R[row_m].to(self.device),
        )


def check_settings(name: str, temperature: float) -> None:
    """Refuse what no learner can do."""
    if temperature <= 0:
        raise ValueError(f"{name}: temperature is {temperature}; train on samples drawn at more than 0")
