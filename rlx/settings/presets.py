"""Presets: options such as `+paper=babyai` that choose options of other groups and set values below them.

    conf/paper/carl_3b.yaml        + `algo=grpo` of the command line
      override /algo: carl    ──>  algo=grpo: another option in the preset's place
      algo: {num_forks: 16}   ──>  left out, because it is a value of algo=carl

The rule for every group that a preset chooses: an option that the command line names in its place comes with its own
values and its own choices, and with none of the preset's. Without the rule a run would mix the two, under the name of
the option.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra._internal.config_repository import CachingConfigRepository, IConfigRepository
from hydra.core.default_element import ConfigDefault, GroupDefault, ResultDefault
from hydra.core.override_parser.types import Override
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, OmegaConf

FOLLOWING = ("protocol", "warm_start")
"""Places whose values a preset sets for its own algorithm, where it leaves the option to be chosen."""
GLOBAL = "_global_."
"""Beginning of a place that does not depend on the place of the file that names it."""


@dataclass(frozen=True, kw_only=True)
class Presets:
    """The presets of a command, composed without its other words."""

    paths: tuple[str, ...]
    """Their files, such as paper/babyai; a file that another builds on comes before it."""
    named: frozenset[str]
    """Places whose options the presets choose."""
    defaults: tuple[ResultDefault, ...]
    """All files that are composed."""
    options: Mapping[str, str | None]
    """The option of each group."""
    values: Mapping[str, Any]
    """The values that the presets set."""


NO_PRESETS = Presets(paths=(), named=frozenset(), defaults=(), options={}, values={})


class PresetRepository(CachingConfigRepository):
    """Repository whose presets set no value below some places."""

    def __init__(self, delegate: IConfigRepository, presets: Collection[str], places: Collection[str]) -> None:
        super().__init__(delegate)
        self.presets, self.places = presets, places

    def load_config(self, config_path: str) -> ConfigResult | None:
        result = super().load_config(config_path)
        if result is None or config_path not in self.presets:
            return result
        result = copy.deepcopy(result)
        for place in self.places:
            remove(result.config, place)
        return result


def preset_paths(defaults: Sequence[ResultDefault]) -> tuple[str, ...]:
    """Return the files of presets among the composed files."""
    paths = (str(default.config_path) for default in defaults if not default.package)
    return tuple(path for path in paths if "/" in path and not path.startswith("hydra/"))


def preset_words(defaults: Sequence[ResultDefault], root: str) -> tuple[str, ...]:
    """Return the words that choose the presets among the composed files; `root` is the main file's name."""
    chosen = {str(default.config_path) for default in defaults if default.parent == root}
    splits = (path.rpartition("/") for path in preset_paths(defaults) if path in chosen)
    return tuple(f"+{group}={name}" for group, _, name in splits)


def named_places(repository: IConfigRepository, paths: Sequence[str]) -> set[str]:
    """Return the places whose options these presets choose."""
    return {place_of(choice).removeprefix(GLOBAL) for path in paths for choice in list_choices(repository, path)}


def replaced_places(
    defaults: Sequence[ResultDefault], alone: Sequence[ResultDefault], named: Collection[str]
) -> set[str]:
    """Return the places that have another option than with the presets alone, of those named and those below them."""
    files, files_alone = files_by_place(defaults), files_by_place(alone)
    named = {*named, *FOLLOWING} if "algo" in named else named
    differing = {place for place in files.keys() | files_alone.keys() if files.get(place) != files_alone.get(place)}
    return {place for place in differing if any(f"{place}.".startswith(f"{name}.") for name in named)}


def files_by_place(defaults: Sequence[ResultDefault]) -> Mapping[str, list[str]]:
    """Return the files that are composed at each place of the configuration."""
    files: dict[str, list[str]] = defaultdict(list)
    for default in defaults:
        if default.package:
            files[default.package].append(str(default.config_path))
    return files


def list_choices(repository: IConfigRepository, path: str) -> Iterator[GroupDefault]:
    """Yield the options of other groups that a file chooses with `override`; those of the file's bases come first."""
    loaded = repository.load_config(path)
    for default in loaded.defaults_list or () if loaded is not None else ():
        if isinstance(default, GroupDefault):
            yield from [default] * bool(default.override)
        elif isinstance(default, ConfigDefault) and is_base(str(default.path)):
            yield from list_choices(repository, f"{path.rpartition('/')[0]}/{default.path}")


def is_base(path: str) -> bool:
    """Tell whether an entry of a defaults list is an option of the file's own group."""
    return path != "_self_" and not path.startswith("/")


def place_of(choice: GroupDefault) -> str:
    """Return the place of the option that a file chooses, as the file writes it."""
    return str(choice.package) if choice.package else str(choice.group).lstrip("/").replace("/", ".")


def remove(config: Any, place: str) -> None:
    """Remove what a configuration has at a place, if anything."""
    above, _, last = place.rpartition(".")
    holder = OmegaConf.select(config, above) if above else config
    if isinstance(holder, DictConfig) and last in holder:
        del holder[last]


def preset_values(repository: IConfigRepository, paths: Sequence[str]) -> dict[str, Any]:
    """Return the values that presets set, with references as text. A later preset wins over an earlier one."""
    loaded = [repository.load_config(path) for path in paths]
    merged = OmegaConf.merge(*(result.config for result in loaded if result is not None))
    return dict(OmegaConf.to_container(merged, resolve=False))  # type: ignore[arg-type]


def brought_along(overrides: Sequence[Override], presets: Presets, repository: IConfigRepository) -> list[str]:
    """Return words for the options that go with an option in a preset's place, such as the warm start of
    algo=sft_grpo, where no word names another."""
    words: dict[str, str] = {}
    for override in overrides:
        group, option = override.key_or_group, override.value() if not override.is_sweep_override() else None
        if isinstance(option, str) and presets.options.get(group, option) != option:
            choices = list_choices(repository, f"{group}/{option}")
            absolute = {
                place_of(choice).removeprefix(GLOBAL): str(choice.value) for choice in choices if is_absolute(choice)
            }
            words |= {place: f"{place}={value}" for place, value in absolute.items()}
    named = {override.get_key_element().lstrip("+~") for override in overrides}
    return [word for place, word in words.items() if place not in named]


def is_absolute(choice: GroupDefault) -> bool:
    """Tell whether a choice is of one place, wherever the file that makes it stands."""
    return place_of(choice).startswith(GLOBAL)
