"""What a micro-batch really takes, counted operation by operation, against what `rlx plan` says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig, Qwen2Config, Qwen2ForCausalLM

import rlx
from rlx.hardware.profile import Hardware
from rlx.hardware.sizing.amounts import Demand
from rlx.hardware.sizing.learner import activation_bytes
from rlx.learner.batch import collate
from rlx.learner.packing import pack
from rlx.learner.scorer import Scorer
from rlx.learner.shares import shares, units
from rlx.model.shape import read_shape
from rlx.types import Group, Task, Trajectory

ERROR = {False: (0.98, 1.02), True: (0.9, 1.1)}
"""What is measured as a share of what is planned, kept and recomputed."""


class Alive(TorchDispatchMode):
    """The bytes that operations have made and that something still holds, at most."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        grads = (p.grad for p in model.parameters() if p.grad is not None)
        self.given = {x.untyped_storage()._cdata for x in (*model.parameters(), *model.buffers(), *grads)}
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
    """Tokens, and bytes beside the weights and their gradients, which are there from the second micro-batch on."""
    torch.manual_seed(0)
    autocast, low = hardware.learner == "torch", hardware.learner_dtype == "bfloat16"
    model = Qwen2ForCausalLM(config).to(torch.bfloat16 if low and not autocast else torch.float32)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    scorer = Scorer(model, recompute=hardware.recompute).train()
    batch = collate(groups)
    (what,), *_ = shares(batch, units(batch, "trajectory"), hardware.micro_batch_tokens, 1)
    packed = pack(batch, what)
    with Alive(model) as alive:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast and low):
            logp = scorer(packed, batch.mask_M[packed.token_m])["logp"]
        logp.sum().backward()
    return packed.input_ids_BL.shape[1], alive.most


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
    hardware = Hardware(learner=learner, learner_dtype=dtype, recompute=recompute, micro_batch_tokens=10_000)
    shape = read_shape(config.to_dict())
    tokens, measured = peak(config, hardware, groups)
    planned = activation_bytes(hardware, Demand(shape=shape, num_trained=shape.num_parameters, max_context=128), tokens)
    least, most = ERROR[recompute]
    assert least * planned < measured < most * planned


LONG = [(8192, 2**15), (32768, 1024), (32768, 2**15)]


def long_episode(turn, length: int) -> Group:
    """Four turns, each a quarter of it."""
    task, turns, context = Task(id="t", prompt=(), data={}), [], [1] * 64
    for _ in range(4):
        sampled = [index % 64 for index in range((length - 64) // 4 - 16)]
        turns.append(turn(context, sampled))
        context = [*context, *sampled, *[2] * 16]
    return Group(task=task, trajectories=(Trajectory(task=task, sample=0, turns=tuple(turns), status="done"),))


@pytest.mark.parametrize(
    ("length", "micro_batch_tokens"),
    [(2048, 1024), (2048, 2**15), (8192, 1024), *(pytest.param(*each, marks=pytest.mark.slow) for each in LONG)],
)
def test_a_long_episode_takes_what_the_plan_says_linear_in_its_length(turn, length, micro_batch_tokens) -> None:
    config = AutoConfig.from_pretrained(Path(rlx.__file__).parent / "model" / "nano")
    hardware, shape = Hardware(micro_batch_tokens=micro_batch_tokens), read_shape(config.to_dict())
    demand = Demand(shape=shape, num_trained=shape.num_parameters, max_context=length)
    tokens, measured = peak(config, hardware, [long_episode(turn, length)])
    planned = activation_bytes(hardware, demand, tokens)
    assert 0.9 * planned < measured < 1.1 * planned
    if micro_batch_tokens == 1024:
        assert measured < 25_000 * length  # 0.82 GB at 32k tokens
