"""A laboratory for credit: an algorithm's own sampler and credit on a task whose true advantages are known.

    tasks --sampler, table policy--> groups --credit--> estimate of each turn   beside   A(s, a), by enumeration
      until the engine has sampled so many tokens, those of Monte Carlo rollouts and of forks among them

A critic is taken to know the truth: its values are exact. So `ppo` here is GAE with a perfect critic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any

from rlx.algo.parts import Algorithm, Credited, PerRow, PerToken
from rlx.algo.rows import Rows
from rlx.base.limits import MistakeError, within
from rlx.env.bifurcation.bifurcation import Bifurcation
from rlx.env.bifurcation.exact_values import Values, exact_values
from rlx.env.bifurcation.rules import INVALID, Rules, State, habit, read_text
from rlx.environment.dialect import Dialect
from rlx.learner.batch import collate
from rlx.learner.rows import Decision, decisions, num_prefix, rows
from rlx.rollout.play import Rollout
from rlx.rollout.table import TableEngine, Words
from rlx.types import Action, Group, Move, Sampling, Task, Trajectory

NONSENSE = "?"
"""Text of the policy's invalid turns."""
ROOM = Sampling(max_new_tokens=64, max_context=100_000)
MOST_ROUNDS = 100_000


class LaboratoryError(MistakeError):
    """An algorithm or environment that the laboratory cannot measure; the message is one line."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The policy of the laboratory: the environment's habit, with a share of invalid turns.

    It reads the text alone, as a model does, so aliased states have the same probabilities.
    """

    env: Bifurcation
    dialect: Dialect
    invalid: float = 0.05
    texts: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Completions of actions, by name."""

    def __post_init__(self) -> None:
        within(0.0, 0.9, invalid=self.invalid)

    def by_name(self, door: int, hint: int) -> dict[str, float]:
        """Return the probability of each action, by its name."""
        stops = self.env.stops if door and self.env.stop_reward is not None else 0.0
        chances = habit(self.env.moves, hint, self.env.sureness, stops)
        valid = {name: (1 - self.invalid) * chance for name, chance in chances.items()}
        return valid | ({INVALID: self.invalid} if self.invalid else {})

    def at(self, rules: Rules, state: State) -> dict[str, float]:
        return self.by_name(state.door, rules.hints[state.door])

    def table(self, context: str) -> Mapping[str, float]:
        """Return the probability of each completion."""
        return {self.say(name): p for name, p in self.by_name(*read_text(context, self.env.moves)).items()}

    def say(self, name: str) -> str:
        if name not in self.texts:
            move = Move(thought="", action=Action(kind="act", name=name, text=""))
            self.texts[name] = self.dialect.write(move) if name != INVALID else f"{NONSENSE}{self.dialect.stops[0]}"
        return self.texts[name]


@dataclass(frozen=True, slots=True)
class Turn:
    """One sampled turn: its estimate beside the truth."""

    task: int
    round: int
    state: State
    action: str
    is_critical: bool
    truth: float
    estimate: float
    """Mean advantage of the tokens that are trained."""
    num_trained: int
    """Tokens that are trained, 0 where credit leaves the turn out."""
    num_zero: int
    """Trained tokens whose advantage is exactly 0."""
    num_tokens: int
    copies: float = 1.0
    """Mean number of times that its trained tokens count in the loss (`Credited.multiplicity`)."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Results of one algorithm."""

    turns: Sequence[Turn]
    values: Sequence[Values[State]]
    """Exact values, by task."""
    policies: Sequence[Mapping[State, Mapping[str, float]]]
    """pi(a | s), by task."""
    texts: Sequence[Mapping[State, str]] = ()
    """Text that the agent reads in each state, by task."""
    tokens: Sequence[int] = field(default_factory=list)
    """Tokens that were sampled, by round."""
    num_turns: int = 0
    """Turns that were sampled, with those of Monte Carlo rollouts that are in no group."""


def measure(algo: Algorithm, policy: Policy, tasks: Sequence[Task], *, tokens: int, seed: int) -> Measured:
    """Play rounds of all tasks until `tokens` tokens are sampled, and at least two; measure every turn's credit."""
    refuse_algorithm(algo)
    rules = [policy.env.rules(task) for task in tasks]
    values = [
        exact_values(task_rules, lambda state, task_rules=task_rules: policy.at(task_rules, state))  # type: ignore[misc]
        for task_rules in rules
    ]
    words, turns, spent = Words(), list[Turn](), list[int]()
    engine = TableEngine(table=policy.table, words=words)
    while (engine.counts.num_sampled < tokens or len(spent) < 2) and len(spent) < MOST_ROUNDS:
        before = engine.counts.num_sampled
        rollout = Rollout(
            env=policy.env,
            speech=words.speech(policy.dialect),
            engine=engine,
            sampling=ROOM,
            stream=("laboratory", seed, len(spent)),
            tool_ticks=1,
        )
        groups = rollout.sample(algo.sample, tasks)
        turns += judge(algo, policy.env, groups, values, len(spent))
        spent.append(engine.counts.num_sampled - before)
    policies = [
        {s: policy.at(task_rules, s) for s in task_values.v}
        for task_rules, task_values in zip(rules, values, strict=True)
    ]
    texts = [
        {state: task_rules.text(state) for state in task_values.v}
        for task_rules, task_values in zip(rules, values, strict=True)
    ]
    return Measured(
        turns=turns, values=values, policies=policies, texts=texts, tokens=spent, num_turns=engine.num_turns
    )


def refuse_algorithm(algo: Algorithm) -> None:
    """Refuse what needs more than rollouts of the policy."""
    if algo.sample.expert or algo.imitates or algo.sample.num_episodes == 0:
        raise LaboratoryError("algo: it learns from demonstrations or stored episodes; choose one that samples")
    if algo.sample.forces:
        raise LaboratoryError("algo: it forces tags into turns, which a table policy has none of; choose another")


def judge(
    algo: Algorithm, env: Bifurcation, groups: Sequence[Group], values: Sequence[Values[State]], number: int
) -> list[Turn]:
    """Return a row for each turn of a round, as credit sees it."""
    failed = next((episode for group in groups for episode in group.trajectories if episode.status == "error"), None)
    if failed is not None:
        raise LaboratoryError(f"an episode of task {failed.task.id} failed: {failed.error:.200}")
    walks = {
        (g, episode.sample): walk(env, episode) for g, group in enumerate(groups) for episode in group.trajectories
    }
    table = list(decisions(groups))
    credit_rows = rows(groups, collate(groups))
    if algo.critic is not None:
        credit_rows = with_exact_values(credit_rows, table, walks, values)
    credited = algo.credit(credit_rows)
    copies = spread(credited.multiplicity, credit_rows.num_tokens)
    return [
        replace(
            row_of(d, walks[d.group, d.episode.sample][d.turn], env, values[d.group], token_advantages, number),
            copies=mean(num),
        )
        for d, token_advantages, num in zip(table, tokens_of(credited, credit_rows.num_tokens), copies, strict=True)
    ]


def mean(copies: Sequence[float]) -> float:
    """Return the mean over trained tokens, those that count more than 0 times."""
    trained = [num for num in copies if num > 0]
    return sum(trained) / len(trained) if trained else 0.0


def walk(env: Bifurcation, trajectory: Trajectory) -> list[tuple[State, str]]:
    """Return the true state of each turn, which the agent may not see, and the name of the action taken there."""
    episode, steps = env.start(trajectory.task), []
    for turn in trajectory.turns:
        assert episode.state is not None
        steps.append((episode.state, turn.action.name if turn.action.kind == "act" else INVALID))
        episode.set_luck(turn.luck)
        episode.step(turn.action)
    return steps


Walks = Mapping[tuple[int, int], Sequence[tuple[State, str]]]


def with_exact_values(
    credit_rows: Rows, table: Sequence[Decision], walks: Walks, values: Sequence[Values[State]]
) -> Rows:
    """Return the rows with the values of a perfect critic: V of the state before a turn, and of the state after it."""

    def value(d: Decision, turn: int) -> float:
        steps = walks[d.group, d.episode.sample]
        return values[d.group].v[steps[turn][0]] if turn < len(steps) else 0.0

    return replace(
        credit_rows,
        value=tuple((value(d, d.turn),) * num for d, num in zip(table, credit_rows.num_tokens, strict=True)),
        value_after=tuple(
            value(d, d.turn + 1) if num else nan for d, num in zip(table, credit_rows.num_tokens, strict=True)
        ),
    )


def tokens_of(credited: Credited, num_tokens: Sequence[int]) -> list[list[float | None]]:
    """Return the advantage of each token of each row; None where it is not trained."""
    worth, keep = spread(credited.advantage, num_tokens), spread(credited.keep, num_tokens)
    return [
        [a if k else None for a, k in zip(advantages, token_keep, strict=True)]
        for advantages, token_keep in zip(worth, keep, strict=True)
    ]


def spread(column: PerRow | PerToken | None, num_tokens: Sequence[int]) -> list[list[float]]:
    """Return a column of credit by tokens; each value is 1 if the column is None."""
    if column is None:
        return [[1.0] * num for num in num_tokens]
    if isinstance(column, PerToken):
        return [list(map(float, token_values)) for token_values in column.values]
    plain: Any = column.values
    return [[float(number)] * num for number, num in zip(plain, num_tokens, strict=True)]


def row_of(
    d: Decision,
    state_action: tuple[State, str],
    env: Bifurcation,
    values: Values[State],
    advantages: Sequence[float | None],
    number: int,
) -> Turn:
    state, action = state_action
    trained = [advantage for advantage in advantages if advantage is not None]
    return Turn(
        task=d.group,
        round=number,
        state=state,
        action=action,
        is_critical=state.door + 1 in env.critical and action in env.moves,
        truth=values.advantage(state, action),
        estimate=sum(trained) / len(trained) if trained else 0.0,
        num_trained=len(trained),
        num_zero=sum(advantage == 0 for advantage in trained),
        num_tokens=len(d.sampled_turn.completion.token_ids) - num_prefix(d),
    )
