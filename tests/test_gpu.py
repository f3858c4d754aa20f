"""What one CUDA GPU computes: the same policy as the CPU, and the same bits each time. Skipped where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rlx.algo.credit import per_row
from rlx.algo.losses import PolicyLoss, policy_gradient, policy_loss
from rlx.algo.parts import Optimizer
from rlx.base.console import Screen
from rlx.learner.attention import Rule, attention_over
from rlx.learner.batch import collate
from rlx.learner.packing import to_device
from rlx.learner.torch import TorchLearner
from rlx.model.load import SHIPPED, Model, load_model
from rlx.run.execution import record_step
from rlx.settings.compose import build_run, compose
from rlx.training import train
from rlx.types import Completion, Request, Sampling
from tests.learner.conftest import make_groups, make_turn
from tests.learner.test_attention import cases, dense
from tests.test_repeat_adapters import ADAPTERS, CutOffError, metrics_of, tensors_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
LOSS = policy_loss(policy_gradient(), PolicyLoss(entropy=0.05))
SHORT = (
    "env=countdown",
    "warm_start=sft",
    "warm_start.steps=2",
    "steps=2",
    "algo.num_prompts=4",
    "algo.num_samples=4",
    "checkpoint.interval=1",
    "track=disabled",
    "evaluate.num_tasks=4",
    "evaluate.num_samples=1",
    "evaluate.ks=[1]",
)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize("scale", [3, 12])
def test_packed_attention_on_a_gpu_equals_dense_attention(dtype: torch.dtype, tolerance: float, scale: int) -> None:
    packed, mask = cases(make_turn, 0, "cuda", scale=scale)
    draw = torch.Generator().manual_seed(1)

    def heads(num: int) -> Tensor:
        return torch.randn(1, num, len(mask), 32, generator=draw).to("cuda", dtype).requires_grad_()

    q, k, v = heads(4), heads(2), heads(2)
    upstream = torch.randn(1, len(mask), 4, 32, generator=draw).to("cuda", dtype)
    seen = to_device(packed, torch.device("cuda")).layout
    ours = attention_over(seen).attend(q, k, v, Rule(scaling=0.3))
    theirs = dense(q.float(), k.float(), v.float(), mask.cuda())
    torch.testing.assert_close(ours.float(), theirs, atol=tolerance, rtol=tolerance)
    gradients = [torch.autograd.grad(out, (q, k, v), upstream.to(out.dtype)) for out in (ours, theirs)]
    for mine, other in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, other, atol=4 * tolerance, rtol=4 * tolerance)


def learn(device: str, rewrite: float) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the log-probs before an update, and the weights after it."""
    learner = TorchLearner(
        load_model(Model(path="nano")),
        optimizer=Optimizer(lr=1e-3),
        num_steps=10,
        micro_batch_tokens=256,
        device=device,
    )
    batch = collate(make_groups(rewrite=rewrite))
    before = learner.measure(batch)["logp"].cpu()
    learner.update(batch.with_credit(per_row(torch.linspace(-1, 1, len(batch.trajectory_R)))), LOSS)
    return before, {name: weight.detach().cpu() for name, weight in learner.model.state_dict().items()}


@pytest.mark.parametrize("rewrite", [0.0, 0.5])
def test_a_learner_on_a_gpu_computes_what_one_on_the_cpu_does(rewrite: float) -> None:
    (mine, weights), (theirs, others) = learn("cuda", rewrite), learn("cpu", rewrite)
    torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-4)
    apart = {name: (weights[name] - other).abs().mean().item() for name, other in others.items()}
    assert max(apart.values()) < 1e-4, apart


def test_an_update_on_a_gpu_gives_the_same_bits_again() -> None:
    (first, weights), (second, again) = learn("cuda", 0.5), learn("cuda", 0.5)
    assert torch.equal(first, second)
    assert [name for name, weight in weights.items() if not torch.equal(weight, again[name])] == []


def play(words: list[str], folder: Path) -> None:
    train(build_run(compose(words), folder), Screen(silent=True))


@pytest.mark.parametrize("more", [(), (*ADAPTERS, "hardware.learner_dtype=bfloat16", "hardware.recompute=true")])
def test_a_run_on_a_gpu_repeats_and_resumes_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    words = ["algo=tool_rloo", "hardware=gpu1", *SHORT, *more]
    play(words, tmp_path / "whole")

    def cut_off(*told: Any) -> None:
        record_step(*told)
        raise CutOffError

    with monkeypatch.context() as patch:
        patch.setattr("rlx.training.record_step", cut_off)
        with pytest.raises(CutOffError):
            play(words, tmp_path / "cut")
    play(words, tmp_path / "cut")
    assert metrics_of(tmp_path / "cut") == metrics_of(tmp_path / "whole")
    mine, theirs = tensors_of(tmp_path / "whole"), tensors_of(tmp_path / "cut")
    assert [name for name, weight in mine.items() if not torch.equal(weight, theirs[name])] == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_engine_and_the_learner_on_a_gpu_are_one_policy(dtype: torch.dtype) -> None:
    from transformers import AutoTokenizer

    from rlx.rollout.torch.engine import TorchEngine

    model = load_model(Model(path="nano"))
    engine = TorchEngine(
        config=model.config,
        weights=dict(model.state_dict()),
        tokenizer=AutoTokenizer.from_pretrained(SHIPPED / "nano"),
        eos_ids=(),
        num_slots=8,
        device="cuda",
        dtype=dtype,
    )
    sampling = Sampling(temperature=1.0, max_new_tokens=40, max_context=200)
    for session in range(16):
        ids = tuple(range(5, 25 + session))
        engine.add(Request(session=session, stream=session, prompt_ids=ids, sampling=sampling, stops=()))
    done: dict[int, tuple[tuple[int, ...], Completion]] = {}
    while len(done) < 16:
        done |= {request.session: (request.prompt_ids, completion) for request, completion in engine.step()}
    model.cuda()
    for prompt, completion in done.values():
        ids = torch.tensor([[*prompt, *completion.token_ids]], device="cuda")
        with torch.no_grad():
            logp = model(ids).logits.float().log_softmax(-1)[0, len(prompt) - 1 : -1]
        mine = logp.gather(1, ids[0, len(prompt) :, None])[:, 0].cpu()
        apart = (mine - torch.tensor(completion.logprobs)).abs().mean().item()
        assert apart < (1e-4 if dtype == torch.float32 else 0.05)
