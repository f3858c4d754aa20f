"""Cost of a critic: an update of nested PPO beside the same policy's update without one.

    python benchmarks/bench_critic.py [--epochs 4] [--repeats 5] [--vocabulary 1536]

The batch is that of bench_update.py: 64 episodes of one turn, 96 tokens of prompt and 64 sampled. Both learners take
turns in one process, and seconds are those of the process. An update has several passes over a batch, which is packed
once; with a critic a pass that measures values comes before them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench_update import build_groups, build_model


def seconds_of(work: Callable[[], Any]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def prepare(vocabulary: int, epochs: int, with_critic: bool) -> Callable[[], Any]:
    """Return an update of nested PPO; without the critic, of its policy alone."""
    from rlx.algo.credit import leave_one_out
    from rlx.algo.losses import clip, policy_loss
    from rlx.algo.nested_ppo import nested_ppo
    from rlx.algo.parts import Critic, Optimizer
    from rlx.learner.batch import collate
    from rlx.learner.rows import rows
    from rlx.learner.torch import TorchLearner

    groups, optimizer = build_groups(vocabulary, ragged=False), Optimizer(lr=1e-5, num_epochs=epochs)
    algorithm = nested_ppo(optimizer=optimizer, critic=Critic(lr=1e-5))
    critic = algorithm.critic if with_critic else None
    learner = TorchLearner(build_model(vocabulary), optimizer=optimizer, num_steps=1000, critic=critic)
    credit = algorithm.credit if with_critic else leave_one_out()
    loss = algorithm.loss if with_critic else policy_loss(clip(0.2, 0.2))

    def update() -> None:
        batch = learner.annotate(collate(groups), frozenset())
        learner.update(batch.with_credit(credit(rows(groups, batch))), loss)

    return update


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--vocabulary", type=int, default=1536)
    args = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    ways = {name: prepare(args.vocabulary, args.epochs, name == "critic") for name in ("critic", "policy alone")}
    took: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(args.repeats + 1):
        for name, update in ways.items():
            seconds = seconds_of(update)
            if number:  # the first is to warm up
                took[name].append(seconds)
    medians = {name: statistics.median(each) for name, each in took.items()}
    for name, median in medians.items():
        print(f"{name:14} {median:.3f} s an update of {args.epochs} passes")
    ratios = sorted(a / b for a, b in zip(took["critic"], took["policy alone"], strict=True))
    print(f"ratio          {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")


if __name__ == "__main__":
    main()
