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

from rlx.config.compose import compose
from rlx.config.papers import read_presets

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "papers.md"
SILENT = "not published"
"""Source of a value that is rlx's own: the page names no value of the paper."""
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
        return [same(one) for one in value]
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
    sources = "; ".join(f"{word}: {what}" for word, what in paper["sources"].items())
    lines = [f"### {name}", "", f"{paper['title']}. `rlx plan +paper={name}`. Sources: {sources}.", ""]
    lines += ["| key | paper | preset | source |", "|---|---|---|---|"]
    return "\n".join([*lines, *map(row, values)]) + "\n"


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
    found = {name: values_of(name, papers[name]["rows"]) for name in names or papers}
    print("\n".join(table(name, papers[name], values) for name, values in found.items()))
    untold = [
        f"+paper={name}: {value.key}" for name, values in found.items() for value in values if not value.has_reason
    ]
    for line in untold:
        print(
            f"{line}: the preset and the paper differ without a reason, or a reason has no difference", file=sys.stderr
        )
    return int(bool(untold))


def write() -> None:
    """Put the tables into the page."""
    papers = read_presets()
    text = "\n".join(table(name, paper, values_of(name, paper["rows"])) for name, paper in papers.items())
    PAGE.write_text(TABLES.sub(lambda _: f"\n{text}\n", PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        sys.exit(main(sys.argv[1:]))
