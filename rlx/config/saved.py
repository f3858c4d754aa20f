"""The configuration that a run left in its folder, to be evaluated, replayed or served with."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Override
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from rlx.config.build import ROOT_KEYS
from rlx.config.check import ConfigError, refuse_strangers
from rlx.config.compose import compose_tree, open_loader
from rlx.config.explain import COMPOSE_ERRORS, HYDRA_ERRORS, ROOT, check_tree, plain
from rlx.config.folders import config_folders, known_targets, list_groups
from rlx.config.words import mixed, one_line, parse_overrides, parse_words
from rlx.record.folder import CONFIG, read_config, told_format


def load_tree(
    folder: Path, words: Sequence[str] = (), *, config_dir: Path | None = None, parts: Sequence[str] = ROOT_KEYS
) -> dict[str, Any]:
    """The configuration a run left in its folder, with the words of a command: `env.max_rounds=5`, `evaluate=long`,
    `-cd DIR`. Of it these parts, or all.

    Only targets that some config file on this machine names are accepted: a run folder may come from anyone.
    """
    arguments = parse_words(words)
    refuse_options(arguments)
    first = Path(arguments.config_dir) if arguments.config_dir else config_dir
    if not (folder / CONFIG).exists():
        raise ConfigError(f"{folder} is no run folder: it has no {CONFIG}")
    tree = read_config(folder)
    try:
        check_saved(tree, parts, first)
    except ConfigError as error:
        raise ConfigError(f"{folder / CONFIG}: {error}{told_format(folder)}") from None
    if arguments.overrides:
        tree = override_tree(tree, parse_overrides(arguments.overrides), first)
        check_saved(tree, parts, first)
    return {key: tree[key] for key in tree if key in parts}


def refuse_options(arguments: argparse.Namespace) -> None:
    """Of Hydra's options only `-cd` has a meaning here."""
    given = [name for name, value in vars(arguments).items() if value and name not in ("overrides", "config_dir")]
    if given:
        raise ConfigError(f"--{given[0].replace('_', '-')} cannot go with run=DIR, which takes KEY=VALUE and -cd DIR")


def check_saved(tree: dict[str, Any], parts: Sequence[str], first: Path | None) -> None:
    chosen = {key: tree[key] for key in tree if key in parts or key not in ROOT_KEYS}
    refuse_strangers(chosen, known_targets(config_folders(first)), "")
    check_tree(chosen, parts)


def override_tree(tree: dict[str, Any], overrides: Sequence[Override], first: Path | None) -> dict[str, Any]:
    """Options of groups, then keys, as Hydra does; what they refer to is looked up here, not in the defaults."""
    merged, groups = OmegaConf.create(tree), list_groups(config_folders(first))
    for override in sorted(overrides, key=lambda override: not is_choice(override, groups)):
        try:
            if is_choice(override, groups):
                place = override.package or override.key_or_group.replace("/", ".")
                OmegaConf.update(merged, place, option_of(override, place, first), merge=False, force_add=True)
            else:
                OmegaConf.update(merged, override.key_or_group, single(override), force_add=True)
        except ConfigError:
            raise
        except (*COMPOSE_ERRORS, TypeError) as error:
            raise ConfigError(f"{override.input_line}: {one_line(error)}") from error
    try:
        return plain(merged)
    except HYDRA_ERRORS as error:
        raise ConfigError(one_line(error)) from error


def is_choice(override: Override, groups: Sequence[str]) -> bool:
    return "/" in override.key_or_group or override.key_or_group in groups


def option_of(override: Override, place: str, first: Path | None) -> DictConfig:
    """The keys of an option, as its file has them: with references that are not looked up yet."""
    words = mixed([f"{override.get_key_element()}={single(override)}"])
    with open_loader(None if first is None else str(first)) as loader:
        compose_tree(loader, words)  # for its errors
        chosen = OmegaConf.select(loader.load_configuration(ROOT, words, RunMode.RUN), place)
    return OmegaConf.to_container(chosen, resolve=False)  # type: ignore[return-value]


def single(override: Override) -> Any:
    """The one value that an override gives."""
    if override.is_delete() or override.is_sweep_override():
        raise ConfigError(f"{override.input_line}: a run's own configuration takes KEY=VALUE alone")
    return override.value()
