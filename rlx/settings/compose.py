"""Compose, check, build: the only place that knows Hydra, but for the grammar of its words (words.py) and what is told
of a wrong one (explain.py). Plain dictionaries and a `Run` leave it, no DictConfig."""

from __future__ import annotations

import argparse
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.plugins.completion_plugin import DefaultCompletionPlugin
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from rlx.base.limits import to_text
from rlx.hardware.interrupt import InterruptedRunError
from rlx.hardware.profile import set_threads
from rlx.hardware.ranks import find_place
from rlx.run.choose import Choice
from rlx.run.run import Run
from rlx.runs.folder import refuse_irregular, refuse_place, reserve_folder
from rlx.settings import resolvers
from rlx.settings.arms import ARM
from rlx.settings.auto import AutoLoader
from rlx.settings.build import build_part, build_run, build_value
from rlx.settings.check import ConfigError
from rlx.settings.explain import COMPOSE_ERRORS, HYDRA_ERRORS, ROOT, check_tree, explain, to_tree
from rlx.settings.folders import config_folders, list_groups, list_options, shipped_folder
from rlx.settings.keys import Source
from rlx.settings.source import SEARCHED
from rlx.settings.words import (
    check_sweeper,
    one_line,
    parse_overrides,
    parse_words,
    quote,
    spell_mixtures,
    values_of,
)

__all__ = [
    "ConfigError",
    "build_part",
    "build_run",
    "build_value",
    "choices_of",
    "complete",
    "compose",
    "compose_sources",
    "launch",
    "list_groups",
    "list_options",
    "run_folder",
]

LAUNCHER, SWEEPER = "hydra/launcher", "hydra/sweeper"
REFERENCE = "${"
"""Begin of a reference to a key, in a text that is not resolved yet."""

Job = Callable[[Run], Any]
Check = Callable[[Run, bool], None]
"""Refuses a run that cannot work; true if its processes will be on this machine."""


resolvers.register()


class Unwind(BaseException):
    """Carries a job's exception past Hydra, which would print it and, in a sweep, go on."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def compose(words: Sequence[str], *, writes: bool = False) -> dict[str, Any]:
    """Return the checked, resolved configuration that these words choose, as plain values; the first of a multirun's.
    With `writes`, refuse a folder that cannot take the run's files."""
    arguments = parse_words(spell_mixtures(words))
    with open_loader(arguments.config_dir) as loader:
        tree = compose_tree(loader, first_case(loader, arguments))
        check_folders(HydraConfig.get())
        if writes and not arguments.multirun:
            refuse_place(used_folder(HydraConfig.get(), "run"))
        return tree


def accept(run: Run, is_local: bool) -> None:
    """Accept any run."""


def launch(words: Sequence[str], job: Job, check: Check = accept) -> None:
    """Check every configuration the words mean, then let Hydra run `job` on each: once, or for all of a multirun. One
    that `--cfg` shows may be of another machine."""
    arguments = parse_words(spell_mixtures(words))
    logging.getLogger("alembic").setLevel(logging.WARNING)  # optuna's: it tells of every plugin of its own
    with open_loader(arguments.config_dir) as loader:
        check_words(loader, arguments, accept if arguments.cfg else check)
        hydra: Any = GlobalHydra.instance().hydra
        if arguments.cfg:
            return hydra.show_cfg(ROOT, arguments.overrides, arguments.cfg, package=None, resolve=arguments.resolve)
        overrides, is_sweep = as_sweep_of_one(quiet_others(name_folder(loader, arguments), arguments), arguments)
        start, mode = (hydra.multirun, RunMode.MULTIRUN) if is_sweep else (hydra.run, RunMode.RUN)
        try:
            start(ROOT, functools.partial(run_job, job), [*overrides, f"hydra.mode={mode.name}"])
        except Unwind as unwind:
            raise unwind.error from None
        except HYDRA_ERRORS as error:
            raise ConfigError(one_line(error)) from error


def name_folder(loader: AutoLoader, arguments: argparse.Namespace) -> list[str]:
    """Make the folder of a run or a sweep, where its name is the time, and name it: two that start in the same second
    get two. Of several processes only the first does."""
    if find_place().rank:
        return list(arguments.overrides)
    kind = "sweep" if arguments.multirun else "run"
    name, folder = folder_named(loader, first_case(loader, arguments), kind)
    named = [f"hydra.{kind}.dir={quote(reserve_folder(folder))}"] if "${now:" in name else []
    return [*arguments.overrides, *named]


def folder_named(loader: AutoLoader, overrides: Sequence[str], kind: str) -> tuple[str, str]:
    """Return the folder of a run or a sweep: the unresolved text of the configuration, and the resolved name."""
    config = loader.load_configuration(ROOT, list(overrides), RunMode.RUN)
    HydraConfig.instance().set_config(config)
    written = OmegaConf.to_container(config.hydra[kind], resolve=False)
    return str(written["dir"]), str(config.hydra[kind].dir)  # type: ignore[index, call-overload]


def quiet_others(overrides: Sequence[str], arguments: argparse.Namespace) -> list[str]:
    """Let only the first of several processes make the run's folder: the others' clocks would name another one."""
    if find_place(slurm=False).size > 1 and arguments.multirun:
        raise ConfigError("-m cannot go with torchrun: sweep with hydra/launcher=slurm, or start each run by itself")
    return [*overrides] if find_place().rank == 0 else [*overrides, "hydra.run.dir=.", "hydra.output_subdir=null"]


def as_sweep_of_one(overrides: Sequence[str], arguments: argparse.Namespace) -> tuple[list[str], bool]:
    """Return the overrides, and whether they are a sweep's. A single run with a launcher is a sweep in the run's own
    folder: launchers only run sweeps."""
    chosen = [override for override in parse_overrides(overrides) if override.key_or_group == LAUNCHER]
    if arguments.multirun or not chosen or chosen[-1].value() == "basic":
        return list(overrides), arguments.multirun
    index = list(overrides).index(chosen[-1].input_line or "")
    sweep = ["hydra.sweep.dir=${hydra.run.dir}", "hydra.sweep.subdir=."]
    return [*overrides[:index], *sweep, *overrides[index:]], True


def compose_sources(words: Sequence[str]) -> tuple[dict[str, Any], list[Source]]:
    """Return the result of `compose`, and the files that it comes from, in the order in which they are merged."""
    arguments = parse_words(spell_mixtures(words))
    with open_loader(arguments.config_dir) as loader:
        tree = compose_tree(loader, arguments.overrides)
        parts = loader.compute_defaults_list(ROOT, loader.complete(ROOT, arguments.overrides), RunMode.RUN).defaults
        files = [(part.package or "", loader.source.find(part.config_path)) for part in parts if part.config_path]
    return tree, [(package, file) for package, file in files if file is not None]


def choices_of(words: Sequence[str]) -> list[Choice]:
    """Return the options that these words leave to be chosen, and those that replace a preset's, with the reasons."""
    arguments = parse_words(spell_mixtures(words))
    with open_loader(arguments.config_dir) as loader:
        return [*loader.choose(ROOT, arguments.overrides), *loader.list_replaced(ROOT, arguments.overrides)]


def run_folder(words: Sequence[str]) -> str:
    """Return the folder of a run with these overrides."""
    arguments = parse_words(spell_mixtures(words))
    with open_loader(arguments.config_dir) as loader:
        compose_tree(loader, arguments.overrides)
        check_folders(HydraConfig.get())
        folder = folder_named(loader, arguments.overrides, "run")[1]
        refuse_place(used_folder(HydraConfig.get(), "run"))
        return folder


def run_job(job: Job, config: DictConfig) -> Any:
    """Run one job for Hydra, here or in a launcher's process. Threads are set before anything imports torch."""
    hydra = HydraConfig.get()
    try:
        tree = to_tree(config)
        check_tree(tree)
        set_threads(tree["hardware"]["num_threads"])
        return job(build_run(tree, Path(hydra.runtime.output_dir), list(hydra.overrides.task)))
    except Exception as error:
        if hydra.mode == RunMode.RUN or isinstance(error, InterruptedRunError):
            raise Unwind(error) from error
        raise


@contextmanager
def open_loader(config_dir: str | None = None) -> Iterator[AutoLoader]:
    """Open a loader over the folder of `-cd`, the shipped folders and the user's."""
    folders = config_folders(None if config_dir is None else Path(config_dir).absolute())
    instance, token = GlobalHydra.instance(), SEARCHED.set(tuple(folders))
    instance.clear()
    try:
        initialize_config_dir(str(shipped_folder("conf")), job_name="rlx", version_base="1.3")
        hydra: Any = instance.hydra
        hydra.config_loader = loader = AutoLoader(instance.config_loader())
        yield loader
    finally:
        instance.clear()
        SEARCHED.reset(token)


def check_words(loader: AutoLoader, arguments: argparse.Namespace, check: Check) -> None:
    """Compose, build and check what will run, before a folder is made; of a multirun, every swept value."""
    cases = sweep_cases(loader, arguments.overrides) if arguments.multirun else [arguments.overrides]
    for overrides in cases:
        tree = compose_tree(loader, overrides)
        check_folders(HydraConfig.get())
        if not arguments.multirun and find_place().rank == 0:
            refuse_place(used_folder(HydraConfig.get(), "run"))
        if arguments.multirun:
            hydra = HydraConfig.get()
            place = used_folder(hydra, "sweep")
            for folder in (place, *(child for child in place.glob("[!.]*") if child.is_dir())):
                refuse_irregular(folder)
            check_sweeper(hydra.runtime.choices[SWEEPER], hydra.sweeper, tree.get("objective"))
        set_threads(tree["hardware"]["num_threads"])
        check(build_run(tree, Path()), HydraConfig.get().runtime.choices[LAUNCHER] == "basic")


def check_folders(hydra: Any) -> None:
    """A run's folder has a name: the empty one would be the folder one is in."""
    for group, key in (("run", "dir"), ("sweep", "dir"), ("sweep", "subdir")):
        folder = OmegaConf.to_container(hydra[group], resolve=False)[key]  # type: ignore[index, call-overload]
        if not str(folder or "").strip():
            raise ConfigError(f"hydra.{group}.{key}={folder or ''}: expected the name of a folder")


def used_folder(hydra: Any, kind: str) -> Path:
    """Return the folder of a run or a sweep. Raise ConfigError for a name that holds a reference as text: Hydra would
    resolve the name once more, and make a second folder."""
    try:
        name = str(hydra[kind].dir)
    except COMPOSE_ERRORS as error:
        text = OmegaConf.to_container(hydra[kind], resolve=False)["dir"]  # type: ignore[index, call-overload]
        raise ConfigError(f"hydra.{kind}.dir={to_text(text)}: {str(error).splitlines()[0]}") from error
    if REFERENCE in name:
        raise ConfigError(f"hydra.{kind}.dir={to_text(name)}: the name of a folder cannot hold {REFERENCE}")
    return Path(name)


def sweep_cases(loader: AutoLoader, overrides: Sequence[str]) -> Iterator[list[str]]:
    """Overrides that together hold each swept value at least once: one varies, the others keep their first."""
    try:
        config = loader.load_configuration(ROOT, list(overrides), RunMode.MULTIRUN)
        sweep = OmegaConf.select(config, "hydra.sweeper.params") or {}
    except COMPOSE_ERRORS as error:
        raise ConfigError(explain(error, loader, overrides)) from error
    words = [*(f"{key}={value}" for key, value in sweep.items()), *overrides]
    choices = [values_of(override) for override in parse_overrides(words)]
    firsts = [values[0] for values in choices]
    yield firsts
    for index, values in enumerate(choices):
        for value in values[1:]:
            yield [*firsts[:index], value, *firsts[index + 1 :]]


def first_case(loader: AutoLoader, arguments: argparse.Namespace) -> list[str]:
    """Return the overrides of a run, or of the first job of a multirun."""
    return next(sweep_cases(loader, arguments.overrides)) if arguments.multirun else list(arguments.overrides)


def compose_tree(loader: AutoLoader, overrides: Sequence[str]) -> dict[str, Any]:
    """The checked, resolved configuration of these overrides, as plain values."""
    try:
        config = loader.load_configuration(ROOT, list(overrides), RunMode.RUN)
        HydraConfig.instance().set_config(config)
        tree = to_tree(config)
    except COMPOSE_ERRORS as error:
        raise ConfigError(explain(error, loader, overrides)) from error
    check_tree(tree, choices=HydraConfig.get().runtime.choices)
    return tree


def complete(words: Sequence[str], word: str) -> list[str]:
    """Groups, options and keys that can follow; never an error."""
    try:
        with open_loader() as loader:
            arms = [f"+{ARM}={name}" for name in loader.list_arms(words)]
            if word.startswith(f"+{ARM}="):
                return [arm for arm in arms if arm.startswith(word)]
            completions = DefaultCompletionPlugin(loader)._query(ROOT, " ".join([*words, word]))
            completions += [f"+{ARM}="] if arms and f"+{ARM}=".startswith(word) else []
            return [
                f"{name}=" if name.isidentifier() and loader.get_group_options(name) else name for name in completions
            ]
    except COMPOSE_ERRORS:
        return []
