"""CPO's update, appendix D.2 and rule (2) of Yue et al. 2025: in hand-computed numbers, and by the learner."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
import torch

from rlx.algo.cpo import cpo
from rlx.algo.losses import PolicyLoss, clip, policy_loss
from rlx.algo.parts import Algorithm, Columns, Optimizer, Tokens, Totals
from rlx.learner.batch import collate
from rlx.learner.packing import Packed
from rlx.learner.rows import rows
from rlx.learner.shares import count, units
from rlx.learner.torch import TorchLearner
from rlx.model.expand import expand
from rlx.protocol.automaton import Automaton, State
from rlx.types import Action, Completion, Fork, Group, Task, Trajectory, Turn

GO, ENDS = 50, 6
"""An action beyond the vocabulary of 50, and what ends a turn once it was chosen; it stands as 3 in a context."""
KL = 0.1


def algorithm(normalisation: Any = "token") -> Algorithm:
    """With steps large enough to be clipped, and a pull to the start."""
    still = Optimizer(lr=0.0, max_gradient_norm=math.inf)
    return cpo(optimizer=still, num_samples=2, eps=0.0, loss=pulled(normalisation))


def pulled(normalisation: Any) -> PolicyLoss:
    return PolicyLoss(kl=KL, kl_over="vocabulary", normalisation=normalisation, constant=1.0)


def test_rule_2_in_numbers() -> None:
    ratio = torch.tensor([1.3, 0.7, 1.3, 0.7, 1.1])
    advantage = torch.tensor([0.9, 0.9, -0.5, -0.5, 0.9])
    vocab = torch.tensor([-1.0, -1.0, -1.0, -1.0, 0.0])
    reference = torch.tensor([-1.3, -1.0, -0.8, -1.0, 0.0])
    tokens = Tokens(
        now={"logp": ratio.log() - 2, "vocab_logp": vocab, "entropy": torch.zeros(5)},
        old={"logp": torch.full((5,), -2.0)},
        reference={"logp": torch.zeros(5), "vocab_logp": reference},
        advantage=advantage,
        weight=torch.ones(5),
        **dict.fromkeys(("row", "trajectory", "group"), torch.zeros(5, dtype=torch.long)),
    )
    surrogate = [1.2 * 0.9, 0.7 * 0.9, 1.3 * -0.5, 0.8 * -0.5, 1.1 * 0.9]
    kl = [math.exp(-0.3) - 1 + 0.3, 0.0, math.exp(0.2) - 1 - 0.2, 0.0, 0.0]
    expected = -sum(s - KL * k for s, k in zip(surrogate, kl)) / 5
    totals = Totals(num_tokens=5, num_rows=1, num_trajectories=1, num_groups=1)
    assert algorithm().loss(tokens, totals).value.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("normalisation", "weights"),
    [
        ("token", [1 / 18] * 5),
        # a mean over 4: twin 2 with its prefix of 2 tokens, twin 3 with its prefix of 3, and two of the other group
        ("constant", [1 / 4] * 5),
        ("sequence", [1 / 5 / 4, 1 / 6 / 4, 1 / 5 / 4, 1 / 6 / 4, 1 / 4 / 4]),
    ],
)
def test_a_twin_and_its_prefix_are_one_trajectory_in_numbers(normalisation: str, weights: list[float]) -> None:
    """The weight of a token in the loss, by hand: of the prefixes of both twins, of both twins, and of a success."""
    groups = groups_of()
    batch = collate(groups)
    batch = batch.with_credit(algorithm().credit(rows(groups, batch)))
    totals = count(batch, units(batch, "trajectory"))
    assert (totals.num_tokens, totals.num_trajectories, totals.num_groups) == (18, 4, 2)
    trajectory = batch.trajectory_R[batch.row_M]
    of_each = [next(m for m, t in enumerate(trajectory.tolist()) if t == one) for one in range(5)]
    logp = torch.zeros(batch.num_tokens, requires_grad=True)
    tokens = Tokens(
        now={"logp": logp, "entropy": torch.zeros(18)},
        old={"logp": torch.zeros(18)},
        reference={},
        advantage=torch.ones(18),
        weight=torch.ones(18),
        row=batch.row_M,
        trajectory=trajectory,
        length=batch.length_M,
        group=batch.group_R[batch.row_M],
    )
    loss = policy_loss(clip(0.2, 0.2), PolicyLoss(normalisation=normalisation, constant=1.0))  # type: ignore[arg-type]
    (-loss(tokens, totals).value).backward()
    assert logp.grad is not None
    assert logp.grad[of_each].tolist() == pytest.approx(weights)


def said(prompt: Sequence[int], chosen: Sequence[int], reward: float = 0.0) -> Turn:
    states, at = [], 0
    for one in chosen:
        states.append(at)
        at = 1 if one == GO else at
    done = Completion(
        token_ids=tuple(3 if one == GO else one for one in chosen),
        chosen_ids=tuple(chosen),
        mask_ids=tuple(states),
        logprobs=(0.0,) * len(chosen),
        stop="stop",
    )
    action = Action(kind="answer", text="")
    return Turn(prompt_ids=tuple(prompt), completion=done, action=action, reward=reward)


def episode(task: Task, sample: int, *turns: Turn, fork: Fork | None = None) -> Trajectory:
    return Trajectory(task=task, sample=sample, turns=turns, status="done", fork=fork)


def groups_of() -> list[Group]:
    """In the first all failed: a twin of one turn, and one that leaves its episode's second turn. In the second one of
    two succeeded."""
    lost, won = (Task(id=name, prompt=(), data={}) for name in ("lost", "won"))
    begun = said([1, 2, 7], [8, 11])
    second = [1, 2, 7, 8, 11, 12]
    return [
        Group(
            task=lost,
            trajectories=(
                episode(lost, 0, said([1, 2, 7], [8, 9, 10, 2], reward=-0.1)),
                episode(lost, 1, begun, said(second, [9, 13, 2])),
                episode(
                    lost,
                    2,
                    said([1, 2, 7], [8, 9, GO, 5, ENDS], reward=0.8),
                    fork=Fork(parent=0, turn=0, token=2, forced=(GO,), learned=True),
                ),
                episode(
                    lost,
                    3,
                    begun,
                    said(second, [9, GO, 4, ENDS], reward=-0.5),
                    fork=Fork(parent=1, turn=1, token=1, forced=(GO,), learned=True),
                ),
            ),
        ),
        Group(
            task=won,
            trajectories=(
                episode(won, 0, said([1, 7], [GO, 5, 4, ENDS], reward=1.0)),
                episode(won, 1, said([1, 7], [10, 11, 2])),
            ),
        ),
    ]


TRAINED = {("lost", 2): 0.8 - -0.1, ("lost", 3): -0.5 - 0.0, ("won", 0): 0.5 / 0.5**0.5, ("won", 1): -0.5 / 0.5**0.5}
"""D.2: which trajectories f is of, and with which advantage a."""


def automaton_of(model: Any) -> Automaton:
    text = State(moves={GO: 1})
    inside = State(allowed=frozenset({4, 5, ENDS}), ends=frozenset({ENDS}))
    return Automaton(states=(text, inside), actions=expand(model, {"go": (3,)}))


def columns(model: Any, automaton: Automaton, turn: Turn) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probs of what was chosen under its mask, and among the vocabulary alone (0 for an action), by the model's own
    attention."""
    done = turn.completion
    hidden = model.model(torch.tensor([[*turn.prompt_ids, *done.token_ids]])).last_hidden_state[0]
    head = torch.cat((model.get_output_embeddings().weight, model.action_rows))
    z = hidden[len(turn.prompt_ids) - 1 : -1] @ head.T
    free = torch.tensor([[automaton.states[at].allows(i) for i in range(len(head))] for at in done.mask_ids])
    z = z.masked_fill(~free, -1e30)
    chosen = torch.tensor(done.chosen_ids)[:, None]
    among = z[:, :GO].log_softmax(-1).gather(1, chosen.clamp(max=GO - 1))[:, 0]
    return z.log_softmax(-1).gather(1, chosen)[:, 0], among.masked_fill(chosen[:, 0] == GO, 0.0)


def with_old(model: Any, automaton: Automaton, groups: list[Group]) -> list[Group]:
    """As if they had been sampled by a policy some steps ago: ratios of e^-.4, 1 and e^.4, in turn."""

    def aged(turn: Turn) -> Turn:
        logp, _ = columns(model, automaton, turn)
        old = tuple(x + gap for x, gap in zip(logp.tolist(), cycle((0.4, 0.0, -0.4))))
        return replace(turn, completion=replace(turn.completion, logprobs=old))

    return [
        replace(group, trajectories=tuple(replace(t, turns=tuple(map(aged, t.turns))) for t in group.trajectories))
        for group in groups
    ]


def rule_2(model: Any, start: Any, automaton: Automaton, groups: list[Group], normalisation: str) -> torch.Tensor:
    """J, to the letter: the sums f of what is trained, by all tokens (`token`), or their mean over trajectories, each
    as it is (`constant`) or by its own number of tokens (`sequence`)."""
    sums, lengths = [], []
    for one in (t for group in groups for t in group.trajectories):
        a = TRAINED.get((one.task.id, one.sample))
        total, num = torch.zeros(()), 0
        for index, turn in enumerate(one.turns if a is not None else ()):
            logp, among = columns(model, automaton, turn)
            with torch.no_grad():
                _, reference = columns(start, automaton, turn)
            old = torch.tensor(turn.completion.logprobs)
            if one.fork is not None and index == one.fork.turn:  # what was forced was not sampled: its ratio is 1
                old[one.fork.token] = logp[one.fork.token].detach()
            ratio, d = (logp - old).exp(), among - reference
            gain = torch.minimum(ratio * a, ratio.clamp(0.8, 1.2) * a)
            total = total + (gain - KL * ((-d).exp() - 1 + d)).sum()
            num += len(logp)
        if num:
            sums.append(total)
            lengths.append(num)
    f, length = torch.stack(sums), torch.tensor(lengths)
    assert length.tolist() == [5, 6, 4, 3]
    return {"token": f.sum() / length.sum(), "constant": f.mean(), "sequence": (f / length).mean()}[normalisation]


@pytest.mark.parametrize("normalisation", ["token", "constant", "sequence"])
@pytest.mark.parametrize("budget", [10_000, 1])
def test_both_branches_are_the_gradient_of_rule_2(model: Callable[..., Any], normalisation: str, budget: int) -> None:
    network = model().double()  # the sums of float32 differ by their order
    automaton = automaton_of(network)
    start, learner = copy.deepcopy(network), learner_of(network, automaton, budget)
    with torch.no_grad():
        for p in learner.model.parameters():
            p.add_(0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())))
    plain = copy.deepcopy(learner.model)
    plain.set_attn_implementation("eager")
    groups = with_old(plain, automaton, groups_of())

    chosen = algorithm(normalisation)
    batch = learner.annotate(collate(groups), chosen.needs)
    batch = batch.with_credit(chosen.credit(rows(groups, batch)))
    found: list[dict[str, torch.Tensor]] = []
    move = learner.move
    learner.move = lambda: found.append(gradients(learner.model)) or move()  # type: ignore[method-assign,func-returns-value]
    learner.update(batch, chosen.loss)

    objective = rule_2(plain, start, automaton, groups, normalisation)
    (-objective).backward()
    expected = gradients(plain)
    assert expected.keys() == found[0].keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[0][name], gradient, atol=1e-6, rtol=1e-4, msg=name)
    assert expected["action_rows"].abs().max() > 1e-3


def learner_of(network: Any, automaton: Automaton, budget: int = 10_000) -> TorchLearner:
    return TorchLearner(
        network,
        optimizer=algorithm().optimizer,
        num_steps=1,
        automaton=automaton,
        needs=frozenset({"reference"}),
        micro_batch_tokens=budget,
    )


def gradients(model: Any) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def test_forced_tokens_are_measured_with_their_trajectories_alone(model: Callable[..., Any]) -> None:
    network = model()
    learner = learner_of(network, automaton_of(network))
    batch = collate(groups_of())
    whole = learner.measure(batch)["logp"]
    seen: list[int] = []
    score = learner.score

    def counted(packed: Packed, state_m: torch.Tensor) -> Columns:
        seen.extend(packed.token_m.tolist())
        return score(packed, state_m)

    learner.score = counted  # type: ignore[method-assign]
    known = learner.annotate(batch, frozenset()).engine_logp_M
    is_forced = batch.engine_logp_M.isnan()
    assert is_forced.sum() == 2
    torch.testing.assert_close(known[is_forced], whole[is_forced])
    assert known[~is_forced].equal(batch.engine_logp_M[~is_forced])
    of_twins = [m for m, row in enumerate(batch.row_M.tolist()) if batch.trajectory_R[row] in (2, 3)]
    assert sorted(seen) == of_twins
