"""The result tables of runs as an SVG picture: `python scripts/picture.py OUT.svg NAME=DIR [NAME=DIR ...]`."""

from __future__ import annotations

import sys
from pathlib import Path

from rlx.evaluate.summary import read_summary
from rlx.evaluate.tables import accuracy_table, to_svg, tool_table


def main(words: list[str]) -> None:
    """Read the runs' summaries, write the picture."""
    if len(words) < 2 or not all("=" in word for word in words[1:]):
        sys.exit(f"{__doc__}")
    named = dict(word.split("=", 1) for word in words[1:])
    runs = {name: read_summary(Path(folder) / "summary.json").metrics for name, folder in named.items()}
    Path(words[0]).write_text(to_svg([accuracy_table(runs), tool_table(runs)], title="rlx"), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
