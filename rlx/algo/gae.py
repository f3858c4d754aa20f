"""Worth of each decision beside what a critic expected of it: generalised advantage estimation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise
from math import isfinite, nan

from rlx.algo.credit import by_trajectory, check_discounts
from rlx.algo.parts import Credit, Credited, PerRow, PerToken
from rlx.algo.rows import Rows
from rlx.base.limits import MistakeError


def gae(rewards: Sequence[float], values: Sequence[float], after: float, gamma: float, lam: float) -> list[float]:
    """A_t = sum over k of (gamma lam)^k d_(t+k), where d_t = r_t + gamma V_(t+1) - V_t and `after` is the last V.

    Generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438), equation 16.
    """
    advantages, following = [], 0.0
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        following = reward + gamma * after - value + gamma * lam * following
        advantages.append(following)
        after = value
    return advantages[::-1]


def gae_over_turns(*, gamma: float = 1.0, lam: float = 0.95, bootstrap: bool = True) -> Credit:
    """`gae` over an episode's turns: V of a turn is the value before its first token, and all of its tokens are drawn
    to A + V. With `bootstrap` an episode that the context's end cut off is worth its last `value_after`, which is drawn
    to the return of the turn that follows; one that ended (by a limit of turns too, `Status`) is worth nothing."""
    check_discounts(gamma=gamma, lam=lam)

    def credit(rows: Rows) -> Credited:
        first = [values_of_row[0] if values_of_row else 0.0 for values_of_row in critic_values(rows)]
        advantages = [0.0] * len(first)
        for episode in by_trajectory(rows):
            rewards, values = ([column[row] for row in episode] for column in (rows.reward, first))
            after = value_at_end(rows, episode[-1], bootstrap)
            for row, advantage in zip(episode, gae(rewards, values, after, gamma, lam), strict=True):
                advantages[row] = advantage
        returns = [advantage + value for advantage, value in zip(advantages, first, strict=True)]
        return Credited(
            advantage=PerRow(advantages), returns=PerRow(returns), returns_after=returns_after(rows, returns)
        )

    return credit


def gae_over_tokens(*, gamma: float = 1.0, lam: float = 0.95, bootstrap: bool = True) -> Credit:
    """`gae` over all that an episode sampled, token by token: a turn's reward comes with its last token, and the token
    after that is the next turn's first. `bootstrap` as in `gae_over_turns`."""
    check_discounts(gamma=gamma, lam=lam)

    def credit(rows: Rows) -> Credited:
        value = critic_values(rows)
        advantages: list[list[float]] = [[] for _ in value]
        for episode in by_trajectory(rows):
            rewards = [r for row in episode for r in at_last(rows.reward[row], len(value[row]))]
            values = [v for row in episode for v in value[row]]
            token_advantages = iter(gae(rewards, values, value_at_end(rows, episode[-1], bootstrap), gamma, lam))
            for row in episode:
                advantages[row] = list(islice(token_advantages, len(value[row])))
        returns = [[a + v for a, v in zip(*columns, strict=True)] for columns in zip(advantages, value, strict=True)]
        after = returns_after(rows, [token_returns[0] if token_returns else nan for token_returns in returns])
        return Credited(advantage=PerToken(advantages), returns=PerToken(returns), returns_after=after)

    return credit


def critic_values(rows: Rows) -> tuple[tuple[float, ...], ...]:
    """Return the critic's value before each sampled token, by row; MistakeError for an algorithm without a critic."""
    if not rows.value:
        raise MistakeError("credit: the rows have no `value`; give the Algorithm a critic: critic=Critic(lr=…)")
    return rows.value


def at_last(reward: float, num: int) -> list[float]:
    return [0.0] * (num - 1) + [reward] if num else []


def value_at_end(rows: Rows, row: int, bootstrap: bool = True) -> float:
    """Return the worth of an episode after its last row: the critic's where the context's end cut it off, otherwise 0.

    It is 0 also where the last turn sampled no token, as the critic has no value there.
    """
    is_cut = bootstrap and rows.status[row] == "context" and isfinite(rows.value_after[row])
    return rows.value_after[row] if is_cut else 0.0


def returns_after(rows: Rows, returns: Sequence[float]) -> PerRow:
    """After each row the return of the next in its episode; after the last 0, or not a number where it was cut off."""
    after = [nan if status == "context" else 0.0 for status in rows.status]
    for episode in by_trajectory(rows):
        for row, following in pairwise(episode):
            after[row] = returns[following]
    return PerRow(after)
