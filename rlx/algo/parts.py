"""An algorithm: where rollouts start, what each decision was worth, how tokens move.

An algorithm is a value, `Algorithm`, made by a function `rlx.algo.X.X`. Its pieces are in `credit.py` and `gae.py`
(advantages), `losses.py` (token losses) and `samplers.py`. Nothing here imports torch when the module is imported, so
that a command that only reads signatures starts at once.

Legend: m trained tokens of one micro-batch, in row-major order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from rlx.algo.entry import Entry, Probe
from rlx.algo.rows import Rows
from rlx.base.limits import LARGEST, MANY, above, at_least, refuse, within
from rlx.types import Group, Metrics, Start, Task, Trajectory

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerContext:
    """Arguments of a sampler's coroutine."""

    task: Task
    entries: Sequence[Entry] = ()
    """Ways to enter the verbs of the task's environment, which a protocol may have."""
    rng: Random = field(default_factory=lambda: Random(0))
    """Random numbers for this task, step and repetition alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Request of a coroutine: begin episodes, then wait for the oldest `wait` of all that are under way.

    Episodes come back in the order in which they were begun, whichever ends first. So the same seed gives the same
    tree on any number of processes and at any speed.
    """

    starts: Sequence[Start | Probe] = ()
    wait: int = 1


Growth = Generator[Sequence[Start | Probe] | Ask, Any, Group]
"""Coroutine of a sampler for one task: it yields starts (and waits for all) or an `Ask`, receives trajectories, and
returns the group. Its samples are numbered from 0, each number once; the parent of a fork is in its group too. It may
also yield probes, and receives their log-probs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """Starts and forks of the rollouts of each task."""

    num_episodes: int
    """Fresh episodes of a task. A task that begins more episodes than this and `num_forks` together is refused."""
    num_forks: int = 0
    """Episodes of a task that begin inside another of its episodes. Fresh ones may be begun in place of some."""
    forks_always: bool = False
    """True if all forks are played, whatever the episodes earn."""
    fork_turns: Callable[[int], float] | None = None
    """Function from the turns T of an episode to the turns that all forks of a task sample, for a plan; None: forks
    that are always played begin anywhere, and sample (T + 1) / 2 turns each."""
    grow: Callable[[SamplerContext], Growth] | None = None
    """Coroutine for a task; None: `num_episodes` fresh episodes, which different processes may play."""
    expert: bool = False
    """True if the environment's expert plays in place of the policy, once a task."""
    forces: bool = False
    """True if it forces entries: a run without any is refused."""
    watches: bool = False
    """True if a start may have `watch` or `entropy_of`: log-probs or an entropy of ids that were not sampled."""
    check: Callable[[], None] | None = None
    """Function that refuses, before a run starts, a file that the sampler cannot use."""

    def __post_init__(self) -> None:
        within(0, MANY, num_episodes=self.num_episodes, num_forks=self.num_forks)
        if self.expert and self.grow is not None:
            raise ValueError("a sampler has expert or grow, not both")


class Player(Protocol):
    """A player for a sampler. `rlx.rollout.play` provides it."""

    def sample(self, sampler: Sampler, tasks: Sequence[Task]) -> list[Group]:
        """One Group per task; the growths of all tasks are driven together."""

    def play(self, starts: Sequence[Start]) -> list[Trajectory]:
        """Sample episodes with the policy; the answer is in the order of `starts`."""

    def demonstrate(self, tasks: Sequence[Task]) -> list[Trajectory]:
        """The environment's own expert, acting for real; log-probs are zero."""


Need = Literal["reference"]
"""Columns that the learner must add to a batch beside the usual ones: those under the start policy."""

Columns = Mapping[str, "Tensor"]
"""Figures that the learner computes of each of some tokens, by name.

`logp` is of the token under the sampling's temperature and mask, `entropy` of the whole distribution in nats. A critic
adds `value` before the token and `value_after` it. Actions beyond the vocabulary add `vocab_logp`, a token's log-prob
among the vocabulary alone (0 for an action)."""

Unit = Literal["trajectory", "group"]
"""The part that a micro-batch never splits: a trajectory, or all that is kept of a group."""

Schedule = Literal["constant", "linear", "cosine"]

Beginning = Literal["any", "pretrained", "demonstrations"]
"""Policy before the first update: `pretrained` saw no demonstration, `demonstrations` did; `any` suits the model."""

Space = Literal["any", "text", "entered", "expanded"]
"""Actions of a policy: `text` without tools, `entered` by a tag that a sampler can force, `expanded` beyond the
vocabulary; `any` suits the environment and the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """AdamW, its schedule over the run's steps, and how often one batch is passed over.

    Weight decay touches matrices only. After `warmup_steps` linear steps the learning rate stays (`constant`), or
    stays for `hold_steps` and falls to zero at the run's last step (`linear`, `cosine`).
    """

    lr: float = 3e-4
    """Learning rate of AdamW."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Decay of AdamW's running means of the gradient and of its square."""
    weight_decay: float = 0.0
    """Decoupled decay of matrices; biases and norms have none."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises from zero."""
    hold_steps: int = 0
    """Steps at the full rate after the warmup, before the schedule lets it fall."""
    schedule: Schedule = "constant"
    """Schedule after warmup and hold: constant, or linear or cosine to zero at the last step."""
    max_gradient_norm: float = 1.0
    """Largest norm of the gradient; a longer gradient is scaled down to it."""
    num_epochs: int = 1
    """Passes over each batch (the inner epochs of PPO)."""
    num_minibatches: int = 1
    """Optimizer steps in each pass; groups are never split between them."""
    max_kl: float | None = None
    """Largest KL(sampling policy || policy) on a batch: beyond it, the batch's remaining steps are skipped; null:
    none are."""

    def __post_init__(self) -> None:
        within(0.0, 1.0, lr=self.lr)
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            refuse("betas", list(self.betas), "a list of 2 numbers from 0 to below 1")
        within(0.0, 1000.0, weight_decay=self.weight_decay)
        at_least(0, warmup_steps=self.warmup_steps, hold_steps=self.hold_steps)
        if self.hold_steps and self.schedule == "constant":
            refuse("hold_steps", self.hold_steps, "0 beside schedule=constant, which never falls")
        if not (0 < self.max_gradient_norm <= LARGEST or self.max_gradient_norm == math.inf):
            refuse("max_gradient_norm", self.max_gradient_norm, "a number above 0, or inf for no limit")
        within(1, MANY, num_epochs=self.num_epochs, num_minibatches=self.num_minibatches)
        above(0, max_kl=self.max_kl)


@dataclass(frozen=True, slots=True, kw_only=True)
class Critic:
    """A value head beside the model: one linear map of its last hidden state, from zero (rlx/model/value.py)."""

    lr: float
    """Learning rate of the value head, under the optimizer's schedule. A step moves a value by up to this times the
    model's width, so a large model needs a smaller rate."""

    def __post_init__(self) -> None:
        above(0, 1, lr=self.lr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The view of a loss: columns over the m trained tokens of a micro-batch."""

    now: Columns
    """Columns under the weights as they are, with gradient."""
    old: Columns
    """Columns from before the update: `logp` as in `Rows`, and whatever else the learner measured."""
    reference: Columns
    """Columns of the start policy, where the algorithm needs it; else empty."""
    advantage: Tensor
    """The worth of the token, by credit."""
    returns: Tensor | None = None
    """Targets of `value`, where credit gives them."""
    returns_after: Tensor | None = None
    """Targets of `value_after`, at the last token of each row; not a number at others."""
    weight: Tensor
    """Truncated importance weight between learner and engine; ones where not asked for."""
    row: Tensor
    """Index of the token's row in the batch's `Rows`."""
    trajectory: Tensor
    """Numbers of trajectories as in `Rows`; one is never split over micro-batches."""
    multiplicity: Tensor | None = None
    """Number of times that the token counts in a policy's loss, where credit says; None: each once."""
    length: Tensor | None = None
    """Trained tokens of the trajectory that the token counts as part of; None: the count in `trajectory`."""
    group: Tensor
    """Numbers of groups as in `Rows`; micro-batches may split one, unless the algorithm's `unit` is the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counts over everything one optimizer step learns from, so that losses of micro-batches add up."""

    num_tokens: int
    num_rows: int
    num_trajectories: int
    num_groups: int
    num_copies: float | None = None
    """Sum of the tokens' multiplicities, where credit gives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A micro-batch's share of the loss, and of each metric: shares add up over the micro-batches of a step."""

    value: Tensor
    metrics: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PerRow:
    """Column with a value for each row (a turn), which all tokens of the row have."""

    values: Sequence[float] | Tensor


@dataclass(frozen=True, slots=True)
class PerToken:
    """Column with a sequence for each row: a value for each of its sampled tokens."""

    values: Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credited:
    """The worth of each decision, the critic's target for it, and whether it is learned from."""

    advantage: PerRow | PerToken
    """The worth of each turn, or of each of its sampled tokens."""
    returns: PerRow | PerToken | None = None
    """Targets of `value`, the critic's before each sampled token."""
    returns_after: PerRow | None = None
    """Targets of `value_after`, the critic's after each turn's last token; not a number where nobody knows."""
    keep: PerRow | PerToken | None = None
    """The trained part: what is false (0) here is left out before anything is packed or counted. None keeps all."""
    selected: PerRow | PerToken | None = None
    """The part that the algorithm's rule selects for training, before equal groups and gains of zero are left out of
    it, for a metric alone. None: what is kept."""
    multiplicity: PerRow | PerToken | None = None
    """Number of times that a row or token counts in a policy's loss and its mean over tokens, such as once for each
    leaf below a shared prefix. None: once. What counts 0 times is not kept."""
    counts_as: Sequence[int] | None = None
    """For each row, the trajectory of its group that it counts as in a mean over trajectories; None: its own."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Figures of the step, named `noun/stat` as in metrics.jsonl."""


Credit = Callable[[Rows], Credited]

TokenLoss = Callable[[Tokens, Totals], Loss]


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """Three pure choices and what they need. Nothing else in rlx knows which algorithm runs."""

    sample: Sampler
    credit: Credit
    loss: TokenLoss
    optimizer: Optimizer
    num_prompts: int
    """Batch size in tasks a step."""
    num_turns: int | None = None
    """Number of turns per step: tasks are played in order until their episodes reach it; null: all tasks of the step
    are played."""
    needs: frozenset[Need] = frozenset()
    memory: Memory | None = None
    critic: Critic | None = None
    """Value head beside the model, if any. Credit sees its values under the weights before the update."""
    frozen_policy: bool = False
    """True if rollouts come from the start policy throughout."""
    unit: Unit = "trajectory"
    plain_gradient: bool = False
    """True if the loss neither clips nor weighs the ratio to the policy that sampled: right for one optimizer step."""
    imitates: bool = False
    """True if demonstrations are copied whatever their reward, so that settings of the reward change nothing."""
    start: Beginning = "any"
    """Policy before the first update: pretrained, demonstrations, or any, which suits the model."""
    space: Space = "any"
    """Action space: any, text (no tools), entered (by tags) or expanded (beyond the vocabulary)."""

    def __post_init__(self) -> None:
        check_choices(self)
        within(1, MANY, num_prompts=self.num_prompts)
        within(1, MANY, num_turns=self.num_turns)
        if self.optimizer.num_minibatches > self.num_prompts:
            limit = f"an integer up to num_prompts={self.num_prompts}, as a task's episodes stay together"
            refuse("optimizer.num_minibatches", self.optimizer.num_minibatches, limit)

    @property
    def drifts(self) -> bool:
        """Tell whether later optimizer steps on a batch learn from episodes of a policy that has moved, uncorrected."""
        return self.plain_gradient and self.optimizer.num_epochs * self.optimizer.num_minibatches > 1


def check_choices(algorithm: Algorithm) -> None:
    """Refuse fields of another type, such as a number of samples in place of a sampler."""
    refuse_other(algorithm, "sample", Sampler, "a Sampler, such as independent(8) of rlx.algo.samplers")
    refuse_other(algorithm, "optimizer", Optimizer, "an Optimizer: the yaml needs `optimizer: default` in its defaults")
    refuse_other(algorithm, "critic", Critic | None, "Critic(lr=…) of rlx.algo.parts, or None")
    refuse_other(algorithm, "memory", Memory | None, "Memory(…) of rlx.algo.parts, or None")
    for name in ("credit", "loss"):
        if not callable(value := getattr(algorithm, name)):
            refuse(name, value, f"a function, such as those of rlx.algo.{'credit' if name == 'credit' else 'losses'}")
    if not isinstance(algorithm.needs, Set) or not algorithm.needs <= set(get_args(Need)):
        refuse("needs", algorithm.needs, f"a frozenset of {', '.join(map(repr, get_args(Need)))}, or an empty one")


def refuse_other(algorithm: Algorithm, name: str, kind: Any, expected: str) -> None:
    """Refuse a field that is not of this kind."""
    if not isinstance(value := getattr(algorithm, name), kind):
        refuse(name, value, expected)


State = Mapping[str, Any]
"""State of an algorithm: a small JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Knowledge of an algorithm about its past, as pure functions on a state that is saved with the run.

    A step's rollouts use the state at their launch, its update the state then: the same, unless rollouts run ahead.
    """

    begin: Callable[[], State]
    adapt: Callable[[State, Sequence[Group], Metrics], State]
    """Function that makes the state after a step, of the step's groups and metrics."""
    bind: Callable[[Algorithm, State], Algorithm]


def recall(algorithm: Algorithm, state: State) -> Algorithm:
    """Bind the algorithm to this state of its memory; an algorithm without memory stays unchanged."""
    return algorithm if algorithm.memory is None else algorithm.memory.bind(algorithm, state)


def begin_state(algorithm: Algorithm) -> State:
    return {} if algorithm.memory is None else as_json(algorithm.memory.begin())


def adapt_state(algorithm: Algorithm, state: State, groups: Sequence[Group], metrics: Metrics) -> State:
    """The state for the next step."""
    return state if algorithm.memory is None else as_json(algorithm.memory.adapt(state, groups, metrics))


def as_json(state: State) -> State:
    """Return the state as it would come back from a file, so that a run that was cut off goes on with the very same."""
    return dict(json.loads(json.dumps(state, allow_nan=False)))
