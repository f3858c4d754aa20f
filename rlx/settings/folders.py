"""Folders of configuration files: the shipped ones (in a checkout or an installed wheel), then the user's own."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rlx.runs.plain_yaml import PlainError, parse_small
from rlx.runs.provenance import named_imports
from rlx.settings.check import ConfigError
from rlx.settings.defaults import add_defaults

PACKAGE = Path(__file__).resolve().parents[1]
IN_WHEEL = {"scripts/reproduce": "reproductions", "scripts/papers": "papers"}
"""Names in a wheel that differ from those in a checkout."""
FAMILIES = ("env",)
"""Groups whose options may stand in folders within: `env=game/guess_the_number`."""
TARGET = re.compile(r"^\s*(?:-\s*)?_target_:\s*['\"]?([\w.]+)", re.MULTILINE)


def shipped_folder(path: str) -> Path:
    """Return a shipped folder such as `conf` or `scripts/papers`, which a wheel has inside the package."""
    inside = PACKAGE / IN_WHEEL.get(path, path)
    return inside if inside.is_dir() else PACKAGE.parent / path


def search_folders() -> list[tuple[str, Path]]:
    """Folders searched after the shipped `conf`, each with the name Hydra shows for it."""
    home = Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config"))
    folders = [("rlx-sweeps", shipped_folder("sweeps"))]
    if named := os.environ.get("RLX_CONF_DIR"):
        user_folder = Path(os.path.expanduser(named)).absolute()
        if not user_folder.is_dir():
            raise ConfigError(f"RLX_CONF_DIR={named:.200}: there is no such folder; make it, or unset RLX_CONF_DIR")
        folders.append(("RLX_CONF_DIR", user_folder))
    folders += [("rlx-here", Path.cwd() / "conf"), ("rlx-home", home / "rlx" / "conf")]
    shipped = shipped_folder("conf")
    return [(name, folder) for name, folder in folders if folder.is_dir() and folder.resolve() != shipped.resolve()]


def config_folders(first: Path | None = None) -> list[Path]:
    """Every folder that holds groups, the first one winning: `first` is that of `-cd`."""
    if first is not None and not first.is_dir():
        raise ConfigError(f"-cd {first}: there is no such folder")
    user_folders = [first] if first is not None else []
    return [*user_folders, shipped_folder("conf"), *(folder for _, folder in search_folders())]


def trusted_folders(run: Path, first: Path | None = None) -> list[Path]:
    """Folders of options whose targets a configuration saved in `run` may call.

    The shipped ones, `-cd`, and folders that the environment names by an absolute path. What depends on the current
    folder, as `./conf` does, may have come with the run: it counts where the user has put the current folder on the
    import path by an absolute name (`export PYTHONPATH="$PWD"`), and not inside the run.
    """
    absolute = [folder for name, folder in search_folders() if name == "rlx-sweeps" or not is_relative(name)]
    current = (
        [folder for _, folder in search_folders() if folder not in absolute] if is_user_project(Path.cwd(), run) else []
    )
    if first is not None and not first.is_dir():
        raise ConfigError(f"-cd {first}: there is no such folder")
    return [*([first] if first is not None else []), shipped_folder("conf"), *absolute, *current]


def is_relative(name: str) -> bool:
    """Return whether a search folder's place depends on the current folder."""
    places = {"RLX_CONF_DIR": os.environ.get("RLX_CONF_DIR", ""), "rlx-home": os.environ.get("XDG_CONFIG_HOME") or "/"}
    return not os.path.isabs(os.path.expanduser(places.get(name, "")))


def is_user_project(current: Path, run: Path) -> bool:
    """Return whether the user imports code from the folder `current`, outside the run; symlinks are followed."""
    current, run = current.resolve(), run.resolve()
    return not current.is_relative_to(run) and current in {Path(place).resolve() for place in named_imports()}


def list_options(group: str, folders: Sequence[Path] | None = None) -> dict[str, str]:
    """The options of a group, each with the description that its file's first line gives."""
    return {name: describe_file(file) for name, file in option_files(group, folders).items()}


def option_files(group: str, folders: Sequence[Path] | None = None) -> dict[str, Path]:
    """The options of a group, each with its file."""
    options: dict[str, Path] = {}
    for folder in folders or config_folders():
        for file in sorted((folder / group).glob("**/*.yaml" if group in FAMILIES else "*.yaml")):
            options.setdefault(file.relative_to(folder / group).with_suffix("").as_posix(), file)
    return dict(sorted(options.items()))


def read_option(group: str, name: str, folders: Sequence[Path] | None = None) -> dict[str, Any]:
    """An option's keys, its defaults below its own, without the time that Hydra takes; a shipped one unless there are
    `folders`."""
    below, tree = read_layers(group, name, folders)
    return merge_layers(below, tree)


def merge_layers(below: dict[str, Any], tree: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of an option: its file with defaults, above `below`, the merged files of its defaults list."""
    return _merge(below, add_defaults(tree, below))


def read_layers(group: str, name: str, folders: Sequence[Path] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keys of the files that an option builds on, and those that its own file has."""
    places = [folder / group / f"{name}.yaml" for folder in folders or [shipped_folder("conf")]]
    file = next((place for place in places if place.is_file()), places[0])
    try:
        tree = copy.deepcopy(parse_yaml(file.read_text(encoding="utf-8")))
    except PlainError as error:
        raise ConfigError(f"{file}: {error}") from None
    others = [other for other in tree.pop("defaults", []) if other != "_self_"]
    below: dict[str, Any] = {}
    for other in others:
        below = _merge(_without_overridden(below, other), _read_default(group, other, folders))
    return below, tree


@cache
def parse_yaml(text: str) -> Any:
    """Parse a file's text. Cached, because one command reads some files many times; copy the value to change it."""
    return parse_small(text)


def shipped_options(group: str) -> dict[str, dict[str, Any]]:
    """The keys of every shipped option of a group."""
    files = sorted((shipped_folder("conf") / group).glob("*.yaml"))
    return {file.stem: read_option(group, file.stem) for file in files}


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Merge as Hydra does: two mappings under one key become one with the keys of both."""
    both = {key for key in below.keys() & above if isinstance(below[key], dict) and isinstance(above[key], dict)}
    return below | above | {key: _merge(below[key], above[key]) for key in both}


def _read_default(group: str, default: str | dict[str, str], folders: Sequence[Path] | None) -> dict[str, Any]:
    """An option of the same group (from a folder within it: `game/sudoku@_here_`), of a group inside it (`recipe: 7b`,
    `override recipe: 7b`), or of any group below a key (`/env@parts.first.env: countdown`)."""
    if isinstance(default, str):
        return read_option(group, default.removesuffix("@_here_"), folders)
    [(inner, name)] = default.items()
    inner, _, place = inner.removeprefix("override ").partition("@")
    tree = read_option(inner[1:] if inner.startswith("/") else f"{group}/{inner}", name, folders)
    for key in reversed((place or inner).split(".")):
        tree = {key: tree}
    return tree


def _without_overridden(below: dict[str, Any], default: str | dict[str, str]) -> dict[str, Any]:
    """Leave out what an `override X: …` replaces: an option inherited for the same place."""
    [inner] = default if isinstance(default, dict) else [""]
    if not inner.startswith("override "):
        return below
    group, _, place = inner.removeprefix("override ").partition("@")
    return _without(below, (place or group).split("."))


def _without(tree: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    first, *rest = path
    if not rest:
        return {key: value for key, value in tree.items() if key != first}
    return tree | ({first: _without(tree[first], rest)} if isinstance(tree.get(first), dict) else {})


def list_groups(folders: Sequence[Path] | None = None) -> list[str]:
    """The groups of every config folder, `sweep` among them, without Hydra's own."""
    groups = {child.name for folder in folders or config_folders() for child in folder.iterdir() if child.is_dir()}
    return sorted(groups - {"hydra"})


def every_group(folders: Sequence[Path] | None = None) -> list[str]:
    """List the groups with their inner groups, such as `model/lora`."""
    groups = {
        file.parent.relative_to(folder).as_posix()
        for folder in folders or config_folders()
        for pattern in ("*/*.yaml", "*/*/*.yaml")
        for file in folder.glob(pattern)
    }
    listed = (group for group in groups if group.partition("/")[0] not in FAMILIES or group in FAMILIES)
    return sorted(group for group in listed if not group.startswith(("hydra", ".")) and "/." not in group)


def list_targets(folders: Sequence[Path] | None = None) -> set[str]:
    """Every `_target_` that some file of the config folders names."""
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in config_files(folders))
    return {target for text in texts for target in TARGET.findall(text)}


def config_files(folders: Sequence[Path] | None = None) -> Iterator[Path]:
    for folder in folders or config_folders():
        yield from folder.glob("**/*.yaml")


def describe_file(file: Path) -> str:
    """Return the description in a file's first line, or why the file cannot be read."""
    try:
        text = file.read_text(encoding="utf-8")
        parse_yaml(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = str(error).replace('in "<unicode string>", ', "at ")
        return f"(cannot be read: {' '.join(reason.split())})"
    comments = (line for line in text.splitlines() if line.startswith("#") and not line.startswith("# @"))
    return next(comments, "").lstrip("# ").strip()
