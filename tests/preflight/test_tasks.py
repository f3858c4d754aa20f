"""Tasks that a run cannot have, and prompts without room, are refused before it begins."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from rlx.env.countdown.countdown import Countdown
from rlx.env.mixed.mixture import Mixture, Portion
from rlx.plan import tasks
from rlx.plan.prospect import Prospect
from rlx.run.run import Run
from rlx.types import Action, Move
from tests.errors import raises_naming


def check_tasks(run: Run, *, fetch: bool = True) -> None:
    tasks.check_tasks(Prospect(run=run), fetch=fetch)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["env.target_low=100000000", "env.target_high=100000001"], ("env:", "20000 draws")),
        (["env.numbers=[2]", "env.low=10", "env.high=10", "env.target_low=100"], ("env:", "1 test problems")),
        (["env.numbers=[2]", "env.low=9", "env.high=9", "env.target_low=81"], ("env:", "train split")),
        (
            ["sampling.max_context=20", "sampling.max_new_tokens=4", "evaluate.max_new_tokens=4"],
            ("sampling.max_context=20",),
        ),
        (["protocol.instruction='Reach {goal}.'"], ("protocol.instruction:", "goal")),
        (["protocol.instruction='Use {actions}.'"], ("protocol.instruction:", "actions")),
        (["model.max_context=100000"], ("model.max_context=100000", 2048, "nano")),
    ],
)
def test_what_cannot_be_had_is_told_before_a_run(
    small_run: Callable[..., Any], tmp_path: Path, words: list[str], names: tuple[object, ...]
) -> None:
    with raises_naming(ValueError, *names) as error:
        check_tasks(small_run(tmp_path, *words))
    assert error.value.exit_code == 2


def test_tasks_that_come_from_elsewhere_are_not_waited_for(small_run: Callable[..., Any], tmp_path: Path) -> None:
    run = small_run(tmp_path, "env.source=hub", f"env.hub={tmp_path / 'nothing.jsonl'}")
    check_tasks(run, fetch=False)
    with raises_naming(ValueError, "env.hub="):
        check_tasks(run)


@dataclass(frozen=True, kw_only=True)
class Broken(Countdown):
    def start(self, task: Any) -> Any:
        return task.data["maze"]


@dataclass(frozen=True, kw_only=True)
class Silent(Countdown):
    def start(self, task: Any) -> Any:
        return object()


@dataclass(frozen=True, kw_only=True)
class Told(Countdown):
    def tasks(self, split: str, seed: int) -> Any:
        return (replace(task, prompt="Count down.") for task in super().tasks(split, seed))


@dataclass(frozen=True, kw_only=True)
class Hasty(Countdown):
    def random_tries(self, task: Any, num: int, seed: int) -> Any:
        raise KeyError("tries")


@pytest.mark.parametrize(
    ("env", "names"),
    [
        (Broken(), ("env:", "KeyError: 'maze'")),
        (Silent(), ("env:", "rlx.environment.Episode")),
        (Told(), ("env:", "'Count down.'", "(Text(…),)")),
        (Hasty(), ("env:", "KeyError: 'tries'")),
    ],
)
def test_a_fault_of_an_environment_is_one_line(
    small_run: Callable[..., Any], tmp_path: Path, env: Countdown, names: tuple[str, ...]
) -> None:
    run = small_run(tmp_path)
    object.__setattr__(run, "env", env)
    with raises_naming(ValueError, *names):
        check_tasks(run)


@dataclass(frozen=True, kw_only=True)
class Confused(Countdown):
    def demonstrate(self, task: Any, seed: int, tools: Any) -> Any:
        yield Move(thought="", action=Action(kind="act", name="jump", text=""))


@dataclass(frozen=True, kw_only=True)
class Bare(Countdown):
    """Whose expert yields what it was told to."""

    def demonstrate(self, task: Any, seed: int, tools: Any) -> Any:
        yield Action(kind="answer", text="1")


@dataclass(frozen=True, kw_only=True)
class Idle(Countdown):
    def demonstrate(self, task: Any, seed: int, tools: Any) -> Any:
        return iter(())


@dataclass(frozen=True, kw_only=True)
class Stuck(Countdown):
    def demonstrate(self, task: Any, seed: int, tools: Any) -> Any:
        yield from islice(super().demonstrate(task, seed, ("python",)), 1)
        raise KeyError("next")


@pytest.mark.parametrize(
    ("env", "names"),
    [
        (Confused(), ("env:", "expert's move 1", "act jump ''", "protocol:")),
        (Bare(), ("env:", "expert fails", "Action(", "Move(thought=…, action=Action")),
        (Idle(), ("env:", "expert", "no move")),
        (Stuck(), ("env:", "expert fails", "1 move", "KeyError", "test_tasks.py", "'next'")),
    ],
)
def test_an_expert_is_tried_where_it_is_to_be_copied(
    small_run: Callable[..., Any], tmp_path: Path, env: Countdown, names: tuple[str, ...]
) -> None:
    for words, fails in ((["warm_start=none"], False), (["warm_start=tool_sft", "warm_start.steps=1"], True)):
        run = small_run(tmp_path, *words)
        object.__setattr__(run, "env", env)
        with raises_naming(ValueError, *names) if fails else nullcontext() as error:
            check_tasks(run)
        assert "\n" not in str(error and error.value)


def test_every_part_of_a_mixture_is_looked_at(small_run: Callable[..., Any], tmp_path: Path) -> None:
    run = small_run(tmp_path)
    parts = {"good": Portion(env=Countdown(), weight=9.0), "bad": Portion(env=Broken())}
    object.__setattr__(run, "env", Mixture(parts=parts))
    with raises_naming(ValueError, "KeyError"):
        check_tasks(run)
