"""The model as the learner calls it: a packed micro-batch in, named columns over its trained tokens out.

Heads lie beside the model. They are trained and saved with the learner's state, and are no part of the policy. The
scorer is a torch module, so a wrapper (DeepSpeed) sees every use of a weight, including the output matrix's.

Legend: m trained tokens of the micro-batch, T packed tokens, H hidden size, V vocabulary.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Tensor

from rlx.algo.parts import Columns
from rlx.hardware.machine import give_back_blocks
from rlx.learner.attention import PACKED, attention_over
from rlx.learner.logprob import Head, log_probs
from rlx.learner.lora import action_rows, base_of, head_weight, is_adapted
from rlx.learner.packing import Packed
from rlx.learner.products import computed_again, products_on
from rlx.model.dropout import dropouts_of
from rlx.model.expand import actions_of
from rlx.model.families import Packing
from rlx.model.logits import family_of, logit_shape
from rlx.model.masks import Masks
from rlx.model.value import ValueHead
from rlx.protocol.automaton import Actions, Automaton, State

Kind = Literal["policy", "bare", "plain"]
"""Computation of a micro-batch: as the policy, or, for a comparison, without what sampling adds to the model: in the
learner's layout, or by the model's own forward pass."""


class Scorer(torch.nn.Module):
    """Causal language model, with the temperature and the automaton of sampling."""

    def __init__(
        self,
        model: Any,
        *,
        temperature: float = 1.0,
        automaton: Automaton | None = None,
        recompute: bool = False,
        critic: bool = False,
    ) -> None:
        super().__init__()
        self.model = cast(Any, model)
        heads = {"value": ValueHead(base_of(model).config.get_text_config().hidden_size)} if critic else {}
        self.heads = torch.nn.ModuleDict(heads)
        self.temperature = temperature
        config = base_of(model).config.to_dict()
        self.packing: Packing = family_of(config).packing
        """Layout of micro-batches that the model's layers need."""
        self.shape = logit_shape(config)
        self.automaton = automaton or plain(actions_of(base_of(self.model)))
        if self.automaton is not None and self.automaton.actions != actions_of(base_of(self.model)):
            raise ValueError("Scorer: the automaton is not of the model's added actions; give both the same")
        self._masks: Masks | None = None
        self.recompute = recompute
        self.recomputes = False
        self.dropouts = list(dropouts_of(model))
        self.step: tuple[int, ...] = ()
        """Key of the current optimizer step for dropout, set by the learner."""
        base_of(self.model).set_attn_implementation(PACKED)

    def forward(self, packed: Packed, state_m: Tensor, kind: Kind = "policy") -> Columns:
        """Run the model on a micro-batch and compute its columns.

        `state_m` (always on the CPU): automaton state of each trained token, -1 for none.
        """
        self.keep_layers(not (self.recompute or packed.recompute))
        for dropout in self.dropouts:
            dropout.at(self.step, packed.token_T)
        with products_on(packed.input_ids_BL.device):
            if kind == "plain":
                return self.plain_columns(packed)
            hidden_TH = self.hidden(packed)
            return (
                self.columns(hidden_TH, packed, state_m) if kind == "policy" else self.bare_columns(hidden_TH, packed)
            )

    def hidden(self, packed: Packed) -> Tensor:
        """Return the last hidden state of every packed token."""
        hidden_TH: Tensor = (
            base_of(self.model)
            .get_decoder()(
                input_ids=packed.input_ids_BL,
                position_ids=packed.position_ids_BL,
                use_cache=False,
                attention=attention_over(packed.layout),
            )
            .last_hidden_state.flatten(0, 1)
        )
        return hidden_TH

    def bare_columns(self, hidden_TH: Tensor, packed: Packed) -> Columns:
        """Compute log-probs at temperature 1, without an automaton and added actions."""
        head = replace(self.head(base_of(self.model)), rows_AH=None, temperature=1.0, masks=None)
        target_m = packed.input_ids_BL.flatten()[packed.after_m]
        logp_m, _, _ = log_probs(head, hidden_TH[packed.predict_m], target_m, torch.full_like(target_m, -1))
        return {"logp": logp_m}

    def plain_columns(self, packed: Packed) -> Columns:
        """Compute the same of a single row by the model's own forward pass, with transformers' plainest attention."""
        base = base_of(self.model)
        base.set_attn_implementation("eager")
        try:
            logits_mV = base(input_ids=packed.input_ids_BL, use_cache=False, logits_to_keep=packed.predict_m).logits[0]
        finally:
            base.set_attn_implementation(PACKED)
        target_m = packed.input_ids_BL[0, packed.after_m]
        return {"logp": logits_mV.float().log_softmax(-1).gather(1, target_m[:, None])[:, 0]}

    def columns(self, hidden_TH: Tensor, packed: Packed, state_m: Tensor) -> Columns:
        head = self.head(base_of(self.model))
        logp_m, entropy_m, share_m = log_probs(head, hidden_TH[packed.predict_m], packed.target_m, state_m)
        columns = {"logp": logp_m, "entropy": entropy_m}
        if head.rows_AH is not None:
            is_added_m = packed.target_m >= len(head.weight_VH)
            columns["vocab_logp"] = (logp_m - share_m).masked_fill(is_added_m, 0.0)
        if "value" in self.heads:
            value_T = self.heads["value"](hidden_TH)
            columns |= {"value": value_T[packed.predict_m], "value_after": value_T[packed.after_m]}
        return columns

    def trained(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Yield the trained parameters: the model's by their names in it, and `heads.…`."""
        return ((name.removeprefix("model."), p) for name, p in self.named_parameters() if p.requires_grad)

    def beside(self, name: str) -> str | None:
        """Return a trained parameter's name in the learner's state; None if the exported model holds it."""
        if name.startswith("heads."):
            return name
        return f"adapter.{name}" if is_adapted(self.model) else None

    def keep_layers(self, is_kept: bool) -> None:
        """Store activations for the backward pass, or recompute them there."""
        if is_kept != self.recomputes:
            return
        base = base_of(self.model)
        with warnings.catch_warnings(category=FutureWarning, action="ignore"):
            if is_kept:
                base.gradient_checkpointing_disable()
            else:
                again = partial(computed_again, next(base.parameters()).device)
                base.gradient_checkpointing_enable({"use_reentrant": False, "context_fn": again})
        self.recomputes = not is_kept
        if not is_kept:
            give_back_blocks()

    def head(self, base: Any) -> Head:
        layer = base.get_output_embeddings()
        weight_VH = head_weight(layer)
        return Head(
            weight_VH=weight_VH,
            bias_V=layer.bias,
            rows_AH=action_rows(self.model),
            temperature=self.temperature,
            masks=self.masks(len(weight_VH), weight_VH.device),
            shape=self.shape,
        )

    def masks(self, vocabulary: int, device: torch.device) -> Masks | None:
        """Return the automaton's masks, built once per device."""
        if self.automaton is not None and (self._masks is None or self._masks.device != device):
            self._masks = Masks(self.automaton, vocabulary, device)
        return self._masks


def plain(actions: Actions | None) -> Automaton | None:
    """Return an automaton that allows no added action: for tokens sampled without one. None without added actions."""
    return None if actions is None else Automaton(states=(State(),), actions=actions)


def frozen_copy(scorer: Scorer) -> Scorer:
    """Copy the model alone, frozen, without heads."""
    copied = copy.deepcopy(scorer)
    copied.heads = torch.nn.ModuleDict()
    return copied.requires_grad_(False).eval()
