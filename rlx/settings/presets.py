"""Presets: options such as `+paper=babyai` that choose options of other groups and set values below them.

    conf/paper/carl_3b.yaml        + `algo=grpo` of the command line
      override /algo: carl    ──>  algo=grpo: another option in the preset's place
      algo: {num_forks: 16}   ──>  left out, because it is a value of algo=carl

The rule for every group that a preset chooses: an option that the command line names in its place comes with its own
values and its own choices, and with none of the preset's. Without the rule a run would mix the two, under the name of
the option.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.default_element import ResultDefault
from hydra.core.override_parser.types import Override
from omegaconf import OmegaConf

from rlx.settings.source import Entry, FolderSource

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


def preset_paths(defaults: Sequence[ResultDefault]) -> tuple[str, ...]:
    """Return the files of presets among the composed files."""
    paths = (str(default.config_path) for default in defaults if not default.package)
    return tuple(path for path in paths if "/" in path and not path.startswith("hydra/"))


def named_places(source: FolderSource, paths: Sequence[str]) -> set[str]:
    """Return the places whose options these presets choose."""
    return {entry.place.removeprefix(GLOBAL) for path in paths for entry in source.choices(path)}


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


def preset_values(source: FolderSource, paths: Sequence[str]) -> dict[str, Any]:
    """Return the values that presets set, with references as text. A later preset wins over an earlier one."""
    merged = OmegaConf.merge(*(source.load_config(path).config for path in paths if source.is_config(path)))
    values: Any = OmegaConf.to_container(merged, resolve=False)
    return {key: value for key, value in values.items() if key != "defaults"}


def brought_along(overrides: Sequence[Override], presets: Presets, source: FolderSource) -> list[str]:
    """Return words for the options that go with an option in a preset's place, such as the warm start of
    algo=sft_grpo, where no word names another."""
    words: dict[str, str] = {}
    for override in overrides:
        group, option = override.key_or_group, override.value() if not override.is_sweep_override() else None
        if isinstance(option, str) and presets.options.get(group, option) != option:
            choices = [entry for entry in source.choices(f"{group}/{option}") if is_absolute(entry)]
            places = {entry.place.removeprefix(GLOBAL): entry.option for entry in choices}
            words |= {place: f"{place}={value}" for place, value in places.items()}
    named = {override.get_key_element().lstrip("+~") for override in overrides}
    return [word for place, word in words.items() if place not in named]


def is_absolute(entry: Entry) -> bool:
    """Tell whether a choice is of one place, wherever the file that makes it stands."""
    return entry.place.startswith(GLOBAL)
