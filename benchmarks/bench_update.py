"""The learner's update against a padded one: forward and backward of every sequence, log_softmax over the vocabulary.

    python benchmarks/bench_update.py [--vocabulary 49152] [--repeats 3] [--micro-batch-tokens 1024] [--json FILE]

16 groups x 4 samples, prompt 96, completion 64 (or 16..64 with --ragged), a Qwen2 of 1.25M parameters, one thread,
policy gradient with leave-one-out advantages, AdamW. Each way runs in a process of its own; time is process time (it
holds under load), memory is the growth of the peak resident set over what stood before the first step.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

GROUPS, SAMPLES, PROMPT, COMPLETION = 16, 4, 96, 64
WAYS = ("padded", "ours")


def build_model(vocabulary: int) -> Any:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=160,
        intermediate_size=448,
        num_hidden_layers=4,
        num_attention_heads=5,
        num_key_value_heads=5,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
    )
    return Qwen2ForCausalLM(config)


def build_groups(vocabulary: int, ragged: bool) -> list[Any]:
    from rlx.types import Action, Completion, Group, Task, Trajectory, Turn

    draw = random.Random(0)

    def ids(num: int) -> tuple[int, ...]:
        return tuple(draw.randrange(vocabulary) for _ in range(num))

    def episode(task: Task, sample: int, prompt: tuple[int, ...]) -> Trajectory:
        sampled = ids(draw.randint(COMPLETION // 4, COMPLETION) if ragged else COMPLETION)
        done = Completion(token_ids=sampled, logprobs=(-1.0,) * len(sampled), stop="length")
        turn = Turn(prompt_ids=prompt, completion=done, action=Action(kind="answer", text=""), reward=draw.random())
        return Trajectory(task=task, sample=sample, turns=(turn,), status="done")

    def group(index: int) -> Group:
        task, prompt = Task(id=str(index), prompt=(), data={}), ids(PROMPT)
        return Group(task=task, trajectories=tuple(episode(task, i, prompt) for i in range(SAMPLES)))

    return [group(i) for i in range(GROUPS)]


def ours(model: Any, groups: list[Any], micro_batch_tokens: int) -> Any:
    """One step as the training loop does it: collate, rows, credit, update."""
    from rlx.algo.credit import leave_one_out
    from rlx.algo.losses import policy_gradient, policy_loss
    from rlx.algo.parts import Optimizer
    from rlx.learner.batch import collate
    from rlx.learner.rows import rows
    from rlx.learner.torch import TorchLearner

    learner = TorchLearner(model, optimizer=Optimizer(), num_steps=100, micro_batch_tokens=micro_batch_tokens)
    credit, loss = leave_one_out(), policy_loss(policy_gradient())

    def step() -> None:
        batch = collate(groups)
        learner.update(batch.with_credit(credit(rows(groups, batch))), loss)

    return step


def padded(model: Any, groups: list[Any], _: int) -> Any:
    """One batch padded on the right, the whole log_softmax, one backward."""
    import torch

    adam = torch.optim.AdamW(model.parameters(), lr=3e-4)
    turns = [t.turns[0] for group in groups for t in group.trajectories]
    whole = [torch.tensor(turn.prompt_ids + turn.completion.token_ids) for turn in turns]
    ids_BT = torch.nn.utils.rnn.pad_sequence(whole, batch_first=True)
    mask_BT = torch.nn.utils.rnn.pad_sequence([torch.ones_like(x) for x in whole], batch_first=True)
    advantage_B = torch.tensor([turn.reward - 0.5 for turn in turns])

    def step() -> None:
        logits_BTV = model(input_ids=ids_BT, attention_mask=mask_BT, use_cache=False).logits[:, :-1]
        logp_BT = logits_BTV.log_softmax(-1).gather(-1, ids_BT[:, 1:, None])[..., 0][:, PROMPT - 1 :]
        trained_BT = mask_BT[:, PROMPT:]
        loss = -(advantage_B[:, None] * logp_BT * trained_BT).sum() / trained_BT.sum()
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()

    return step


def resident(field: str) -> float:
    """Megabytes of this process: VmRSS now, VmHWM at most."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(field))
    return int(line.split()[1]) / 1024


def measure(way: str, arguments: argparse.Namespace) -> dict[str, float]:
    import torch

    torch.set_num_threads(1)
    model, groups = build_model(arguments.vocabulary), build_groups(arguments.vocabulary, arguments.ragged)
    step = {"ours": ours, "padded": padded}[way](model, groups, arguments.micro_batch_tokens)
    before, times = resident("VmRSS"), []
    for _ in range(arguments.repeats):
        begin = time.process_time()
        step()
        times.append(time.process_time() - begin)
    return {"seconds": min(times), "megabytes": resident("VmHWM") - before}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--micro-batch-tokens", type=int, default=1024)
    parser.add_argument("--ragged", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        print(json.dumps(measure(arguments.way, arguments)))
        return
    found = {way: run(way) for way in WAYS}
    ratios = {key: found["padded"][key] / found["ours"][key] for key in ("seconds", "megabytes")}
    for way in WAYS:
        print(f"{way:8} {found[way]['seconds']:8.2f} s  {found[way]['megabytes']:8.0f} MB")
    print(f"padded / ours: time {ratios['seconds']:.2f}, memory {ratios['megabytes']:.1f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({**found, "ratio": ratios}, indent=1) + "\n")


def run(way: str) -> dict[str, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, *sys.argv[1:], "--way", way]
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


if __name__ == "__main__":
    main()
