"""Consent to code that a configuration from a run folder may call: a run folder may come from anyone.

What rlx ships, or a trusted folder of options names, is allowed; what else a saved configuration names must stand on
this command line too, key and value. That holds for `_target_` and for every parameter whose type has the mark
`CONSENT` (rlx/base/limits.py): programs, modules, packages, servers, switches that loosen a container,
where a run is uploaded. All else is data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from yaml import YAMLError

from rlx.settings.check import ConfigError, show, spell
from rlx.settings.folders import every_group, list_targets, option_files, read_option
from rlx.settings.signature import signature

MARK = "CONSENT"
CommandValues = Mapping[str, Any]
"""Values of the command line, nested as their keys are."""
Offers = Mapping[tuple[str, str], Sequence[Any]]
"""Values that options of trusted folders have, by target and parameter."""


def require_consent(
    tree: Any, folders: Sequence[Path], command_values: CommandValues, *, unused: Sequence[str] = ()
) -> None:
    """Refuse calls and marked values that neither the folders of options nor the command line name. Marked values of
    `unused` parts of the configuration, by which nothing is done, may be any."""
    targets, calls = list_targets(folders), list(calls_in(tree, ""))
    for path, call in calls:
        target = call["_target_"]
        if not isinstance(target, str):
            raise ConfigError(f"{path}._target_={show(target)}: expected a name such as package.module.name")
        if target not in targets and value_at(command_values, f"{path}._target_") != target:
            raise ConfigError(
                f"{path}._target_={show(target)} is not named by any config file here; if you trust it, name its "
                f"folder of options with -cd DIR, or add {path}._target_={show(target)} to the command"
            )
    used = [(path, call) for path, call in calls if path.partition(".")[0] not in unused]
    marked = [each for path, call in used for each in marked_values(path, call)]
    offers = offers_of(folders, sorted({target for target, _, _ in marked}))
    for target, path, value in marked:
        name = path.rpartition(".")[2]
        if value not in offers.get((target, name), ()) and value_at(command_values, path) != value:
            raise ConfigError(
                f"{path}={show(value)} decides which code runs, which server is asked or where a run is uploaded, "
                f"which a saved configuration may not: if you trust it, add {path}={spell(value)} to the command"
            )


def calls_in(value: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every mapping with a `_target_`, outermost first, each with its place."""
    if isinstance(value, Mapping):
        if "_target_" in value:
            yield path, value
        for key, child in value.items():
            yield from calls_in(child, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from calls_in(child, f"{path}[{index}]")


def marked_values(path: str, call: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Values of marked parameters in a call of a known target: target, place, value."""
    for name in marked_parameters(call["_target_"]):
        if name in call:
            yield call["_target_"], f"{path}.{name}", call[name]


def marked_parameters(target: str) -> list[str]:
    """Names of a target's parameters that need consent."""
    try:
        parameters = signature(target).parameters.values()
    except LookupError:  # what is wrong with it is told by the check of the configuration
        return []
    return [
        parameter.name
        for parameter in parameters
        if parameter.annotation is not None and parameter.annotation.has_mark(MARK)
    ]


def offers_of(folders: Sequence[Path], wanted: Sequence[str]) -> Offers:
    """Values of marked parameters of the wanted targets in the options of these folders."""
    offers: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for option in options_of(folders, [*wanted, *(f"{name}:" for each in wanted for name in marked_parameters(each))]):
        for path, call in calls_in(option, ""):
            if call["_target_"] in wanted:
                for target, place, value in marked_values(path, call):
                    offers[target, place.rpartition(".")[2]].append(value)
    return offers


def options_of(folders: Sequence[Path], words: Sequence[str]) -> Iterator[Any]:
    """Yield every readable option whose own file has one of the words, merged with its defaults. An option without the
    words adds nothing to the values of its defaults."""
    for group in every_group(folders):
        for name, file in option_files(group, folders).items():
            text = file.read_text(encoding="utf-8", errors="replace")
            if any(word in text for word in words):
                with suppress(OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, YAMLError):
                    yield read_option(group, name, folders)


def value_at(tree: Any, path: str) -> Any:
    """The value at a dotted place; `...`, which equals no value of a configuration, where there is none."""
    for key in path.split("."):
        if not isinstance(tree, Mapping) or key not in tree:
            return ...
        tree = tree[key]
    return tree
