from __future__ import annotations

from dataclasses import replace
from math import exp, log

import pytest
import torch

from rlx.algo.grpo import grpo
from rlx.algo.losses import (
    PolicyLoss,
    clip,
    cross_entropy,
    kl_estimate,
    policy_gradient,
    policy_loss,
    squared_margin,
    turn_clip,
)
from rlx.algo.parts import Optimizer, Totals, adapt_state, begin_state, recall
from rlx.base.limits import MistakeError
from tests.errors import raises_naming


def test_clip_is_two_sided_and_pessimistic(tokens, totals):
    ratios = [1.5, 1.5, 0.5, 0.5, 1.1]
    seen = tokens([log(r) for r in ratios], [0.0] * 5, advantage=[1.0, -1.0, 1.0, -1.0, 2.0])
    result = policy_loss(clip(0.2, 0.3))(seen, totals(seen))
    # -1.3 (clipped), +1.5, -0.5, +0.8 (clipped), -2.2
    assert result.value.item() == pytest.approx((-1.3 + 1.5 - 0.5 + 0.8 - 2.2) / 5)
    assert result.metrics["ratio/clipped"].item() == pytest.approx(2 / 5)
    result.value.backward()
    assert seen.now["logp"].grad.tolist() == pytest.approx([0.0, 1.5 / 5, -0.5 / 5, 0.0, -2.2 / 5])


def test_policy_gradient_by_hand(tokens, totals):
    seen = tokens([-1.0, -2.0, -3.0], advantage=[1.0, -1.0, 0.5])
    result = policy_loss(policy_gradient())(seen, totals(seen))
    assert result.value.item() == pytest.approx((1.0 - 2.0 + 1.5) / 3)
    result.value.backward()
    assert seen.now["logp"].grad.tolist() == pytest.approx([-1 / 3, 1 / 3, -0.5 / 3])


def test_on_policy_clip_and_policy_gradient_move_alike(tokens, totals):
    gradients = []
    for surrogate in (clip(0.2, 0.2), policy_gradient(), policy_gradient(2.0)):
        seen = tokens([-1.0, -2.0], advantage=[0.3, -0.7])
        policy_loss(surrogate)(seen, totals(seen)).value.backward()
        gradients.append(seen.now["logp"].grad.tolist())
    assert gradients[0] == pytest.approx(gradients[1])
    assert gradients[1] == pytest.approx(gradients[2])


def test_a_sequences_importance_weight_is_capped(tokens, totals):
    # trajectory 0: e^{.1+.2}; trajectory 1: e^{2}, capped at 1.5
    seen = tokens([-1.0, -1.0, -1.0], [-1.1, -1.2, -3.0], advantage=[1.0, 2.0, 1.0], trajectory=[0, 0, 1])
    result = policy_loss(policy_gradient(1.5))(seen, totals(seen))
    result.value.backward()
    assert seen.now["logp"].grad.tolist() == pytest.approx([-exp(0.3) / 3, -2 * exp(0.3) / 3, -1.5 / 3])
    assert result.metrics["ratio/clipped"].item() == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("estimator", "value", "gradient"),
    [("k1", 0.5, 0.5), ("k2", 0.125, 0.5), ("k3", exp(-0.5) - 0.5, 1 - exp(-0.5))],
)
def test_kl_estimators_by_hand(estimator, value, gradient):
    logp = torch.tensor([-1.0], requires_grad=True)
    kl = kl_estimate(logp, torch.tensor([-1.5]), estimator)
    kl.sum().backward()
    assert kl.item() == pytest.approx(value)
    assert logp.grad.item() == pytest.approx(gradient)


def test_on_policy_k1_and_k2_have_the_gradient_of_the_exact_kl():
    logits = torch.tensor([0.3, -0.5, 1.0], requires_grad=True)
    reference = torch.tensor([0.0, 0.4, -0.2]).log_softmax(0)
    logp = logits.log_softmax(0)
    exact = torch.autograd.grad((logp.exp() * (logp - reference)).sum(), logits, retain_graph=True)[0]
    for estimator in ("k1", "k2"):
        expected = (logp.exp().detach() * kl_estimate(logp, reference, estimator)).sum()
        torch.testing.assert_close(torch.autograd.grad(expected, logits, retain_graph=True)[0], exact)
    for estimator, is_kl in (("k1", True), ("k3", True), ("k2", False)):
        mean = (logp.exp() * kl_estimate(logp, reference, estimator)).sum()
        assert torch.isclose(mean, (logp.exp() * (logp - reference)).sum()) == is_kl


def test_kl_and_entropy_are_added_per_token(tokens, totals):
    seen = tokens([-1.0, -1.0], advantage=[0.0, 0.0], reference=[-1.5, -1.0], entropy=[2.0, 1.0])
    result = policy_loss(policy_gradient(), PolicyLoss(kl=0.1, kl_estimator="k2", entropy=0.01))(seen, totals(seen))
    assert result.value.item() == pytest.approx(0.1 * 0.125 / 2 - 0.01 * 1.5)
    assert result.metrics["kl/mean"].item() == pytest.approx(0.125 / 2)
    assert result.metrics["entropy/mean"].item() == pytest.approx(1.5)
    result.value.backward()
    assert seen.now["entropy"].grad.tolist() == pytest.approx([-0.005, -0.005])


def test_a_kl_without_the_log_probs_of_the_start_is_refused(tokens, totals):
    seen = tokens([-1.0], advantage=[0.0])
    with raises_naming(MistakeError, "loss.kl", "needs="):
        policy_loss(policy_gradient(), PolicyLoss(kl=0.1))(seen, totals(seen))


def test_the_kl_may_be_that_of_the_vocabulary_alone(tokens, totals):
    seen = tokens([-1.0, -1.0], advantage=[0.0, 0.0], reference=[-1.5, -3.0])
    seen.now["vocab_logp"], seen.reference["vocab_logp"] = torch.tensor([-0.9, 0.0]), torch.tensor([-1.2, 0.0])
    loss = PolicyLoss(kl=0.1, kl_estimator="k2", kl_over="vocabulary")
    found = policy_loss(policy_gradient(), loss)(seen, totals(seen))
    # the second chose an action: nothing is held against it
    assert found.value.item() == pytest.approx(0.1 * 0.045 / 2)


def test_the_kl_of_the_vocabulary_is_that_of_all_without_added_actions(tokens, totals):
    seen = tokens([-1.0, -1.0], advantage=[0.0, 0.0], reference=[-1.5, -1.0])
    one, other = (
        policy_loss(policy_gradient(), PolicyLoss(kl=0.1, kl_over=over))(seen, totals(seen)).value
        for over in ("all", "vocabulary")
    )
    assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("normalisation", "expected"),
    [("token", (1 + 2 + 6) / 3), ("sequence", ((1 + 2) / 2 + 6) / 2), ("constant", (1 + 2 + 6) / 4 / 2)],
)
def test_token_losses_add_up_by_name(tokens, totals, normalisation, expected):
    seen = tokens([-1.0, -2.0, -6.0], trajectory=[4, 4, 7])
    loss = policy_loss(policy_gradient(), PolicyLoss(normalisation=normalisation, constant=4.0))
    assert loss(seen, totals(seen)).value.item() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("normalisation", "expected"),
    [("token", (3 * 1 + 2 + 6) / 5), ("sequence", ((3 * 1 + 2) / 4 + 6) / 2), ("constant", (3 * 1 + 2 + 6) / 4 / 2)],
)
def test_a_token_counts_as_often_as_its_multiplicity_says(tokens, totals, normalisation, expected):
    seen = tokens([-1.0, -2.0, -6.0], trajectory=[4, 4, 7], multiplicity=torch.tensor([3.0, 1.0, 1.0]))
    loss = policy_loss(policy_gradient(), PolicyLoss(normalisation=normalisation, constant=4.0))
    assert loss(seen, replace(totals(seen), num_copies=5.0)).value.item() == pytest.approx(expected)


def test_the_ratio_of_a_turn_is_the_geometric_mean_and_each_token_has_a_gradient(tokens, totals):
    """Row 0 has the log ratios .2 and 0, so s = exp(.1); row 1 is clipped at 1 + .15."""
    seen = tokens([-1.0, -1.0, -1.0], [-1.2, -1.0, -1.5])
    seen = replace(seen, row=torch.tensor([0, 0, 1]))
    result = policy_loss(turn_clip(0.15, 0.15))(seen, totals(seen))
    s = exp(0.1)
    assert result.value.item() == pytest.approx(-(2 * s + 1.15) / 3)
    result.value.backward()
    assert seen.now["logp"].grad.tolist() == pytest.approx([-s / 3, -s / 3, 0.0])


@pytest.mark.parametrize("normalisation", ["token", "sequence", "constant"])
def test_shares_of_micro_batches_add_up(tokens, normalisation):
    loss = policy_loss(clip(0.2, 0.2), PolicyLoss(normalisation=normalisation, constant=3.0))
    totals = Totals(num_tokens=3, num_rows=3, num_trajectories=2, num_groups=1)
    parts = [tokens([-1.0, -2.0], [-1.1, -1.5], trajectory=[0, 0]), tokens([-0.5], [-1.0], trajectory=[1])]
    whole = tokens([-1.0, -2.0, -0.5], [-1.1, -1.5, -1.0], trajectory=[0, 0, 1])
    shares = [loss(part, totals) for part in parts]
    assert sum(s.value.item() for s in shares) == pytest.approx(loss(whole, totals).value.item())
    for name, metric in loss(whole, totals).metrics.items():
        assert sum(s.metrics[name].item() for s in shares) == pytest.approx(metric.item())


def test_engine_weights_multiply_the_policy_term_alone(tokens, totals):
    seen = tokens([-1.0, -1.0], weight=[0.5, 1.0], reference=[-1.5, -1.5])
    result = policy_loss(policy_gradient(), PolicyLoss(kl=1.0, kl_estimator="k1"))(seen, totals(seen))
    assert result.value.item() == pytest.approx((0.5 + 1.0) / 2 + 0.5)


def test_cross_entropy_is_the_mean_negative_log_prob(tokens, totals):
    seen = tokens([-1.0, -2.0])
    assert cross_entropy()(seen, totals(seen)).value.item() == pytest.approx(1.5)


def test_squared_margin_by_hand(tokens, totals):
    seen = tokens(
        [-1.0, -2.0, -1.0, -0.5],
        reference=[-1.5, -2.0, -0.7, -1.0],
        advantage=[1.0, 1.0, -1.0, -1.0],
        trajectory=[0, 0, 1, 1],
        group=[3, 3, 3, 3],
    )
    # chosen: .5 + 0; rejected: -.3 + .5; margin .3; target 1/(2*.25) = 2
    result = squared_margin(0.25)(seen, totals(seen))
    assert result.value.item() == pytest.approx((0.3 - 2.0) ** 2)
    assert result.metrics["margin/mean"].item() == pytest.approx(0.3)
    assert result.metrics["margin/positive"].item() == 1.0
    result.value.backward()
    assert seen.now["logp"].grad.tolist() == pytest.approx([-3.4, -3.4, 3.4, 3.4])


def test_squared_margins_average_over_pairs(tokens, totals):
    seen = tokens([-1.0] * 4, reference=[-1.0] * 4, advantage=[1.0, -1.0, -1.0, 1.0], group=[0, 0, 1, 1])
    assert squared_margin(0.5)(seen, totals(seen)).value.item() == pytest.approx(1.0)


def test_half_a_pair_is_refused(tokens, totals):
    seen = tokens([-1.0, -1.0, -1.0], reference=[-1.0] * 3, advantage=[1.0, -1.0, 1.0], group=[0, 0, 1])
    with raises_naming(ValueError, "squared_margin:", "'group'"):
        squared_margin(0.5)(seen, totals(seen))
    with raises_naming(ValueError, "squared_margin:", "reference"):
        squared_margin(0.5)(tokens([-1.0]), totals(seen))


def test_kl_is_adapted_by_a_part_of_how_far_it_is_from_its_target():
    loss = PolicyLoss(kl=0.5, kl_target=0.1, kl_rate=0.1)
    algorithm = grpo(optimizer=Optimizer(), loss=loss)
    state = begin_state(algorithm)
    assert state == {"kl": 0.5}
    state = adapt_state(algorithm, state, [], {"kl/mean": 0.3})  # three times the target: cut off at a fifth over it
    assert state == {"kl": pytest.approx(0.5 * 1.02)}
    state = adapt_state(algorithm, state, [], {"kl/mean": 0.09})
    assert state == {"kl": pytest.approx(0.5 * 1.02 * 0.99)}
    assert adapt_state(algorithm, state, [], {}) == state, "a step that taught nothing says nothing of the KL"


def test_a_bound_loss_has_the_weight_that_the_state_says(tokens, totals):
    algorithm = grpo(optimizer=Optimizer(), loss=PolicyLoss(kl=0.5, kl_target=0.1))
    seen = tokens([-1.0], advantage=[0.0], reference=[-1.5])
    by_weight = [recall(algorithm, {"kl": kl}).loss(seen, totals(seen)).value.item() for kl in (0.25, 1.0, 3.0)]
    assert by_weight == pytest.approx([w * (exp(0.5 * -1) - 0.5) for w in (0.25, 1.0, 3.0)])
    assert grpo(optimizer=Optimizer()).memory is None


def test_a_target_needs_a_weight_to_begin_with():
    with raises_naming(ValueError, "kl=0.0", "number"):
        PolicyLoss(kl_target=0.1)
