"""Compose, check, build: the only place that knows Hydra, but for the grammar of its words (words.py) and what is told
of a wrong one (explain.py). Plain dictionaries and a `Run` leave it, no DictConfig."""

from __future__ import annotations

import argparse
import functools
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
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
from rlx.settings.auto import AutoLoader, auto_loader
from rlx.settings.build import build_part, build_run, build_value
from rlx.settings.check import ConfigError
from rlx.settings.explain import COMPOSE_ERRORS, HYDRA_ERRORS, ROOT, check_tree, explain, to_tree
from rlx.settings.folders import list_groups, list_options, shipped_folder
from rlx.settings.keys import Source
from rlx.settings.words import (
    check_sweeper,
    one_line,
    options_last,
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
SHOWING = ("info", "help", "hydra_help", "shell_completion")
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
    One that `writes` has a folder in which it can."""
    arguments = parse_words(spell_mixtures(words))
    with open_loader(arguments.config_dir) as loader:
        tree = compose_tree(loader, first_case(loader, arguments))
        check_folders(HydraConfig.get())
        if writes and not arguments.multirun:
            refuse_place(used_folder(HydraConfig.get(), "run"))
        return tree


def accept(run: Run, here: bool) -> None:
    """Accept any run."""


def launch(words: Sequence[str], job: Job, check: Check = accept) -> Any:
    """Check every configuration the words mean, then let Hydra run `job` on each: once, or for all of a multirun. One
    that `--cfg` shows may be of another machine."""
    import hydra

    words = spell_mixtures(words)
    arguments = parse_words(words)
    if not any(getattr(arguments, name) for name in SHOWING):
        with open_loader(arguments.config_dir) as loader:
            check_words(loader, arguments, accept if arguments.cfg else check)
            words = name_folder(loader, words, arguments)
        words = quiet_others(as_sweep_of_one(words, arguments), arguments)
    program, sys.argv = sys.argv, [sys.argv[0], *options_last(words)]
    logging.getLogger("alembic").setLevel(logging.WARNING)  # optuna's: it tells of every plugin of its own
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Errors reach us, who tell them in one line, instead of being printed there.
    decorate = hydra.main(version_base="1.3", config_path=str(shipped_folder("conf")), config_name=ROOT)
    try:
        with auto_loader():
            return decorate(functools.partial(run_job, job))()
    except Unwind as unwind:
        raise unwind.error from None
    except HYDRA_ERRORS as error:
        raise ConfigError(one_line(error)) from error
    finally:
        sys.argv = program


def name_folder(loader: AutoLoader, words: Sequence[str], arguments: argparse.Namespace) -> list[str]:
    """Make the folder of a run or a sweep, where its name is the time, and name it: two that start in the same second
    get two. Of several processes only the first does."""
    if arguments.cfg or find_place().rank:
        return list(words)
    kind = "sweep" if arguments.multirun else "run"
    name, folder = folder_named(loader, first_case(loader, arguments), kind)
    return [*words, f"hydra.{kind}.dir={quote(reserve_folder(folder))}"] if "${now:" in name else list(words)


def folder_named(loader: AutoLoader, overrides: Sequence[str], kind: str) -> tuple[str, str]:
    """Return the folder of a run or a sweep: as the configuration writes it, and what that is now."""
    config = loader.load_configuration(ROOT, list(overrides), RunMode.RUN)
    HydraConfig.instance().set_config(config)
    written = OmegaConf.to_container(config.hydra[kind], resolve=False)
    return str(written["dir"]), str(config.hydra[kind].dir)  # type: ignore[index, call-overload]


def quiet_others(words: Sequence[str], arguments: argparse.Namespace) -> list[str]:
    """Let only the first of several processes make the run's folder: the others' clocks would name another one."""
    if find_place(slurm=False).size > 1 and arguments.multirun:
        raise ConfigError("-m cannot go with torchrun: sweep with hydra/launcher=slurm, or start each run by itself")
    return list(words) if find_place().rank == 0 else [*words, "hydra.run.dir=.", "hydra.output_subdir=null"]


def as_sweep_of_one(words: Sequence[str], arguments: argparse.Namespace) -> list[str]:
    """A single run with a launcher as a sweep in the run's own folder: launchers only run sweeps."""
    chosen = [override for override in parse_overrides(arguments.overrides) if override.key_or_group == LAUNCHER]
    if arguments.multirun or not chosen or chosen[-1].value() == "basic":
        return list(words)
    index = list(words).index(chosen[-1].input_line or "")
    sweep = ["hydra.sweep.dir=${hydra.run.dir}", "hydra.sweep.subdir=."]
    return ["--multirun", *words[:index], *sweep, *words[index:]]


def compose_sources(words: Sequence[str]) -> tuple[dict[str, Any], list[Source]]:
    """Return the result of `compose`, and the files that it comes from, in the order in which they are merged."""
    arguments = parse_words(spell_mixtures(words))
    with open_loader(arguments.config_dir) as loader:
        tree = compose_tree(loader, arguments.overrides)
        parts = loader.compute_defaults_list(ROOT, loader.complete(ROOT, arguments.overrides), RunMode.RUN).defaults
        found = [(part.package or "", _file_of(loader, part.config_path)) for part in parts if part.config_path]
    return tree, [(package, file) for package, file in found if file is not None]


def _file_of(loader: AutoLoader, name: str) -> Path | None:
    """Return the file of a part of the configuration; None for a part of Hydra itself."""
    found = loader.repository.load_config(name)
    scheme, _, folder = str(found and found.path).partition("://")
    return Path(folder) / f"{name}.yaml" if scheme == "file" else None


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
    """Hydra's loader over the shipped folder, the user's, and `-cd`."""
    search_path = create_config_search_path(str(shipped_folder("conf")))
    if config_dir is not None:
        folder = Path(config_dir).absolute()
        if not folder.is_dir():
            raise ConfigError(f"-cd {config_dir}: there is no such folder")
        search_path.prepend("command-line", f"file://{folder}", SearchPathQuery(provider="schema"))
    GlobalHydra.instance().clear()
    try:
        with auto_loader():
            loader: Any = Hydra.create_main_hydra2("rlx", search_path).config_loader
        yield loader
    finally:
        GlobalHydra.instance().clear()


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
    """Return the folder of a run or a sweep. ConfigError where its name holds a reference as text: Hydra would resolve
    the name once more, and make a second folder."""
    try:
        name = str(hydra[kind].dir)
    except COMPOSE_ERRORS as error:
        given = OmegaConf.to_container(hydra[kind], resolve=False)["dir"]  # type: ignore[index, call-overload]
        raise ConfigError(f"hydra.{kind}.dir={to_text(given)}: {str(error).splitlines()[0]}") from error
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
    from hydra._internal.core_plugins.bash_completion import BashCompletion

    try:
        with open_loader() as loader:
            arms = [f"+{ARM}={name}" for name in loader.list_arms(words)]
            if word.startswith(f"+{ARM}="):
                return [arm for arm in arms if arm.startswith(word)]
            found = BashCompletion(loader)._query(ROOT, " ".join([*words, word]))
            found += [f"+{ARM}="] if arms and f"+{ARM}=".startswith(word) else []
            return [f"{name}=" if name.isidentifier() and loader.get_group_options(name) else name for name in found]
    except COMPOSE_ERRORS:
        return []
