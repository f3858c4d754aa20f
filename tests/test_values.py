"""Values drawn for every key of the composed configuration: each is refused in one line, or can be run.

Keys and kinds are read off the configuration itself, so that a new key is tried as soon as it is there.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlx.base.console import Screen
from rlx.plan.checks import check_fit, check_train
from rlx.plan.objective import check_objective
from rlx.plan.prospect import Prospect
from rlx.plan.recipe import check_recipe
from rlx.plan.tasks import check_tasks
from rlx.settings.compose import build_run, check_tree, compose

CHOICES = ("algo=tool_rloo", "algo=grpo", "algo=rloo", "algo=ipo", "algo=sft", "+model/lora=r8")
NUMBERS = (-1, 0, 1, 2, 0.5, -0.5, 1e-38, 1e38, 1e300, math.inf, -math.inf, math.nan, 10**30, 10**400, -(2**63))
WORDS = ("", " ", "x", "???", None, True, [], {}, [1], ["x"], {"a": 1}, [None], [[1]], {"_target_": "os.getcwd"})
SMALL = (
    *("algo.num_prompts=2", "algo.num_samples=2", "steps=1", "warm_start=none", "track=disabled", "env.max_rounds=1"),
    *("evaluate.num_tasks=1", "evaluate.num_samples=2", "evaluate.ks=[1,2]", "evaluate.num_resamples=10"),
    *("evaluate.num_tries=1", "sampling.max_new_tokens=8", "evaluate.max_new_tokens=8"),
)
STEPPED = (
    "algo.optimizer",
    "algo.k",
    "algo.clip",
    "algo.loss.entropy",
    "algo.loss.constant",
    "sampling.t",
    "evaluate.t",
    "env.l",
)
"""Beginnings of keys of which any value that is accepted costs a step no more time."""


def leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every key with its value, those of calls included."""
    for key, value in tree.items():
        where = f"{path}.{key}".lstrip(".")
        yield where, value
        if isinstance(value, Mapping):
            yield from leaves(value, where)


@functools.cache
def composed(*words: str) -> dict[str, Any]:
    return compose(words)


def spoiled(value: Any) -> tuple[Any, ...]:
    """What is nearly right: lists one element short and long, the negative, far too much."""
    if isinstance(value, list):
        return value[:-1], [*value, *value[-1:]], [*value, "x"], value[::-1]
    if isinstance(value, int | float):
        return -value, value + 1, value * 10**9, [value], str(value)
    return f"{value}x", [value]


def changed(tree: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The tree with another value at a key."""
    tree = copy.deepcopy(tree)
    *parents, last = path.split(".")
    functools.reduce(lambda node, name: node[name], parents, tree)[last] = value
    return tree


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Any]:
    tree = composed(draw(st.sampled_from(CHOICES)))
    path, value = draw(st.sampled_from(list(leaves(tree))))
    return changed(tree, path, draw(st.sampled_from((*NUMBERS, *WORDS, *spoiled(value)))))


def refusal(tree: dict[str, Any]) -> ValueError | None:
    """What `rlx plan` would say instead of a plan."""
    try:
        check_tree(tree)
        run = build_run(tree, Path())
        prospect = Prospect(run=run)
        check_tasks(prospect, fetch=False)
        check_recipe(prospect)
        check_objective(prospect)
        check_fit(prospect)
    except ValueError as error:
        return error
    return None


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(trees())
def test_any_value_is_planned_or_refused_in_one_line(tree: dict[str, Any]) -> None:
    error = refusal(tree)
    if error is not None:
        assert getattr(error, "exit_code", None) == 2, repr(error)
        assert len(str(error).splitlines()) == 1, str(error)
        assert len(str(error)) < 600


def take_step(folder: Path, path: str, value: Any) -> None:
    """A run of one step, in which no value is found wrong; where the value is refused there is no folder."""
    from rlx.training import train

    tree = changed(composed(*SMALL), path, value)
    if refusal(tree) is not None:
        assert not folder.exists()
        return
    run = build_run(tree, folder)
    with contextlib.chdir(folder.parent):
        check_train(Prospect(run=run))
    assert train(run, Screen(silent=True)).status == "finished"


def keys_of_a_step() -> list[str]:
    found = [path for path, value in leaves(composed(*SMALL)) if path.startswith(STEPPED) and value is not None]
    return [path for path in found if path != "algo.optimizer.lr"]  # up to 1 it is no mistake, but it may diverge


@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_planned_takes_a_step(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path, value = data.draw(st.sampled_from(keys_of_a_step())), data.draw(st.sampled_from(NUMBERS))
    take_step(tmp_path_factory.mktemp("values") / "run", path, value)


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_much_of_what_is_planned_takes_a_step(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path, value = data.draw(st.sampled_from(keys_of_a_step())), data.draw(st.sampled_from((*NUMBERS, *WORDS)))
    take_step(tmp_path_factory.mktemp("values") / "run", path, value)
