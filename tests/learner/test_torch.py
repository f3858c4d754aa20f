from __future__ import annotations

import copy
import json
import math
import weakref
from dataclasses import replace
from functools import partial

import pytest
import torch
from safetensors.torch import load_file
from torch.overrides import TorchFunctionMode
from transformers import AutoModelForCausalLM

from rlx.algo.credit import per_row
from rlx.algo.losses import PolicyLoss, clip, cross_entropy, policy_gradient, policy_loss, squared_margin
from rlx.algo.parts import Credited, Loss, Optimizer, PerRow
from rlx.base.limits import MistakeError
from rlx.hardware.ranks import ALONE
from rlx.learner import packing, state
from rlx.learner.batch import collate
from rlx.learner.learner import NotFiniteError
from rlx.learner.optimizer import learning_rate
from rlx.learner.packing import prepare
from rlx.learner.rows import rows
from rlx.learner.shares import minibatches, units
from rlx.learner.torch import TorchLearner
from rlx.protocol.automaton import Automaton, State
from rlx.types import Completion, Group, Task, Trajectory
from tests.errors import raises_naming

LOSS = policy_loss(policy_gradient(), PolicyLoss(kl=0.1, kl_estimator="k2", entropy=0.05))
NEEDS = frozenset({"reference"})


def learner(model, micro=10_000, needs=NEEDS, **optimizer):
    more = {k: optimizer.pop(k) for k in ("temperature", "automaton", "gap_cap", "dtype") if k in optimizer}
    settings = {"lr": 1e-2, "weight_decay": 0.1, **optimizer}
    return TorchLearner(
        model, optimizer=Optimizer(**settings), num_steps=10, needs=needs, micro_batch_tokens=micro, **more
    )


def credited(groups, seed=0):
    batch = collate(groups)
    generator = torch.Generator().manual_seed(seed)
    return batch.with_credit(per_row(torch.randn(len(batch.trajectory_R), generator=generator)))


def keep_gradients(trainer):
    """Those of every step by parameter, as they are when the weights have moved."""
    kept, move = [], trainer.move

    def moving():
        norm = move()
        kept.append({name: p.grad for name, p in trainer.model.named_parameters() if p.grad is not None})
        return norm

    trainer.move = moving
    return kept


def naive_logp(model, groups, temperature=1.0):
    """One turn at a time, unpacked, through the model's own attention."""
    model.set_attn_implementation("eager")
    found = []
    for turn in (t for group in groups for trajectory in group.trajectories for t in trajectory.turns):
        ids = turn.prompt_ids + turn.completion.token_ids
        logp = (model(torch.tensor([ids])).logits[0] / temperature).log_softmax(-1)
        found += [logp[i - 1, ids[i]] for i in range(len(turn.prompt_ids), len(ids))]
    return torch.stack(found)


def moved_weights(model, batch, micro, loss=LOSS, steps=1, unit="trajectory", **optimizer):
    trainer = learner(copy.deepcopy(model), micro, **optimizer)
    metrics = [trainer.update(trainer.annotate(batch, NEEDS), loss, unit) for _ in range(steps)]
    return {name: x.clone() for name, x in trainer.weights().items()}, metrics


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
@pytest.mark.parametrize("rewrite", [0.0, 0.5])
@pytest.mark.parametrize("micro", [40, 10_000])
def test_log_probs_equal_the_models_own(model, groups, family, rewrite, micro):
    given, network = groups(rewrite=rewrite), model(family, tied=family != "llama")
    expected = naive_logp(network, given, 0.8).detach()
    trainer = learner(network, micro, temperature=0.8)
    batch = trainer.annotate(collate(given), NEEDS)
    torch.testing.assert_close(batch.reference_M["logp"], expected, atol=1e-5, rtol=1e-5)


def test_the_gradient_through_a_shared_prompt_equals_that_without_sharing(model, groups):
    given, network = groups(rewrite=0.3), model()
    batch = credited(given)
    loss = -(naive_logp(network, given) * batch.advantage_M).sum() / batch.num_tokens
    expected = dict(zip(dict(network.named_parameters()), torch.autograd.grad(loss, list(network.parameters()))))
    trainer = learner(network, needs=frozenset(), lr=0.0, max_gradient_norm=math.inf)
    kept = keep_gradients(trainer)
    metrics = trainer.update(batch, policy_loss(policy_gradient()))
    assert metrics["loss/value"] == pytest.approx(loss.item(), abs=1e-6)
    for name, gradient in kept[0].items():
        torch.testing.assert_close(gradient, expected[name], atol=2e-6, rtol=1e-4)
    assert kept[0].keys() == expected.keys()


def test_what_is_not_kept_costs_nothing_and_moves_nothing(model, groups):
    given, network = groups(1, 3, seed=0), model()
    batch = collate(given)
    last = int(batch.trajectory_R.bincount().argmax())  # the longest episode: all but its second turn is left out
    row = int((batch.trajectory_R == last).nonzero()[1])
    logp = naive_logp(network, given)[batch.row_M == row]
    expected = torch.autograd.grad(-logp.mean(), list(network.parameters()))
    keep = [other == row for other in range(len(batch.trajectory_R))]
    batch = batch.with_credit(Credited(advantage=PerRow([1.0] * len(keep)), keep=PerRow(keep)))
    trainer = learner(network, needs=frozenset(), lr=0.0, max_gradient_norm=math.inf)
    kept, through = keep_gradients(trainer), []
    network.get_input_embeddings().register_forward_hook(lambda _, ids, out: through.append(ids[0].numel()))
    trainer.update(batch, policy_loss(policy_gradient()))
    for ours, theirs in zip(kept[0].values(), expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    turn = given[0].trajectories[last].turns[1]
    assert len(given[0].trajectories[last].turns) == 3
    assert through == [len(turn.prompt_ids) + len(turn.completion.token_ids)]
    nothing = collate(given).with_credit(Credited(advantage=PerRow([1.0] * len(keep)), keep=PerRow([0] * len(keep))))
    said = trainer.update(nothing, policy_loss(policy_gradient()))
    assert said.pop("update/tokens") == 0
    assert said.pop("advantage/zero") == 1
    assert set(said) == {"optimizer/lr"}


def test_no_gradient_is_left_after_an_update(model, groups):
    trainer = learner(model(), 40, num_minibatches=2)
    kept = keep_gradients(trainer)
    trainer.update(trainer.annotate(credited(groups()), NEEDS), LOSS)
    alive = [weakref.ref(gradient) for gradients in kept for gradient in gradients.values()]
    assert alive
    kept.clear()
    assert not [gradient for gradient in alive if gradient() is not None]


@pytest.mark.parametrize("column", ["logp", "entropy"])
def test_a_filler_goes_back_through_what_the_loss_reads_and_no_more_and_adds_nothing(model, groups, column):
    """Ranks of ZeRO 3 gather weights together, so that one that keeps step must read what the others do."""
    trainer = learner(model(), needs=frozenset())
    batch = trainer.annotate(credited(groups()), frozenset())
    part = prepare(batch, units(batch, "trajectory"), 10_000, ALONE, "cpu")
    ((what,),) = part.shares
    seen: dict[str, torch.Tensor | None] = {}

    def loss(tokens, totals):
        for name, x in tokens.now.items():
            seen[name] = None
            x.register_hook(partial(seen.__setitem__, name))
        return Loss(value=tokens.now[column].sum(), metrics={"any": tokens.now[column].sum()})

    assert trainer.accumulate(batch, replace(what, is_filler=True), part.packed[0], loss, part.totals, True) == {}
    assert [name for name, gradient in seen.items() if gradient is not None] == [column]
    moved = [p.grad for p in trainer.model.parameters() if p.grad is not None]
    assert moved
    assert not any(gradient.any() for gradient in moved)


@pytest.mark.parametrize(
    ("loss", "names"),
    [
        (lambda tokens, totals: 1.0, ["float", "Loss("]),
        (lambda tokens, totals: tokens.now["logp"].sum(), ["Tensor", "Loss("]),
        (lambda tokens, totals: Loss(value=1.0), ["float", "sum"]),
        (lambda tokens, totals: Loss(value=tokens.now["logp"]), ["shape", "sum"]),
        (lambda tokens, totals: Loss(value=tokens.now["logp"].sum().detach()), ["gradient", "tokens.now"]),
    ],
)
def test_a_loss_without_a_gradient_is_refused(model, groups, loss, names):
    with raises_naming(MistakeError, "loss:", *names):
        learner(model(), needs=frozenset()).update(credited(groups()), loss)


@pytest.mark.parametrize("normalisation", ["token", "sequence", "constant"])
def test_micro_batches_add_up_to_one_large_batch(model, groups, normalisation):
    loss = policy_loss(clip(0.2, 0.2), PolicyLoss(kl=0.1, entropy=0.05, normalisation=normalisation, constant=7.0))
    batch, network = credited(groups(4, 4, rewrite=0.2)), model()
    found = {}
    for micro in (30, 10_000):
        trainer = learner(copy.deepcopy(network), micro, max_gradient_norm=math.inf, lr=0.0)
        kept = keep_gradients(trainer)
        metrics = trainer.update(trainer.annotate(batch, NEEDS), loss)
        found[micro] = (list(kept[0].values()), metrics)
    (few, few_metrics), (many, many_metrics) = found[10_000], found[30]
    for a, b in zip(few, many, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
    assert many_metrics == pytest.approx(few_metrics, abs=1e-6, rel=1e-5)


def paired(signs):
    """Credit that keeps what it marks."""
    return Credited(advantage=PerRow(signs), keep=PerRow([sign != 0 for sign in signs]))


def test_pairs_go_through_together_whatever_the_budget(model, groups):
    given = groups(4, 4)
    signs = torch.zeros(16)
    signs[[0, 3, 8, 9]] = torch.tensor([1.0, -1.0, -1.0, 1.0])
    batch = collate(given)
    batch = batch.with_credit(paired(signs[batch.trajectory_R]))
    found = []
    for micro in (1, 10_000):
        trainer = learner(model(), micro, lr=0.0, max_gradient_norm=math.inf)
        kept = keep_gradients(trainer)
        metrics = trainer.update(trainer.annotate(batch, NEEDS), squared_margin(0.5), "group")
        # (0 - 1/(2 * 0.5))^2: policy and reference still agree
        assert metrics["loss/value"] == pytest.approx(1.0, abs=1e-4)
        found.append(list(kept[0].values()))
    for few, many in zip(*found, strict=True):
        assert (few - many).norm() < 1e-5 * many.norm()
    with raises_naming(ValueError, "squared_margin:", "'group'"):
        moved_weights(model(), batch, 1, squared_margin(0.5), unit="trajectory")


def test_a_batch_without_pairs_changes_nothing(model, groups):
    batch = collate(groups())
    batch = batch.with_credit(paired([0.0] * len(batch.trajectory_R)))
    network = model()
    after, metrics = moved_weights(network, batch, 100, squared_margin(0.5), unit="group")
    assert all(torch.equal(after[name], x) for name, x in network.state_dict().items())
    assert set(metrics[0]) == {"advantage/zero", "optimizer/lr", "update/tokens"}


def test_the_share_of_tokens_without_advantage_is_told_and_rounding_is_none(model, groups):
    batch = collate(groups())
    num_turns = len(batch.trajectory_R)
    half = [1e-16] * (num_turns // 2) + [0.5] * (num_turns - num_turns // 2)
    _, (metrics,) = moved_weights(model(), batch.with_credit(per_row(half)), 100, LOSS)
    silent = int((batch.row_M < num_turns // 2).sum())
    assert metrics["advantage/zero"] == pytest.approx(silent / batch.num_tokens)


def test_supervised_steps_lower_the_loss(model, groups):
    batch = collate(groups()).with_credit(per_row(torch.ones(len(collate(groups()).trajectory_R))))
    _, metrics = moved_weights(model(), batch, 60, cross_entropy(), steps=8, lr=3e-3)
    assert metrics[-1]["loss/value"] < 0.8 * metrics[0]["loss/value"]


def test_metrics_have_the_projects_names(model, groups):
    _, (metrics,) = moved_weights(model(), credited(groups()), 100, policy_loss(clip(0.2, 0.2), PolicyLoss(kl=0.1)))
    assert set(metrics) == {
        "loss/value", "kl/mean", "entropy/mean", "gradient/norm", "ratio/clipped", "optimizer/lr", "gap/engine",
        "update/tokens", "advantage/zero",
    }  # fmt: skip
    assert metrics["kl/mean"] == pytest.approx(0.0, abs=1e-6)
    assert metrics["optimizer/lr"] == 1e-2


def test_the_gap_to_the_engine_is_the_mean_difference_before_the_first_step(model, groups):
    given, network = groups(), model()
    batch = credited(given)
    gap = (naive_logp(network, given) - batch.engine_logp_M).abs().mean().item()
    _, (metrics,) = moved_weights(network, batch, 60, num_epochs=2, num_minibatches=1)
    assert metrics["gap/engine"] == pytest.approx(gap, abs=1e-5)


def test_demonstrations_have_no_gap(model, groups):
    batch = replace(credited(groups()), sampled=False)
    _, (metrics,) = moved_weights(model(), batch, 60, gap_cap=2.0)
    assert "gap/engine" not in metrics


def test_the_gap_is_weighed_by_truncated_importance(model, groups):
    given, network = groups(), model()
    trainer = learner(network, gap_cap=1.5)
    batch = trainer.annotate(credited(given), frozenset())
    logp = naive_logp(network, given).detach()
    torch.testing.assert_close(batch.old_M["logp"], logp, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(batch.weight_M, (logp - batch.engine_logp_M).exp().clamp(max=1.5), atol=1e-5, rtol=1e-4)


def test_inner_epochs_and_minibatches_take_that_many_steps(model, groups):
    trainer = learner(model(), num_epochs=3, num_minibatches=2, needs=frozenset())
    trainer.update(credited(groups(4)), policy_loss(clip(0.2, 0.2)))
    assert {int(state["step"]) for state in trainer.adam.state.values()} == {6}
    assert trainer.num_updates == 1


def test_a_batch_is_packed_once_an_update(model, groups, monkeypatch):
    trainer, packed = learner(model(), 40, num_epochs=3, num_minibatches=2, needs=frozenset()), []
    monkeypatch.setattr(packing, "pack", lambda *given, pack=packing.pack: packed.append(given) or pack(*given))
    trainer.update(credited(groups(4)), policy_loss(clip(0.2, 0.2)))
    taken = [what for _, what, _ in packed]
    assert len(taken) > 2
    assert sorted(s for what in taken for s in what.segments) == sorted({s for what in taken for s in what.segments})


def test_no_column_of_the_whole_batch_goes_to_the_device(model, groups):
    class Moves(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.lengths = set()

        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.Tensor.to and args[1:] == (trainer.device,) and args[0].dim():
                self.lengths.add(len(args[0]))
            return func(*args, **(kwargs or {}))

    trainer, batch = learner(model(), 40, gap_cap=2.0), credited(groups())
    with Moves() as moves:
        trainer.update(trainer.annotate(batch, NEEDS), LOSS)
    assert 0 < max(moves.lengths) < batch.num_tokens


def test_what_is_longer_than_a_micro_batch_is_computed_again_to_the_same_bits(model, groups):
    batch, network, found = credited(groups(1, 1, seed=3)), model(), []
    for micro in (10_000, 1):
        trainer = learner(copy.deepcopy(network), micro, needs=frozenset())
        trainer.update(batch, LOSS_ALONE)
        assert trainer.scorer.recomputes == (micro == 1)
        found.append(dict(trainer.weights()))
    assert all(torch.equal(x, found[1][name]) for name, x in found[0].items())


def test_schedules_by_hand():
    rates = lambda schedule: [  # noqa: E731
        learning_rate(Optimizer(lr=1.0, warmup_steps=2, schedule=schedule), 1.0, update, 6) for update in range(7)
    ]
    assert rates("constant") == [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert rates("linear") == [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]
    assert rates("cosine") == pytest.approx(
        [0.5, 1.0, 1.0, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2, 0.0]
    )


def test_a_rate_is_held_before_it_falls():
    held = Optimizer(lr=1.0, warmup_steps=1, hold_steps=2, schedule="linear")
    assert [learning_rate(held, 1.0, update, 5) for update in range(6)] == [1.0, 1.0, 1.0, 1.0, 0.5, 0.0]


def test_matrices_decay_and_vectors_do_not(model):
    groups = learner(model()).adam.param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert all(p.dim() == 2 for p in groups[0]["params"])
    assert all(p.dim() == 1 for p in groups[1]["params"])


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_what_is_not_finite_is_named_kept_and_changes_nothing(model, groups, what):
    trainer = learner(model(), 40, needs=frozenset())
    before = copy.deepcopy(trainer.model.state_dict())
    batch = credited(groups())
    bad = int(batch.row_M[-1])
    if what == "loss":
        advantages = torch.zeros(len(batch.trajectory_R))
        advantages[-1] = math.nan
        batch, loss = batch.with_credit(per_row(advantages)), LOSS_ALONE
    else:
        loss = exploding(bad)
    with raises_naming(NotFiniteError, what, "update 0") as caught:
        trainer.update(batch, loss)
    assert caught.value.quantity == what
    assert bad in caught.value.micro_batch["row"].tolist()
    assert all(torch.equal(before[name], x) for name, x in trainer.model.state_dict().items())
    trainer.update(credited(groups()), LOSS_ALONE)
    assert all(x.isfinite().all() for x in trainer.weights().values())


LOSS_ALONE = policy_loss(policy_gradient())


def exploding(row):
    """A loss that is finite and whose gradient, on one row, is not: sqrt at zero."""

    def loss(tokens, totals):
        result = LOSS_ALONE(tokens, totals)
        at = tokens.now["logp"][tokens.row == row]
        return type(result)(value=result.value + (at - at.detach()).abs().sqrt().sum(), metrics=result.metrics)

    return loss


def test_resuming_is_exact_to_the_last_bit(model, groups, tmp_path):
    network, batches = model(), [credited(groups(seed=i)) for i in range(4)]
    options = {"schedule": "cosine", "warmup_steps": 2, "num_epochs": 2}
    straight = learner(copy.deepcopy(network), 60, **options)
    for batch in batches[:2]:
        straight.update(straight.annotate(batch, NEEDS), LOSS)
    straight.save(tmp_path)
    resumed = learner(copy.deepcopy(network), 60, **options)
    resumed.load(tmp_path)
    for batch in batches[2:]:
        a = straight.update(straight.annotate(batch, NEEDS), LOSS)
        b = resumed.update(resumed.annotate(batch, NEEDS), LOSS)
        assert a == b
    for name, x in straight.weights().items():
        assert torch.equal(x, resumed.weights()[name])


def test_a_saved_folder_is_a_plain_model(model, groups, tmp_path):
    trainer = learner(model(), needs=frozenset())
    trainer.update(credited(groups()), LOSS_ALONE)
    trainer.save(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert "rlx" not in (tmp_path / "config.json").read_text()
    assert not [p for p in tmp_path.iterdir() if p.suffix in {".bin", ".pt", ".pkl"}]
    assert json.loads((tmp_path / "learner.json").read_text()) == {"num_updates": 1}
    for name, x in again.state_dict().items():
        assert torch.equal(x, trainer.weights()[name])


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("piece", [10**9, 5000])
def test_a_model_is_written_piece_by_piece_as_transformers_writes_it_whole(model, tmp_path, monkeypatch, tied, piece):
    monkeypatch.setattr(state, "PIECE", piece)
    trainer = learner(model(tied=tied), needs=frozenset())
    told = []
    trainer.save(tmp_path / "ours", lambda: told.append(1))
    trainer.model.save_pretrained(tmp_path / "theirs")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert read_all(ours) == read_all(theirs)
    assert (len(list(ours.glob("model*.safetensors"))) == 1) == (piece == 10**9)
    assert len(told) == len(read_all(theirs))
    for name in ("config.json", "generation_config.json"):
        assert (ours / name).read_text() == (theirs / name).read_text()
    loaded = AutoModelForCausalLM.from_pretrained(ours).state_dict()
    assert all(torch.equal(x, loaded[name]) for name, x in trainer.weights().items())
    assert not list(ours.glob("*.part"))


def read_all(folder):
    found = [(name, x.tolist()) for path in folder.glob("model*.safetensors") for name, x in load_file(path).items()]
    return sorted(found)


def adapted(network):
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    return get_peft_model(network, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"]))


def test_adapters_train_merge_and_resume(model, groups, tmp_path):
    base, batch = model(), credited(groups())
    trainer = learner(adapted(copy.deepcopy(base)), 60)
    for _ in range(2):
        metrics = trainer.update(trainer.annotate(batch, NEEDS), LOSS)
    assert metrics["kl/mean"] > 1e-4
    reference = trainer.annotate(batch, NEEDS).reference_M["logp"]
    torch.testing.assert_close(reference, naive_logp(base, groups()).detach(), atol=1e-5, rtol=1e-5)
    trainer.save(tmp_path)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert set(trainer.weights()) == set(base.state_dict())
    torch.testing.assert_close(
        trainer.measure(batch)["logp"], naive_logp(merged, groups()).detach(), atol=1e-5, rtol=1e-5
    )
    resumed = learner(adapted(copy.deepcopy(base)), 60)
    resumed.load(tmp_path)
    a, b = (t.update(t.annotate(batch, NEEDS), LOSS) for t in (trainer, resumed))
    assert a == b
    assert any(name.startswith("adapter.") for name in load_file(tmp_path / "learner.safetensors"))


def test_masks_of_an_automaton_are_applied_again(model, turn):
    automaton = Automaton(states=(State(allowed=frozenset({3, 4, 5})), State(allowed=frozenset({6, 7}))))
    masked = Completion(token_ids=(4, 7, 20), logprobs=(-1.0, -1.0, -1.0), mask_ids=(0, 1, -1), stop="stop")
    task = Task(id="t", prompt=(), data={})
    one = replace(turn([1, 2], [4, 7, 20]), completion=masked)
    given = [Group(task=task, trajectories=(Trajectory(task=task, sample=0, turns=(one,), status="done"),))]
    network = model()
    z = network(torch.tensor([[1, 2, 4, 7, 20]])).logits[0].detach()
    expected = [z[1, [3, 4, 5]].log_softmax(-1)[1], z[2, [6, 7]].log_softmax(-1)[1], z[3].log_softmax(-1)[20]]
    trainer = learner(network, automaton=automaton)
    torch.testing.assert_close(trainer.measure(collate(given))["logp"], torch.stack(expected), atol=1e-5, rtol=1e-5)


def test_what_cannot_be_trained_is_refused(model, groups):
    with raises_naming(ValueError, "temperature"):
        learner(model(), temperature=0)
    with raises_naming(ValueError, "update:", "advantages"):
        learner(model()).update(collate(groups()), LOSS_ALONE)


def test_rows_match_the_advantages_a_batch_accepts(groups):
    given = groups(rewrite=0.5)
    batch = collate(given)
    assert len(rows(given, batch).reward) == len(batch.trajectory_R)
    assert sum(rows(given, batch).num_tokens) == batch.num_tokens


@pytest.mark.parametrize("wrap", [copy.copy, adapted], ids=["reference", "adapters"])
def test_frozen_matrices_in_the_format_of_the_pass_change_no_bit(model, groups, monkeypatch, wrap):
    base, batch = model(), credited(groups())

    def learn():
        trainer = learner(wrap(copy.deepcopy(base)), 60, dtype=torch.bfloat16)
        return trainer, [trainer.update(trainer.annotate(batch, NEEDS), LOSS) for _ in range(2)]

    halved, found = learn()
    monkeypatch.setattr("rlx.learner.torch.halve_frozen", lambda scorer, dtype: None)
    whole, expected = learn()
    assert found == expected
    frozen = halved.start if halved.start is not None else halved.scorer
    dtypes = {m.weight.dtype for m in frozen.modules() if isinstance(m, torch.nn.Linear) and not m.weight.requires_grad}
    assert torch.bfloat16 in dtypes
    assert all(p.dtype == torch.float32 for _, p in halved.scorer.trained())
    assert all(p.dtype == torch.float32 for p in whole.scorer.parameters())


def test_an_update_tells_of_each_micro_batch(model, groups):
    one, beats = learner(model(), micro=40, num_epochs=2, num_minibatches=2), []
    one.beat = lambda: beats.append(1)
    batch = credited(groups())
    one.update(batch, policy_loss(policy_gradient(), PolicyLoss()), "trajectory")
    parts = [prepare(batch, part, 40, ALONE, "cpu") for part in minibatches(units(batch, "trajectory"), 2)]
    assert len(beats) == 2 * sum(len(part.packed) for part in parts) > 4
