"""`rlx keys`: the meaning of a configuration's keys, as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlx.base.console import hang
from rlx.settings.check import show
from rlx.settings.compose import compose_sources
from rlx.settings.folders import list_groups
from rlx.settings.keys import Key, find, list_keys, list_missing


def describe_keys(words: Sequence[str], config_dir: Path | None = None) -> str:
    """Describe the keys among the words, or all keys without any, in the configuration that the other words choose."""
    chosen = [word for word in words if "=" in word]
    named = [word for word in words if "=" not in word] or groups_of(chosen)
    options = ["-cd", str(config_dir)] if config_dir is not None else []
    keys = list_keys(*compose_sources([*options, *chosen]))
    parts = [describe(find(keys, name.strip("."))) for name in named] or [brief(keys)]
    return "\n\n".join(parts)


def groups_of(words: Sequence[str]) -> list[str]:
    """Return the groups of these overrides: `algo=grpo` alone asks for grpo's keys."""
    return [group for word in words if (group := word.lstrip("+").partition("=")[0]) in list_groups()]


def describe(keys: Sequence[Key]) -> str:
    """Describe one key in full, or a key with a line for each key below it."""
    first, *below = keys
    return describe_fully(first) if not below else "\n".join([*heading(first), brief(below)])


def heading(key: Key) -> list[str]:
    more = list_missing(key)
    lines = [title(key), *wrap(key.meaning.text, "  ")]
    return lines + wrap(f"It also takes {', '.join(f'+{key.path}.{name}' for name in more)}.", "  ") * bool(more)


def brief(keys: Sequence[Key]) -> str:
    """Describe each key on a line with its value, and its meaning below."""
    parts = [wrap(title(key), "  ") + wrap(key.meaning.text, "      ") for key in keys]
    return "\n".join(line for lines in parts for line in lines)


def describe_fully(key: Key) -> str:
    """Describe one key in full: meaning, type, default and source."""
    meaning = key.meaning
    rows = {
        "type": key.kind,
        "default": default_of(key),
        "defined": f"{place_of(meaning.file)}:{meaning.line}" if meaning.file else "by its target's own default",
    }
    lines = wrap(title(key), "") + wrap(meaning.text, "  ")
    return "\n".join([*lines, *(f"  {name:<8} {text}" for name, text in rows.items() if text)])


def title(key: Key) -> str:
    return f"{key.path}={show(key.value)}" if key.is_leaf else option_of(key)


def option_of(key: Key) -> str:
    """Return `algo=grpo` for the option of a group, else the path alone."""
    file = key.meaning.file
    is_option = file is not None and key.meaning.line == 1 and file.parent.name == key.path
    return f"{key.path}={file.stem}" if file is not None and is_option else f"{key.path}:"


def default_of(key: Key) -> str:
    """Return the value as written in the file, which may refer to other keys."""
    return key.meaning.written if key.is_leaf else ""


def place_of(file: Path) -> str:
    """Return the path, relative to the working directory if it is below."""
    return str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)


def wrap(text: str, indent: str) -> list[str]:
    return hang(indent, text) if text else []
