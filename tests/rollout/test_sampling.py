from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlx.rollout import sampling
from rlx.rollout.sampling import invert, read_knobs, sample, splitmix64, uniforms
from rlx.types import Sampling
from tests.loops import for_each

CPU = torch.device("cpu")
PROBS = torch.tensor([0.1, 0.4, 0.0, 0.3, 0.2])


def draw(logits: torch.Tensor, u: list[float], *samplings: Sampling) -> tuple[list[int], list[float]]:
    knobs = read_knobs(samplings, logits.shape[1], logits.device)
    ids, logprobs = sample(logits, torch.tensor(u, device=logits.device)[:, None], knobs)
    return ids.tolist(), logprobs.tolist()


def test_splitmix64_equals_the_reference_implementation():
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert splitmix64(1234567, 0, 5).tolist() == known


def test_random_numbers_are_a_function_of_stream_and_position():
    assert uniforms(99, 0, 100)[60:] == uniforms(99, 60, 40)
    assert uniforms(2**64 + 5, 0, 3) == uniforms(5, 0, 3)
    assert uniforms(1, 0, 8) != uniforms(2, 0, 8)


def test_random_numbers_are_uniform_and_exact_in_float32():
    values = np.array([uniforms(stream, 0, 64) for stream in range(1000)])
    assert values.min() >= 0
    assert values.max() <= 1 - 2**-24
    assert (values.astype(np.float32) == values).all()
    counts = np.histogram(values, bins=64, range=(0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 103  # chi-square, 63 degrees of freedom, p = 0.001
    neighbours = np.corrcoef(values[:, :-1].ravel(), values[:, 1:].ravel())[0, 1]
    assert abs(neighbours) < 4 / math.sqrt(values.size)


def test_inverse_cdf_at_known_numbers():
    u = [0.0, 0.09, 0.11, 0.49, 0.51, 0.79, 0.81, 1 - 2**-24]
    assert invert(PROBS.expand(8, -1).cumsum(-1), torch.tensor(u)[:, None])[:, 0].tolist() == [0, 0, 1, 1, 3, 3, 4, 4]


def test_frequencies_are_the_probabilities(device):
    n = 20_000
    logits = PROBS.log().expand(n, -1).to(device)
    ids, _ = draw(logits, uniforms(3, 0, n), *[Sampling()] * n)
    counts = np.bincount(ids, minlength=5)
    assert counts[2] == 0
    expected = n * PROBS.numpy()[[0, 1, 3, 4]]
    assert ((counts[[0, 1, 3, 4]] - expected) ** 2 / expected).sum() < 16.3  # 3 degrees of freedom, p = 0.001


@given(
    st.lists(st.floats(-30, 30, width=32), min_size=2, max_size=40),
    st.sets(st.integers(0, 39)),
    st.integers(0, 2**24 - 1),
)
def test_an_id_of_probability_zero_is_never_chosen(logits, forbidden, u):
    masked = torch.tensor([logits])
    masked[0, [i for i in forbidden if i < len(logits) - 1]] = -torch.inf
    [chosen], [logprob] = draw(masked, [u * 2**-24], Sampling())
    assert masked[0, chosen] > -torch.inf
    assert math.isfinite(logprob)


def test_logprob_is_under_temperature_and_before_filters():
    logits = torch.tensor([[1.0, 2.0, 0.5, -1.0]]).repeat(3, 1)
    settings = (Sampling(temperature=0.5, top_k=1), Sampling(temperature=2.0, top_p=0.1), Sampling(temperature=0))
    ids, logprobs = draw(logits, [0.9, 0.9, 0.9], *settings)
    assert ids == [1, 1, 1]
    expected = [torch.log_softmax(logits[0] / t, -1)[1].item() for t in (0.5, 2.0, 1.0)]
    assert logprobs == pytest.approx(expected, abs=1e-6)


def test_top_k_then_top_p_of_what_is_left():
    logits = PROBS.log()[None]  # by rank: ids 1 (.4), 3 (.3), 4 (.2), 0 (.1)
    u = [i / 200 for i in range(200)]

    def support(sampling: Sampling) -> list[int]:
        ids, _ = draw(logits.expand(200, -1), u, *[sampling] * 200)
        return sorted(set(ids))

    assert support(Sampling(top_k=2)) == [1, 3]
    assert support(Sampling(top_p=0.71)) == [1, 3, 4]
    assert support(Sampling(top_p=0.69)) == [1, 3]
    assert support(Sampling(top_k=3, top_p=0.7)) == [1, 3]  # .4 / .9 + .3 / .9 > .7
    assert support(Sampling(top_p=1e-6)) == [1]
    assert support(Sampling(top_k=50)) == [0, 1, 3, 4]


def test_filtered_sampling_renormalises():
    n = 10_000
    ids, _ = draw(PROBS.log().expand(n, -1), uniforms(4, 0, n), *[Sampling(top_k=2)] * n)
    assert np.bincount(ids, minlength=5)[1] / n == pytest.approx(4 / 7, abs=4 * math.sqrt(12 / 49 / n))


def test_rows_with_other_settings_do_not_change_a_row(device):
    logits = torch.randn(6, 50, generator=torch.Generator().manual_seed(0)).to(device)
    settings = [
        Sampling(),
        Sampling(temperature=0),
        Sampling(top_k=5),
        Sampling(top_p=0.5, temperature=0.7),
        Sampling(top_k=9, top_p=0.9),
        Sampling(temperature=1.3),
    ]
    u = uniforms(8, 0, 6)
    together = draw(logits, u, *settings)
    for row, setting in enumerate(settings):
        alone = draw(logits[row : row + 1], u[row : row + 1], setting)
        assert alone[0] == together[0][row : row + 1]
        assert alone[1] == pytest.approx(together[1][row : row + 1], abs=1e-6)


@given(
    levels=st.lists(st.integers(0, 2), min_size=3, max_size=30),
    top_k=st.integers(1, 30),
    others=st.lists(
        st.sampled_from([Sampling(top_p=0.5), Sampling(top_k=2), Sampling(top_k=7, top_p=0.9)]), max_size=3
    ),
    u=st.integers(0, 2**24 - 1),
)
def test_among_equal_logits_the_smaller_ids_are_kept_whatever_the_neighbours_ask(levels, top_k, others, u):
    logits = torch.tensor([levels], dtype=torch.float32).repeat(1 + len(others), 1)
    ids, _ = draw(logits, [u * 2**-24] * len(logits), Sampling(top_k=top_k), *others)
    kept = sorted(range(len(levels)), key=lambda i: (-levels[i], i))[:top_k]
    assert ids[0] in kept
    assert draw(logits[:1], [u * 2**-24], Sampling(top_k=top_k))[0] == ids[:1]


def test_a_top_k_of_equals_reaches_the_smallest_ids_alone():
    rows = torch.zeros(64, 1280)
    ids, _ = draw(rows, [i / 64 for i in range(64)], *[Sampling(top_k=8)] * 63, Sampling(top_p=0.5))
    assert sorted(set(ids[:-1])) == list(range(8))


@for_each("temperature", [5e-324, 1e-45, 1e-38, 1e-20, 1e-4, 1e-3, 1e30])
def test_any_temperature_gives_a_token_and_a_finite_log_prob(temperature):
    logits = torch.tensor([[3e4, -3e4, 2.9e4, -torch.inf], [0.5, 0.25, 0.0, -1.0]])
    for extra in ({}, {"top_k": 2}, {"top_p": 1e-300}):
        hot = Sampling(temperature=temperature, **extra)
        ids, logprobs = draw(logits, [0.5, 0.5], hot, Sampling())
        assert all(map(math.isfinite, logprobs))
        assert ids[1:] == draw(logits[1:], [0.5], Sampling())[0]
        if temperature <= 1e-3 or "top_p" in extra:
            assert ids[0] == 0


def test_top_p_looks_at_few_candidates_and_chooses_as_if_it_sorted_all(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    likeliest = sampling.likeliest

    def counting(probs: torch.Tensor, num: int) -> Any:
        counts.append(num)
        return likeliest(probs, num)

    monkeypatch.setattr(sampling, "likeliest", counting)
    generator = torch.Generator().manual_seed(0)
    peaked = torch.randn(8, 150_000, generator=generator)
    peaked[:, 1000:1050] += 15
    knobs = read_knobs([Sampling(top_p=0.95)] * 8, 150_000, peaked.device)
    uniform = torch.rand(8, 1, generator=generator)
    chosen, _ = sample(peaked, uniform, knobs)
    assert max(counts) < 1000
    assert torch.equal(chosen, sample(peaked, uniform, replace(knobs, num_candidates=150_000))[0])


def test_candidates_that_are_equal_flat_masked_or_mixed_are_chosen_from_as_if_all_were_sorted() -> None:
    generator = torch.Generator().manual_seed(1)
    settings = [
        *(Sampling(top_p=p, top_k=k) for p in (1e-6, 0.3, 0.95, 1 - 1e-7) for k in (0, 1, 20, 2999)),
        *(Sampling(), Sampling(temperature=0), Sampling(top_k=5), Sampling(top_p=0.9, temperature=3.0)),
    ]
    for num_values in (2, 5, 40, 10**9):
        for scale in (0.0, 1.0, 6.0):
            logits = torch.randn(len(settings), 3000, generator=generator)
            logits = (logits * min(num_values, 1000)).round() / min(num_values, 1000) * scale
            logits[torch.rand(logits.shape, generator=generator) < 0.3] = -torch.inf
            uniform = torch.rand(len(settings), 1, generator=generator)
            knobs = read_knobs(settings, 3000, logits.device)
            chosen, logprobs = sample(logits, uniform, knobs)
            every = sample(logits, uniform, replace(knobs, num_candidates=3000))
            assert torch.equal(chosen, every[0])
            assert torch.equal(logprobs, every[1])
            for row, setting in enumerate(settings):
                alone = read_knobs([setting], 3000, logits.device)
                assert sample(logits[row : row + 1], uniform[row : row + 1], alone)[0] == chosen[row]
