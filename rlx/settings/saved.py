"""The configuration that a run left in its folder, to be evaluated, replayed or served with."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Override
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from rlx.base.limits import to_text
from rlx.runs.folder import CONFIG, read_config, version_hint
from rlx.settings.build import ROOT_KEYS
from rlx.settings.check import ConfigError
from rlx.settings.compose import compose_tree, open_loader
from rlx.settings.consent import require_consent
from rlx.settings.explain import COMPOSE_ERRORS, HYDRA_ERRORS, ROOT, check_tree, plain
from rlx.settings.folders import config_folders, list_groups, trusted_folders
from rlx.settings.values import literal
from rlx.settings.words import one_line, parse_overrides, parse_words, spell_mixtures

OTHER_VERSION = " (if another version of rlx wrote it, use that version, which summary.json names)"
"""End of an error about a stored configuration that this version refuses."""


def load_tree(
    folder: Path,
    words: Sequence[str] = (),
    *,
    config_dir: Path | None = None,
    parts: Sequence[str] = ROOT_KEYS,
    tracks: bool = True,
) -> dict[str, Any]:
    """Read a run's saved configuration, change it by the words of a command (`env.max_rounds=5`, `evaluate=long`,
    `-cd DIR`), check it, and return these parts of it. Only functions of rlx or of
    the user are called. A command that uploads nothing (not `tracks`) ignores the trackers."""
    arguments = parse_words(words)
    refuse_options(arguments, "run=DIR, which takes KEY=VALUE and -cd DIR")
    first = Path(arguments.config_dir) if arguments.config_dir else config_dir
    if not (folder / CONFIG).exists():
        raise ConfigError(f"{to_text(folder)} is no run folder: it has no {CONFIG}")
    tree, overrides = read_config(folder), parse_overrides(arguments.overrides)
    trusted = trusted_folders(folder, first)
    if overrides:
        tree = override_tree(tree, overrides, first)
    chosen = {key: tree[key] for key in tree if key in parts or key not in ROOT_KEYS}
    try:
        typed = nest_typed(overrides, list_groups(trusted))
        require_consent(chosen, trusted, typed, unused=() if tracks else ("track",))
        check_tree(chosen, parts)
    except ConfigError as error:
        if overrides:
            raise
        raise ConfigError(f"{folder / CONFIG}: {error}{version_hint(folder) or OTHER_VERSION}") from None
    return {key: chosen[key] for key in chosen if key in parts}


def refuse_options(arguments: argparse.Namespace, place: str) -> None:
    """Refuse all of Hydra's options except `-cd`: no other has a meaning in this place."""
    refused = [name for name, value in vars(arguments).items() if value and name not in ("overrides", "config_dir")]
    if refused:
        raise ConfigError(f"--{refused[0].replace('_', '-')} cannot go with {place}")


def nest_typed(overrides: Sequence[Override], groups: Sequence[str]) -> dict[str, Any]:
    """Nest the typed values by their keys. Options of groups are left out, and references, which may lead to saved
    values."""
    typed = OmegaConf.create()
    for override in overrides:
        if not is_choice(override, groups) and "${" not in (override.input_line or ""):
            OmegaConf.update(typed, override.key_or_group, single(override), force_add=True)
    return plain(typed)


def override_tree(tree: dict[str, Any], overrides: Sequence[Override], first: Path | None) -> dict[str, Any]:
    """Options of groups, then keys, as Hydra does; what they refer to is looked up here, not in the defaults."""
    groups = list_groups(config_folders(first))
    try:
        merged = OmegaConf.create(literal(tree))
    except (*COMPOSE_ERRORS, TypeError) as error:
        raise ConfigError(f"the saved configuration holds a value that cannot be read: {one_line(error)}") from error
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
    """Return the keys of an option's file, whose references are not looked up yet."""
    words = spell_mixtures([f"{override.get_key_element()}={single(override)}"])
    with open_loader(None if first is None else str(first)) as loader:
        compose_tree(loader, words)  # for its errors
        chosen = OmegaConf.select(loader.load_configuration(ROOT, words, RunMode.RUN), place)
    return OmegaConf.to_container(chosen, resolve=False)  # type: ignore[return-value]


def single(override: Override) -> Any:
    """The one value that an override gives."""
    if override.is_delete() or override.is_sweep_override():
        raise ConfigError(f"{override.input_line}: a run's own configuration takes KEY=VALUE alone")
    return override.value()
