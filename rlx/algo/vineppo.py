"""VinePPO: the value of every state is the mean return of episodes that are only played to measure it.

    V(s) = mean over `num_rollouts` forks from s of what they earn from there on;  V after the last turn is 0
    A(t) = r_t + V(s_(t+1)) - V(s_t),  with `whiten` (A - mean) / (population std + eps) over all trained tokens
    loss = - mean over tokens of min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)

A step of the paper, a line of a solution, is a turn here. Equal states are measured once. Beyond `max_states` turns of
an episode nothing is played: V(s) = r + V(s'), so that A is 0. The forks are not trained, and `batch/tokens` counts
them: they are most of the cost, num_rollouts * (T + n T (T - 1) / 2) turns for n episodes of T turns.

Source: "VinePPO: Refining Credit Assignment in RL Training of LLMs" (arXiv:2410.01679) and its code. `whiten` makes an
advantage depend on the whole batch. Against CARL: every state is forked, equally often, and forks are only measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rlx.algo.backup import figures_of_rows
from rlx.algo.credit import by_trajectory
from rlx.algo.forks import every_state, in_rounds
from rlx.algo.losses import PLAIN, ClipHigh, ClipLow, PolicyLoss, clipped_loss, loss_parts
from rlx.algo.parts import Algorithm, Beginning, Credit, Credited, Optimizer, PerRow, Space
from rlx.algo.rows import Rows
from rlx.algo.samplers import NumSamples
from rlx.base.limits import MANY, within


def vineppo(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_samples: NumSamples = 8,
    num_rollouts: int = 9,
    max_states: int = 16,
    whiten: bool = True,
    clip_low: ClipLow = 0.2,
    clip_high: ClipHigh = 0.2,
    loss: PolicyLoss = PLAIN,
    start: Beginning = "any",
    space: Space = "any",
) -> Algorithm:
    """`num_samples` episodes a task, and `num_rollouts` forks from each of their states.

    Args:
        num_rollouts: Forks from each state, which are played and not trained.
        max_states: Turns of an episode whose states are measured; later ones have an advantage of 0.
        whiten: Subtract the mean of the advantages of a batch and divide by their deviation.
    """
    within(1, MANY, num_samples=num_samples, num_rollouts=num_rollouts, max_states=max_states)
    token_loss = clipped_loss(clip_low, clip_high)

    def turns_of_forks(turns: int) -> float:
        measured = range(1, min(turns, max_states))
        return num_rollouts * (turns + num_samples * sum(turns - turn for turn in measured))

    most = num_rollouts * (1 + num_samples * (max_states - 1))
    choose = every_state(num_rollouts, max_states)
    return Algorithm(
        sample=in_rounds(num_samples, 1, most, choose, fork_turns=turns_of_forks, always=False),
        credit=measured_values(whiten),
        **loss_parts(token_loss, loss),
        optimizer=optimizer,
        num_prompts=num_prompts,
        start=start,
        space=space,
    )


def measured_values(whiten: bool, eps: float = 1e-8) -> Credit:
    """Credit fresh episodes with gains of the values that forks measured; the forks are not kept."""

    def credit(rows: Rows) -> Credited:
        earned: dict[int, list[float]] = defaultdict(list)
        episodes = by_trajectory(rows)
        for episode in episodes:
            if is_fork(rows, episode):
                earned[rows.state[episode[0]]].append(sum(rows.reward[row] for row in episode))
        advantage, keep = [0.0] * len(rows.turn), [False] * len(rows.turn)
        for episode in episodes:
            if is_fork(rows, episode):
                continue
            after = 0.0
            for row in reversed(episode):
                reached, returns_of_forks = rows.reward[row] + after, earned.get(rows.state[row])
                after = sum(returns_of_forks) / len(returns_of_forks) if returns_of_forks else reached
                advantage[row], keep[row] = reached - after, True
        whitened = white(advantage, [num * is_kept for num, is_kept in zip(rows.num_tokens, keep)], eps)
        advantages = PerRow(whitened if whiten else advantage)
        return Credited(advantage=advantages, keep=PerRow(keep), metrics=figures_of_rows(rows, keep))

    return credit


def is_fork(rows: Rows, episode: Sequence[int]) -> bool:
    return bool(rows.fork) and rows.fork[episode[0]] >= 0


def white(values: Sequence[float], weights: Sequence[float], eps: float) -> list[float]:
    """Return (x - mean) / (population std + eps), both weighted; zeros where all are equal."""
    total = max(1, sum(weights))
    mean = sum(w * x for w, x in zip(weights, values, strict=True)) / total
    variance = sum(w * (x - mean) ** 2 for w, x in zip(weights, values, strict=True)) / total
    return [(x - mean) / (variance**0.5 + eps) if variance > 1e-18 else 0.0 for x in values]
