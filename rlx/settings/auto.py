"""Compose a configuration whose `protocol`, `sampling` and `warm_start` are `auto`: a loader in front of Hydra's, which
adds the options that suit the rest of the configuration to the overrides.

    overrides ──peek──> env, algo, model ──rlx.run.choose──> protocol=boxed sampling=long warm_start=none ──> compose

An option that the command line or a config file names is kept. A sweep chooses for each of its jobs anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigSource
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from rlx.environment.dialect import Dialect
from rlx.run.choose import Case, Choice, choose_protocols, choose_sampling, choose_warm_start
from rlx.settings.arms import PaperArm, arms_of, is_other, paper_names, spell_arms
from rlx.settings.build import build_value, is_call
from rlx.settings.check import ConfigError, check_value
from rlx.settings.explain import ROOT
from rlx.settings.folders import read_option
from rlx.settings.presets import (
    NO_PRESETS,
    Presets,
    brought_along,
    named_places,
    preset_paths,
    preset_values,
    replaced_places,
)
from rlx.settings.signature import signature
from rlx.settings.source import GLOBAL, FolderSource, omit
from rlx.settings.words import first_words, parse_overrides, values_of

AUTO = "auto"
GROUPS = ("protocol", "sampling", "warm_start")
NEEDED = ("env", "algo", "model")
"""Parts of a configuration that the choice follows from."""


class AutoLoader(ConfigLoader):
    """Loader in front of Hydra's: the configurations that it composes name no option `auto`, no arm, and no preset's
    values below options that others have replaced."""

    def __init__(self, inner: ConfigLoader) -> None:
        self.inner = inner
        sources = (source for source in inner.get_sources() if isinstance(source, FolderSource))
        self.source = next(source for source in sources if source.provider == "main")
        self.choices: dict[tuple[str, ...], list[Choice]] = {}
        self.presets: dict[tuple[str, ...], Presets | None] = {}

    def get_search_path(self) -> ConfigSearchPath:
        """Return the search path of Hydra's loader."""
        return self.inner.get_search_path()

    def get_sources(self) -> list[ConfigSource]:
        """Return the sources of Hydra's loader."""
        return self.inner.get_sources()

    def list_groups(self, parent_name: str) -> list[str]:
        """Return the groups within a group."""
        return self.inner.list_groups(parent_name)

    def get_group_options(
        self,
        group_name: str,
        results_filter: ObjectType | None = ObjectType.CONFIG,
        config_name: str | None = None,
        overrides: list[str] | None = None,
    ) -> list[str]:
        """Return the options of a group."""
        return self.inner.get_group_options(group_name, results_filter, config_name, overrides)

    def compute_defaults_list(self, config_name: str | None, overrides: list[str], run_mode: RunMode) -> Any:
        """Return the files that Hydra's loader would merge."""
        return self.inner.compute_defaults_list(config_name, overrides, run_mode)

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """Compose one job of a sweep; times in it are the sweep's."""
        overrides = [*master_config.hydra.overrides.hydra, *sweep_overrides]
        config = self.load_configuration(master_config.hydra.job.config_name, overrides, RunMode.RUN)
        OmegaConf.copy_cache(from_config=master_config, to_config=config)
        return config

    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        """Compose with the options chosen. The result has an arm as it was typed, and Hydra hands a sweep's overrides
        on to its jobs, without the options that are chosen here."""
        spelled = self.spell(config_name, overrides)
        words = self.complete(config_name, spelled)
        config = self.load(config_name, words, run_mode, from_shell, validate_sweep_overrides)
        chosen = words[len(without_auto(spelled)) :] if run_mode == RunMode.MULTIRUN else []
        hidden = {*chosen, *spelled} - {*overrides}
        with open_dict(config.hydra):
            task = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
            assert isinstance(task, list)
            arms = [word for word in overrides if word not in spelled]
            config.hydra.overrides.task = [*arms, *(word for word in task if word not in hidden)]
        return config

    def load(self, config_name: str | None, words: list[str], run_mode: RunMode, *checks: bool) -> DictConfig:
        """Compose without the values of presets below options that others have replaced."""
        single = [override for override in parse_overrides(words) if not override.is_sweep_override()]
        presets = self.find_presets(config_name, single)
        if not presets.paths:
            return self.inner.load_configuration(config_name, words, run_mode, *checks)
        defaults = self.inner.compute_defaults_list(config_name, words, run_mode).defaults
        places = replaced_places(defaults, presets.defaults, presets.named)
        with omit(dict.fromkeys(presets.paths, places)):
            return self.inner.load_configuration(config_name, words, run_mode, *checks)

    def alone(self, config_name: str | None, words: tuple[str, ...]) -> Presets | None:
        """Return the presets that these words name; None for none, and while they are composed themselves."""
        if words and words not in self.presets:
            self.presets[words] = None
            composed = self.inner.compute_defaults_list(config_name, self.complete(config_name, words), RunMode.RUN)
            paths = preset_paths(composed.defaults)
            self.presets[words] = Presets(
                paths=paths,
                named=frozenset(named_places(self.source, paths)),
                defaults=tuple(composed.defaults),
                options=dict(composed.overrides.known_choices),
                values=preset_values(self.source, paths),
            )
        return self.presets.get(words)

    def spell(self, config_name: str | None, overrides: Sequence[str]) -> list[str]:
        """Return the overrides with an arm in words of its own, and with the options that go with those in a preset's
        place. Where presets are swept, each job does so."""
        parsed = parse_overrides(overrides)
        if any(override.is_sweep_override() and self.is_preset(override) for override in parsed):
            return list(overrides)
        presets = self.find_presets(config_name, parsed)
        spelled = spell_arms(parsed, presets)
        return [*spelled, *brought_along(parse_overrides(spelled), presets, self.source)]

    def find_presets(self, config_name: str | None, overrides: Sequence[Override]) -> Presets:
        """Return the presets that the overrides name."""
        words = tuple(override.input_line or "" for override in overrides if self.is_preset(override))
        return self.alone(config_name, words) or NO_PRESETS

    def complete(self, config_name: str | None, overrides: Sequence[str]) -> list[str]:
        """Return the overrides, and after them the options that were chosen."""
        spelled = self.spell(config_name, overrides)
        return [*without_auto(spelled), *(choice.word for choice in self.choose(config_name, spelled))]

    def list_arms(self, words: Sequence[str]) -> Mapping[str, PaperArm]:
        """Return the arms of the preset that these words name; none for other words."""
        return arms_of(paper_names(self.find_presets(ROOT, parse_overrides(words))))

    def choose(self, config_name: str | None, overrides: Sequence[str]) -> list[Choice]:
        """Return the options for every group that is `auto`. Values that cannot be composed change nothing of it; none
        are chosen where the options themselves cannot be, as the composition then says what is wrong."""
        parsed = parse_overrides(self.spell(config_name, first_words(overrides)))
        typed = {override.get_key_element().lstrip("+") for override in parsed if override.value() != AUTO}
        if typed.union(self.find_presets(config_name, parsed).named).issuperset(GROUPS):
            return []
        rest = [override for override in parsed if is_rest(override)]
        lines = tuple(override.input_line or "" for override in rest)
        if lines not in self.choices:
            self.choices[lines] = self.peek(config_name, rest)
        return self.choices[lines]

    def list_replaced(self, config_name: str | None, overrides: Sequence[str]) -> list[Choice]:
        """Return the options of the overrides that replace a preset's."""
        parsed = parse_overrides(self.spell(config_name, first_words(overrides)))
        presets = self.find_presets(config_name, parsed)
        others = [override for override in parsed if is_other(override, presets.options)]
        return [
            Choice(override.key_or_group, str(override.value()), f"replaces the preset's {before} and its values")
            for override in others
            if (before := presets.options[override.key_or_group]) and override.key_or_group in presets.named
        ]

    def peek(self, config_name: str | None, rest: Sequence[Override]) -> list[Choice]:
        """Compose with these overrides, or with the options among them, and choose for the result."""
        for words in (rest, [override for override in rest if self.is_option(override)]):
            with suppress(HydraException, OmegaConfBaseException, ConfigError, OSError, ValueError, TypeError):
                lines = [override.input_line or "" for override in words]
                return choose_options(self.load(config_name, lines, RunMode.RUN))
        return []

    def is_preset(self, override: Override) -> bool:
        """Tell whether an override chooses a preset, or sweeps over some."""
        if not override.is_add() or override.package is not None:
            return False
        group, _, option = values_of(override)[0].lstrip("+").partition("=")
        path = f"{group}/{option}"
        return self.source.is_config(path) and self.source.parse(path).header.get("package") == GLOBAL

    def is_option(self, override: Override) -> bool:
        """Tell whether an override chooses an option of a config group."""
        return override.package is not None or any(
            source.is_group(override.key_or_group) for source in self.get_sources()
        )


def choose_options(config: DictConfig) -> list[Choice]:
    """Return the options for every group that the configuration leaves to `auto`."""
    choices = config.hydra.runtime.choices
    groups = [group for group in GROUPS if choices.get(group) == AUTO]
    if not groups:
        return []
    case = case_of(config)
    protocols = choose_protocols(case) if "protocol" in groups else []
    protocol = next((choice.option for choice in protocols if choice.key == "protocol"), str(choices.protocol))
    options = list(protocols)
    if "sampling" in groups:
        options.append(choose_sampling(case, protocol))
    if "warm_start" in groups:
        options.append(choose_warm_start(case, protocol, build_dialect(config, protocol)))
    return options


def case_of(config: DictConfig) -> Case:
    """Build what the choice follows from."""
    tree = {key: OmegaConf.to_container(config[key], resolve=True) for key in NEEDED}
    env, algo = (build_checked(tree[key], key) for key in ("env", "algo"))
    model: Any = tree["model"]
    return Case(env=env, algo=algo, reasoning=bool(model["recipe"]["reasoning"]), chat=bool(model["chat"]))


def build_checked(tree: Any, key: str) -> Any:
    """Build a part of the configuration; ConfigError where it is none."""
    check_value(tree, key)
    if not is_call(tree):
        raise ConfigError(f"{key} names nothing to build")
    return build_value(tree, key, signature("rlx.run.run.Run").parameters[key])


def build_dialect(config: DictConfig, protocol: str) -> Dialect:
    """Build the protocol: the configuration's own, or a shipped one by its name."""
    if config.hydra.runtime.choices.protocol != protocol:
        with open_dict(config):
            config.protocol = read_option("protocol", protocol)
    dialect: Dialect = build_checked(OmegaConf.to_container(config.protocol, resolve=True), "protocol")
    return dialect


def is_rest(override: Override) -> bool:
    """Tell whether an override says nothing of a group that may be chosen, but which option it is."""
    key = f"{override.package or override.key_or_group}"
    is_option = override.key_or_group in GROUPS and override.package is None
    return is_option or key.partition(".")[0].partition("/")[0] not in GROUPS


def without_auto(overrides: Sequence[str]) -> list[str]:
    """Leave out `protocol=auto` and the like, beside which Hydra takes no other option."""
    return [word for word in overrides if word not in {f"{group}={AUTO}" for group in GROUPS}]
