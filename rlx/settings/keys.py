"""Meanings of configuration keys, with type, value and place.

The meaning of a key stands at the parameter that takes it, in the source of its target (rlx/settings/signature.py). The
comment of a file above a key, or beside it, follows as a remark on the file's value. A call without a meaning takes the
first paragraph of its target's docstring. A key of plain data takes the meaning of its parent.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rlx.base.limits import near
from rlx.runs.folder import DERIVED
from rlx.runs.plain_yaml import require_small
from rlx.settings.check import SPECIAL, WORDS, ConfigError, Tree, describe, literals, show
from rlx.settings.defaults import NO_VALUE, default_of
from rlx.settings.folders import describe_file
from rlx.settings.signature import Parameter, lookup, signature

Source = tuple[str, Path]
"""A file that a configuration is made of, and the key that its own keys stand below."""
NOT_KEYS = (*SPECIAL, "defaults")


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """A file's comment on a key, and the key's value as the file, or else the source, writes it."""

    text: str = ""
    file: Path | None = None
    line: int = 0
    written: str = ""


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key of a composed configuration; `kind` is its type in words."""

    path: str
    value: Any
    kind: str
    meaning: Meaning

    @property
    def is_leaf(self) -> bool:
        return not isinstance(self.value, Mapping) or not self.value


def read_meanings(file: Path) -> dict[str, Meaning]:
    """The keys of a file by their dotted names."""
    try:
        return dict(parse_meanings(file.read_text(encoding="utf-8"), file))
    except (OSError, ValueError, yaml.YAMLError):
        return {}


@cache
def parse_meanings(text: str, file: Path) -> dict[str, Meaning]:
    """Return the keys of a file's text; cached, because each listing of keys reads some thirty files."""
    require_small(text)
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    return dict(_walk(root, "", text, file)) if isinstance(root, yaml.MappingNode) else {}


def _walk(node: yaml.MappingNode, above: str, text: str, file: Path) -> Iterator[tuple[str, Meaning]]:
    for key, value in node.value:
        if key.value in NOT_KEYS:
            continue
        path, plain = f"{above}{key.value}", not isinstance(value, yaml.MappingNode) or not value.value
        yield (
            path,
            Meaning(
                text=comment_of(text.splitlines(), key.start_mark.line, value.end_mark.column if plain else None),
                file=file,
                line=key.start_mark.line + 1,
                written=text[value.start_mark.index : value.end_mark.index].strip() if plain else "",
            ),
        )
        if isinstance(value, yaml.MappingNode):
            yield from _walk(value, f"{path}.", text, file)


def comment_of(lines: Sequence[str], row: int, column: int | None = None) -> str:
    """The comment above a line, or behind `column` of it. The comment that opens a file is of the file."""
    beside = lines[row][column:].strip() if column is not None else ""
    if beside.startswith("#"):
        return beside.lstrip("# ")
    first = row
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return " ".join(line.strip().lstrip("# ") for line in lines[first:row]) if first > 0 else ""


def meanings_of(sources: Iterable[Source]) -> dict[str, Meaning]:
    """Merge the meanings of all files; a later file overrides an earlier one."""
    meanings: dict[str, Meaning] = {}
    for package, file in sources:
        if package:
            meanings[package] = Meaning(text=describe_file(file), file=file, line=1)
        for name, meaning in read_meanings(file).items():
            meanings[f"{package}.{name}".lstrip(".")] = meaning
    return meanings


def list_keys(tree: Tree, sources: Iterable[Source]) -> list[Key]:
    """Every key of a composed configuration, in its order."""
    return list(_list(tree, "", Meaning(), "rlx.run.run.Run", meanings_of(sources)))


def _list(tree: Tree, above: str, parent: Meaning, target: str, meanings: Mapping[str, Meaning]) -> Iterator[Key]:
    for name, value in tree.items():
        if name in NOT_KEYS:
            continue
        path, child_target = f"{above}{name}", value.get("_target_", "") if isinstance(value, Mapping) else ""
        parameter, meaning = parameter_of(target, name), meanings.get(path, Meaning())
        text = " ".join(filter(None, (parameter.text if parameter else "", meaning.text)))
        meaning = replace(
            meaning,
            text=text or docstring(child_target) or ("" if target else parent.text),
            written=meaning.written or write_default(parameter),
        )
        kind = describe_type(parameter) or ("" if target else kind_of_data(child_target, value))
        yield Key(path=path, value=value, kind=kind, meaning=meaning)
        if isinstance(value, Mapping):
            yield from _list(value, f"{path}.", meaning, child_target, meanings)


def parameter_of(target: str, name: str) -> Parameter | None:
    """Return a target's parameter; None where the source has none of this name."""
    try:
        return signature(target).parameters.get(name) if target else None
    except LookupError:
        return None


def describe_type(parameter: Parameter | None) -> str:
    """Describe the type of a parameter; empty if the source has no type."""
    if parameter is None or parameter.annotation is None:
        return ""
    choices = literals(parameter.annotation)
    return " or ".join(map(str, choices)) if choices else describe(parameter.annotation)


def write_default(parameter: Parameter | None) -> str:
    """Return a parameter's default as a file would write it; empty without one."""
    default = NO_VALUE if parameter is None else default_of(parameter)
    return "" if default is NO_VALUE else show(default)


def kind_of_data(target: str, value: Any) -> str:
    """Describe a value of plain data, which has no declared type: as a call of `own`, or by the type of the value."""
    return f"the keys of {target.rpartition('.')[2]}" if target else WORDS.get(type(value).__name__, "anything")


def docstring(target: str) -> str:
    """The first paragraph of what is said where a target is defined."""
    try:
        node = lookup(*target.rpartition(".")[::2]) if target else None
    except LookupError:
        return ""
    text = ast.get_docstring(node) if isinstance(node, ast.ClassDef | ast.FunctionDef) else None
    return " ".join((text or "").partition("\n\n")[0].split())


def list_missing(key: Key) -> list[str]:
    """Return the keywords of a call's target that the call does not set."""
    target = key.value.get("_target_", "") if isinstance(key.value, Mapping) else ""
    try:
        return [name for name in signature(target).parameters if name not in key.value] if target else []
    except LookupError:
        return []


def find(keys: Sequence[Key], path: str) -> list[Key]:
    """The key and all below it; ConfigError with names near it where there is none."""
    matches = [key for key in keys if key.path == path or key.path.startswith(f"{path}.")]
    if matches:
        return matches
    above = path.rpartition(".")[0]
    beside = [key.path.rpartition(".")[2] for key in keys if key.path.rpartition(".")[0] == above]
    raise ConfigError(f"there is no key {path!r}{suggest(path, keys, beside)}")


def suggest(path: str, keys: Sequence[Key], names: Sequence[str]) -> str:
    """`; did you mean …?`: the same last word elsewhere; else a name near it; else what means its words."""
    last = path.rpartition(".")[2]
    same = [key.path for key in keys if key.path.rpartition(".")[2] == last]
    is_near = bool(difflib.get_close_matches(last, names, cutoff=0.6))
    used = [key for key in keys if not key.path.startswith(DERIVED)]  # these take the recipe's values
    suggestions = nearest(path, same) or ([] if is_near else nearest(path, means(last, used) or means(last, keys)))
    return f"; did you mean {', '.join(suggestions)}?" if suggestions else near(last, names)


def means(name: str, keys: Sequence[Key]) -> list[str]:
    """Return the keys whose comment contains these words, ordered by the position of the words."""
    words = name.replace("_", " ").lower()
    positions = {key.path: key.meaning.text.lower().find(words) for key in keys if key.is_leaf and len(words) > 3}
    return sorted((path for path, place in positions.items() if place >= 0), key=lambda path: positions[path])


def nearest(path: str, paths: Sequence[str]) -> list[str]:
    """Return at most four paths: those with the first word of `path` first, then the least deep."""
    head = path.partition(".")[0]
    return sorted(paths, key=lambda other: (other.partition(".")[0] != head, other.count(".")))[:4]
