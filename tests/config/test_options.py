"""Every shipped option: it composes, its keys have meanings and types, and an environment has tasks of both splits.

Options of different groups share a composition, which takes 0.2 seconds; a failure names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import zip_longest
from typing import Any

import pytest

from rlx.base.limits import MistakeError
from rlx.commands.guide import how_chosen
from rlx.env.foreign.foreign import Foreign
from rlx.evaluation.evaluate import Evaluate, held_out
from rlx.settings.build import build_part
from rlx.settings.check import SPECIAL
from rlx.settings.compose import compose_sources
from rlx.settings.folders import every_group, list_options, merge_layers, read_layers, shipped_folder
from rlx.settings.keys import Source, list_keys
from rlx.settings.signature import signature
from tests.loops import for_each

CONF = shipped_folder("conf")
GROUPS = every_group([CONF])
CHOOSERS = ("env", "algo", "model", "hardware", "evaluate", "track", "checkpoint")
"""Groups without influence on each other's keys, and with `protocol`, `sampling` and `warm_start` left to `auto`."""
PRESETS = ("paper",)
"""Groups whose options are whole runs, each composed alone."""
OTHERS = tuple(group for group in GROUPS if group not in (*CHOOSERS, *PRESETS))


def word_of(group: str, name: str) -> str:
    """Return the override that chooses an option; a policy is that of the one agent."""
    return f"{how_chosen(group)}={name}".replace("AGENT", "agent")


def rows(groups: Sequence[str]) -> list[tuple[str, ...]]:
    """Return overrides in as many rows as the largest group has options; each option is in one row."""
    columns = [[word_of(group, name) for name in list_options(group, [CONF])] for group in groups]
    return [tuple(word for word in row if word) for row in zip_longest(*columns)]


ROWS = [*rows(CHOOSERS), *rows(OTHERS), *rows(PRESETS)]
ENVS = list(list_options("env", [CONF]))


@cache
def composed(words: tuple[str, ...]) -> tuple[dict[str, Any], list[Source]]:
    return compose_sources(words)


def test_every_group_is_in_the_rows() -> None:
    assert {word.lstrip("+").partition("=")[0].partition("@")[0] for words in ROWS for word in words} == set(GROUPS)
    assert {"env", "algo", "model/lora", "warm_start"} <= set(GROUPS)


@for_each("words", ROWS)
def test_every_option_composes_and_fits_its_signature(words: tuple[str, ...]) -> None:
    tree, _ = composed(words)
    for group in (name for name in (word.partition("=")[0] for word in words) if name.isidentifier()):
        assert set(tree[group]) <= {"_target_", *signature(tree[group]["_target_"]).parameters}, group


@for_each("words", ROWS)
def test_every_key_of_every_option_has_a_meaning_and_a_type(words: tuple[str, ...]) -> None:
    for key in list_keys(*composed(words)):
        assert key.meaning.text, f"{key.path} has no meaning"
        assert key.kind, f"{key.path} has no type"


def test_no_key_of_an_option_repeats_its_default() -> None:
    """A preset repeats some on purpose: it states a paper's values, whatever the defaults become."""
    for group in (group for group in GROUPS if group not in PRESETS):
        for name in list_options(group, [CONF]):
            below, tree = read_layers(group, name)
            option = with_numbers(merge_layers(below, tree))
            shorter = {path: merge_layers(below, without(tree, path)) for path in paths_in(tree)}
            repeated = [path for path, keys in shorter.items() if with_numbers(keys) == option]
            assert not repeated, f"conf/{group}/{name}.yaml: leave out {repeated}"


def with_numbers(value: Any) -> Any:
    """Return a value with floats for texts such as 1e-6, which Hydra reads as numbers."""
    if isinstance(value, dict):
        return {key: with_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_numbers(item) for item in value]
    with suppress(ValueError):
        return float(value) if isinstance(value, str) else value
    return value


def paths_in(tree: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all keys but targets."""
    for key, value in tree.items() if isinstance(tree, dict) else ():
        if key not in SPECIAL:
            yield (*above, key)
            yield from paths_in(value, (*above, key))


def without(tree: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return a tree without the key at a path."""
    first, *rest = path
    others = {key: value for key, value in tree.items() if key != first}
    return {**others, first: without(tree[first], tuple(rest))} if rest else others


@cache
def build(name: str) -> Any:
    """Build an environment from the row that chooses it."""
    (words,) = (words for words in ROWS if f"env={name}" in words)
    return build_part(composed(words)[0], "env")


def test_the_environments_are_all_of_the_folder() -> None:
    assert {"countdown", "lend", "mixture", "game/sudoku"} <= set(ENVS)
    assert len(ENVS) == len(list((CONF / "env").rglob("*.yaml")))


@for_each("name", ENVS)
def test_every_environment_starts_an_episode(name: str) -> None:
    env = build(name)
    if env.is_remote:
        return
    if isinstance(env, Foreign):
        with suppress(MistakeError):  # its package may not be here
            next(env.tasks("train", 0))
        return
    assert env.start(next(iter(env.tasks("train", 0))))


@for_each("name", ENVS)
def test_every_environment_holds_something_out(name: str) -> None:
    env = build(name)
    if env.is_remote:
        pytest.skip("its tasks come from elsewhere")
    try:
        held = held_out(Evaluate(num_tasks=3), env)
    except MistakeError as error:
        pytest.skip(str(error)) if "is not installed" in str(error) else pytest.fail(str(error))
    assert 1 <= len(held) <= 3
