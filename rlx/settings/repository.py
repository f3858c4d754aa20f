"""Parse each configuration file once per process, and complete it with the defaults of what it calls.

A command composes several times: to choose options, to check, to run. Hydra would parse every file each time.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hydra._internal.config_repository import ConfigRepository
from hydra.core.default_element import ConfigDefault, GroupDefault
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import OmegaConf
from yaml import YAMLError

from rlx.runs.plain_yaml import PlainError, require_small
from rlx.settings.check import ConfigError
from rlx.settings.defaults import add_defaults, places_of
from rlx.settings.presets import is_base


@dataclass(frozen=True, slots=True)
class Parsed:
    """Configuration that Hydra made of a file, and the content of the file before Hydra read it."""

    content: bytes
    result: ConfigResult


parsed_files: dict[tuple[str, str, str], Parsed] = {}
"""Last parse of each file: by the provider and the path of its source, and its name in it."""


class Repository(ConfigRepository):
    """Hydra's repository, which parses a file again only if its content has changed."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Share the sources. Hydra copies a repository per composition to replace its list of sources, and would copy
        all of its own configuration with them."""
        return copy.copy(self)

    def load_config(self, config_path: str) -> ConfigResult | None:
        """Return a copy of the parsed file, because a composition changes what it loads."""
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        content = read_content(source, config_path) if source else None
        if source is None or content is None:
            return super().load_config(config_path)
        key = (source.provider, source.path, config_path)
        if key not in parsed_files or parsed_files[key].content != content:
            require_bounded(Path(source.path, config_path), content)
            result = super().load_config(config_path)
            assert result is not None
            self.complete(result, config_path)
            parsed_files[key] = Parsed(content, result)
        return copy.deepcopy(parsed_files[key].result)

    def complete(self, result: ConfigResult, config_path: str) -> None:
        """Add the defaults of what a file calls. A preset only changes what other files call."""
        if result.header.get("package") == "_global_":
            return
        entries = result.defaults_list or []
        below = places_of([entry.package or entry.group or "" for entry in entries if isinstance(entry, GroupDefault)])
        for entry in entries:
            if isinstance(entry, ConfigDefault) and entry.path and is_base(entry.path):
                base = self.load_config(f"{config_path.rpartition('/')[0]}/{entry.path}")
                below |= to_plain(base.config) if base is not None else {}
        result.config = OmegaConf.create(add_defaults(to_plain(result.config), below))


def to_plain(config: Any) -> Any:
    """Return a file's values, with references as text."""
    return OmegaConf.to_container(config, resolve=False)


def require_bounded(path: Path, content: bytes) -> None:
    """Refuse a file before Hydra expands its aliases."""
    try:
        require_small(content.decode("utf-8"))
    except PlainError as error:
        raise ConfigError(f"{path.with_suffix('.yaml')}: {error}") from None
    except (UnicodeDecodeError, YAMLError):
        return  # Hydra says what is wrong with it


def read_content(source: ConfigSource, name: str) -> bytes | None:
    """Read the file of a source. Files of a package do not change: they count as empty. None if there is no file."""
    if source.scheme() != "file":
        return b"" if source.scheme() == "pkg" else None
    try:
        return Path(source.path, source._normalize_file_name(name)).read_bytes()
    except OSError:
        return None
