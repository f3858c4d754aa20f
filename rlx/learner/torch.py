"""The learner on one device, in one process, with weights and optimizer in plain torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from rlx.algo.parts import Columns, Critic, Need, Optimizer
from rlx.hardware.pulse import nothing
from rlx.learner.learner import Learner, check_settings
from rlx.learner.lora import Weights, base_of, is_adapted
from rlx.learner.optimizer import build_adam
from rlx.learner.packing import Packed
from rlx.learner.scorer import Kind, Scorer, frozen_copy
from rlx.learner.state import (
    Tensors,
    read_progress,
    saved_model,
    with_progress,
    write_model,
    write_progress,
    write_state,
)
from rlx.protocol.automaton import Automaton


def halve_frozen(scorer: Scorer, dtype: torch.dtype) -> None:
    """Store the frozen matrices of linear maps in the dtype of the pass. Autocast converts them to it at every use, so
    results stay equal to the last bit. The output matrix stays as it is, because its products do not use autocast."""
    if dtype == torch.float32:
        return
    head = base_of(scorer.model).get_output_embeddings()
    for module in scorer.modules():
        if isinstance(module, torch.nn.Linear) and module is not head:
            for p in module.parameters(recurse=False):
                if not p.requires_grad:
                    p.data = p.data.to(dtype)


class TorchLearner(Learner):
    """Learner in one process; see rlx.learner.learner for the interface."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        optimizer: Optimizer,
        num_steps: int,
        needs: frozenset[Need] = frozenset(),
        critic: Critic | None = None,
        micro_batch_tokens: int = 2048,
        temperature: float = 1.0,
        automaton: Automaton | None = None,
        gap_cap: float | None = None,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        recompute: bool = False,
    ) -> None:
        """Build the learner. `temperature` and `automaton` are those of sampling. `dtype` is the precision of the
        forward and backward pass; trained weights and the optimizer keep float32."""
        check_settings("TorchLearner", temperature)
        self.device = torch.device(device)
        self.dtype = dtype
        self.scorer = Scorer(
            model,
            temperature=temperature,
            automaton=automaton,
            recompute=recompute,
            critic=critic is not None,
        )
        halve_frozen(self.scorer, dtype)
        self.scorer.to(self.device)
        self.optimizer = optimizer
        self.num_steps = num_steps
        self.num_updates = 0
        self.micro_batch_tokens = micro_batch_tokens
        self.gap_cap = gap_cap
        self.adam = build_adam(self.scorer.trained(), optimizer, critic)
        self.start = frozen_copy(self.scorer) if "reference" in needs and not is_adapted(self.model) else None
        if self.start is not None:
            halve_frozen(self.start, dtype)

    def score(self, packed: Packed, state_m: Tensor, kind: Kind = "policy") -> Columns:
        """Compute the scorer's columns of a micro-batch."""
        return self.under(self.scorer, packed, state_m, kind)

    def score_start(self, packed: Packed, state_m: Tensor) -> Columns:
        assert self.start is not None
        return self.under(self.start, packed, state_m)

    def under(self, scorer: Scorer, packed: Packed, state_m: Tensor, kind: Kind = "policy") -> Columns:
        low = self.dtype != torch.float32
        with torch.autocast(self.device.type, self.dtype) if low else nullcontext():
            return scorer(packed, state_m, kind)

    def adam_groups(self) -> list[dict[str, Any]]:
        return self.adam.param_groups

    def clear(self) -> None:
        self.adam.zero_grad()

    def backward(self, value: Tensor, is_last: bool) -> None:
        """Add the gradient of a share of the loss."""
        value.backward()

    def move(self) -> float:
        """Clip the gradient and take the optimizer's step; return the norm before it is clipped."""
        norm = torch.nn.utils.clip_grad_norm_(self.scorer.parameters(), self.optimizer.max_gradient_norm)
        if norm.isfinite():
            self.adam.step()
        return norm.item()

    def weights(self) -> Weights:
        return Weights(self.model)

    def save(self, folder: Path | None, progress: Callable[[], None] = nothing) -> None:
        if folder is None:
            return
        weights = self.weights()
        write_model(
            folder, base_of(self.model), with_progress(((name, weights[name]) for name in weights.distinct()), progress)
        )
        write_state(folder, with_progress(self.state(), progress))
        write_progress(folder, self.num_updates)

    def state(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the state that a resume needs besides the weights."""
        for name, p in self.scorer.trained():
            beside = self.scorer.beside(name)
            if beside is not None:
                yield beside, p
            for key, x in self.adam.state[p].items():
                yield f"adam.{name}.{key}", x

    def load(self, folder: Path, progress: Callable[[], None] = nothing) -> None:
        state, saved = Tensors(folder.glob("learner*.safetensors")), saved_model(folder)
        with torch.no_grad():
            for name, p in self.scorer.trained():
                beside = self.scorer.beside(name)
                p.copy_(saved[name] if beside is None else state[beside])
        for name, p in self.scorer.trained():
            keys = [key for key in ("step", "exp_avg", "exp_avg_sq") if f"adam.{name}.{key}" in state]
            self.adam.state[p] = {key: state[f"adam.{name}.{key}"].to(self.device) for key in keys}
            progress()
        self.num_updates = read_progress(folder)
