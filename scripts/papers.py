"""Print the presets of conf/paper beside the papers' own values (scripts/papers).

    python scripts/papers.py [NAME ...]     # print the tables
    python scripts/papers.py --write        # put them all into docs/papers.md

The exit code is 1 if a preset differs from its paper and nothing says why.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlx.settings.arms import PaperArm, arms_of
from rlx.settings.compose import compose
from rlx.settings.papers import inherited_rows, read_papers, read_presets

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "papers.md"
SILENT = "not published"
"""Source of a value that is rlx's own: the page names no value of the paper."""
HEAD = ("| key | paper | preset | source |", "|---|---|---|---|")
TABLES = re.compile(r"(?<=<!-- tables -->\n).*(?=<!-- end of tables -->)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Value:
    """A value of a paper, and the preset's."""

    key: str
    paper: Any
    source: str
    why: str
    preset: Any

    @property
    def agrees(self) -> bool:
        return bool(same(self.paper) == same(self.preset))

    @property
    def has_reason(self) -> bool:
        """Return whether the preset has the paper's value, or says why not; a reason without a difference is none."""
        return self.agrees != bool(self.why)


def same(value: Any) -> Any:
    """Return a value in which 1e-06, 1e-6 as text and 1 as 1.0 are equal."""
    if isinstance(value, list | tuple):
        return [same(element) for element in value]
    try:
        return value if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return value


def values_of(name: str, rows: Sequence[Sequence[Any]]) -> list[Value]:
    """Compare the rows of a paper with the configuration that its preset composes."""
    tree = compose([f"+paper={name}"])
    return [value_of(tree, *row) for row in rows]


def value_of(tree: Mapping[str, Any], key: str, paper: Any, source: str, why: str | None = None) -> Value:
    return Value(key=key, paper=paper, source=source, why=why or "", preset=at(tree, key))


def at(tree: Any, key: str) -> Any:
    """Return what a dotted key holds."""
    for word in key.split("."):
        tree = tree[word]
    return tree


def table(name: str, paper: Mapping[str, Any], values: Sequence[Value]) -> str:
    """Return a preset as a table of markdown."""
    sources = "; ".join(f"{word}: {source}" for word, source in paper["sources"].items())
    lines = [f"### {name}", "", f"{paper['title']}. `rlx plan +paper={name}`. Sources: {sources}.", ""]
    lines += [describe_lengths(paper["lengths"]), ""] if "lengths" in paper else []
    return "\n".join([*lines, *HEAD, *map(row, values)]) + "\n"


def describe_lengths(lengths: Mapping[str, Any]) -> str:
    """Write the mean length of an episode."""
    amounts = " and ".join(f"{lengths[unit]} {unit}" for unit in ("tokens", "turns") if unit in lengths)
    return f"An episode has {amounts} ({lengths['source']})."


def inherited_values(name: str) -> list[Value]:
    """Compare the rows of values that a preset takes from defaults with the configuration that it composes. A row of
    the preset itself, or of the one that it builds on, comes before them."""
    tree = compose([f"+paper={name}"])
    stated = {row[0] for preset in presets_of(name) for row in read_presets()[preset]["rows"]}
    return [value_of(tree, *row) for row in inherited_rows(name) if row[0] not in stated and has(tree, row[0])]


def presets_of(name: str) -> list[str]:
    """Return a preset and its base."""
    return list(dict.fromkeys([name, name.removesuffix("_released").removesuffix("_mixed")]))


def has(tree: Any, key: str) -> bool:
    """Return whether a configuration has a dotted key."""
    above, _, last = key.rpartition(".")
    holder = tree if not above else at(tree, above) if has(tree, above) else None
    return isinstance(holder, Mapping) and last in holder


def inherited_table(paper: str, names: Sequence[str]) -> str:
    """Return what the presets of a paper take from defaults, as a table of markdown; a key once."""
    values = {value.key: value for name in reversed(names) for value in inherited_values(name)}
    lines = [f"### Inherited: {paper}", "", f"Defaults in the presets {', '.join(f'`{name}`' for name in names)}.", ""]
    return "\n".join([*lines, *HEAD, *map(row, values.values())]) + "\n"


def arms_table(preset: str, arms: Mapping[str, PaperArm]) -> str:
    """Return the arms of a preset as a table of markdown."""
    lines = [f"### Arms of {preset}", "", "| arm | in the paper | words beside the preset | as in the preset |"]
    return "\n".join([*lines, "|---|---|---|---|", *(arm_row(name, arm) for name, arm in arms.items())]) + "\n"


def arm_row(name: str, arm: PaperArm) -> str:
    words, keeps = (" ".join(f"`{word}`" for word in words) for words in (arm.words, arm.keeps))
    source = f"{arm.title}: {arm.source}" + (f". **Chosen here**: {arm.why}" if arm.why else "")
    return f"| `{name}` | {source} | {words} | {keeps} |"


def row(value: Value) -> str:
    source = f"{value.source}. **Differs**: {value.why}" if value.why else value.source
    paper = "-" if value.source.startswith(SILENT) else spell(value.paper)
    cells = [f"`{value.key}`", paper, "the same" if value.agrees and paper != "-" else spell(value.preset), source]
    return f"| {' | '.join(cells)} |"


def spell(value: Any) -> str:
    text = "null" if value is None else '""' if value == "" else str(value).replace("\n", " ").replace("|", "\\|")
    return f"`{text}`"


def main(names: Sequence[str]) -> int:
    papers = read_presets()
    unknown = [name for name in names if name not in papers]
    if unknown:
        print(f"scripts/papers.py {unknown[0]}: expected one of {', '.join(papers)}", file=sys.stderr)
        return 2
    values = {name: values_of(name, papers[name]["rows"]) for name in names or papers}
    print("\n".join(table(name, papers[name], rows) for name, rows in values.items()))
    unexplained = [
        f"+paper={name}: {value.key}"
        for name, rows in values.items()
        for value in [*rows, *inherited_values(name)]
        if not value.has_reason
    ]
    for line in unexplained:
        print(
            f"{line}: the preset and the paper differ without a reason, or a reason has no difference", file=sys.stderr
        )
    return int(bool(unexplained))


def tables() -> str:
    """Return the tables of all papers: presets, what they take from defaults, and arms."""
    presets = [table(name, paper, values_of(name, paper["rows"])) for name, paper in read_presets().items()]
    inherited = [inherited_table(name, list(paper["presets"])) for name, paper in read_papers().items()]
    arms = [arms_table(name, arms_of([name])) for paper in read_papers().values() for name in paper["arms"]]
    return "\n".join([*presets, "## Defaults\n", *inherited, "## Arms\n", *arms])


def write() -> None:
    """Put the tables into the page."""
    text = tables()
    PAGE.write_text(TABLES.sub(lambda _: f"\n{text}\n", PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        sys.exit(main(sys.argv[1:]))
