from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from math import isnan, nan
from statistics import mean, stdev

import pytest
import torch

from rlx.algo.gae import gae, gae_over_tokens, gae_over_turns
from rlx.algo.losses import PolicyLoss, value_loss
from rlx.algo.nested import Nested, RewardKL, nested_gae, whiten_columns
from rlx.algo.nested_ppo import nested_ppo
from rlx.algo.parts import Critic, Optimizer
from rlx.algo.rows import Rows
from tests.algo.conftest import make_rows
from tests.errors import raises_naming
from tests.loops import for_each

CRITIC = Critic(lr=1e-3)


def table(*episodes, status="done", reference=False) -> Rows:
    """Rows of episodes, each a list of turns: a reward, values before tokens, and the value after them."""
    turns = [what for of in episodes for what in of]
    logps = tuple(tuple(-0.1 * (i + 1) for i in range(len(values))) for _, values, _ in turns)
    return replace(
        make_rows(*((number, [turn[0] for turn in of], True) for number, of in enumerate(episodes))),
        num_tokens=tuple(len(values) for _, values, _ in turns),
        status=(status,) * len(turns),
        value=tuple(tuple(values) for _, values, _ in turns),
        value_after=tuple(after if values else nan for _, values, after in turns),
        logp=logps,
        reference_logp=tuple(tuple(2 * x for x in own) for own in logps) if reference else (),
    )


WORKED = table([(0.0, (0.5, 0.5, 0.5), 0.6), (1.0, (0.8, 0.8, 0.8), 0.9)])


def advantages(rows: Rows, *, kl=0.0, whiten=False, **form) -> list[list[float]]:
    return nested_gae(Nested(**form), kl, whiten)(rows).advantage.values


def close(found, wanted, within=1e-9):
    assert [len(own) for own in found] == [len(own) for own in wanted]
    assert [x for own in found for x in own] == pytest.approx([x for own in wanted for x in own], abs=within)


def test_advantages_of_two_turns_equal_hand_computed_ones():
    # H_2 = G_2 = 1 + .9 * .05 * .8 = 1.036; G_1 = .9 (.05 * .5 + .95 * 1.036) = .90828
    first, second = 0.90828 - 0.5, 1.036 - 0.8
    close(advantages(WORKED), [[first * 0.98**2, first * 0.98, first], [second * 0.98**2, second * 0.98, second]])
    assert [round(x, 2) for own in advantages(WORKED) for x in own] == [0.39, 0.4, 0.41, 0.23, 0.23, 0.24]


def test_the_printed_algorithm_trains_no_last_token_and_counts_the_return_twice():
    # G_2 = 1 + .9 * .05 * .9 = 1.0405; G_1 = .9 (.05 * .6 + .95 * 1.0405) = .9166
    found = nested_gae(Nested(indices="paper"), 0.0, False)(WORKED)
    assert [round(x, 2) for own in found.advantage.values for x in own] == [1.0, 1.02, 0.0, 1.12, 1.14, 0.0]
    assert found.returns_after.values == pytest.approx([0.9166275, 1.0405])
    assert all(isnan(x) for own in found.returns.values for x in own)


def slow(rows: Rows, indices: str, beta: float, gamma=0.9, lam=0.95, g=1.0, l=0.98) -> list[list[float]]:  # noqa: E741
    """Algorithm 1 as it is read, with indices from 1, one quantity a line; `as_released` moves V by one token."""
    out: list[list[float]] = []
    for trajectory in dict.fromkeys(rows.trajectory):
        own = [i for i, other in enumerate(rows.trajectory) if other == trajectory]
        T = len(own)
        r = {t: rows.reward[own[t - 1]] for t in range(1, T + 1)}
        M = {t: len(rows.value[own[t - 1]]) for t in range(1, T + 1)}
        before = {(t, m): rows.value[own[t - 1]][m - 1] for t in range(1, T + 1) for m in range(1, M[t] + 1)}
        behind = {(t, m): before.get((t, m + 1), rows.value_after[own[t - 1]]) for t, m in before}
        V = behind if indices == "paper" else before
        G, H = {}, {T + 1: 0.0}
        for t in range(T, 0, -1):
            H[t] = max(0.0, r[t]) + gamma * ((1 - lam) * V[t, M[t]] + lam * H[t + 1])
            G[t] = r[t] + gamma * ((1 - lam) * V[t, M[t]] + lam * H[t + 1])
        for t in range(1, T + 1):
            kl = {m: rows.logp[own[t - 1]][m - 1] - rows.reference_logp[own[t - 1]][m - 1] for m in range(1, M[t] + 1)}
            R = {m: (G[t] if m == M[t] else 0.0) - beta * kl[m] for m in range(1, M[t] + 1)}
            A = {}
            for m in range(M[t], 0, -1):
                if indices == "paper":
                    ahead = R[m + 1] + g * V[t, m + 1] - V[t, m] if m < M[t] else 0.0
                    A[m] = ahead + g * l * A[m + 1] if m < M[t] else 0.0
                else:
                    ahead = R[m] + g * V.get((t, m + 1), 0.0) - V[t, m]
                    A[m] = ahead + g * l * A.get(m + 1, 0.0)
            out.append([A[m] for m in range(1, M[t] + 1)])
    return out


def random_table(seed: int, *, longest=5) -> Rows:
    rng = random.Random(seed)

    def turn():
        return (
            rng.choice([-1.0, 0.0, 0.0, rng.random()]),
            tuple(rng.gauss(0, 1) for _ in range(rng.randint(1, longest))),
            rng.gauss(0, 1),
        )

    return table(*([turn() for _ in range(rng.randint(1, 6))] for _ in range(4)), reference=True)


@for_each("indices, beta", product(["as_released", "paper"], [0.0, 0.3]))
def test_advantages_equal_a_literal_transcription_of_the_algorithm(indices, beta):
    for seed in range(40):
        rows = random_table(seed)
        close(advantages(rows, indices=indices, kl=beta), slow(rows, indices, beta))
    other = {"gamma": 0.7, "lam": 0.4, "token_gamma": 0.9, "token_lam": 0.5}
    close(advantages(rows, indices=indices, kl=beta, **other), slow(rows, indices, beta, 0.7, 0.4, 0.9, 0.5))


def test_without_values_and_at_lambda_one_advantages_are_plain_returns():
    rows = table([(0.0, (0.0, 0.0), 0.0), (0.25, (0.0,), 0.0), (1.0, (0.0, 0.0, 0.0), 0.0)])
    returns = [0.9 * 0.25 + 0.81, 0.25 + 0.9, 1.0]
    found = advantages(rows, lam=1.0, token_lam=1.0)
    close(found, [[returns[0]] * 2, [returns[1]], [returns[2]] * 3])


def test_a_penalty_counts_in_its_own_turn_alone():
    calm = table([(0.0, (0.0,), 0.0), (0.0, (0.0,), 0.0), (1.0, (0.0,), 0.0)])
    fined = table([(0.0, (0.0,), 0.0), (-1.0, (0.0,), 0.0), (1.0, (0.0,), 0.0)])
    one, other = advantages(calm), advantages(fined)
    assert (one[0], one[2]) == (other[0], other[2])
    assert one[1][0] - other[1][0] == pytest.approx(1.0)


@pytest.mark.parametrize("worth", ["turn", "bilevel"])
def test_one_token_a_turn_is_gae_over_turns(worth):
    rows = random_table(7, longest=1)
    wanted = gae_over_turns(gamma=0.8, lam=0.6)(rows)
    found = nested_gae(Nested(worth=worth, gamma=0.8, lam=0.6), 0.0, False)(rows)
    close(found.advantage.values, [[x] for x in wanted.advantage.values])
    close(found.returns.values, [[x] for x in wanted.returns.values])


def test_one_token_a_turn_at_lambda_one_is_gae_over_turns_where_nothing_is_fined():
    rows = random_table(3, longest=1)
    rows = replace(rows, reward=tuple(max(0.0, r) for r in rows.reward))
    wanted = gae_over_turns(gamma=0.8, lam=1.0)(rows).advantage.values
    close(advantages(rows, gamma=0.8, lam=1.0), [[x] for x in wanted])


def test_bilevel_gae_at_lambda_and_discount_one_is_gae_over_tokens():
    rows = random_table(11)
    found = nested_gae(Nested(worth="bilevel", gamma=1.0, lam=1.0, token_lam=1.0), 0.0, False)(rows)
    wanted = gae_over_tokens(gamma=1.0, lam=1.0)(rows)
    close(found.advantage.values, wanted.advantage.values)
    other = nested_gae(Nested(worth="bilevel", gamma=0.9, lam=1.0, token_lam=1.0), 0.0, False)(rows)
    assert abs(other.advantage.values[0][0] - wanted.advantage.values[0][0]) > 1e-3


def test_bilevel_gae_of_two_turns_equals_hand_computed_one():
    # anchors .5 and .8: A_2 = 1 - .8, A_1 = .9 * .8 - .5 + .9 * .5 * .2; then tokens with V flat in a turn
    found = advantages(WORKED, worth="bilevel", lam=0.5, token_lam=0.5)
    close(found, [[0.31 * 0.25, 0.31 * 0.5, 0.31], [0.2 * 0.25, 0.2 * 0.5, 0.2]])


@pytest.mark.parametrize(("worth", "reward"), [("final", 1.0), ("sum", 0.0)])
def test_a_bandit_pays_every_turn_alike(worth, reward):
    rows = table([(-1.0, (0.0, 0.0), 0.0), (1.0, (0.0,), 0.0)])
    close(advantages(rows, worth=worth, token_lam=1.0), [[reward] * 2, [reward]])


def test_turns_without_tokens_pass_the_return_on():
    whole = table([(0.0, (0.2,), 0.1), (1.0, (0.4,), 0.3)])
    gap = table([(0.0, (0.2,), 0.1), (0.0, (), 0.0), (1.0, (0.4,), 0.3)])
    found = nested_gae(Nested(gamma=1.0), 0.0, False)(gap)
    close(found.advantage.values, [*advantages(whole, gamma=1.0)[:1], [], *advantages(whole, gamma=1.0)[1:]])
    assert found.returns.values[1] == []


def test_an_episode_that_the_context_cuts_off_goes_on_as_the_critic_expects():
    turns = [(0.5, (0.2, 0.3), 2.0)]
    done, cut = advantages(table(turns)), advantages(table(turns, status="context"))
    assert cut[0][-1] - done[0][-1] == pytest.approx(0.9 * 0.95 * 0.3), "the value after a turn has no target"
    paper = [advantages(table(turns, status=status), indices="paper") for status in ("done", "context")]
    assert paper[1][0][0] - paper[0][0][0] == pytest.approx(0.9 * 0.95 * 2.0), "here it is the one that has"
    for worth in ("turn", "bilevel"):
        ends = [advantages(table(turns, status=status), worth=worth) for status in ("done", "context")]
        assert ends[1][0][-1] - ends[0][0][-1] == pytest.approx(0.9 * 0.3)
    limited = advantages(table(turns, status="truncated"))
    assert limited == done


def test_other_episodes_and_their_order_change_nothing():
    for indices in ("as_released", "paper"):
        alone = advantages(WORKED, indices=indices)
        other = [(0.3, (1.0, 2.0), 0.0)]
        turns = [(0.0, (0.5, 0.5, 0.5), 0.6), (1.0, (0.8, 0.8, 0.8), 0.9)]
        assert advantages(table(other, turns), indices=indices)[1:] == alone


def test_the_kl_is_a_price_of_each_token_and_a_figure_of_a_turn():
    rows = table([(1.0, (0.0, 0.0), 0.0)], reference=True)  # log pi - log reference is .1 and .2
    found = nested_gae(Nested(token_lam=1.0, lam=1.0), 0.5, False)(rows)
    close(found.advantage.values, [[1.0 - 0.15, 1.0 - 0.1]])
    assert found.metrics == {"kl/turn": pytest.approx(0.3)}


def test_whitened_advantages_have_mean_zero_and_deviation_one():
    found = [x for own in whiten_columns([[1.0, 2.0], [], [6.0]]) for x in own]
    assert (mean(found), stdev(found)) == (pytest.approx(0.0), pytest.approx(1.0))
    assert whiten_columns([[3.0]]) == [[0.0]]
    assert whiten_columns([]) == []


def test_the_weight_of_the_kl_follows_its_target():
    plain = nested_ppo(optimizer=Optimizer(), critic=CRITIC)
    assert (plain.memory, plain.needs, plain.critic) == (None, frozenset(), CRITIC)
    priced = RewardKL(weight=0.2, target=6.0, rate=0.1)
    algorithm = nested_ppo(optimizer=Optimizer(), critic=CRITIC, reward_kl=priced, whiten=False, token_lam=1.0, lam=1.0)
    assert algorithm.needs == frozenset({"reference"})
    memory = algorithm.memory
    assert memory.begin() == {"reward_kl": 0.2}
    assert memory.adapt({"reward_kl": 0.2}, [], {"kl/turn": 6.6}) == {"reward_kl": pytest.approx(0.2 * 1.01)}
    assert memory.adapt({"reward_kl": 0.2}, [], {"kl/turn": 60.0}) == {"reward_kl": pytest.approx(0.2 * 1.02)}
    assert memory.adapt({"reward_kl": 0.2}, [], {"kl/turn": -1.0}) == {"reward_kl": pytest.approx(0.2 * 0.98)}
    rows = table([(1.0, (0.0,), 0.0)], reference=True)
    later = memory.bind(algorithm, {"reward_kl": 3.0})
    assert later.credit(rows).advantage.values == [[pytest.approx(1.0 - 0.3)]]


@for_each(
    "key, made",
    [
        ("clip", lambda: nested_ppo(optimizer=Optimizer(), critic=CRITIC, clip=0.0)),
        ("lam", lambda: nested_ppo(optimizer=Optimizer(), critic=CRITIC, lam=1.5)),
        ("token_lam", lambda: nested_ppo(optimizer=Optimizer(), critic=CRITIC, token_lam=-0.1)),
        ("token_gamma", lambda: nested_ppo(optimizer=Optimizer(), critic=CRITIC, token_gamma=nan)),
        ("indices", lambda: nested_ppo(optimizer=Optimizer(), critic=CRITIC, worth="turn", indices="paper")),
        ("value_limit", lambda: nested_ppo(optimizer=Optimizer(), critic=CRITIC, value_limit=0.0)),
        (
            "loss.kl_target",
            lambda: nested_ppo(optimizer=Optimizer(), critic=CRITIC, loss=PolicyLoss(kl=1, kl_target=1)),
        ),
        ("weight", lambda: RewardKL(target=6.0)),
        ("target", lambda: RewardKL(weight=1.0, target=0.0)),
        ("rate", lambda: RewardKL(rate=2.0)),
    ],
)
def test_wrong_values_are_refused_by_their_key(key, made):
    with raises_naming(ValueError, key):
        made()


def test_a_bad_value_pulls_no_harder_than_its_limit(tokens, totals):
    now = torch.tensor([0.0, 0.0, 0.0], requires_grad=True)
    seen = tokens(
        [0.0] * 3, returns=torch.tensor([0.5, -30.0, nan]), now={"value": now}, before={"value": now.detach()}
    )
    result = value_loss(value_weight=0.5, value_limit=1.0)(seen, totals(seen))
    assert result.value.item() == pytest.approx(0.5 * (0.25 + 2 * 30 - 1) / 3)
    result.value.backward()
    assert now.grad.tolist() == pytest.approx([-0.5 / 3, 1.0 / 3, 0.0])


def test_gae_of_a_turn_reads_no_value_of_the_next():
    rows = table([(0.0, (0.5, 0.5), 0.6), (1.0, (0.8,), 0.9)])
    moved = table([(0.0, (0.5, 0.5), 0.6), (1.0, (0.8,), 99.0)])
    assert advantages(rows) == advantages(moved), "TRL's indices never read the value after a turn"
    scalar = 0.9 * (0.05 * 0.5 + 0.95 * 1.036)
    close(advantages(rows)[:1], [gae([0.0, scalar], [0.5, 0.5], 0.0, 1.0, 0.98)])
