"""What a micro-batch really takes, counted operation by operation, against what `rlx plan` says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import Qwen2Config, Qwen2ForCausalLM

from rlx.hardware.memory import Job, activation_bytes
from rlx.hardware.profile import Hardware
from rlx.learner.batch import collate
from rlx.learner.forest import forest_of
from rlx.learner.packing import pack
from rlx.learner.scorer import Scorer
from rlx.learner.shares import micro_batch, segments_of, units
from rlx.model.shape import num_parameters, read_shape
from rlx.types import Group, Task, Trajectory

ERROR = {False: (0.98, 1.02), True: (0.8, 1.0)}
"""What is measured as a share of what is planned, kept and recomputed: the plan adds the largest layer, the logits and
the head up, which recomputation never holds at once."""


class Alive(TorchDispatchMode):
    """The bytes that operations have made and that something still holds, at most."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.given = {x.untyped_storage()._cdata for x in (*model.parameters(), *model.buffers())}
        self.held: dict[int, tuple[StorageWeakRef, int]] = {}
        self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.held = {key: pair for key, pair in self.held.items() if not pair[0].expired()}
        for x in tree_leaves(out):
            if isinstance(x, torch.Tensor) and x.untyped_storage()._cdata not in self.given:
                self.held[x.untyped_storage()._cdata] = (
                    StorageWeakRef(x.untyped_storage()),
                    x.untyped_storage().nbytes(),
                )
        self.most = max(self.most, sum(num for _, num in self.held.values()))
        return out


def peak(config: Qwen2Config, hardware: Hardware, groups: list[Group]) -> tuple[int, int]:
    """Tokens, and bytes beside the weights and their gradients."""
    torch.manual_seed(0)
    autocast, low = hardware.learner == "torch", hardware.learner_dtype == "bfloat16"
    model = Qwen2ForCausalLM(config).to(torch.bfloat16 if low and not autocast else torch.float32)
    scorer = Scorer(model, recompute=hardware.recompute).train()
    batch = collate(groups)
    packed = pack(batch, micro_batch(forest_of(batch), segments_of(units(batch, "trajectory"))))
    with Alive(model) as alive:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast and low):
            logp, _ = scorer(packed, batch.mask_M[packed.token_m])
        logp.sum().backward()
    gradients = sum(p.grad.nbytes for p in model.parameters())
    return packed.input_ids_1T.shape[1], alive.most - gradients


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize(("learner", "dtype"), [("torch", "float32"), ("torch", "bfloat16"), ("deepspeed", "bfloat16")])
def test_activations_are_as_the_plan_says(turn, learner, dtype, recompute) -> None:
    config = Qwen2Config(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=172,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    ids = [index % 64 for index in range(128)]
    task = Task(id="t", prompt=(), data={})
    episode = Trajectory(task=task, sample=0, turns=(turn(ids[:8], ids[8:]),), status="done")
    groups = [Group(task=replace(task, id=str(index)), trajectories=(episode,)) for index in range(24)]
    hardware = Hardware(learner=learner, learner_dtype=dtype, recompute=recompute)
    shape = read_shape(config.to_dict())
    tokens, measured = peak(config, hardware, groups)
    planned = activation_bytes(hardware, Job(shape=shape, num_trained=num_parameters(shape), max_context=128), tokens)
    least, most = ERROR[recompute]
    assert least * planned < measured < most * planned
