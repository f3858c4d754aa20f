"""Values from a head beside the model: by plain autograd, in the learner's state, on a chain whose values are known."""

from __future__ import annotations

import copy
import math
import random
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from rlx.algo.gae import gae_over_tokens
from rlx.algo.losses import PolicyLoss, clip, policy_loss, sum_losses, value_loss
from rlx.algo.nested import Nested, nested_gae
from rlx.algo.nested_ppo import nested_ppo
from rlx.algo.parts import Credited, Critic, Optimizer, PerRow, PerToken
from rlx.base.limits import MistakeError
from rlx.learner.attention import PACKED
from rlx.learner.batch import collate
from rlx.learner.lora import Weights, adapters_off
from rlx.learner.rows import rows
from rlx.learner.torch import TorchLearner
from rlx.protocol.automaton import Automaton, State
from rlx.types import Action, Completion, Group, Task, Trajectory, Turn
from tests.errors import raises_naming

LOSS = sum_losses(policy_loss(clip(0.2, 0.2)), value_loss(value_clip=0.05))
NONE: frozenset[str] = frozenset()


def learner(model, micro=10_000, critic_lr=1e-2, **more):
    settings = {"lr": 1e-3, "weight_decay": 0.1, **more}
    critic = Critic(lr=critic_lr)
    return TorchLearner(model, optimizer=Optimizer(**settings), num_steps=10, critic=critic, micro_batch_tokens=micro)


def set_head(trainer, seed=0):
    """Numbers that are none of them zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in trainer.scorer.heads.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) / 5)


def naive(model, head, groups):
    """Log-probs and the values before and after each token, one turn at a time, through the model's own attention."""
    model.set_attn_implementation("eager")
    found = {"logp": [], "value": [], "value_after": []}
    for turn in (t for group in groups for trajectory in group.trajectories for t in trajectory.turns):
        ids = turn.prompt_ids + turn.completion.token_ids
        hidden = model.model(torch.tensor([ids])).last_hidden_state[0]
        logp, value = model.lm_head(hidden).log_softmax(-1), hidden @ head.weight[0] + head.bias
        for at in range(len(turn.prompt_ids), len(ids)):
            found["logp"].append(logp[at - 1, ids[at]])
            found["value"].append(value[at - 1])
            found["value_after"].append(value[at])
    model.set_attn_implementation(PACKED)
    return {name: torch.stack(column) for name, column in found.items()}


def credited(batch, seed=0):
    """Advantages and returns a token, and a return after each row's last."""
    draw = torch.Generator().manual_seed(seed)
    counts = batch.row_M.bincount().tolist()
    advantage, returns = (torch.randn(batch.num_tokens, generator=draw).split(counts) for _ in range(2))
    after = torch.randn(len(counts), generator=draw).tolist()
    return batch.with_credit(
        Credited(advantage=PerToken(advantage), returns=PerToken(returns), returns_after=PerRow(after))
    )


@pytest.mark.parametrize("micro", [40, 10_000])
@pytest.mark.parametrize("rewrite", [0.0, 0.5])
def test_values_and_gradients_are_those_of_plain_autograd(model, groups, rewrite, micro):
    given, network = groups(rewrite=rewrite), model()
    trainer = learner(network, micro, lr=0.0, critic_lr=1e-30, max_gradient_norm=math.inf)
    set_head(trainer)
    head = trainer.scorer.heads["value"]
    expected = naive(network, head, given)
    batch = trainer.annotate(collate(given), NONE)
    for name, column in expected.items():
        torch.testing.assert_close(batch.old_M[name], column.detach(), atol=1e-5, rtol=1e-5)
    batch = credited(batch)
    old = {name: column.detach() + 0.03 for name, column in expected.items()}  # so that some of it is clipped
    batch = replace(batch, old_M=old, engine_logp_M=old["logp"])
    ratio = (expected["logp"] - old["logp"]).exp()
    surrogate = torch.minimum(ratio * batch.advantage_M, ratio.clamp(0.8, 1.2) * batch.advantage_M)

    def distance(name, returns):
        near = old[name] + (expected[name] - old[name]).clamp(-0.05, 0.05)
        return torch.maximum((expected[name] - returns) ** 2, (near - returns) ** 2)

    ends = batch.returns_after_M.isfinite()
    assert int(ends.sum()) == len(batch.trajectory_R)
    after = distance("value_after", batch.returns_after_M.nan_to_num())[ends].mean()
    loss = -surrogate.mean() + 0.5 * (distance("value", batch.returns_M).mean() + after)
    moved = [p for _, p in trainer.scorer.trained()]
    by_hand = torch.autograd.grad(loss, moved)
    kept, move = [], trainer.move
    trainer.move = lambda: kept.append([p.grad for p in moved]) or move()
    metrics = trainer.update(batch, LOSS)
    assert metrics["loss/value"] == pytest.approx(loss.item(), rel=1e-5)
    scale = torch.cat([g.flatten() for g in by_hand]).norm()
    for ours, theirs, p in zip(kept[0], by_hand, moved, strict=True):
        factor = 1 / network.config.hidden_size if p is head.weight or p is head.bias else 1.0
        assert (ours - factor * theirs).norm() < 1e-6 * scale


def test_a_critics_head_does_not_take_the_room_of_the_policys_gradient(model, groups):
    """Its gradient alone would be several times the limit; a share of it that is not damped scales all else down."""
    trainer = learner(model(), lr=1e-3, max_gradient_norm=1.0)
    set_head(trainer)
    batch = credited(trainer.annotate(collate(groups()), NONE))
    batch = replace(batch, returns_M=batch.returns_M + 100.0)
    kept, move = [], trainer.move
    trainer.move = lambda: kept.append([p.grad.norm() for p in trainer.scorer.heads.parameters()]) or move()
    norm = trainer.update(batch, value_loss(value_weight=0.01))["gradient/norm"]
    assert max(kept[0]) < 0.1 * norm


@pytest.mark.parametrize(("gap_cap", "trusted"), [(None, True), (2.0, False)])
def test_beside_a_critic_too_the_policy_is_compared_with_what_sampled_unless_the_gap_is_weighed(
    model, groups, gap_cap, trusted
):
    trainer, given, seen = learner(model(), 10_000), groups(), []
    trainer.gap_cap = gap_cap
    batch = credited(trainer.annotate(collate(given), NONE))
    trainer.update(batch, lambda tokens, totals: seen.append(tokens.old["logp"]) or LOSS(tokens, totals))
    assert torch.equal(seen[0], batch.engine_logp_M if trusted else batch.old_M["logp"])
    assert not torch.equal(batch.engine_logp_M, batch.old_M["logp"])


def test_rows_have_the_values_of_their_tokens_and_the_one_after(turn):
    task = Task(id="t", prompt=(), data={})
    one = Trajectory(task=task, sample=0, turns=(turn([1], [2, 3]), turn([1, 2, 3], [4])), status="truncated")
    groups = [Group(task=task, trajectories=(one,))]
    values = {"value": torch.tensor([0.5, 0.25, 2.0]), "value_after": torch.tensor([0.25, 1.0, 4.0])}
    table = rows(groups, replace(collate(groups), old_M=values))
    assert table.value == ((0.5, 0.25), (2.0,))
    assert table.value_after == (1.0, 4.0)


def test_the_head_moves_at_its_own_rate_under_the_same_schedule(model, groups):
    trainer = learner(model(), lr=0.0, critic_lr=0.5, warmup_steps=2, weight_decay=0.0)
    before = copy.deepcopy(trainer.model.state_dict())
    trainer.update(credited(trainer.annotate(collate(groups()), NONE)), LOSS)
    assert all(torch.equal(before[name], x) for name, x in trainer.model.state_dict().items())
    # Adam's first step is the rate itself, half of it in the first of two steps of warming up
    assert trainer.scorer.heads["value"].bias.abs().item() == pytest.approx(0.25, rel=1e-4)
    assert {group["lr"] for group in trainer.adam_groups()} == {0.0, 0.25}


def adapted(model):
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    return get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]))


@pytest.mark.parametrize("lora", [False, True])
def test_a_critic_is_kept_with_the_learners_state_and_goes_on_to_the_same_bits(model, groups, tmp_path, lora):
    def build():
        return learner(adapted(model()) if lora else model(), 60)

    def go_on(trainer, seeds):
        for seed in seeds:
            trainer.update(credited(trainer.annotate(collate(groups(seed=seed)), NONE), seed), LOSS)

    whole, first, second = build(), build(), build()
    go_on(whole, range(4))
    go_on(first, range(2))
    first.save(tmp_path)
    second.load(tmp_path)
    go_on(second, range(2, 4))
    for (name, p), (_, q) in zip(whole.scorer.trained(), second.scorer.trained(), strict=True):
        assert torch.equal(p, q), name
    kept = load_file(tmp_path / "learner.safetensors")
    assert {"heads.value.weight", "heads.value.bias", "adam.heads.value.weight.exp_avg"} <= set(kept)
    exported = load_file(tmp_path / "model.safetensors")
    assert not [name for name in exported if "value" in name and "head" in name]
    assert set(exported) == set(load_file(saved_plainly(model(), tmp_path / "plain")))
    AutoModelForCausalLM.from_pretrained(tmp_path)


def test_weights_that_are_gathered_for_an_engine_can_be_trained_again(model):
    """An engine may read them in inference mode; ZeRO 3 then replaces a parameter's data while they are gathered."""

    @contextmanager
    def gathered(params):
        for param in params:
            param.data = param.data.clone()
        yield

    network = adapted(model())
    with torch.inference_mode():
        read = dict(Weights(network, gathered))
    assert read
    assert not any(param.is_inference() for param in network.parameters())
    with adapters_off(network):
        pass


def saved_plainly(network, folder):
    network.save_pretrained(folder)
    return folder / "model.safetensors"


def test_the_start_has_no_critic(model, groups):
    needs = frozenset({"reference"})
    trainer = TorchLearner(model(), optimizer=Optimizer(), num_steps=1, critic=Critic(lr=1e-3), needs=needs)
    batch = trainer.annotate(collate(groups()), needs)
    assert set(batch.reference_M) == {"logp", "entropy"}
    assert set(batch.old_M) == {"logp", "entropy", "value", "value_after"}
    assert batch.old_M["value"].abs().max() == 0


FORMS = [Nested(indices="as_released", lam=0.6), Nested(indices="paper", lam=0.6), Nested(worth="bilevel", lam=0.6)]


@pytest.mark.parametrize("form", FORMS, ids=["as_released", "paper", "bilevel"])
@pytest.mark.parametrize("rewrite", [0.0, 0.5])
def test_nested_credit_reads_values_at_sampled_tokens_alone(model, groups, rewrite, form):
    """Discounts differ from 1, where values of observed tokens within the recursion would show."""
    given, network = groups(rewrite=rewrite), model()
    trainer = learner(network, lr=0.0)
    set_head(trainer)
    expected = naive(network, trainer.scorer.heads["value"], given)
    batch = trainer.annotate(collate(given), NONE)
    table = rows(given, batch)
    found = nested_gae(form, 0.0, whiten=False)(table)
    values = [tuple(own.tolist()) for own in expected["value"].detach().split(list(table.num_tokens))]
    after = [own[-1].item() for own in expected["value_after"].detach().split(list(table.num_tokens))]
    by_hand = nested_gae(form, 0.0, whiten=False)(replace(table, value=tuple(values), value_after=tuple(after)))
    for ours, theirs in zip(found.advantage.values, by_hand.advantage.values, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)
    assert max(abs(x) for own in found.advantage.values for x in own) > 0.1


@pytest.mark.parametrize("indices", ["as_released", "paper"])
def test_the_critic_of_nested_ppo_learns_and_moves_the_model_that_it_reads(model, groups, indices):
    given = groups()
    algorithm = nested_ppo(optimizer=Optimizer(lr=1e-3), critic=Critic(lr=1e-2), indices=indices, value_weight=0.5)
    trainer = learner(model(), lr=1e-3)
    set_head(trainer)
    head = trainer.scorer.heads["value"].weight.clone()
    body = {name: p.clone() for name, p in trainer.model.named_parameters()}
    batch = trainer.annotate(collate(given), algorithm.needs)
    credited = replace(algorithm.credit(rows(given, batch)), advantage=PerRow([0.0] * len(batch.trajectory_R)))
    metrics = trainer.update(batch.with_credit(credited), algorithm.loss)
    assert metrics["critic/loss"] > 0
    assert math.isfinite(metrics["critic/explained"])
    assert not torch.equal(head, trainer.scorer.heads["value"].weight)
    moved = [name for name, p in trainer.model.named_parameters() if not torch.equal(body[name], p)]
    assert len(moved) > len(body) / 2, "without advantages only the critic's gradient moves the model"


def test_a_value_loss_without_a_critic_or_returns_is_refused(model, groups):
    trainer = TorchLearner(model(), optimizer=Optimizer(), num_steps=1)
    batch = collate(groups())
    flat = Credited(advantage=PerRow([0.0] * len(batch.trajectory_R)))
    with raises_naming(MistakeError, "value_loss:", "critic="):
        trainer.update(batch.with_credit(flat), value_loss())
    with raises_naming(MistakeError, "credit:", "critic="):
        gae_over_tokens()(rows(groups(), batch))
    with_critic = TorchLearner(model(), optimizer=Optimizer(), num_steps=1, critic=Critic(lr=1e-3))
    with raises_naming(MistakeError, "value_loss:", "returns"):
        with_critic.update(with_critic.annotate(batch, frozenset()).with_credit(flat), value_loss())


def test_a_loss_that_reads_no_value_of_a_critic_is_refused_before_anything_moves(model, groups):
    trainer = learner(model())
    batch = credited(trainer.annotate(collate(groups()), NONE))
    before = [weight.clone() for weight in trainer.scorer.model.parameters()]
    with raises_naming(MistakeError, "loss:", "value_loss"):
        trainer.update(batch, policy_loss(clip(0.2, 0.2)))
    assert all(map(torch.equal, before, trainer.scorer.model.parameters()))
    trainer.update(batch, LOSS)


LEFT, RIGHT, LENGTH, GAMMA = 1, 2, 6, 0.9
CHOICE = Automaton(states=(State(allowed=frozenset({LEFT, RIGHT})),))


def stepped(place, move):
    """From a place on the chain, or where it has ended: 0 on the left, `LENGTH` on the right, which pays 1."""
    return place if place in (0, LENGTH) else place + (1 if move == RIGHT else -1)


def contexts():
    """All that a policy may have before it: a place, and what it has already chosen there."""
    return [(10 + place, *before) for place in range(1, LENGTH) for before in ((), (LEFT,), (RIGHT,))]


@torch.no_grad()
def goes_right(network):
    """The policy: of every context, how likely it chooses to go right."""
    copied = copy.deepcopy(network)
    copied.set_attn_implementation("eager")
    logits = {ids: copied(torch.tensor([ids])).logits[0, -1, [LEFT, RIGHT]] for ids in contexts()}
    return {ids: float(pair.double().softmax(-1)[1]) for ids, pair in logits.items()}  # 1 - p stays exact near p = 1


def known_values(right):
    """Of every context: two moves a turn, a token each, by GAMMA apart; what is earned comes with the second."""
    value = dict.fromkeys(right, 0.0)
    for _ in range(200):
        for place in range(1, LENGTH):
            for first in (LEFT, RIGHT):
                total = 0.0
                for second, p in ((RIGHT, right[10 + place, first]), (LEFT, 1 - right[10 + place, first])):
                    end = stepped(stepped(place, first), second)
                    total += p * (float(end == LENGTH) if end in (0, LENGTH) else GAMMA * value[(10 + end,)])
                value[10 + place, first] = total
            p = right[(10 + place,)]
            value[(10 + place,)] = GAMMA * (p * value[10 + place, RIGHT] + (1 - p) * value[10 + place, LEFT])
    return value


def walk(right, draw, task, sample, most):
    """An episode: a turn says where it stands, and makes two moves; after `most` turns no context is left."""
    place, turns = draw.randrange(1, LENGTH), []
    while place not in (0, LENGTH) and len(turns) < most:
        context, logp, start = (10 + place,), [], place
        for _ in range(2):
            move = RIGHT if draw.random() < right[context] else LEFT
            logp.append(math.log(right[context] if move == RIGHT else 1 - right[context]))
            context, place = (*context, move), stepped(place, move)
        done = Completion(token_ids=context[1:], logprobs=tuple(logp), mask_ids=(0, 0), stop="stop")
        act = Action(kind="answer", text="")
        turns.append(Turn(prompt_ids=(10 + start,), completion=done, action=act, reward=float(place == LENGTH)))
    status = "done" if place in (0, LENGTH) else "context"
    return Trajectory(task=task, sample=sample, turns=tuple(turns), status=status)


def explained(exact, found):
    return float(1 - (exact - found).var() / exact.var())


def test_ppo_over_tokens_learns_the_values_of_a_chain_though_half_of_its_episodes_are_cut_off(model):
    task, draw = Task(id="chain", prompt=(), data={}), random.Random(0)
    optimizer = Optimizer(lr=3e-3, num_epochs=4, num_minibatches=1)
    trainer = TorchLearner(
        model(), optimizer=optimizer, num_steps=60, critic=Critic(lr=1e-2), automaton=CHOICE, micro_batch_tokens=4096
    )
    credit = gae_over_tokens(gamma=GAMMA, lam=0.9)
    loss = sum_losses(policy_loss(clip(0.2, 0.2), PolicyLoss(entropy=0.02)), value_loss(value_clip=0.2))
    for step in range(60):
        right = goes_right(trainer.model)
        walks = tuple(walk(right, draw, task, sample, most=(2, 100)[sample % 2]) for sample in range(64))
        groups = [Group(task=task, trajectories=walks)]
        batch = trainer.annotate(collate(groups), NONE)
        assert (batch.old_M["logp"] - batch.engine_logp_M).abs().max() < 1e-4
        if step == 0:
            start = trainer.measure(batch)
        metrics = trainer.update(batch.with_credit(credit(rows(groups, batch))), loss)
    right = goes_right(trainer.model)
    known = known_values(right)
    turns = [turn for one in walks for turn in one.turns]
    seen = [(*turn.prompt_ids, *turn.completion.token_ids[:num]) for turn in turns for num in (0, 1)]
    said = [(turn.prompt_ids[0] - 10, *turn.completion.token_ids) for turn in turns]
    next_places = [stepped(stepped(place, first), second) for place, first, second in said]
    measured = trainer.measure(batch)
    assert explained(torch.tensor([known[ids] for ids in seen]), measured["value"]) > 0.9
    after = torch.tensor([known.get((10 + place,), 0.0) for place in next_places])
    assert explained(after, measured["value_after"][1::2]) > 0.9, "at the last token of each turn"
    assert start["value"].abs().max() == 0
    assert metrics["critic/explained"] > 0.5
    assert right[(10 + LENGTH // 2,)] > 0.9
