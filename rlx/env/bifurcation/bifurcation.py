"""A controlled task for credit: a few turns decide, others do not, and every value is known exactly.

    Pass 6 doors: say left, right or up_up_up at each, or stop.
    door 1, B, right?  ->  right  ->  door 2, A  ->  up_up_up  ->  ...  ->  the share of critical doors passed right

A door's letter tells its right move (A the first, B the second, ...), which counts at critical doors alone. A hint is
what a policy that was shown the task by its expert is sure of. `alignment` is the dial from entropy to criticality: at
1 only critical doors are without a hint, so the policy is least sure where it matters; at 0 only critical doors have
one. `misleading` is the share of hints at critical doors that are wrong: there the policy is sure, and wrong.
rlx/env/bifurcation/rules.py has the rules, rlx/env/bifurcation/exact_values.py the exact values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from string import ascii_uppercase
from typing import Any, ClassVar, Literal

from rlx.base.limits import LARGEST, MANY, refuse, within
from rlx.base.stream import stream_of
from rlx.env.bifurcation.exact_values import Outcome
from rlx.env.bifurcation.rules import INVALID, STOP, End, Rules, State
from rlx.env.split import split_tasks
from rlx.environment import Environment, Episode
from rlx.types import Action, Move, Step, Task, Text, Verb

WORDS = ("left", "right", "up", "open", "go", "swap")
"""Names of moves: each is one token for the embedded model, and for common tokenizers."""
MOST_DOORS = 20
MOST_CRITICAL = 8
MOST_TURNS = 100


@dataclass(frozen=True, kw_only=True)
class Bifurcation(Environment):
    """The reward is that of the marks at the last door, or that of stopping, and `mark_reward` for marks on the way."""

    pace: ClassVar = "inline"
    reward_only_keys: ClassVar = ("num_test",)

    num_doors: int = 6
    """Doors of an episode."""
    num_moves: int = 3
    """Number of moves at a door: the first of left, right, up, open, go, swap."""
    num_letters: int = 3
    """Number of letters on doors; letter n stands for move n, cyclically."""
    critical: tuple[int, ...] = (2, 5)
    """Numbers of the critical doors, from 1; at all other doors every move has the same effect."""
    cycles: tuple[int, ...] = (4,)
    """Doors at which one move, drawn for each task, leads back to the door before."""
    slip: float = 0.1
    """Probability that a critical door inverts the result of a move."""
    alignment: float = 0.5
    """Dial between entropy and criticality. 1: only non-critical doors have hints, so a policy that follows hints is
    unsure at critical doors; 0: only critical doors have hints; between: share of doors that follow the rule of 1."""
    misleading: float = 0.5
    """Share of wrong hints at critical doors, where the policy is then sure and wrong."""
    aliased: bool = True
    """Hide the agent's marks and the turn's number from it, so that states of different values look the same."""
    end: End = "mean"
    """Reward of the last door: mean of the marks of critical doors, or 1 if all are right."""
    mark_reward: float = 0.1
    """Immediate reward for a right mark; a cycle takes it back."""
    stop_reward: float | None = 0.3
    """Reward of the action stop, which ends the episode; null: no such action."""
    invalid_penalty: float = 0.1
    """Price of a turn that is no action."""
    long_word: int = 3
    """Repetitions of the last move's word in its name (up_up_up), so that turns differ in tokens."""
    max_turns: int = 12
    """Turns of an episode."""
    expert: Literal["habit", "right"] = "habit"
    """Policy of demonstrations: habit follows hints, right makes the right moves."""
    sureness: float = 0.9
    """Probability that the habit follows a hint; else it makes any move."""
    stops: float = 0.05
    """Probability that the habit stops, at any door but the first."""
    num_test: int = 200
    """Test tasks, at most."""

    def __post_init__(self) -> None:
        within(1, MOST_DOORS, num_doors=self.num_doors)
        within(2, len(WORDS), num_moves=self.num_moves)
        within(2, len(ascii_uppercase), num_letters=self.num_letters)
        for name in ("critical", "cycles"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        refuse_doors("critical", self.critical, 1, self.num_doors)
        refuse_doors("cycles", self.cycles, 2, self.num_doors)
        if not 1 <= len(self.critical) <= MOST_CRITICAL:
            refuse("critical", list(self.critical), f"1 to {MOST_CRITICAL} doors")
        if set(self.cycles) & set(self.critical):
            refuse("cycles", list(self.cycles), f"doors other than critical={list(self.critical)}")
        shares = {name: getattr(self, name) for name in ("slip", "alignment", "misleading", "sureness", "stops")}
        within(0.0, 1.0, **shares)
        within(0.0, LARGEST, mark_reward=self.mark_reward, invalid_penalty=self.invalid_penalty)
        within(-LARGEST, LARGEST, stop_reward=self.stop_reward)
        within(1, 20, long_word=self.long_word)
        within(1, MOST_TURNS, max_turns=self.max_turns)
        within(1, MANY, num_test=self.num_test)

    @cached_property
    def moves(self) -> tuple[str, ...]:
        *short, last = WORDS[: self.num_moves]
        return (*short, "_".join([last] * self.long_word))

    @cached_property
    def actions(self) -> tuple[Verb, ...]:
        moves = tuple(Verb(name=name, description=f"say {name}") for name in self.moves)
        if self.stop_reward is None:
            return moves
        everywhere = tuple(
            Verb(name=move.name, description=move.description, when=("first", "later")) for move in moves
        )
        return (*everywhere, Verb(name=STOP, description="stop here", when=("later",)))

    @property
    def reward_range(self) -> tuple[float, float]:
        stop = 0.0 if self.stop_reward is None else self.stop_reward
        marks = self.mark_reward * len(self.critical)
        return min(0.0, stop) - self.invalid_penalty * self.max_turns, max(1.0, stop) + marks

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return split_tasks("bifurcation", self.draw, split, seed, self.num_test)

    def draw(self, rng: Random) -> Task:
        return self.describe(rng.randrange(10**9))

    def describe(self, number: int) -> Task:
        """Return task `number`: letters, hints and loops are drawn from the number alone."""
        rng = Random(f"bifurcation/{number}")
        letters = [rng.randrange(self.num_letters) for _ in range(self.num_doors)]
        loops = [rng.randrange(self.num_moves) for _ in range(self.num_doors)]
        hints = [self.hint(rng, door, letter % self.num_moves) for door, letter in enumerate(letters, 1)]
        last = " or ".join(filter(None, (", ".join(self.moves[:-1]), self.moves[-1])))
        text = f"Pass {self.num_doors} doors: say {last} at each{', or stop' if self.stop_reward is not None else ''}."
        data = {
            "number": number,
            "letters": "".join(ascii_uppercase[letter] for letter in letters),
            "loops": [loop if door in self.cycles else -1 for door, loop in enumerate(loops, 1)],
            "hints": hints,
        }
        return Task(id=str(number), prompt=(Text(text),), data=data)

    def hint(self, rng: Random, door: int, right: int) -> int:
        """Draw the hint of a door; -1: none. Every door draws as many numbers, so that the dial moves nothing else."""
        is_aligned, is_wrong = rng.random() < self.alignment, rng.random() < self.misleading
        wrong, other = (right + 1 + rng.randrange(self.num_moves - 1)) % self.num_moves, rng.randrange(self.num_moves)
        is_critical = door in self.critical
        if is_critical == is_aligned:
            return -1
        return (wrong if is_wrong else right) if is_critical else other

    def rules(self, task: Task) -> Rules:
        """Return the decision process of a task."""
        data: Mapping[str, Any] = task.data
        return Rules(
            moves=self.moves,
            critical=tuple(door - 1 for door in self.critical),
            right=tuple(ascii_uppercase.index(letter) % self.num_moves for letter in data["letters"]),
            loops=tuple(data["loops"]),
            hints=tuple(data["hints"]),
            letters=data["letters"],
            slip=self.slip,
            end=self.end,
            mark_reward=self.mark_reward,
            stop_reward=self.stop_reward,
            invalid_penalty=self.invalid_penalty,
            max_turns=self.max_turns,
            aliased=self.aliased,
        )

    def start(self, task: Task) -> BifurcationEpisode:
        return BifurcationEpisode(self.rules(task), task.data["number"])

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """Follow the habit, or make the right moves."""
        rng, episode = Random(f"bifurcation/demonstrate/{seed}/{task.id}"), self.start(task)
        while episode.state is not None:
            name = self.choose(episode.rules, episode.state, rng)
            action = Action(kind="act", name=name, text="")
            yield Move(thought=f"I say {name}.", action=action)
            episode.step(action)

    def choose(self, rules: Rules, state: State, rng: Random) -> str:
        if self.expert == "right":
            number = rules.right[state.door]
            return rules.moves[number if number != rules.loops[state.door] else number - 1]
        chances = rules.habit(state, self.sureness, self.stops)
        return rng.choices(list(chances), list(chances.values()))[0]


class BifurcationEpisode(Episode):
    """A walk through the doors. Chance depends on the luck of the turn and on the action, so that a fork with another
    action has other luck; where nobody gives luck, the task and the state key it."""

    def __init__(self, rules: Rules, number: int) -> None:
        self.rules, self.number = rules, number
        self.state: State | None = rules.start
        self.luck: int | None = None

    def opening(self) -> Step:
        return self.see(0.0)

    def set_luck(self, luck: int) -> None:
        self.luck = luck

    def step(self, action: Action) -> Step:
        if self.state is None:
            return Step(done=True, success=False)
        before, name = self.state, action.name if action.kind == "act" else INVALID
        outcome = self.drawn(self.rules.outcomes(before, name), before, name)
        self.state, self.luck = outcome.state, None
        if outcome.state is not None:
            why = f"Error: {action.text:.100}\n" if action.kind == "invalid" else ""
            return self.see(outcome.reward, why)
        return Step(
            reward=outcome.reward,
            done=True,
            truncated=outcome.success is None,
            success=bool(outcome.success),
            metrics={"stopped": float(name == STOP)},
        )

    def drawn(self, outcomes: Sequence[Outcome[State]], state: State, name: str) -> Outcome[State]:
        """Draw an outcome by the luck of the turn."""
        key = (self.number, state) if self.luck is None else (self.luck,)
        left = stream_of("bifurcation", *key, name) / 2**64
        for outcome in outcomes[:-1]:
            left -= outcome.probability
            if left < 0:
                return outcome
        return outcomes[-1]

    def see(self, reward: float, why: str = "") -> Step:
        assert self.state is not None
        return Step(
            observation=(Text(f"{why}{self.rules.text(self.state)}"),),
            reward=reward,
            legal=self.rules.legal(self.state),
        )


def refuse_doors(name: str, doors: Sequence[int], least: int, most: int) -> None:
    if len(set(doors)) < len(doors) or not all(least <= door <= most for door in doors):
        refuse(name, list(doors), f"different integers from {least} to {most}")
