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
from rlx.preflight import tasks
from rlx.preflight.prospect import Prospect
from rlx.run.run import Run
from rlx.types import Action, Move


def check_tasks(run: Run, *, fetch: bool = True) -> None:
    tasks.check_tasks(Prospect(run=run), fetch=fetch)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["env.target_low=100000000", "env.target_high=100000001"], "^env: 20000 draws gave no problem"),
        (["env.numbers=[2]", "env.low=10", "env.high=10", "env.target_low=100"], "^env: only 1 test problems exist in"),
        (["env.numbers=[2]", "env.low=9", "env.high=9", "env.target_low=81"], "^env: all problems of these ranges"),
        (["sampling.max_context=20", "sampling.max_new_tokens=4", "evaluate.max_new_tokens=4"], "than a prompt, which"),
        (["protocol.instruction='Reach {goal}.'"], "^protocol.instruction: .* has a task without a goal"),
        (["protocol.instruction='Use {actions}.'"], "^protocol.instruction: the environment declares no actions"),
        (["model.max_context=100000"], "^model.max_context=100000: expected at most 2048, as nano was made for"),
    ],
)
def test_what_cannot_be_had_is_told_before_a_run(
    small_run: Callable[..., Any], tmp_path: Path, words: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        check_tasks(small_run(tmp_path, *words))
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)


def test_tasks_that_come_from_elsewhere_are_not_waited_for(small_run: Callable[..., Any], tmp_path: Path) -> None:
    run = small_run(tmp_path, "env.source=hub", f"env.hub={tmp_path / 'nothing.jsonl'}")
    check_tasks(run, fetch=False)
    with pytest.raises(ValueError, match=r"^env\.hub="):
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
    ("env", "message"),
    [
        (Broken(), "^env: its tasks fail with KeyError: 'maze'$"),
        (Silent(), "expected an rlx.environment.Episode"),
        (Told(), r"^env: the prompt of task '.*' is 'Count down.': expected \(Text\(…\),\)$"),
        (Hasty(), "^env: its tasks fail with KeyError: 'tries'$"),
    ],
)
def test_a_fault_of_an_environment_is_one_line(
    small_run: Callable[..., Any], tmp_path: Path, env: Countdown, message: str
) -> None:
    run = small_run(tmp_path)
    object.__setattr__(run, "env", env)
    with pytest.raises(ValueError, match=message):
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


COPIED = r"^env: the expert"


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Confused(), COPIED + "'s move 1 in task '.*' is act jump '': protocol: no turn says this act: "),
        (
            Bare(),
            COPIED + r" fails in task '.*': an expert's move is Action\(.*: expected Move\(thought=…, action=Action",
        ),
        (Idle(), COPIED + " makes no move in task '.*', and there is none to copy$"),
        (Stuck(), COPIED + " fails in task '.*' after 1 move: KeyError at .*test_tasks.py:.*: 'next'$"),
    ],
)
def test_an_expert_is_tried_where_it_is_to_be_copied(
    small_run: Callable[..., Any], tmp_path: Path, env: Countdown, message: str
) -> None:
    for words, fails in ((["warm_start=none"], False), (["warm_start=tool_sft", "warm_start.steps=1"], True)):
        run = small_run(tmp_path, *words)
        object.__setattr__(run, "env", env)
        with pytest.raises(ValueError, match=message) if fails else nullcontext() as error:
            check_tasks(run)
        assert "\n" not in str(error and error.value)


def test_every_part_of_a_mixture_is_looked_at(small_run: Callable[..., Any], tmp_path: Path) -> None:
    run = small_run(tmp_path)
    parts = {"good": Portion(env=Countdown(), weight=9.0), "bad": Portion(env=Broken())}
    object.__setattr__(run, "env", Mixture(parts=parts))
    with pytest.raises(ValueError, match="KeyError"):
        check_tasks(run)
