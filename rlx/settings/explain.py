"""Explain an invalid configuration in one line, with names near the wrong one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra.core.config_loader import ConfigLoader
from hydra.core.object_type import ObjectType
from hydra.errors import HydraException, MissingConfigException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlx.base.limits import near
from rlx.settings.build import ROOT_KEYS
from rlx.settings.check import ConfigError, UnknownKeyError, show, spell
from rlx.settings.check import check_tree as compare_tree
from rlx.settings.folders import FAMILIES, list_groups, option_files, shipped_folder, shipped_options
from rlx.settings.keys import list_keys, suggest
from rlx.settings.words import one_line, parse_overrides

ROOT = "config"
HYDRA_ERRORS = (HydraException, OmegaConfBaseException, yaml.YAMLError)
COMPOSE_ERRORS = (*HYDRA_ERRORS, ValueError, OSError)
UNFIT = "Error merging override"
"""Start of Hydra's message about a mapping in the place of a list, and the like."""


def check_tree(
    tree: Mapping[str, Any], parts: Sequence[str] = ROOT_KEYS, choices: Mapping[str, Any] | None = None
) -> None:
    """Compare a tree with the signatures it calls; for an unknown key, name what may have been meant. Where the
    `choices` of options are known, name the file that has the keys of that place."""
    refuse_policy_names(tree.get("policies"))
    try:
        compare_tree(tree, parts)
    except UnknownKeyError as error:
        keys = list_keys(tree, [])
        other_keys = [key for key in keys if key.path != error.path]
        where = f": no such key in {file}" if (file := file_of(error.path, choices or {})) else ""
        hint = suggest(error.path, other_keys, error.names)
        raise ConfigError(f"unknown key {error.path!r}{where}{hint}") from None


def file_of(key: str, choices: Mapping[str, Any]) -> str:
    """Return the file of the option that has the keys beside this one; empty where none is chosen there."""
    above = key.split(".")[:-1]
    for num in range(len(above), 0, -1):
        group = "/".join(above[:num])
        file = option_files(group).get(str(choices.get(group)))
        if file is not None:
            return name_file(file)
    return ""


def name_file(file: Path) -> str:
    """Return the path that a user looks for: below `conf` for a shipped file, else the whole path."""
    shipped = shipped_folder("conf")
    return f"conf/{file.relative_to(shipped)}" if file.is_relative_to(shipped) else str(file)


def refuse_policy_names(policies: Any) -> None:
    """Refuse the name of an option in a policy's place, and name the word that chooses the option."""
    for agent, policy in policies.items() if isinstance(policies, Mapping) else ():
        if isinstance(policy, str):
            options = option_files("policy")
            word = f"+policy@policies.{agent}={policy if policy in options else '|'.join(sorted(options))}"
            raise ConfigError(f"policies.{agent}={show(policy)}: an option of policies is chosen with {word}")


def explain(error: Exception, loader: ConfigLoader, overrides: Sequence[str]) -> str:
    """One line for an error of Hydra's, with names near the wrong one."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options is not None:
        return explain_missing(error.missing_cfg_file, error.options, loader)
    try:
        config = _compose_anyway(loader, overrides)
        check_tree(to_tree(config), choices=choices_of(config))
    except ConfigError as mistake:
        return str(mistake)
    except COMPOSE_ERRORS:
        pass
    nameless = explain_nameless(overrides)
    if nameless:
        return nameless
    if str(error).startswith(UNFIT):
        word = str(error).removeprefix(UNFIT).split("\n")[0].strip().lstrip("+")
        return f"{word:.80}: no such value fits there; `rlx keys {word.partition('=')[0]}` says what does"
    lost = "model.recipe" in str(error) or "'recipe'" in str(error)
    return one_line(error) + ("; a model chooses one: `defaults: [recipe: 3b, _self_]` in its yaml" if lost else "")


def explain_nameless(overrides: Sequence[str]) -> str:
    """A number or the like in an option's place, if there is one."""
    for override in parse_overrides(overrides):
        group, option = override.key_or_group, override.value()
        if group in list_groups() and not override.is_delete() and not isinstance(option, str | list):
            return f"{group} has no option {spell(option)!r:.80}{near(spell(option), option_files(group))}"
    return ""


def explain_missing(file: str, options: Sequence[str], loader: ConfigLoader) -> str:
    """An option that is not there, with names near it: of a family, those in all its folders."""
    family, _, within = file.partition("/")
    if family in FAMILIES:
        return f"{family} has no option {within!r}{near(within, family_options(family, loader))}"
    group, _, name = file.rpartition("/")
    if family == "model" and group != family and not (shipped_folder("conf") / group).is_dir():
        return f"model has no option {within!r:.80}; {explain_path(within)}"
    return f"{group} has no option {name!r}{near(name, options)}"


def explain_path(path: str) -> str:
    """Return the words that choose a model by its name on a hub."""
    options = [name for name, option in shipped_options("model").items() if option["path"] == path]
    if options:
        return f"choose {' or '.join(f'model={option}' for option in options)}"
    return f"another model is model.path={spell(path):.80} with model/recipe= one of `rlx list model/recipe`"


def family_options(family: str, loader: ConfigLoader) -> list[str]:
    folders = loader.get_group_options(family, ObjectType.GROUP)
    inside = (f"{folder}/{name}" for folder in folders for name in loader.get_group_options(f"{family}/{folder}"))
    return [*loader.get_group_options(family), *inside]


def _compose_anyway(loader: ConfigLoader, overrides: Sequence[str]) -> DictConfig:
    """Add keys that are not there, so that the check may name what they should have been."""
    groups = list_groups()
    forced = []
    for override in parse_overrides(overrides):
        key, line = override.key_or_group, override.input_line or ""
        is_value = key not in groups and "/" not in key and override.package is None and not override.is_delete()
        forced.append(f"++{line.lstrip('+')}" if is_value and not key.startswith("hydra.") else line)
    return loader.load_configuration(ROOT, forced, RunMode.RUN)


def choices_of(config: DictConfig) -> dict[str, Any]:
    """Return the chosen option of each group."""
    return dict(config.hydra.runtime.choices)


def to_tree(config: DictConfig) -> dict[str, Any]:
    """Resolved plain values, without Hydra's own node."""
    return plain(OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"]))


def plain(config: DictConfig) -> dict[str, Any]:
    tree = OmegaConf.to_container(config, resolve=True)
    assert isinstance(tree, dict)
    return {str(key): value for key, value in tree.items()}
