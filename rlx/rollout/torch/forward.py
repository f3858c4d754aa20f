"""A model of transformers and its caches: the runner for families that the fused decoder does not compute.

The model is built from a config, with eager attention: the only form in which transformers computes soft caps and
attention sinks everywhere. Its own head makes the logits, so their scaling and caps are those of the family. Rows of
added actions are appended to that head.

Padding stands on the left. Rows without a cache may be padded, since the mask keeps padding from recurrent layers too;
rows that continue a cache run together where they add equally many tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM
from transformers.initialization import no_init_weights

from rlx.hardware.profile import TOLERANCE
from rlx.model.expand import ROWS
from rlx.model.families import UNLISTED
from rlx.model.load import first_line
from rlx.model.logits import family_of
from rlx.model.problem import ModelError
from rlx.rollout.torch.decoder import check_rows
from rlx.rollout.torch.runner import pass_tokens_on, split_passes
from rlx.rollout.torch.states import Batch, Rows

PROBE = 12
"""Tokens of the text by which the cache of an unlisted family is tested."""


class ForwardRunner:
    """The counterpart of rlx.rollout.torch.runner.Runner, with the same methods."""

    def __init__(self, config: Any, device: torch.device, dtype: torch.dtype) -> None:
        self.config, self.device, self.dtype = deepcopy(config), device, dtype
        self.pass_tokens = pass_tokens_on(device)
        with no_init_weights(), device:
            self.model = AutoModelForCausalLM.from_config(self.config, dtype=dtype, attn_implementation="eager")
        self.model.eval().requires_grad_(False).tie_weights()
        self._head: Any = self.model.get_output_embeddings()
        self._is_tested = False
        self.cache = Rows(self.config)

    @torch.no_grad()
    def load(self, config: Any, weights: Mapping[str, Tensor], num_added: int) -> None:
        """Copy a policy's weights, with the rows of `num_added` actions, and forget every cache."""
        self.model.set_output_embeddings(self._head)
        for name, tensor in stored(self.model).items():
            if name not in weights:
                raise ValueError(
                    f"torch engine: the weights lack {name!r}; are they a {self.config.model_type} model's?"
                )
            tensor.copy_(weights[name])
        if num_added:
            rows_AH = check_rows(weights[ROWS] if ROWS in weights else self._head.weight[:0], num_added)
            self.model.set_output_embeddings(widened(self._head, rows_AH))
        if not self._is_tested:
            self._test()
        self.cache = Rows(self.config)

    def _test(self) -> None:
        """Raise ModelError if the model cannot continue from its cache, as values of a config may have it. For an
        unlisted type, logits after cached tokens must be those of one pass, for rows of two lengths: padding must not
        move the positions of the shorter row."""
        ids = [(7 * place + 3) % self.config.get_text_config().vocab_size for place in range(PROBE)]
        starts = (4, PROBE - 3)
        try:
            with torch.inference_mode():
                texts = [ids[: start + 3] for start in starts]
                plain = [
                    self.model(input_ids=torch.tensor([row], device=self.device), use_cache=False) for row in texts
                ]
                self.extend(0, [row[:-3] for row in texts], [0, 0])
                self.extend(0, [row[-3:-1] for row in texts], starts)
                stepped = self.decode([row[-1] for row in texts], [len(row) - 1 for row in texts]).log_softmax(-1)
            expected = torch.stack([output.logits[0, -1] for output in plain]).float().log_softmax(-1)
            difference = float((expected - stepped).abs().mean(-1).max())
            reason = f"log-probs differ by {difference:.2g}"
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # the code of any model
            difference, reason = float("inf"), first_line(error)
        is_unlisted = family_of(self.config.to_dict()) is UNLISTED
        is_close = difference <= TOLERANCE[str(self.dtype).removeprefix("torch.")]
        if difference == float("inf") or (is_unlisted and not is_close):
            raise ModelError(
                f"torch engine: model_type {self.config.model_type!r} does not continue from transformers' cache, "
                f"or not beside longer texts: {reason}; choose a model of a type in docs/models.md, or "
                "hardware.engine=vllm"
            )
        self._is_tested = True

    def decode(self, ids: Sequence[int], positions: Sequence[int]) -> Tensor:
        """Return the logits after one more token of every row, (B, V)."""
        return self._forward(self.cache.first_rows(len(ids)), [(token,) for token in ids])

    def extend(self, first_row: int, suffixes: Sequence[Sequence[int]], starts: Sequence[int]) -> Tensor:
        """Return the logits after several more tokens of consecutive rows, each from its own position, (B, V)."""
        logits = [
            self._extend(range(first_row + first, first_row + last), suffixes[first:last])
            for first, last in split_alike(suffixes, starts, self.pass_tokens)
        ]
        return torch.cat(logits)

    def _extend(self, rows: range, suffixes: Sequence[Sequence[int]]) -> Tensor:
        batch = self.cache.gather(rows)
        pieces = [suffixes]
        if len(rows) == 1:
            (suffix,), size = suffixes, self.pass_tokens
            pieces = [[suffix[first : first + size]] for first in range(0, len(suffix), size)]
        for piece in pieces:
            logits = self._forward(batch, piece)
        self.cache.scatter(rows, batch)
        return logits

    def _forward(self, batch: Batch, suffixes: Sequence[Sequence[int]]) -> Tensor:
        """Run one suffix of each row, and return the logits after it, (B, V)."""
        longest = max(map(len, suffixes))
        ids_BN = torch.tensor([[*(0,) * (longest - len(suffix)), *suffix] for suffix in suffixes], device=self.device)
        batch.lengths = [length + len(suffix) for length, suffix in zip(batch.lengths, suffixes)]
        batch.num_columns += longest
        from_end_C = torch.arange(batch.num_columns, 0, -1, device=self.device)
        lengths_B1 = torch.tensor(batch.lengths, device=self.device)[:, None]
        positions_BC = (lengths_B1 - from_end_C).clamp(min=0)
        output = self.model(
            input_ids=ids_BN,
            attention_mask=(from_end_C <= lengths_B1).long(),
            position_ids=positions_BC[:, -longest:],
            past_key_values=batch.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = output.logits[:, -1].float()
        return logits


def split_alike(
    suffixes: Sequence[Sequence[int]], starts: Sequence[int], pass_tokens: int
) -> Iterator[tuple[int, int]]:
    """Yield runs (first, last) of suffixes for one pass: of rows without a cache, or of one length."""
    for first, last in split_passes([len(suffix) for suffix in suffixes], pass_tokens):
        for _, run in groupby(range(first, last), key=lambda row: starts[row] > 0 and len(suffixes[row])):
            rows = list(run)
            yield rows[0], rows[-1] + 1


def stored(model: Any) -> dict[str, Tensor]:
    """Return the parameters and the buffers that a checkpoint has, each once."""
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in model.state_dict()}
    return {**dict(model.named_parameters()), **buffers}


def widened(head: Any, rows_AH: Tensor) -> torch.nn.Linear:
    """Return a head that continues with the rows of added actions."""
    rows_AH = rows_AH.to(head.weight.device, head.weight.dtype)
    wide = torch.nn.Linear(1, 1, bias=head.bias is not None, device=head.weight.device, dtype=head.weight.dtype)
    wide.weight = torch.nn.Parameter(torch.cat((head.weight, rows_AH)), requires_grad=False)
    if head.bias is not None:
        wide.bias = torch.nn.Parameter(torch.cat((head.bias, head.bias.new_zeros(len(rows_AH)))), requires_grad=False)
    return wide
