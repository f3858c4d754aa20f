"""The result tables of runs as an SVG picture: `python scripts/picture.py OUT.svg NAME=DIR [NAME=DIR@NOUN ...]`.

NOUN says which of a run's figures: eval (the trained policy; the default), start (what it began with) or random (the
floor).
"""

from __future__ import annotations

import sys
from pathlib import Path

from rlx.base.table import to_svg
from rlx.evaluation.tables import accuracy_table, tool_table
from rlx.runs.summary import Estimate, read_summary


def figures_of(place: str) -> dict[str, Estimate]:
    """The figures at DIR or DIR@NOUN, under the noun of the tables."""
    folder, _, noun = place.partition("@")
    metrics = read_summary(Path(folder) / "summary.json").metrics
    prefix = f"{noun or 'eval'}/"
    return {f"eval/{name.removeprefix(prefix)}": figure for name, figure in metrics.items() if name.startswith(prefix)}


def main(words: list[str]) -> None:
    """Read the runs' summaries, write the picture."""
    if len(words) < 2 or not all("=" in word for word in words[1:]):
        sys.exit(f"{__doc__}")
    named = dict(word.split("=", 1) for word in words[1:])
    runs = {name: figures_of(place) for name, place in named.items()}
    Path(words[0]).write_text(to_svg([accuracy_table(runs), tool_table(runs)], title="rlx"), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
