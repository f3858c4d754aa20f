"""One rank of the tests beside: `ranks_worker.py TASK JSON`, with torchrun's variables. Not a test itself."""

from __future__ import annotations

import atexit
import copy
import gc
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rlx.algo.credit import per_row
from rlx.algo.losses import PolicyLoss, clip, policy_gradient, policy_loss, sum_losses, value_loss
from rlx.algo.parts import Credited, Critic, Need, Optimizer, PerRow, PerToken
from rlx.base.console import Screen
from rlx.hardware.profile import Hardware
from rlx.hardware.ranks import PATIENCE, join
from rlx.learner.batch import Batch
from rlx.learner.deepspeed import DeepSpeedLearner
from rlx.learner.torch import TorchLearner
from rlx.run.policies import Frozen
from rlx.run.trainee import build_trainee
from rlx.settings.compose import build_run, compose
from rlx.training import train
from rlx.types import Group, Turn
from tests.remains import parts

LOSS = policy_loss(policy_gradient(), PolicyLoss(kl=0.1, kl_estimator="k2", entropy=0.05))
NEEDS = frozenset({"reference"})
OF_WORDS = policy_loss(policy_gradient(), PolicyLoss(kl=0.1, kl_estimator="k2", kl_over="vocabulary"))
"""Its entropy is not part of it: nothing goes back through that column."""
TO_BOTH = sum_losses(policy_loss(clip(0.2, 0.2)), value_loss(value_clip=0.2))
LOSS_ALONE = policy_loss(policy_gradient())
NONE: frozenset[Need] = frozenset()


def run_all(runs: list[list[Any]]) -> None:
    """Each is a folder and words."""
    for folder, words in runs:
        train(build_run(compose(words), Path(folder)), Screen(silent=True))


def duel(folder: str, words: list[str]) -> None:
    """A run of two agents, one of which is trained."""
    from tests.duel import Duel

    run = build_run(compose(words), Path(folder))
    train(replace(run, env=Duel(), policies={"blue": Frozen()}), Screen(silent=True))


def hang(folder: str, words: list[str]) -> None:
    """Rank 1 stops in the middle of a rollout."""
    from rlx.hardware.ranks import find_place
    from rlx.rollout.torch.engine import TorchEngine

    if find_place().rank == 1:
        TorchEngine.step = lambda self: time.sleep(10_000)  # type: ignore[method-assign]
    run_all([[folder, words]])


def leave(size: int) -> None:
    """Says at the very end which of gloo's threads are still there."""
    atexit.register(lambda: print([name for name in thread_names() if "gloo" in name]))
    with join(Hardware(learner="deepspeed", num_processes=size)) as ranks:
        assert ranks.gather(ranks.rank) == list(range(size))
        assert any("gloo" in name for name in thread_names())


def thread_names() -> list[str]:
    return sorted(Path(each, "comm").read_text().strip() for each in Path("/proc/self/task").iterdir())


def compare_export(folder: str, words: list[str]) -> None:
    """A checkpoint as transformers loads it, and as the learner has it."""
    from transformers import AutoModelForCausalLM

    run = build_run(compose(words), Path(folder))
    with join(run.hardware) as ranks:
        agent = build_trainee(run, run.model, ranks)
        agent.learner.load(Path(folder) / "checkpoints" / "step-2")
        weights = agent.learner.weights()
        loaded = AutoModelForCausalLM.from_pretrained(Path(folder) / "checkpoints" / "step-2").state_dict()
        assert set(loaded) == set(weights)
        assert all(torch.equal(loaded[name], weights[name]) for name in weights)


def learn_variants(size: int, stored: str, variants: list[dict[str, Any]]) -> None:
    """Three updates of a tiny model under each variant of hardware: metrics, and the gap of weights to torch's."""
    from conftest import build, make_groups

    from rlx.learner.batch import collate

    torch.manual_seed(0)
    batches: list[Batch] = []
    for seed in range(3):
        batch = collate(make_groups(seed=seed, rewrite=0.3))
        generator = torch.Generator().manual_seed(seed)
        batches.append(batch.with_credit(per_row(torch.randn(len(batch.trajectory_R), generator=generator))))
    optimizer = Optimizer(lr=1e-2, weight_decay=0.1, num_epochs=2, num_minibatches=2)
    found = []
    for variant in variants:
        model = adapted(build("qwen2", 0, True)) if variant.pop("lora", False) else build("qwen2", 0, True)
        loaded = getattr(torch, variant.pop("loaded", "float32"))
        hardware = Hardware(learner="deepspeed", num_processes=size, micro_batch_tokens=60, **variant)
        with join(hardware) as ranks:
            common = {"optimizer": optimizer, "num_steps": 10, "needs": NEEDS}
            plain = TorchLearner(copy.deepcopy(model), micro_batch_tokens=60, **common)
            for p in model.parameters():
                p.data = p.data.to(loaded)
            learner = DeepSpeedLearner(model, hardware=hardware, ranks=ranks, **common)
            metrics = [
                [each.update(each.annotate(batch, NEEDS), LOSS) for batch in batches] for each in (plain, learner)
            ]
            ours, theirs = learner.weights(), plain.weights()
            gap = max(float((ours[name].float() - theirs[name]).abs().max()) for name in theirs)
            found.append({"plain": metrics[0], "deepspeed": metrics[1], "gap": gap})
            if ranks.is_first:
                Path(stored).write_text(json.dumps(found))


def learn_actions(size: int, folder: str, variants: list[dict[str, Any]]) -> None:
    """Two updates of a tiny model with added actions, one before a checkpoint and one after, beside torch's."""
    from conftest import build, make_groups

    from rlx.learner import zero
    from rlx.learner.batch import collate
    from rlx.model.expand import expand, train_rows
    from rlx.protocol.automaton import Automaton, State

    def expanded(lora: bool) -> tuple[Any, Automaton]:
        model = build("qwen2", 0, True)
        actions = expand(model, {"go": (3,), "left": (4, 5), "stop": (6,)})
        wrapped = adapted(model) if lora else model
        if lora:
            train_rows(model)
        return wrapped, Automaton(states=(State(forbidden=frozenset({51})),), actions=actions)

    def chosen(turn: Turn) -> Turn:
        ids = turn.completion.token_ids
        acts = tuple({3: 50, 6: 52}.get(i, i) for i in ids)
        return replace(turn, completion=replace(turn.completion, mask_ids=(0,) * len(ids), chosen_ids=acts))

    def acting(group: Group) -> Group:
        told = (replace(t, turns=tuple(map(chosen, t.turns))) for t in group.trajectories)
        return replace(group, trajectories=tuple(told))

    zero.PERSISTENT = 0
    batch = collate([acting(group) for group in make_groups(num_groups=6)])
    assert int((batch.target_M >= 50).sum()) > 5
    batch = batch.with_credit(per_row(torch.randn(len(batch.trajectory_R), generator=torch.Generator().manual_seed(0))))
    with join(Hardware(learner="deepspeed", num_processes=size)) as ranks:
        for number, variant in enumerate(variants):
            lora, place = variant.pop("lora", False), Path(folder) / str(number)
            loss = OF_WORDS if variant.pop("of_words", False) else LOSS
            hardware = Hardware(learner="deepspeed", num_processes=size, micro_batch_tokens=60, **variant)
            common: dict[str, Any] = {"optimizer": Optimizer(lr=1e-2), "num_steps": 4, "needs": NEEDS}
            (plain, automaton), (model, _) = expanded(lora), expanded(lora)
            common["automaton"] = automaton
            torch_learner = TorchLearner(plain, micro_batch_tokens=60, **common)
            began = torch_learner.weights()["action_rows"].clone()
            learner = DeepSpeedLearner(model, hardware=hardware, ranks=ranks, **common)
            for is_saved in (False, True):
                told = [each.update(each.annotate(batch, NEEDS), loss) for each in (torch_learner, learner)]
                assert told[1] == pytest.approx(told[0], rel=1e-4, abs=1e-5)
                if not is_saved:
                    place.mkdir(exist_ok=True)
                    learner.save(place if ranks.is_first else None)
                    ranks.wait()
                    torch_learner.load(place)
            ours, theirs = (each.weights()["action_rows"] for each in (learner, torch_learner))
            assert torch.allclose(ours, theirs, atol=1e-5)
            assert float((theirs - began).abs().max()) > 1e-3
            ranks.wait()


def learn_twins(size: int, variants: list[dict[str, Any]]) -> None:
    """Two updates of CPO by a group with twins and one without, under each variant of hardware, beside torch's."""
    from conftest import build
    from test_cpo import automaton_of, groups_of

    from rlx.algo.cpo import cpo
    from rlx.learner.batch import collate
    from rlx.learner.rows import rows
    from rlx.model.expand import train_rows

    def made(lora: bool) -> tuple[Any, Any]:
        model = build("qwen2", 0, True)
        automaton = automaton_of(model)
        wrapped = adapted(model) if lora else model
        if lora:
            train_rows(model)
        return wrapped, automaton

    algo = cpo(optimizer=Optimizer(lr=1e-2), num_samples=2, loss=PolicyLoss(kl=0.1, kl_over="vocabulary"))
    groups = groups_of()
    with join(Hardware(learner="deepspeed", num_processes=size)) as ranks:
        for variant in variants:
            lora = variant.pop("lora", False)
            hardware = Hardware(learner="deepspeed", num_processes=size, micro_batch_tokens=8, **variant)
            (plain, automaton), (model, _) = made(lora), made(lora)
            common: dict[str, Any] = {"optimizer": algo.optimizer, "num_steps": 4, "needs": algo.needs}
            common["automaton"] = automaton
            torch_learner = TorchLearner(plain, micro_batch_tokens=8, **common)
            learner = DeepSpeedLearner(model, hardware=hardware, ranks=ranks, **common)
            before = torch_learner.weights()["action_rows"].clone()
            for _ in range(2):
                told = []
                for each in (torch_learner, learner):
                    batch = each.annotate(collate(groups), algo.needs)
                    told.append(each.update(batch.with_credit(algo.credit(rows(groups, batch))), algo.loss))
                assert told[1] == pytest.approx(told[0], rel=1e-4, abs=1e-5)
            ours, theirs = learner.weights(), torch_learner.weights()
            assert all(torch.allclose(ours[name], theirs[name], atol=1e-4) for name in theirs)
            assert not torch.allclose(theirs["action_rows"], before, atol=1e-3)
            ranks.wait()


def learn_critic(size: int, stored: str, variants: list[dict[str, Any]]) -> None:
    """Updates of a policy and its critic under each variant of hardware: metrics, and the gap of what was trained, and
    of what a torch learner reads from the checkpoint, to a torch learner that did the same."""
    from conftest import build, make_groups

    from rlx.learner.batch import collate

    whole = [collate(make_groups(seed=seed, rewrite=0.3)) for seed in range(3)]
    optimizer = Optimizer(lr=1e-3, weight_decay=0.1, num_epochs=2, num_minibatches=2, warmup_steps=2)
    common: dict[str, Any] = {"optimizer": optimizer, "num_steps": 10, "critic": Critic(lr=1e-2)}
    found = []
    for number, variant in enumerate(variants):
        model = adapted(build("qwen2", 0, True)) if variant.pop("lora", False) else build("qwen2", 0, True)
        copies = [copy.deepcopy(model) for _ in range(2)]
        hardware = Hardware(learner="deepspeed", num_processes=size, micro_batch_tokens=60, **variant)
        with join(hardware) as ranks:
            plain, reader = (TorchLearner(each, micro_batch_tokens=60, **common) for each in copies)
            learner = DeepSpeedLearner(model, hardware=hardware, ranks=ranks, **common)
            metrics = [
                [each.update(drawn(each.annotate(batch, NONE), seed), TO_BOTH) for seed, batch in enumerate(whole)]
                for each in (plain, learner)
            ]
            folder = Path(stored).parent / f"{size}-{number}"
            if ranks.is_first:
                folder.mkdir()
            learner.save(folder if ranks.is_first else None)
            ranks.wait()
            reader.load(folder)
            theirs = dict(plain.scorer.trained())
            ours = {name: learner.full(p) for name, p in learner.scorer.trained()}
            both = {"moved": ours, "read": dict(reader.scorer.trained())}
            gaps = {
                what: max(float((p - theirs[name]).abs().max()) for name, p in named.items())
                for what, named in both.items()
            }
            head = float(theirs["heads.value.weight"].abs().max())
            found.append({"plain": metrics[0], "deepspeed": metrics[1], "gaps": gaps, "head": head})
            if ranks.is_first:
                Path(stored).write_text(json.dumps(found))


def drawn(batch: Batch, seed: int) -> Batch:
    """Advantages and returns a token, and a return after each row's last."""
    draw = torch.Generator().manual_seed(seed)
    counts = batch.row_M.bincount().tolist()
    advantage, returns = (torch.randn(batch.num_tokens, generator=draw).split(counts) for _ in range(2))
    after = PerRow(torch.randn(len(counts), generator=draw))
    return batch.with_credit(
        Credited(advantage=PerToken(advantage), returns=PerToken(returns), returns_after=after)  # type: ignore[arg-type]
    )


def adapted(model: Any) -> Any:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    return get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"]))


def break_loss(size: int, stage: int) -> None:
    """A batch whose last advantage is not a number stops every rank with the same error, before the step."""
    from conftest import build, make_groups

    from rlx.learner.batch import collate
    from rlx.learner.learner import NotFiniteError

    hardware = Hardware(learner="deepspeed", num_processes=size, zero_stage=stage, micro_batch_tokens=60)
    batch = collate(make_groups())
    advantages = torch.ones(len(batch.trajectory_R))
    advantages[-1] = torch.nan
    with join(hardware) as ranks:
        learner = DeepSpeedLearner(
            build("qwen2", 0, True), hardware=hardware, ranks=ranks, optimizer=Optimizer(), num_steps=1
        )
        before = {name: x.clone() for name, x in learner.weights().items()}
        with pytest.raises(NotFiniteError) as caught:
            learner.update(batch.with_credit(per_row(advantages)), policy_loss(policy_gradient()))
        assert len(batch.trajectory_R) - 1 in caught.value.micro_batch["row"].tolist()
        after = learner.weights()
        assert all(torch.equal(x, after[name]) for name, x in before.items())


def cut_first(size: int) -> None:
    """Under ZeRO 3 no model is moved whole, neither the trained one nor the start it is compared with."""
    from conftest import build

    def refuse(self: torch.nn.Module, *_: Any, **__: Any) -> torch.nn.Module:
        raise AssertionError(f"{type(self).__name__} is moved whole")

    hardware = Hardware(learner="deepspeed", num_processes=size, zero_stage=3)
    model = build("qwen2", 0, False)
    expected = {name: x.clone() for name, x in model.state_dict().items()}
    with join(hardware) as ranks, pytest.MonkeyPatch.context() as patch:
        for name in ("to", "cuda", "float", "bfloat16"):
            patch.setattr(torch.nn.Module, name, refuse)
        learner = DeepSpeedLearner(
            model, hardware=hardware, ranks=ranks, optimizer=Optimizer(), num_steps=1, needs=NEEDS
        )
        for scorer in (learner.scorer, learner.start.module):
            assert {p.numel() for p in scorer.parameters() if p.ds_numel > 10_000} <= {0}
            assert all(p.ds_tensor.numel() == -(-p.ds_numel // size) for p in scorer.parameters())
        weights = learner.weights()
        assert all(torch.equal(x, weights[name]) for name, x in expected.items())


def keep_patience(size: int, stage: int) -> None:
    """Every group that DeepSpeed speaks through waits as long as ours."""
    from conftest import build
    from torch.distributed import distributed_c10d as c10d

    hardware = Hardware(learner="deepspeed", num_processes=size, zero_stage=stage)
    with join(hardware) as ranks:
        DeepSpeedLearner(build("qwen2", 0, True), hardware=hardware, ranks=ranks, optimizer=Optimizer(), num_steps=1)
        cpu = torch.device("cpu")
        patience = [group._get_backend(cpu).options._timeout for group in c10d._world.pg_map]
        assert len(patience) == 3 if size > 1 else 2, patience
        assert set(patience) == {PATIENCE}


def keep_step(size: int, stage: int, folder: str) -> None:
    """While rank 0 writes a piece, the others have called once more than it has and wait, and every tensor is told."""
    from conftest import build

    from rlx.learner import state

    hardware = Hardware(learner="deepspeed", num_processes=size, zero_stage=stage)
    beats: list[int] = []
    ahead: list[int] = []
    with join(hardware) as ranks, pytest.MonkeyPatch.context() as patch:
        learner = DeepSpeedLearner(
            build("qwen2", 0, False), hardware=hardware, ranks=ranks, optimizer=Optimizer(), num_steps=1
        )
        mine, theirs = (Path(folder, f"calls-{rank}") for rank in (ranks.rank, 1))
        wait, save_file = type(ranks).wait, state.save_file

        def waiting(self: Any) -> None:
            mine.write_text(f"{self.calls[0] + 1} ")
            wait(self)

        def saving(*arguments: Any, **more: Any) -> None:
            deadline = time.monotonic() + 60
            while theirs.read_text() != f"{ranks.calls[0] + 1} " and time.monotonic() < deadline:
                time.sleep(0.001)
            ahead.append(int(theirs.read_text()) - ranks.calls[0])
            save_file(*arguments, **more)

        patch.setattr(type(ranks), "wait", waiting)
        patch.setattr(state, "save_file", saving)
        patch.setattr(state, "PIECE", 1)
        ranks.wait()
        learner.save(Path(folder) if ranks.is_first else None, lambda: beats.append(1))
        num = len(learner.weights()) + 3 * len(list(learner.model.parameters()))
        assert ranks.gather(len(beats)) == [num] * size
        assert ahead == ([1] * num if ranks.is_first else [])


def leave_nothing(size: int, stage: int, dtype: str) -> None:
    """An update leaves no tensor behind that was not there before it. Under ZeRO 3 none is to stay gathered."""
    from conftest import build, make_groups

    from rlx.learner import zero
    from rlx.learner.batch import collate

    zero.PERSISTENT = 0

    hardware = Hardware(learner="deepspeed", num_processes=size, zero_stage=stage, learner_dtype=dtype)
    batch = collate(make_groups())
    batch = batch.with_credit(per_row(torch.ones(len(batch.trajectory_R))))
    loss = policy_loss(policy_gradient())
    with join(hardware) as ranks:
        learner = DeepSpeedLearner(
            build("qwen2", 0, True), hardware=hardware, ranks=ranks, optimizer=Optimizer(), num_steps=1
        )
        before = bytes_alive()
        learner.update(batch, loss)
        assert bytes_alive() <= before + 1000
        assert all(p.grad is None for p in learner.model.parameters())


def close_learners(size: int, variants: list[dict[str, Any]]) -> None:
    """A closed learner leaves no object and no tensor, and takes nothing from the learner beside it or the next one.

    The last learner's forward raises inside a layer, where ZeRO 3 knows the modules that have not returned.
    """
    from conftest import build, make_groups

    from rlx.learner.batch import collate
    from rlx.learner.lora import base_of

    batch = collate(make_groups(num_groups=1))
    batch = batch.with_credit(per_row(torch.linspace(-1.0, 1.0, len(batch.trajectory_R))))

    def learner_of(model: Any, hardware: Hardware, ranks: Any) -> DeepSpeedLearner:
        optimizer = Optimizer(lr=1e-2)
        return DeepSpeedLearner(model, hardware=hardware, ranks=ranks, optimizer=optimizer, num_steps=2, needs=NEEDS)

    def trained(learner: DeepSpeedLearner) -> list[Any]:
        metrics: list[Any] = [learner.update(learner.annotate(batch, NEEDS), LOSS) for _ in range(2)]
        weights = learner.weights()
        return [*metrics, {name: weights[name].float().tolist() for name in weights}]

    def break_layer(learner: DeepSpeedLearner) -> None:
        def fail(*_: Any) -> None:
            raise RuntimeError("a layer fails")

        base_of(learner.model).get_submodule("model.layers.1.mlp.act_fn").register_forward_pre_hook(fail)
        with pytest.raises(RuntimeError, match="layer fails"):
            learner.update(batch, LOSS)

    adapted(build("qwen2", 0, True))  # a first import of peft leaves a constant of 16 bytes
    for variant in variants:
        lora = variant.pop("lora", False)
        hardware = Hardware(learner="deepspeed", num_processes=size, micro_batch_tokens=60, **variant)

        def model(lora: bool = lora) -> Any:
            return adapted(build("qwen2", 0, True)) if lora else build("qwen2", 0, True)

        with join(hardware) as ranks:
            before = bytes_alive()
            first, second = (learner_of(model(), hardware, ranks) for _ in range(2))
            expected = trained(first)
            first.close()
            assert sorted(parts()).count("AdamW") == 1, f"{variant}: the other learner's"
            assert trained(second) == expected, variant
            second.close()
            del first, second
            assert_nothing_left(before, variant)
            third = learner_of(model(), hardware, ranks)
            assert trained(third) == expected, variant
            break_layer(third)
            third.close()
            del third
            assert_nothing_left(before, variant)


def learn_families(size: int, variants: list[dict[str, Any]]) -> None:
    """An update of families with rows, caps and sinks, beside torch's; the comparison before step 1 finds no fault."""
    from rlx.learner.batch import collate
    from rlx.learner.comparison import layout_difference
    from tests.learner.test_families import groups_of
    from tests.model.tiny import tiny_model

    batch = collate(groups_of())
    batch = batch.with_credit(per_row(torch.linspace(-1, 1, len(batch.trajectory_R))))
    for variant in variants:
        model, hardware = tiny_model(variant.pop("kind")), Hardware(learner="deepspeed", num_processes=size, **variant)
        with join(hardware) as ranks:
            common: dict[str, Any] = {"optimizer": Optimizer(lr=1e-3), "num_steps": 4, "needs": NONE}
            plain = TorchLearner(copy.deepcopy(model), micro_batch_tokens=hardware.micro_batch_tokens, **common)
            learner = DeepSpeedLearner(model, hardware=hardware, ranks=ranks, **common)
            assert learner.scorer.packing == plain.scorer.packing
            assert layout_difference(learner, batch) < 1e-5
            told = [each.update(batch, LOSS_ALONE) for each in (plain, learner)]
            assert told[1] == pytest.approx(told[0], rel=1e-4, abs=1e-5)


def assert_nothing_left(before: int, variant: dict[str, Any]) -> None:
    """Gathers that a failed forward left under way hold their buffers in gloo's threads until they end."""
    for _ in range(300):
        found = (list(parts()), bytes_alive())
        if found == ([], before):
            return
        time.sleep(0.1)
    assert found == ([], before), f"{variant}: {found} for {before} bytes"


def bytes_alive() -> int:
    gc.collect()
    storages = (x.untyped_storage() for x in gc.get_objects() if issubclass(type(x), torch.Tensor))
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "learner"))
    globals()[sys.argv[1]](**json.loads(sys.argv[2]))
