"""An update on long episodes: rlx beside TRL's GRPOTrainer and a plain transformers step.

    python benchmarks/bench_long.py [--lengths 2048 8192 16384] [--repeats 1] [--json FILE]

Equal: weights of nano's shape, two episodes of one prompt, a quarter of the length prompt and the rest completion,
advantages +1 and -1, a policy gradient over completion tokens, AdamW, float32, one thread. TRL gets its rollouts ready
made, so that nothing but its update runs, an episode at a time; `plain` is a forward and backward of each episode, with
torch's causal attention and log_softmax over the completion. `rlx` packs both episodes into one pass, `rlx (1024)` has
the `cpu` profile's `micro_batch_tokens`: each episode goes alone, its layers computed again in the backward pass. Each
way runs in a process of its own, after a step on short episodes; time is process time (it holds under load), memory the
growth of the peak resident set. A peer that is not installed is skipped by name.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench_update import resident

WAYS = ("rlx", "rlx (1024)", "trl", "plain")
SAMPLES, SHORT = 2, 256


def build_model(longest: int) -> Any:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    import rlx

    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(Path(rlx.__file__).parent / "model" / "nano")
    config.max_position_embeddings = longest
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def draw_ids(length: int) -> tuple[list[int], list[list[int]]]:
    """A prompt and its completions."""
    draw = random.Random(0)
    ids = lambda num: [draw.randrange(1, 1000) for _ in range(num)]  # noqa: E731
    return ids(length // 4), [ids(length - length // 4) for _ in range(SAMPLES)]


Ready = Callable[[int], Callable[[], object]]
"""For episodes of a length, what makes an update."""


def ours(model: Any, micro_batch_tokens: int) -> Ready:
    from rlx.algo.losses import policy_gradient, policy_loss
    from rlx.algo.parts import Credited, Optimizer, PerRow
    from rlx.learner.batch import collate
    from rlx.learner.torch import TorchLearner
    from rlx.types import Action, Completion, Group, Task, Trajectory, Turn

    learner = TorchLearner(model, optimizer=Optimizer(), num_steps=100, micro_batch_tokens=micro_batch_tokens)
    task, loss = Task(id="t", prompt=(), data={}), policy_loss(policy_gradient())

    def episode(sample: int, prompt: list[int], sampled: list[int]) -> Trajectory:
        done = Completion(token_ids=tuple(sampled), logprobs=(-1.0,) * len(sampled), stop="length")
        turn = Turn(prompt_ids=tuple(prompt), completion=done, action=Action(kind="answer", text=""))
        return Trajectory(task=task, sample=sample, turns=(turn,), status="done")

    def ready(length: int) -> Callable[[], object]:
        prompt, completions = draw_ids(length)
        episodes = tuple(episode(sample, prompt, sampled) for sample, sampled in enumerate(completions))
        groups, credited = [Group(task=task, trajectories=episodes)], Credited(advantage=PerRow([1.0, -1.0]))
        return lambda: learner.update(collate(groups).with_credit(credited), loss)

    return ready


def plain(model: Any) -> Ready:
    import torch

    adam = torch.optim.AdamW(model.parameters(), lr=3e-4)

    def step(prompt: list[int], completions: list[list[int]]) -> None:
        adam.zero_grad()
        for sampled, advantage in zip(completions, (1.0, -1.0), strict=True):
            ids_1T = torch.tensor([prompt + sampled])
            hidden_TH = model.model(input_ids=ids_1T, use_cache=False).last_hidden_state[0, len(prompt) - 1 : -1]
            logp_TV = model.lm_head(hidden_TH).log_softmax(-1)
            logp_T = logp_TV.gather(-1, torch.tensor(sampled)[:, None])
            (-advantage * logp_T.sum() / (SAMPLES * len(sampled))).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()

    return lambda length: partial(step, *draw_ids(length))


def trl(model: Any) -> Ready:
    """Its trainer's own loss, backward pass and optimizer step, on rollouts that are given."""
    import torch
    from beside_trl import build_tokenizer, scratch, trl_arguments
    from datasets import Dataset
    from transformers import PrinterCallback
    from transformers.utils.logging import set_verbosity_error
    from trl import GRPOConfig, GRPOTrainer

    set_verbosity_error()
    folder = scratch()

    def ready(length: int) -> Callable[[], object]:
        prompt, completions = draw_ids(length)
        given = {
            "prompt_ids": torch.tensor([prompt] * SAMPLES),
            "prompt_mask": torch.ones(SAMPLES, len(prompt), dtype=torch.long),
            "completion_ids": torch.tensor(completions),
            "completion_mask": torch.ones(SAMPLES, length - len(prompt), dtype=torch.long),
            "advantages": torch.tensor([1.0, -1.0]),
            "num_items_in_batch": torch.tensor(SAMPLES * (length - len(prompt))),
        }
        keywords = trl_arguments(folder.name, 1, SAMPLES, length - len(prompt), 1, 1)
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=GRPOConfig(**keywords),
            train_dataset=Dataset.from_list([{"prompt": "1"}] * SAMPLES),
            processing_class=build_tokenizer(),
        )
        trainer._generate_and_score_completions = lambda _: given
        trainer.remove_callback(PrinterCallback)
        return trainer.train

    return ready


def measure(way: str, length: int, repeats: int) -> dict[str, float]:
    import torch

    torch.set_num_threads(1)
    model = build_model(length)
    ready = {
        "rlx": lambda: ours(model, 2 * length),
        "rlx (1024)": lambda: ours(model, 1024),
        "trl": lambda: trl(model),
        "plain": lambda: plain(model),
    }[way]()
    ready(SHORT)()
    step = ready(length)
    before, seconds = resident("VmRSS"), []
    Path("/proc/self/clear_refs").write_text("5")
    for _ in range(repeats):
        begin = time.process_time()
        step()
        seconds.append(time.process_time() - begin)
    return {"seconds": min(seconds), "megabytes": resident("VmHWM") - before}


def run(way: str, length: int, repeats: int) -> dict[str, float]:
    words = ["--way", way, "--lengths", str(length), "--repeats", str(repeats)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, __file__, *words], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"bench_long: {way} failed at {length} tokens\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def show(length: int, of_ways: dict[str, dict[str, float]]) -> None:
    for way, told in of_ways.items():
        ratios = {key: told[key] / of_ways["rlx"][key] for key in told}
        print(
            f"{length:6} tokens  {way:10} {told['seconds']:8.2f} s {told['megabytes']:7.0f} MB"
            f"   of rlx: time {ratios['seconds']:.2f}, memory {ratios['megabytes']:.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 8192, 16384])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options.way, options.lengths[0], options.repeats)))
        return
    ways = [way for way in WAYS if way != "trl" or importlib.util.find_spec("trl")]
    if "trl" not in ways:
        print("trl is not installed and is left out: pip install -e '.[bench]'")
    found: dict[int, dict[str, dict[str, float]]] = {}
    for length in options.lengths:
        found[length] = {way: run(way, length, options.repeats) for way in ways}
        show(length, found[length])
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
