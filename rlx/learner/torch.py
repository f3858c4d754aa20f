"""One process, one device: annotate a batch, move the weights by it, hand them on, save and load them.

A step is a sum of micro-batches: each goes through the model packed (packing.py, attention.py), its log-probs come in
chunks (logprob.py), its loss is its share of the whole, and the gradients add up to those of one large batch.

Legend: M, m as in packing.py; T packed tokens; H hidden size.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from rlx.algo.parts import Need, Optimizer, TokenLoss, Tokens, Totals, Unit
from rlx.learner.attention import PACKED
from rlx.learner.batch import Batch
from rlx.learner.logprob import Head, allowed_ids, log_probs
from rlx.learner.lora import adapters_off, base_of, head_weight, is_adapted, merged_weights
from rlx.learner.packing import Packed, Sequences, count, micro_batches, minibatches, moved, pack, units
from rlx.types import Automaton, Metrics

STATE, PROGRESS = "learner.safetensors", "learner.json"


class NotFiniteError(RuntimeError):
    """A loss or a gradient that is not finite. The weights are as they were before the step; `micro_batch` did it."""

    def __init__(self, what: str, num_updates: int, micro_batch: Mapping[str, Tensor]) -> None:
        super().__init__(f"the {what} of update {num_updates} is not finite; the step was not taken")
        self.what = what
        self.micro_batch = dict(micro_batch)
        """Named tensors, ready for safetensors."""


class TorchLearner:
    """Owns the trained weights, their optimizer, and, where the algorithm needs it, a frozen copy of the start."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        optimizer: Optimizer,
        num_steps: int,
        needs: frozenset[Need] = frozenset(),
        micro_batch_tokens: int = 2048,
        temperature: float = 1.0,
        automaton: Automaton | None = None,
        gap_cap: float | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        """`temperature` and `automaton` are those of sampling. `gap_cap`: weigh tokens by min(learner's probability /
        engine's, cap), truncated importance sampling for engines whose arithmetic differs; None trusts the engine."""
        if "values" in needs:
            raise ValueError("TorchLearner: the algorithm needs values, and this model has no value head")
        if temperature <= 0:
            raise ValueError(f"TorchLearner: temperature is {temperature}; train on samples drawn at more than 0")
        self.device = torch.device(device)
        self.model = cast(Any, model)
        self.model.to(self.device)
        base_of(self.model).set_attn_implementation(PACKED)
        self.optimizer = optimizer
        self.num_steps = num_steps
        self.num_updates = 0
        self.micro_batch_tokens = micro_batch_tokens
        self.temperature = temperature
        self.automaton = automaton
        self.gap_cap = gap_cap
        self.adam = torch.optim.AdamW(parameter_groups(self.model, optimizer), betas=optimizer.betas, fused=True)
        self.start: Any = frozen_copy(self.model) if "reference" in needs and not is_adapted(self.model) else None

    def annotate(self, batch: Batch, needs: frozenset[Need]) -> Batch:
        """Add what the algorithm needs, computed with the weights as they are and without gradient."""
        if "reference" in needs:
            with adapters_off(self.model) if is_adapted(self.model) else nullcontext():
                batch = replace(batch, reference_logp_M=self.measure(self.start or self.model, batch))
        if self.gap_cap is not None and batch.sampled:
            old_logp_M = self.measure(self.model, batch)
            weight_M = (old_logp_M - batch.engine_logp_M).exp().clamp(max=self.gap_cap)
            batch = replace(batch, old_logp_M=old_logp_M, weight_M=weight_M)
        return batch

    @torch.no_grad()
    def measure(self, model: Any, batch: Batch) -> Tensor:
        """Log-probs of the batch's trained tokens under a model."""
        model.eval()
        logp_M = torch.zeros(batch.num_tokens)
        for sequences in micro_batches(batch, units(batch, "trajectory"), self.micro_batch_tokens):
            packed = moved(pack(batch, sequences), self.device)
            logp_M[packed.token_m.cpu()] = self.forward(model, packed, batch)[0].cpu()
        return logp_M

    def forward(self, model: Any, packed: Packed, batch: Batch) -> tuple[Tensor, Tensor]:
        """Log-probs and entropies at the trained tokens of a micro-batch."""
        base = base_of(model)
        hidden_TH = base.get_decoder()(
            input_ids=packed.input_ids_1T, position_ids=packed.position_ids_1T, use_cache=False, layout=packed.layout
        ).last_hidden_state[0]
        return log_probs(
            self.head(base), hidden_TH[packed.predict_m], packed.target_m, batch.mask_M.to(self.device)[packed.token_m]
        )

    def head(self, base: Any) -> Head:
        layer = base.get_output_embeddings()
        weight_VH = head_weight(layer)
        allowed_AV = None if self.automaton is None else allowed_ids(self.automaton, len(weight_VH)).to(self.device)
        return Head(weight_VH=weight_VH, bias_V=layer.bias, temperature=self.temperature, allowed_AV=allowed_AV)

    def update(self, batch: Batch, loss: TokenLoss, unit: Unit = "trajectory") -> Metrics:
        """Pass over the batch `num_epochs` times. A batch in which nothing is credited changes nothing."""
        parts = units(batch, unit)
        lr = learning_rate(self.optimizer, self.num_updates, self.num_steps)
        for group in self.adam.param_groups:
            group["lr"] = lr
        steps: list[Metrics] = []
        for _ in range(self.optimizer.num_epochs):
            for chosen in minibatches(parts, self.optimizer.num_minibatches) if parts else []:
                steps.append(self.step(batch, chosen, loss))
        self.num_updates += 1
        first = {name: steps[0][name] for name in ("gap/engine",) if steps and batch.sampled}
        return {**averaged(steps), **first, "optimizer/lr": lr}

    def step(self, batch: Batch, chosen: Sequence[tuple[int, Sequences]], loss: TokenLoss) -> Metrics:
        """One optimizer step on some of the batch's parts."""
        totals = count(batch, [sequences for _, sequences in chosen])
        plan = list(micro_batches(batch, chosen, self.micro_batch_tokens))
        self.adam.zero_grad()
        self.model.train()
        shares: Metrics = {}
        for sequences in plan:
            for name, share in self.accumulate(batch, sequences, loss, totals).items():
                shares[name] = shares.get(name, 0.0) + share
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.optimizer.max_gradient_norm).item()
        if not math.isfinite(norm):
            raise self.culprit(batch, plan, loss, totals)
        self.adam.step()
        return {**shares, "gradient/norm": norm}

    def accumulate(self, batch: Batch, sequences: Sequences, loss: TokenLoss, totals: Totals) -> Metrics:
        """Add the gradient of one micro-batch; its shares of the loss and of the metrics."""
        packed = moved(pack(batch, sequences), self.device)
        tokens = self.tokens(batch, packed)
        result = loss(tokens, totals)
        value = result.value.item()
        if not math.isfinite(value):
            self.adam.zero_grad()
            raise NotFiniteError("loss", self.num_updates, evidence(packed, tokens))
        result.value.backward()
        shares = {name: share.item() for name, share in result.metrics.items()}
        if batch.sampled:
            gap_m = tokens.logp.detach() - batch.engine_logp_M.to(self.device)[packed.token_m]
            shares["gap/engine"] = gap_m.abs().sum().item() / totals.num_tokens
        return {"loss/value": value, **shares}

    def culprit(self, batch: Batch, plan: Sequence[Sequences], loss: TokenLoss, totals: Totals) -> NotFiniteError:
        """Which micro-batch gave the gradient that is not finite; looked for only then."""
        for sequences in plan:
            self.adam.zero_grad()
            self.accumulate(batch, sequences, loss, totals)
            if not math.isfinite(torch.nn.utils.get_total_norm(gradients(self.model)).item()):
                break
        self.adam.zero_grad()
        packed = moved(pack(batch, sequences), self.device)
        return NotFiniteError("gradient", self.num_updates, evidence(packed, self.tokens(batch, packed)))

    def tokens(self, batch: Batch, packed: Packed) -> Tokens:
        logp_m, entropy_m = self.forward(self.model, packed, batch)

        def take(column_M: Tensor) -> Tensor:
            return column_M.to(self.device)[packed.token_m]

        if batch.advantage_M is None:
            raise ValueError("update: the batch has no advantages; call batch.with_advantages(credit(rows)) first")
        row_m = take(batch.row_M)
        return Tokens(
            logp=logp_m,
            entropy=entropy_m,
            old_logp=take(batch.engine_logp_M if batch.old_logp_M is None else batch.old_logp_M),
            reference_logp=None if batch.reference_logp_M is None else take(batch.reference_logp_M),
            advantage=take(batch.advantage_M),
            weight=torch.ones_like(logp_m) if batch.weight_M is None else take(batch.weight_M),
            row=row_m,
            trajectory=batch.trajectory_R.to(self.device)[row_m],
            group=batch.group_R.to(self.device)[row_m],
        )

    def weights(self) -> Mapping[str, Tensor]:
        """The policy under Hugging Face names, adapters merged: live tensors, to be copied by whoever keeps them."""
        if is_adapted(self.model):
            return merged_weights(self.model)
        return {name: tensor.detach() for name, tensor in self.model.state_dict().items()}

    def save(self, folder: Path) -> None:
        """A plain Hugging Face model folder, with what continuing takes beside it."""
        base_of(self.model).save_pretrained(folder, state_dict=dict(self.weights()))
        state = {f"adam.{name}.{key}": x for name, p in trained(self.model) for key, x in self.adam.state[p].items()}
        adapters = {f"adapter.{name}": p.detach() for name, p in trained(self.model)} if is_adapted(self.model) else {}
        save_file({name: x.contiguous().cpu() for name, x in {**state, **adapters}.items()}, folder / STATE)
        (folder / PROGRESS).write_text(json.dumps({"num_updates": self.num_updates}) + "\n")

    def load(self, folder: Path) -> None:
        """Continue exactly where `save` was called."""
        state = load_file(folder / STATE, device=str(self.device))
        with torch.no_grad():
            if is_adapted(self.model):
                for name, p in trained(self.model):
                    p.copy_(state[f"adapter.{name}"])
            else:
                saved = {k: x for file in sorted(folder.glob("model*.safetensors")) for k, x in load_file(file).items()}
                for name, p in self.model.named_parameters():
                    p.copy_(saved[name])
        for name, p in trained(self.model):
            prefix = f"adam.{name}."
            self.adam.state[p] = {k.removeprefix(prefix): x for k, x in state.items() if k.startswith(prefix)}
        self.num_updates = json.loads((folder / PROGRESS).read_text())["num_updates"]


def trained(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Parameter]]:
    return ((name, p) for name, p in model.named_parameters() if p.requires_grad)


def gradients(model: torch.nn.Module) -> list[Tensor]:
    return [p.grad for p in model.parameters() if p.grad is not None]


def parameter_groups(model: torch.nn.Module, optimizer: Optimizer) -> list[dict[str, Any]]:
    """Matrices decay; biases and norms do not."""
    matrices = [p for _, p in trained(model) if p.dim() > 1]
    vectors = [p for _, p in trained(model) if p.dim() <= 1]
    decays = ((matrices, optimizer.weight_decay), (vectors, 0.0))
    return [{"params": ps, "lr": optimizer.lr, "weight_decay": decay} for ps, decay in decays if ps]


def frozen_copy(model: Any) -> Any:
    return copy.deepcopy(model).requires_grad_(False).eval()


def learning_rate(optimizer: Optimizer, update: int, num_steps: int) -> float:
    """The rate of update number `update` (from 0) of a run of `num_steps`."""
    if update < optimizer.warmup_steps:
        return optimizer.lr * (update + 1) / optimizer.warmup_steps
    done = min(1.0, (update - optimizer.warmup_steps) / max(1, num_steps - optimizer.warmup_steps))
    match optimizer.schedule:
        case "constant":
            return optimizer.lr
        case "linear":
            return optimizer.lr * (1 - done)
        case "cosine":
            return optimizer.lr * (1 + math.cos(math.pi * done)) / 2


def averaged(steps: Sequence[Metrics]) -> Metrics:
    return {name: sum(step[name] for step in steps) / len(steps) for name in (steps[0] if steps else ())}


def evidence(packed: Packed, tokens: Tokens) -> dict[str, Tensor]:
    """The micro-batch and what the loss saw of it."""
    seen = {name: getattr(tokens, name) for name in ("logp", "entropy", "old_logp", "advantage", "row", "group")}
    laid = {"input_ids": packed.input_ids_1T[0], "position_ids": packed.position_ids_1T[0], "token": packed.token_m}
    return {name: x.detach().cpu().contiguous() for name, x in {**laid, **seen}.items()}
