"""Names of code and of keys that have moved, so that old run folders, options and command lines still find it.

An entry stays as long as a run folder may name it. A name is looked up once: code that moves again needs a new
entry, and a change of its old ones. A key is renamed in a run folder and on a command line. In a user's own option it
is an unknown key, and the error names the present one.
"""

from __future__ import annotations

from typing import Any

MOVED = {
    "rlx.env.adapter.gem": "rlx.env.foreign.gem",
    "rlx.env.adapter.textarena": "rlx.env.foreign.textarena",
    "rlx.env.adapter.verifiers": "rlx.env.foreign.verifiers",
    "rlx.env.bifurcation.Bifurcation": "rlx.env.bifurcation.bifurcation.Bifurcation",
    "rlx.env.calc.countdown.CalcCountdown": "rlx.env.calc.calc_countdown.CalcCountdown",
    "rlx.env.calc.sudoku.CalcSudoku": "rlx.env.calc.calc_sudoku.CalcSudoku",
    "rlx.env.code.Code": "rlx.env.questions.code.Code",
    "rlx.env.countdown.Countdown": "rlx.env.countdown.countdown.Countdown",
    "rlx.env.foreign.Foreign": "rlx.env.foreign.foreign.Foreign",
    "rlx.env.foreign.Taskset": "rlx.env.foreign.foreign.Taskset",
    "rlx.env.invented.pages": "rlx.env.questions.invented_world.pages",
    "rlx.env.logic.Logic": "rlx.env.questions.logic.Logic",
    "rlx.env.math.Math": "rlx.env.questions.math.Math",
    "rlx.env.mixture.Mixture": "rlx.env.mixed.mixture.Mixture",
    "rlx.env.mixture.Portion": "rlx.env.mixed.mixture.Portion",
    "rlx.env.qa.QA": "rlx.env.questions.qa.QA",
    "rlx.env.rg.ReasoningGym": "rlx.env.questions.reasoning_gym.ReasoningGym",
    "rlx.env.search_qa.SearchQA": "rlx.env.search.search_qa.SearchQA",
    "rlx.env.sorting.Sorting": "rlx.env.sorting.sorting.Sorting",
}
"""Present names by old ones."""
NAMING = ("_target_", "adapter")
"""Keys whose values name modules, or something in one."""
MOVED_KEYS = {"protocol": {"said": "own_turns"}}
"""Present names of keys by old ones, by the name of the mapping that holds them."""


def present_name(name: str) -> str:
    """Return the present name of what had this name once; any other name as it is."""
    return MOVED.get(name, name)


def with_present_names(tree: Any) -> Any:
    """Copy a configuration, with the present names of the code that it calls."""
    if isinstance(tree, dict):
        return {key: rename(value) if key in NAMING else with_present_names(value) for key, value in tree.items()}
    return [with_present_names(value) for value in tree] if isinstance(tree, list) else tree


def rename(value: Any) -> Any:
    """Return a value that names code, with the present name; `_target_` of a hostile file may be anything."""
    return present_name(value) if isinstance(value, str) else with_present_names(value)


def with_present_keys(tree: Any, holder: str = "") -> Any:
    """Copy a configuration, with the present names of its keys; `holder` is the key that it is the value of."""
    if isinstance(tree, dict):
        present = MOVED_KEYS.get(holder, {})
        return {present.get(key, key): with_present_keys(value, key) for key, value in tree.items()}
    return [with_present_keys(value) for value in tree] if isinstance(tree, list) else tree


def with_present_key(word: str) -> str:
    """Return a word of a command line, KEY=VALUE, with the present name of its key."""
    key, equals, value = word.partition("=")
    above, _, last = key.rpartition(".")
    present = MOVED_KEYS.get(above.rpartition(".")[2].lstrip("+~"), {}).get(last)
    return word if present is None else f"{above}.{present}{equals}{value}"
