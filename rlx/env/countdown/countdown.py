"""Countdown: reach a target with each of some numbers once, by + - * /, checking candidates with Python on the way.

The task and its reward are those of "Cost-Aware Tool-Integrated Reasoning for Countdown Arithmetic", section 3. The
splits cannot overlap: a hash of the sorted numbers and the target says to which a problem belongs, whatever the preset,
seed or source it comes from.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice, product
from math import inf, isclose
from typing import ClassVar, Literal

from rlx.base.limits import MANY, refuse, within
from rlx.env.countdown.data_set import MAX_NUMBER, MAX_NUMBERS, check_rows, is_solvable, load_rows
from rlx.env.countdown.expression import Candidate, random_candidate, verify
from rlx.env.countdown.traces import random_tries, right_candidate, spoken, stage_moves, wrong_candidates
from rlx.env.hub import DataError, edition, is_elsewhere
from rlx.environment import Environment, Episode
from rlx.tool.python import Python
from rlx.tool.tool import use_of
from rlx.types import Action, Move, Step, Task, Text, ToolUse

MAX_TARGET = 10**15
"""Largest target that a float holds without rounding."""
MAX_DRAWS = 20_000
"""Draws in a row without a new problem after which a preset is taken to have none left."""
ONE_IN = 8
"""One problem in this many belongs to the test split."""

PROMPT = (
    "Using the numbers {numbers}, create an equation that equals {target}. "
    "Use each number exactly once and return the final answer in <answer> tags."
)


@dataclass(frozen=True, kw_only=True)
class Countdown(Environment):
    """Problems, the tool and equation 1 of the paper:

    R = R_correct - lambda_call N_calls - lambda_token N_tokens - lambda_error N_failed - lambda_mismatch N_mismatches

    N_failed is the number of "invalid or failed Python executions": a malformed call is a failed call too. A mismatch
    is an answer although the latest successful observation is not the target.
    """

    tools: ClassVar = (Python.verb,)
    reward_only_keys: ClassVar = (
        "num_test",
        "verifier",
        "lambda_call",
        "lambda_token",
        "lambda_error",
        "lambda_mismatch",
        "count_malformed",
    )
    """Keys that do not change demonstrations: runs with different values share supervised warm starts."""

    numbers: tuple[int, ...] = (3, 4)
    """Numbers per problem: one of these, drawn evenly (each from 2 to 6)."""
    low: int = 1
    """Smallest number."""
    high: int = 99
    """Largest number."""
    target_low: int = 10
    """Smallest target."""
    target_high: int = 100
    """Largest target."""
    require_product: bool = False
    """Keep only problems that sums and differences do not solve: every solution needs * or /."""
    source: Literal["generated", "hub"] = "generated"
    """Source of the problems: generated (seeded problems of the ranges above) or hub (the data set below, taken as
    it comes)."""
    hub: str = "asingh15/countdown_tasks_3to4"
    """A data set's name, a folder or a jsonl file with columns nums and target (source=hub)."""
    num_test: int = 500
    """Test problems, the same for every seed; a hash of the problem keeps them out of training."""
    max_rounds: int = 8
    """Tool calls and invalid turns an episode may have; one more ends it, truncated."""
    max_wrong: int = 7
    """Largest number of wrong candidates before the right one in a demonstration."""
    verifier: Literal["binary", "format"] = "binary"
    """Reward of a wrong answer: binary 0, format 0.1; a right one has 1."""
    lambda_call: float = 0.02
    """Cost of a tool call."""
    lambda_token: float = 0.0
    """Cost of a token of tool output."""
    lambda_error: float = 0.1
    """Cost of a call that fails."""
    lambda_mismatch: float = 0.3
    """Cost of answering although the latest observation is not the target."""
    count_malformed: bool = True
    """Count a call that could not be read (an unclosed <python>, say) as a failed call."""
    python: Python = field(default_factory=lambda: Python(max_characters=300))
    """The Python interpreter and the limits of one call."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", tuple(self.numbers))
        if not self.numbers or not all(2 <= size <= MAX_NUMBERS for size in self.numbers):
            refuse("numbers", list(self.numbers), f"sizes from 2 to {MAX_NUMBERS}, at least one")
        within(1, MAX_NUMBER, high=self.high)
        within(1, self.high, low=self.low)
        within(1, MAX_TARGET, target_high=self.target_high)
        within(1, self.target_high, target_low=self.target_low)
        within(1, MANY, num_test=self.num_test)
        within(0, MANY, max_rounds=self.max_rounds, max_wrong=self.max_wrong)
        costs = {name: getattr(self, name) for name in ("lambda_call", "lambda_token", "lambda_error")}
        within(0.0, 1e6, **costs, lambda_mismatch=self.lambda_mismatch)
        if self.source == "hub" and not self.hub.strip():
            refuse("hub", self.hub, "a data set's name, a folder or a jsonl file")

    @property
    def is_remote(self) -> bool:
        """Tasks come from a file or a hub: a plan does not wait for them."""
        return self.source == "hub"

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        """Endless `train` problems for a seed, or the fixed `test` problems, which are the same for every seed."""
        if split == "train":
            return of_split(self.problems(f"train/{seed}"), test=False)
        if split == "test":
            return islice(distinct(of_split(self.problems("test"), test=True)), self.num_test)
        raise ValueError(f"split={split}: expected train or test")

    def problems(self, stream: str) -> Iterator[Task]:
        """Endless problems of both splits; `stream` keys the random numbers."""
        rng = random.Random(f"countdown/{stream}")
        return from_hub(self.hub, rng) if self.source == "hub" else generate(self, rng)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Rewards of a wrong answer after the costliest calls, and of a right answer without a call."""
        each = self.lambda_call + self.lambda_error
        return -inf if self.lambda_token else -self.lambda_mismatch - self.max_rounds * each, 1.0

    def check_inputs(self) -> None:
        """Refuse a data set that is here and holds no problems, and an interpreter that cannot be contained."""
        self.python.check_inputs()
        if self.source == "hub":
            check_rows(self.hub)

    @property
    def hub_data(self) -> str:
        """Name of the hub data set; empty for other sources."""
        return self.hub if self.source == "hub" and is_elsewhere(self.hub) else ""

    def data_version(self) -> str:
        """Return the digest of the data set, if the data set is on this machine."""
        return edition(self.hub) if self.source == "hub" else ""

    def start(self, task: Task) -> CountdownEpisode:
        """Start an episode of the task."""
        return CountdownEpisode(self, task)

    def tool_cost(self, tool: ToolUse) -> float:
        """The four penalties of equation 1."""
        return (
            self.lambda_call * tool.num_calls
            + self.lambda_token * tool.num_tokens
            + self.lambda_error * tool.num_failed
            + self.lambda_mismatch * tool.num_mismatches
        )

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterable[Move]:
        """A staged recovery trace: wrong candidates, each rejected by its value, then the verified answer.

        Without the tool it is one thought that does the same in words.
        """
        rng = random.Random(f"countdown/demonstrate/{seed}/{task.id}")
        if "python" in tools and self.max_rounds > 0:
            num_wrong = rng.randint(0, min(self.max_wrong, self.max_rounds - 1))
            return stage_moves(
                [*wrong_candidates(task, num_wrong, rng), right_candidate(task, rng)], task.data["target"]
            )
        num_wrong = rng.randint(0, self.max_wrong)
        return spoken([*wrong_candidates(task, num_wrong, rng), right_candidate(task, rng)], task.data["target"])

    def random_tries(self, task: Task, num: int, seed: int) -> list[str]:
        """The honest floor: distinct random valid expressions, as many as an agent has rounds."""
        return random_tries(task, num, seed)


class CountdownEpisode(Episode):
    """One episode: tool calls, then an answer."""

    def __init__(self, env: Countdown, task: Task) -> None:
        self.env, self.task = env, task
        self.observed: str | None = None
        self.done = False

    def step(self, action: Action) -> Step:
        """Run Python, check an answer, or count an invalid turn."""
        if self.done:
            raise RuntimeError("the episode is over: start another one")
        if action.kind == "answer":
            return self.answer(action.text)
        if action.kind == "invalid":
            malformed = int(self.env.count_malformed and action.name == "python")
            tool = ToolUse(num_calls=malformed, num_failed=malformed)
            return Step(observation=(Text(f"Error: {action.text}"),), tool=tool)
        return self.call(action.name, action.text)

    def call(self, name: str, code: str) -> Step:
        if name != "python":
            return Step(observation=(Text("Error: the only tool is python"),), tool=ToolUse(num_calls=1, num_failed=1))
        result = self.env.python.run(code)
        if not result.failed:
            self.observed = result.output
        return Step(observation=(Text(result.output),), tool=use_of(result))

    def answer(self, text: str) -> Step:
        self.done = True
        target = self.task.data["target"]
        success = verify(text, self.task.data["numbers"], target)
        reward = 1.0 if success else 0.1 if self.env.verifier == "format" else 0.0
        mismatch = self.observed is not None and not shows(self.observed, target)
        return Step(reward=reward, done=True, success=success, tool=ToolUse(num_mismatches=int(mismatch)))


def shows(observed: str, target: int) -> bool:
    """Return whether an observation is the target, as a number (196 / 2 shows 98.0) and up to a float's rounding."""
    try:
        return isclose(float(observed), target, rel_tol=1e-9)
    except ValueError:
        return False


# Problems.


def describe(numbers: Sequence[int], target: int) -> Task:
    """The task to make `target` from `numbers`."""
    numbers = list(numbers)
    prompt = PROMPT.format(numbers=numbers, target=target)
    identity = f"{','.join(map(str, numbers))}={target}"
    return Task(id=identity, prompt=(Text(prompt),), data={"numbers": numbers, "target": target})


def canonical(task: Task) -> str:
    """The problem itself, whatever the order of its numbers."""
    return f"{sorted(task.data['numbers'])}={task.data['target']}"


def held_out(task: Task) -> bool:
    """Return whether a problem belongs to the test split."""
    return sha256(canonical(task).encode()).digest()[0] % ONE_IN == 0


def of_split(tasks: Iterable[Task], *, test: bool) -> Iterator[Task]:
    """Yield the tasks of one split; an error once no more of them come."""
    num_others = 0
    for task in tasks:
        num_others += 1
        if held_out(task) == test:
            num_others = 0
            yield task
        if num_others > MAX_DRAWS:
            raise DataError(
                f"all problems of these ranges belong to the {'train' if test else 'test'} split; widen them"
            )


def distinct(tasks: Iterable[Task]) -> Iterator[Task]:
    """Yield each problem once; an error once no new one comes."""
    problems: set[str] = set()
    num_repeats = 0
    for task in tasks:
        num_repeats += 1
        if canonical(task) not in problems:
            problems.add(canonical(task))
            num_repeats = 0
            yield task
        if num_repeats > MAX_DRAWS:
            raise DataError(f"only {len(problems)} test problems exist in these ranges; widen them, or ask for fewer")


def generate(env: Countdown, rng: random.Random) -> Iterator[Task]:
    """Endless solvable problems: the value of a random expression, where it is a target."""
    num_failures = 0
    while num_failures < MAX_DRAWS:
        numbers = [rng.randint(env.low, env.high) for _ in range(rng.choice(env.numbers))]
        candidate = random_candidate(numbers, rng)
        num_failures += 1
        if is_target(env, numbers, candidate):
            num_failures = 0
            yield describe(numbers, int(candidate.value))
    raise DataError(f"{MAX_DRAWS} draws gave no problem; widen low..high, target_low..target_high or numbers")


def is_target(env: Countdown, numbers: Sequence[int], candidate: Candidate) -> bool:
    value = candidate.value
    if not env.target_low <= value <= env.target_high or value % 1:
        return False
    if isinstance(value, float) and not verify(candidate.text, numbers, int(value)):
        return False  # a fraction that rounding made whole
    return not (env.require_product and sums_to(numbers, int(value)))


def sums_to(numbers: Sequence[int], target: int) -> bool:
    """Return whether + and - alone make the target: its numbers with some choice of signs."""
    return any(
        target == sum(sign * number for sign, number in zip(signs, numbers))
        for signs in product((1, -1), repeat=len(numbers))
    )


def from_hub(name: str, rng: random.Random) -> Iterator[Task]:
    """Endless passes over a data set's solvable problems, each in a new order."""
    rows = load_rows(name)
    while True:
        num_found = 0
        for index in rng.sample(range(len(rows)), len(rows)):
            numbers, target = rows[index]
            if is_solvable(tuple(numbers), target):
                num_found += 1
                yield describe(numbers, target)
        if not num_found:
            raise DataError(f"env.hub={name}: it has no solvable problem")
