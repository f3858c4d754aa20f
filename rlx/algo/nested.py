"""Worth of each sampled token in two steps: a number for each turn, then GAE over the turn's own tokens.

    turns    G_t = r_t + gamma ((1 - lam) V_t + lam H_(t+1)),   H_t = max(0, r_t) + gamma ((1 - lam) V_t + lam H_(t+1))
    tokens   R_m = [m = M] G_t - kl (log pi - log reference),   A_m = GAE of R over the M tokens of turn t alone

This is nested PPO (Gandhi et al. 2025, "Incentivizing both grounding and reasoning", algorithm 1): a penalty, which is
a negative r, counts in its own turn and in no earlier one. V_t is the value at the turn's last token. Other numbers for
a turn are those of a contextual bandit (its appendix F), of GAE over turns, and of bi-level GAE (VAGEN, RAGEN).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan, sqrt
from typing import Literal, NamedTuple

from rlx.algo.credit import by_trajectory, check_discounts
from rlx.algo.gae import at_last, critic_values, gae
from rlx.algo.losses import adapted_weight
from rlx.algo.parts import Algorithm, Credit, Credited, Memory, PerRow, PerToken, State
from rlx.algo.rows import Rows
from rlx.base.limits import above, refuse, within
from rlx.types import Group, Metrics

Worth = Literal["nested", "final", "sum", "turn", "bilevel"]
Indices = Literal["as_released", "paper"]

TINY = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardKL:
    """KL(policy || start policy) as a price in the reward of each token, and how it adapts.

    It adapts by `adapted_weight` to the mean over turns of the sum over a turn's tokens of log pi - log reference.
    """

    weight: float = 0.0
    """Price of a nat; 0 needs no reference model."""
    target: float | None = None
    """Target KL in nats per turn: every step adapts weight towards it; null: weight is constant."""
    rate: float = 0.1
    """Rate at which target changes weight: by at most a fifth of this per step."""

    def __post_init__(self) -> None:
        within(0.0, 1e6, weight=self.weight)
        above(0, target=self.target)
        within(0.0, 1.0, rate=self.rate)
        if self.target is not None and not self.weight:
            refuse("weight", self.weight, "a number above 0 to begin with, as target adapts it by factors")


FREE = RewardKL()
"""No price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """The turns of one episode: rewards, values before tokens, values after each turn, and the worth after the end."""

    rewards: Sequence[float]
    values: Sequence[Sequence[float]]
    after: Sequence[float]
    beyond: float

    def at(self, token: int) -> list[float]:
        """Return each turn's value before one of its tokens; not a number where the turn sampled none."""
        return [token_values[token] if token_values else nan for token_values in self.values]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """Choice of a turn's number, of the value that a token is measured against, and of discounts and lambdas."""

    worth: Worth = "nested"
    indices: Indices = "as_released"
    gamma: float = 0.9
    lam: float = 0.95
    token_gamma: float = 1.0
    token_lam: float = 0.98

    def __post_init__(self) -> None:
        check_discounts(gamma=self.gamma, lam=self.lam, token_gamma=self.token_gamma, token_lam=self.token_lam)
        if self.indices == "paper" and self.worth in ("turn", "bilevel"):
            refuse("indices", self.indices, f"as_released with worth={self.worth}, which is of another paper")

    def scalars(self, episode: Episode) -> list[float]:
        """Return the number of each turn."""
        rewards = episode.rewards
        match self.worth:
            case "nested":
                ends = episode.at(-1) if self.indices == "as_released" else episode.after
                return penalty_free_returns(rewards, ends, episode.beyond, self.gamma, self.lam)
            case "final":
                return [rewards[-1]] * len(rewards)
            case "sum":
                return [sum(rewards)] * len(rewards)
            case "turn":
                return over_turns(episode, episode.at(0), self.gamma, self.lam)
            case "bilevel":
                return over_turns(episode, episode.at(-1), self.gamma, self.lam)

    def tokens(self, scalar: float, values: Sequence[float], after: float, prices: Sequence[float]) -> Tokens:
        """Return the worth of a turn's tokens."""
        if self.worth == "turn":
            return Tokens([scalar - values[0] - price for price in prices], [scalar] * len(values))
        rewards = [r - price for r, price in zip(at_last(scalar, len(values)), prices, strict=True)]
        if self.indices == "paper":
            return Tokens(self.compute_as_printed(rewards, values, after), [nan] * len(values), scalar)
        advantages = gae(rewards, values, 0.0, self.token_gamma, self.token_lam)
        return Tokens(advantages, [a + v for a, v in zip(advantages, values, strict=True)])

    def compute_as_printed(self, rewards: Sequence[float], values: Sequence[float], after: float) -> list[float]:
        """delta_m = R_(m+1) + token_gamma V_(m+1) - V_m and A_M = 0, where V_m is the value after token m.

        These are lines 10 and 11 of algorithm 1 as printed. The last token is never trained; the one before it is worth
        R_M + V_M - V_(M-1), where V_M is drawn to G too, so that G counts twice.
        """
        behind = [*values[1:], after]
        return [*gae(rewards[1:], behind[:-1], behind[-1], self.token_gamma, self.token_lam), 0.0]


class Tokens(NamedTuple):
    """Worth of a turn's tokens."""

    advantages: list[float]
    returns: list[float]
    """Targets of the values before the tokens; not a number where there is none."""
    end: float = nan
    """Target of the value after the last."""


def nested_gae(form: Nested, kl: float, whiten: bool) -> Credit:
    """Return the credit of tokens."""

    def credit(rows: Rows) -> Credited:
        prices, values = prices_of(rows, kl), critic_values(rows)
        tokens = [Tokens([], [])] * len(values)
        for episode_rows in by_trajectory(rows):
            scalars = form.scalars(episode_of(rows, episode_rows, form.indices))
            for row, scalar in zip(episode_rows, scalars, strict=True):
                if values[row]:
                    tokens[row] = form.tokens(scalar, values[row], rows.value_after[row], prices[row])
        advantages = [row_tokens.advantages for row_tokens in tokens]
        return Credited(
            advantage=PerToken(whiten_columns(advantages) if whiten else advantages),
            returns=PerToken([row_tokens.returns for row_tokens in tokens]),
            returns_after=PerRow([row_tokens.end for row_tokens in tokens]),
            metrics=kl_figures(rows),
        )

    return credit


def episode_of(rows: Rows, row_numbers: Sequence[int], indices: Indices) -> Episode:
    """Return the turns of the rows of an episode. One that the context's end cut off is worth what the critic says at
    its end: the last of the values that have targets."""
    values, after = [rows.value[row] for row in row_numbers], [rows.value_after[row] for row in row_numbers]
    last = after[-1] if indices == "paper" else next((each[-1] for each in reversed(values) if each), 0.0)
    return Episode(
        rewards=[rows.reward[row] for row in row_numbers],
        values=values,
        after=after,
        beyond=last if rows.status[row_numbers[-1]] == "context" and not isnan(last) else 0.0,
    )


def penalty_free_returns(
    rewards: Sequence[float], ends: Sequence[float], beyond: float, gamma: float, lam: float
) -> list[float]:
    """G of each turn, where `beyond` is H after the last. A turn without tokens has no V, and passes H on."""
    returns, following = list[float](), beyond
    for reward, end in zip(reversed(rewards), reversed(ends), strict=True):
        ahead = gamma * (following if isnan(end) else (1 - lam) * end + lam * following)
        returns.append(reward + ahead)
        following = max(0.0, reward) + ahead
    return returns[::-1]


def over_turns(episode: Episode, values: Sequence[float], gamma: float, lam: float) -> list[float]:
    """Return A + V of GAE over turns, where V of a turn is one of its values; 0 for a turn without tokens."""
    finite_values = [0.0 if isnan(value) else value for value in values]
    advantages = gae(episode.rewards, finite_values, episode.beyond, gamma, lam)
    return [advantage + value for advantage, value in zip(advantages, finite_values, strict=True)]


def prices_of(rows: Rows, kl: float) -> list[list[float]]:
    """Return kl (log pi - log reference) of each token of each row."""
    if not kl:
        return [[0.0] * num for num in rows.num_tokens]
    if not rows.reference_logp:
        raise ValueError("credit: the rows have no reference log-probs; the algorithm needs {'reference'}")
    return [[kl * gap for gap in gaps] for gaps in gaps_of(rows)]


def gaps_of(rows: Rows) -> list[list[float]]:
    """Return log pi - log reference of each token of each row."""
    return [
        [p - q for p, q in zip(*row_log_probs, strict=True)]
        for row_log_probs in zip(rows.logp, rows.reference_logp, strict=True)
    ]


def kl_figures(rows: Rows) -> Mapping[str, float]:
    """Return the mean over turns of the sum of log pi - log reference."""
    totals = [sum(gaps) for gaps in gaps_of(rows)] if rows.reference_logp else []
    return {"kl/turn": sum(totals) / len(totals)} if totals else {}


def whiten_columns(columns: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return (A - mean) / std over all tokens of the batch, as TRL does."""
    flat = [value for column in columns for value in column]
    mean = sum(flat) / max(len(flat), 1)
    spread = sqrt(sum((value - mean) ** 2 for value in flat) / max(len(flat) - 1, 1) + TINY)
    return [[(value - mean) / spread for value in column] for column in columns]


def adaptive_reward_kl(kl: RewardKL, make_credit: Callable[[float], Credit]) -> Memory | None:
    """Return the memory that adapts `kl.weight`; `make_credit` makes the credit with it. None without a target."""
    target = kl.target
    if target is None:
        return None

    def adapt(state: State, groups: Sequence[Group], metrics: Metrics) -> State:
        return {"reward_kl": adapted_weight(state["reward_kl"], metrics.get("kl/turn", target), target, kl.rate)}

    def bind(algorithm: Algorithm, state: State) -> Algorithm:
        return replace(algorithm, credit=make_credit(state["reward_kl"]))

    return Memory(begin=lambda: {"reward_kl": kl.weight}, adapt=adapt, bind=bind)
