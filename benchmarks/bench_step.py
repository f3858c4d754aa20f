"""A whole single-turn RLOO step (sample, score, update): rlx beside TRL's RLOOTrainer.

    OMP_NUM_THREADS=1 python benchmarks/bench_step.py [--repeats 5] [--trl-micro-batch 64]

Equal: weights of nano's shape, 16 prompts of 96 tokens, 4 samples each, 64 new tokens each, no end of sequence, the
same reward, no KL, AdamW, float32, one thread. Sampling differs in its random numbers only. See beside_trl.py.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from beside_trl import Free, build_model, build_tokenizer, interleave, our_step, report, scratch, trl_arguments
from datasets import Dataset
from trl import RLOOConfig, RLOOTrainer

from rlx.algo.parts import Optimizer
from rlx.algo.rloo import rloo
from rlx.environment import Environment, Episode
from rlx.model.load import encode_text
from rlx.types import Action, Sampling, Step, Task, Text

NUM_PROMPTS, NUM_SAMPLES, NUM_PROMPT, NUM_NEW = 16, 4, 96, 64


def score(text: str) -> float:
    """Anything that differs between samples."""
    return text.count("e") / (1 + len(text))


@dataclass(frozen=True)
class OneTurn(Environment, Episode):
    """An environment that scores the first completion; it is its own episode, having no state."""

    max_rounds: int = 0

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return iter(())

    def start(self, task: Task) -> OneTurn:
        return self

    def step(self, action: Action) -> Step:
        return Step(reward=score(action.text), done=True)

    def tool_cost(self, tool: Any) -> float:
        return 0.0


def build_tasks(tokenizer: Any) -> list[Task]:
    """Numbers and spaces, of exactly `NUM_PROMPT` tokens."""
    draw = random.Random(0)

    def prompt() -> str:
        text = ""
        while len(encode_text(tokenizer, text)) < NUM_PROMPT:
            text += draw.choice("0123456789+-*/")
        return text

    return [Task(id=str(index), prompt=(Text(prompt()),), data={}) for index in range(NUM_PROMPTS)]


def trl_trainer(model: Any, tasks: list[Task], folder: str, steps: int, micro_batch: int) -> Any:
    keywords = trl_arguments(folder, NUM_PROMPTS, NUM_SAMPLES, NUM_NEW, micro_batch, steps)
    return RLOOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [score(text) for text in completions],
        args=RLOOConfig(**keywords),
        train_dataset=Dataset.from_list([{"prompt": task.prompt[0].text} for task in tasks]),
        processing_class=build_tokenizer(),
    )


def main(repeats: int, micro_batch: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    model, tasks = build_model(), build_tasks(build_tokenizer())
    dialect = Free(prompt=lambda task: task.prompt[0].text, reply=lambda _: "")
    algo = rloo(optimizer=Optimizer(), num_prompts=NUM_PROMPTS, num_samples=NUM_SAMPLES)
    ours, step = our_step(model, algo, OneTurn(), dialect, tasks, Sampling(max_new_tokens=NUM_NEW))
    played: list[tuple[int, int]] = []

    def counted() -> None:
        for group in step():
            played.extend((len(t.turns[0].prompt_ids), t.num_tokens) for t in group.trajectories)

    with scratch() as folder:
        trainer = trl_trainer(model, tasks, folder, repeats + 1, micro_batch)
        theirs = interleave(trainer, counted)
        told = trainer.state.log_history[-1]
    assert set(played) == {(NUM_PROMPT, NUM_NEW)}, set(played)
    assert told["completions/min_length"] == told["completions/max_length"] == NUM_NEW
    assert told["num_tokens"] == (NUM_PROMPT + NUM_NEW) * NUM_PROMPTS * NUM_SAMPLES * (repeats + 1)
    return report("step", ours, theirs, sampled_tokens=NUM_PROMPTS * NUM_SAMPLES * NUM_NEW)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--trl-micro-batch", type=int, default=64, help="TRL's per_device_train_batch_size")
    options = parser.parse_args()
    print(json.dumps(main(options.repeats, options.trl_micro_batch)))
