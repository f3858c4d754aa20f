"""Source of configuration files for Hydra, with the scheme `rlx`: the folders of options, the first one winning.

A file is read within bounds, parsed once per process, and completed with the defaults of the targets that it calls. A
command composes several times: to choose options, to check, to run. Hydra would parse every file each time.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import DictConfig, OmegaConf
from yaml import YAMLError

from rlx.runs.plain_yaml import PlainError, require_small
from rlx.settings.check import ConfigError
from rlx.settings.defaults import add_defaults, places_of
from rlx.settings.folders import shipped_folder

SCHEME = "rlx"
SEPARATOR = "//"
"""Text between two folders in a source's path. No absolute path contains it."""
HEADER = 512
"""Number of a file's first characters that may hold a header such as `# @package _global_`."""
GLOBAL = "_global_"
"""Package of a preset: its keys stand at the root of the configuration."""
SEARCHED: ContextVar[tuple[Path, ...]] = ContextVar("SEARCHED", default=())
"""Folders of options that a new loader of Hydra's reads; empty for a loader of another program."""
OMITTED: ContextVar[Mapping[str, Collection[str]]] = ContextVar("OMITTED", default={})  # noqa: B039
"""Places whose values are left out of a file, by the file's name in the search path."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Entry of a defaults list that chooses an option of a group."""

    group: str
    option: str
    package: str
    """Place in the configuration, if the entry names one."""
    is_override: bool

    @property
    def place(self) -> str:
        """Place of the option in the configuration, as the file writes it."""
        return self.package or self.group.lstrip("/").replace("/", ".")


@dataclass(frozen=True, slots=True)
class Parsed:
    """Configuration of a file, and the content of the file when it was parsed."""

    content: bytes
    result: ConfigResult


parsed_files: dict[tuple[Path, str], Parsed] = {}
"""Last parse of each file, by its path and its name in the search path."""


class FolderSource(ConfigSource):
    """Files of the folders of options. The main file stands outside every group: it is the shipped one."""

    def __init__(self, provider: str, path: str) -> None:
        super().__init__(provider, path)
        self.folders = tuple(Path(folder) for folder in self.path.split(SEPARATOR))

    @staticmethod
    def scheme() -> str:
        """Return the beginning of a source's address."""
        return SCHEME

    def available(self) -> bool:
        """Return True: a folder that is missing has no options."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Tell whether a folder has this group."""
        return any((folder / config_path).is_dir() for folder in self.folders)

    def is_config(self, config_path: str) -> bool:
        """Tell whether a folder has this file."""
        return self.find(config_path) is not None

    def find(self, config_path: str) -> Path | None:
        """Return the file of a name such as algo/grpo; None where there is none."""
        name = self._normalize_file_name(config_path)
        folders = self.folders if "/" in config_path else [shipped_of(self.folders)]
        return next((folder / name for folder in folders if (folder / name).is_file()), None)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """List the groups within a group, its options, or both."""
        children = [child for folder in self.folders for child in list_children(folder / config_path)]
        groups = {child.name for child in children if child.is_dir() and results_filter != ObjectType.CONFIG}
        files = {child.stem for child in children if child.suffix == ".yaml" and child.is_file()}
        return sorted(groups | (files if results_filter != ObjectType.GROUP else set()))

    def load_config(self, config_path: str) -> ConfigResult:
        """Return a copy of the parsed file, because a composition changes what it loads."""
        result = copy.deepcopy(self.parse(config_path))
        for place in OMITTED.get().get(config_path, ()):
            remove(result.config, place)
        return result

    def parse(self, config_path: str) -> ConfigResult:
        """Return the parsed file, which is parsed again only if its content has changed."""
        file = self.find(config_path)
        if file is None:
            raise ConfigLoadError(f"Config not found : {config_path}")
        content, key = file.read_bytes(), (file, config_path)
        if key not in parsed_files or parsed_files[key].content != content:
            text = read_bounded_text(file, content)
            header = self._get_header_dict(text[:HEADER])
            stream = io.StringIO(text)
            stream.name = str(file)  # a message about invalid YAML names it
            config: Any = OmegaConf.load(stream)
            if header["package"] != GLOBAL:  # a preset only changes what other files call
                config = OmegaConf.create(self.complete(to_plain(config), config_path))
            folder = next(folder for folder in self.folders if file.is_relative_to(folder))
            parsed_files[key] = Parsed(content, ConfigResult(self.provider, f"file://{folder}", config, header))
        return parsed_files[key].result

    def complete(self, tree: Any, config_path: str) -> Any:
        """Return a file's keys with the defaults of what the file calls."""
        if not isinstance(tree, Mapping):
            return tree
        listed = tree.get("defaults")
        below = places_of([entry.place for entry in entries_of(listed)])
        for name in bases_of(listed, config_path):
            base = to_plain(self.parse(name).config) if self.is_config(name) else {}
            below |= {key: value for key, value in base.items() if key != "defaults"}
        keys = {key: value for key, value in tree.items() if key != "defaults"}
        return {**({} if listed is None else {"defaults": listed}), **add_defaults(keys, below)}

    def choices(self, config_path: str) -> Iterator[Entry]:
        """Yield the options of other groups that a file chooses with `override`, those of the file's bases first."""
        if not self.is_config(config_path):
            return
        listed = to_plain(self.parse(config_path).config).get("defaults")
        for item in listed or ():
            yield from (entry for entry in entries_of([item]) if entry.is_override)
            for name in bases_of([item], config_path):
                yield from self.choices(name)


def shipped_of(folders: Sequence[Path]) -> Path:
    """Return the folder that has the main file: the shipped one, wherever it stands among the folders."""
    shipped = shipped_folder("conf")
    return shipped if shipped in folders else folders[0]


def list_children(folder: Path) -> list[Path]:
    """List what a folder holds, without caches of Python's; nothing where there is no folder."""
    return [child for child in folder.iterdir() if child.name != "__pycache__"] if folder.is_dir() else []


def address_of(folders: Sequence[Path]) -> str:
    """Return the address of the source that reads these folders."""
    return f"{SCHEME}://{SEPARATOR.join(str(folder.absolute()) for folder in folders)}"


def entries_of(listed: Any) -> list[Entry]:
    """Return the entries of a defaults list that choose options of groups, such as `override /algo: grpo`."""
    pairs = (pair for item in listed or () if isinstance(item, Mapping) for pair in item.items())
    return [read_entry(str(key), option) for key, option in pairs]


def read_entry(key: str, option: Any) -> Entry:
    *keywords, last = key.split(" ")
    group, _, package = last.partition("@")
    return Entry(group=group, option=str(option), package=package, is_override="override" in keywords)


def bases_of(listed: Any, config_path: str) -> list[str]:
    """Return the files of a defaults list that are options of the file's own group."""
    names = [item.partition("@")[0] for item in listed or () if isinstance(item, str)]
    group = config_path.rpartition("/")[0]
    return [f"{group}/{name}" for name in names if name != "_self_" and not name.startswith("/")]


def to_plain(config: Any) -> Any:
    """Return a file's values, with references as text."""
    return OmegaConf.to_container(config, resolve=False)


def read_bounded_text(file: Path, content: bytes) -> str:
    """Return a file's text. ConfigError for a file too large or too deep, before the aliases in it are expanded."""
    text = content.decode("utf-8")
    try:
        require_small(text)
    except PlainError as error:
        raise ConfigError(f"{file}: {error}") from None
    except YAMLError:
        pass  # OmegaConf says what is wrong with it
    return text


def remove(config: Any, place: str) -> None:
    """Remove what a configuration has at a place, if anything."""
    above, _, last = place.rpartition(".")
    holder = OmegaConf.select(config, above) if above else config
    if isinstance(holder, DictConfig) and last in holder:
        del holder[last]


@contextmanager
def omit(places: Mapping[str, Collection[str]]) -> Iterator[None]:
    """Leave values out of some files."""
    token = OMITTED.set(places)
    try:
        yield
    finally:
        OMITTED.reset(token)
