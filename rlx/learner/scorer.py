"""The model as learning sees it: a packed micro-batch in, named columns over its trained tokens out.

Heads lie beside the model: they are trained and kept with the learner's state, and are no part of the policy. It is a
module, so that whoever wraps it (DeepSpeed) sees every use of a weight, the output matrix's among them.

Legend: m trained tokens of the micro-batch, T packed tokens, H hidden size, V vocabulary.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

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
from rlx.model.masks import Masks
from rlx.model.value import ValueHead
from rlx.protocol.automaton import Actions, Automaton, State


class Scorer(torch.nn.Module):
    """A causal language model, under the temperature and the automaton that its tokens were sampled with."""

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
        heads = {"value": ValueHead(base_of(model).config.hidden_size)} if critic else {}
        self.heads = torch.nn.ModuleDict(heads)
        self.temperature = temperature
        self.automaton = automaton or plain(actions_of(base_of(self.model)))
        if self.automaton is not None and self.automaton.actions != actions_of(base_of(self.model)):
            raise ValueError("Scorer: the automaton is not of the model's added actions; give both the same")
        self._masks: Masks | None = None
        self.recompute = recompute
        self.recomputes = False
        self.dropouts = list(dropouts_of(model))
        self.step: tuple[int, ...] = ()
        """Key of the optimizer step that dropout belongs to; the learner sets it."""
        base_of(self.model).set_attn_implementation(PACKED)

    def forward(self, packed: Packed, state_m: Tensor) -> Columns:
        """`state_m`: the automaton state of each trained token, -1 for none; on the CPU, whatever the device."""
        self.keep_layers(not (self.recompute or packed.recompute))
        for dropout in self.dropouts:
            dropout.at(self.step, packed.token_T)
        with products_on(packed.input_ids_1T.device):
            return self.columns(packed, state_m)

    def columns(self, packed: Packed, state_m: Tensor) -> Columns:
        base = base_of(self.model)
        hidden_TH = base.get_decoder()(
            input_ids=packed.input_ids_1T,
            position_ids=packed.position_ids_1T,
            use_cache=False,
            attention=attention_over(packed.layout),
        ).last_hidden_state[0]
        head = self.head(base)
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
        """What moves: the model's own parameters by their names in it, and `heads.…`."""
        return ((name.removeprefix("model."), p) for name, p in self.named_parameters() if p.requires_grad)

    def beside(self, name: str) -> str | None:
        """What a trained parameter is called in the learner's state; None if the exported model holds it."""
        if name.startswith("heads."):
            return name
        return f"adapter.{name}" if is_adapted(self.model) else None

    def keep_layers(self, kept: bool) -> None:
        """For the backward pass, or compute them again there."""
        if kept != self.recomputes:
            return
        base = base_of(self.model)
        with warnings.catch_warnings(category=FutureWarning, action="ignore"):
            if kept:
                base.gradient_checkpointing_disable()
            else:
                again = partial(computed_again, next(base.parameters()).device)
                base.gradient_checkpointing_enable({"use_reentrant": False, "context_fn": again})
        self.recomputes = not kept
        if not kept:
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
        )

    def masks(self, vocabulary: int, device: torch.device) -> Masks | None:
        """Those of the automaton, made once for the device."""
        if self.automaton is not None and (self._masks is None or self._masks.device != device):
            self._masks = Masks(self.automaton, vocabulary, device)
        return self._masks


def plain(actions: Actions | None) -> Automaton | None:
    """An automaton for tokens that were sampled without one, of a model with added actions: none of them."""
    return None if actions is None else Automaton(states=(State(),), actions=actions)


def frozen_copy(scorer: Scorer) -> Scorer:
    """Of the model alone."""
    copied = copy.deepcopy(scorer)
    copied.heads = torch.nn.ModuleDict()
    return copied.requires_grad_(False).eval()
