"""Comparison of the learner's layout with the model's own forward pass, before the first update.

A few texts of the batch go through the model together, in the learner's layout, and one by one through transformers'
own forward pass with its plainest attention. A layer that reads its neighbours, a missing cap or a missing factor shows
as a difference of log-probs. The weights, random numbers and modes of a run stay as they are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlx.base.limits import MistakeError
from rlx.learner.batch import Batch, collate
from rlx.learner.learner import Learner
from rlx.learner.lora import base_of
from rlx.learner.packing import pack, path_tokens, to_device
from rlx.learner.scorer import Kind
from rlx.learner.shares import shares, units
from rlx.model.families import UNLISTED, Packing
from rlx.model.load import first_line
from rlx.model.logits import family_of
from rlx.model.problem import ModelError
from rlx.types import Action, Completion, Group, Task, Trajectory, Turn

LONGEST = 1024
"""Tokens of a text that are read: plain attention takes memory for each pair of them."""
COMPARED = 64
"""Last tokens of a text whose log-probs are compared."""


def check_layout(learner: Learner, batch: Batch, bound: float) -> None:
    """Raise ModelError if the learner's log-probs differ from the model's by more than `bound` on average, or if the
    code of an unlisted model cannot compute them."""
    config = base_of(learner.model).config
    kind = config.get_text_config().model_type
    try:
        difference = layout_difference(learner, batch)
    except (AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        if family_of(config.to_dict()) is not UNLISTED or is_of_machine(error):
            raise
        raise ModelError(
            f"model_type {kind!r}: the learner cannot compute it: {first_line(error)}; choose a model of a type in "
            "docs/models.md"
        ) from error
    if not difference <= bound:
        raise ModelError(
            f"model_type {kind!r}: the learner's log-probs differ from those of the "
            f"model's own forward pass by {difference:.2g} a token, more than {bound:g}, so training would follow a "
            "wrong gradient; choose a model of a type in docs/models.md"
        )


def is_of_machine(error: Exception) -> bool:
    """Tell whether an error is rlx's own, or that of a device, of memory or of another rank, and not of a model."""
    is_ours = isinstance(error, (MistakeError, torch.OutOfMemoryError)) or type(error).__module__.startswith("rlx.")
    return is_ours or type(error).__name__ in ("DistBackendError", "AcceleratorError") or "memory" in str(error)


@torch.no_grad()
def layout_difference(learner: Learner, batch: Batch) -> float:
    """Return the mean difference of log-probs between the learner's layout and the model's own forward pass."""
    texts = excerpt(batch)
    learner.scorer.eval()
    packed_M = compute(learner, texts, learner.scorer.packing, LONGEST * 4, "bare")
    plain_M = compute(learner, texts, "rows", 1, "plain")
    return float((packed_M - plain_M).abs().mean())


def excerpt(batch: Batch) -> Batch:
    """Return a batch of the shortest text, one of middle length and the longest: contexts with what follows them."""
    trained = (batch.token_start_S.diff() > 0).nonzero().flatten().tolist()
    ordered = sorted(trained, key=lambda s: int(batch.context_S[s] + batch.start_S[s + 1] - batch.start_S[s]))
    chosen = sorted({ordered[0], ordered[len(ordered) // 2], ordered[-1]})
    task = Task(id="comparison", prompt=(), data={})
    texts = [batch.token_ids_N[path_tokens(batch, s)][:LONGEST].tolist() for s in chosen]
    trajectories = [
        Trajectory(task=task, sample=number, turns=(last_turn(text),), status="done")
        for number, text in enumerate(texts)
    ]
    return collate([Group(task=task, trajectories=tuple(trajectories))])


def last_turn(text: list[int]) -> Turn:
    """Return a turn whose completion is the end of a text."""
    num = max(1, len(text) - COMPARED)
    completion = Completion(token_ids=tuple(text[num:]), logprobs=(0.0,) * len(text[num:]), stop="stop")
    return Turn(prompt_ids=tuple(text[:num]), completion=completion, action=Action(kind="answer", text=""), reward=0.0)


def compute(learner: Learner, texts: Batch, packing: Packing, budget: int, kind: Kind) -> Tensor:
    """Return log-probs of the texts' compared tokens, on the CPU; every rank computes all of them."""
    logp_M = torch.zeros(texts.num_tokens)
    for micro_batch in shares(texts, units(texts, "trajectory"), budget, 1, packing)[0]:
        learner.beat()
        packed = pack(texts, micro_batch, learner.device.type)
        columns = learner.score(to_device(packed, learner.device), texts.mask_M[packed.token_m], kind)
        logp_M[packed.token_m] = columns["logp"].float().cpu()
    return logp_M
