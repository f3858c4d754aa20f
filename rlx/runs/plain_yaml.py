"""YAML that may come from anyone: plain values, of bounded size, depth and number, from a regular file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from rlx.base.console import one_line
from rlx.base.regular import read_bounded

DEEPEST = 100
"""Values within each other."""
LARGEST_OPTION = 2**18
"""Characters of an option's file."""
MOST_VALUES = 20_000
"""Values of an option's file with its aliases written out."""
SCALARS = (str, int, float, bool, type(None))


class PlainError(ValueError):
    """Text that is YAML, and no plain values."""


class Composer(yaml.SafeLoader):
    """Composes nodes nested within DEEPEST; an alias is the node that it names."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            raise PlainError(f"it is nested more than {DEEPEST} deep")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class Distinct(yaml.SafeLoader):
    """Refuses a key that a mapping has twice: YAML would keep the last and say nothing of the others."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        refuse_repeated_keys(node)
        return super().construct_mapping(node, deep)


def refuse_repeated_keys(node: Any) -> None:
    """Refuse a mapping with the same key twice."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    keys: set[tuple[str, str]] = set()
    for key in (key for key, _ in pairs if isinstance(key, yaml.ScalarNode)):
        if (key.tag, key.value) in keys:
            raise PlainError(f"it has {one_line(key.value, 60)} a second time in line {key.start_mark.line + 1}")
        keys.add((key.tag, key.value))


class Loader(Distinct, Composer):
    """Without aliases, of which a few lines expand to more than memory holds: rlx writes none."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise PlainError("it has aliases (*name)")
        return super().compose_node(parent, index)


def require_small(text: str) -> None:
    """Refuse the text of an option whose values are too many once its aliases are written out, too deep or too large.

    Ten lines of aliases of aliases expand to a billion values. Composing the nodes expands none of them, and each is
    counted once.
    """
    if len(text) > LARGEST_OPTION:
        raise PlainError(f"it has {len(text):,} characters, more than the {LARGEST_OPTION:,} that are read")
    if has_aliases(text) or may_be_deep(text):
        count_values(yaml.compose(text, Composer), {})


def parse_small(text: str) -> Any:
    """Parse YAML of bounded size; its aliases share one value."""
    require_small(text)
    return yaml.load(text, Distinct)


def has_aliases(text: str) -> bool:
    return "&" in text and "*" in text


def may_be_deep(text: str) -> bool:
    """Tell whether a text may be nested deeply: by brackets, dashes or question marks, or by its indentation."""
    opened = text.count("[") + text.count("{")
    longest = max((len(line) - len(line.lstrip(" ")) for line in text.splitlines()), default=0)
    return opened > DEEPEST or longest > DEEPEST or max(map(dashes_of, text.splitlines()), default=0) > DEEPEST


def dashes_of(line: str) -> int:
    """Count the marks of a line that each open a list or a mapping."""
    return line.count("- ") + line.count("? ")


def count_values(node: Any, counts: dict[int, int]) -> int:
    """Count the values of a node with every alias written out; `counts` is 0 for a node in progress."""
    if isinstance(node, yaml.ScalarNode) or node is None:
        return 1
    if id(node) in counts:
        if not counts[id(node)]:
            raise PlainError(f"an alias (*name) stands within what it names, line {node.start_mark.line + 1}")
        return counts[id(node)]
    counts[id(node)] = 0
    pairs = node.value if isinstance(node, yaml.SequenceNode) else [each for pair in node.value for each in pair]
    counts[id(node)] = count = 1 + sum(count_values(each, counts) for each in pairs)
    if count > MOST_VALUES:
        raise PlainError(f"its aliases (*name) stand for more than {MOST_VALUES:,} values; write fewer")
    return count


def read_plain(path: Path) -> Any:
    """Read lists, mappings with text keys, text, numbers, booleans and nulls; OSError, PlainError or YAMLError."""
    value = yaml.load(read_bounded(path).decode("utf-8"), Loader)
    require_plain(value)
    return value


def require_plain(value: Any) -> None:
    """Refuse dates, sets and bytes, which YAML has and a configuration has not, and keys that are no text."""
    if isinstance(value, dict):
        for key, child in value.items():
            if not isinstance(key, str):
                raise PlainError(f"the key {key!r:.40} is no text")
            require_plain(child)
    elif isinstance(value, list):
        for child in value:
            require_plain(child)
    elif not isinstance(value, SCALARS):
        raise PlainError(f"{value!r:.40} is no plain value")
