"""MT-GRPO: the first turn of two has the outcome's advantage and one of its own.

    first turn    A = z(R_O; group) + turn_weight * z(R_T; group)       R_T  reward of the first turn
    later turns   A = z(R_O; group)                                     R_O  reward of all turns after it
    only one      A = z(R_T + R_O; group)                               z(x) = (x - mean) / (sample std + 1e-4)
    loss = - mean over tokens of min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)

It is stated for exactly two turns: a tool call that the environment pays, and an answer. An episode of one turn made no
call: R_T = 0, and it has the z of its whole return. In an episode of three or more, all turns after the first are later
turns. An environment that pays only at the end makes z(R_T) zero, and this GRPO.

Source: "Reinforcing Multi-Turn Reasoning in LLM Agents via Turn-Level Credit Assignment" (arXiv:2505.11821, version 1)
and its code. Known bias: where the policy chooses when to stop, normalising rewards by the number of the turn takes the
mean of the intermediate rewards off "one more turn". Against CARL: no forks, no states; turns are told apart by number.
"""

from __future__ import annotations

from rlx.algo.credit import by_trajectory, compare_members, per_row, standardise
from rlx.algo.losses import PLAIN, ClipHigh, ClipLow, PolicyLoss, clipped_loss, loss_parts
from rlx.algo.parts import Algorithm, Beginning, Credit, Credited, Optimizer, Space
from rlx.algo.rows import Rows
from rlx.algo.samplers import NumSamples, independent
from rlx.base.limits import at_least, within


def turn_grpo(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_samples: NumSamples = 21,
    turn_weight: float = 1.0,
    eps: float = 1e-4,
    clip_low: ClipLow = 0.2,
    clip_high: ClipHigh = 0.2,
    loss: PolicyLoss = PLAIN,
    start: Beginning = "any",
    space: Space = "any",
) -> Algorithm:
    """`num_samples` independent episodes a task, the first turns of which are compared too.

    Args:
        turn_weight: Weight of the first turn's own reward, beside the outcome.
        eps: Added to the divisor, the sample standard deviation.
    """
    at_least(2, num_samples=num_samples)
    token_loss = clipped_loss(clip_low, clip_high)
    return Algorithm(
        sample=independent(num_samples),
        credit=first_turn_apart(turn_weight, eps),
        **loss_parts(token_loss, loss),
        optimizer=optimizer,
        num_prompts=num_prompts,
        start=start,
        space=space,
    )


def first_turn_apart(turn_weight: float, eps: float) -> Credit:
    """Credit the outcome to all turns, and the first turn's reward to the first."""
    within(0.0, 1e6, turn_weight=turn_weight)
    at_least(0.0, eps=eps)

    def credit(rows: Rows) -> Credited:
        first, rest, is_single = [0.0] * len(rows.turn), [0.0] * len(rows.turn), [False] * len(rows.turn)
        for episode in by_trajectory(rows):
            rewards = [rows.reward[row] for row in episode]
            for row in episode:
                is_single[row] = len(episode) == 1
                first[row] = 0.0 if is_single[row] else rewards[0]
                rest[row] = sum(rewards[1:]) if len(rewards) > 1 else rewards[0]
        turn, outcome, both = (z_of(rows, values, eps) for values in (first, rest, [*map(sum, zip(first, rest))]))
        return per_row(
            [
                both[row] if is_single[row] else outcome[row] + turn_weight * turn[row] * (rows.turn[row] == 0)
                for row in range(len(turn))
            ]
        )

    return credit


def z_of(rows: Rows, values: list[float], eps: float) -> list[float]:
    """Return each row's episode, by a value of it, beside its group."""
    credited = compare_members(values, rows.group, rows.trajectory, standardise("sample", eps))
    return list(credited.advantage.values)
