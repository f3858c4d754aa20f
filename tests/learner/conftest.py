"""Tiny random models and made-up episodes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from rlx.types import Action, Completion, Group, Task, Trajectory, Turn

torch.set_num_threads(1)  # a second thread waits, spinning, on models this small

VOCABULARY = 50
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}


def build(family: str, seed: int, tied: bool) -> PreTrainedModel:
    torch.manual_seed(seed)
    shape = {**SHAPE, "tie_word_embeddings": tied, "initializer_range": 0.3}
    heads = {"head_dim": 8} if family == "qwen3" else {}
    found: PreTrainedModel = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **shape, **heads))
    return found


@pytest.fixture
def model() -> Callable[..., PreTrainedModel]:
    return lambda family="qwen2", seed=0, tied=True: build(family, seed, tied)


def make_turn(prompt: Sequence[int], sampled: Sequence[int], reward: float = 0.0) -> Turn:
    completion = Completion(token_ids=tuple(sampled), logprobs=tuple(-1.0 - 0.01 * t for t in sampled), stop="stop")
    return Turn(prompt_ids=tuple(prompt), completion=completion, action=Action(kind="answer", text=""), reward=reward)


@pytest.fixture
def turn() -> Callable[..., Turn]:
    return make_turn


def make_groups(num_groups: int = 3, num_samples: int = 4, seed: int = 0, rewrite: float = 0.0) -> list[Group]:
    """Groups of episodes of one to three turns; with probability `rewrite` a turn's context is a new one."""
    draw = random.Random(seed)

    def ids(low: int, high: int) -> list[int]:
        return [draw.randrange(VOCABULARY) for _ in range(draw.randint(low, high))]

    def episode(task: Task, sample: int, prompt: list[int]) -> Trajectory:
        context, turns = prompt, []
        for _ in range(draw.randint(1, 3)):
            sampled = ids(1, 7)
            turns.append(make_turn(context, sampled, reward=draw.choice([0.0, 0.5, 1.0])))
            context = ids(3, 9) if draw.random() < rewrite else context + sampled + ids(0, 4)
        return Trajectory(task=task, sample=sample, turns=tuple(turns), status="done", success=draw.random() < 0.5)

    def group(index: int) -> Group:
        task, prompt = Task(id=f"t{index}", prompt=(), data={}), ids(2, 12)
        return Group(task=task, trajectories=tuple(episode(task, i, prompt) for i in range(num_samples)))

    return [group(i) for i in range(num_groups)]


@pytest.fixture
def groups() -> Callable[..., list[Group]]:
    return make_groups
