"""Put the claims of reports (docs/results/reports) into the pages of the papers (docs/papers).

    python scripts/claims.py            # name the pages that are not up to date; the exit code is then 1
    python scripts/claims.py --write    # bring them up to date

A page marks the place of a reproduction's table: `<!-- claims: NAME -->`, and after it `<!-- end of claims -->`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from rlx.console import one_line
from rlx.limits import MistakeError

ROOT = Path(__file__).resolve().parents[1]
PAGES, REPORTS = ROOT / "docs" / "papers", ROOT / "docs" / "results" / "reports"
CLAIMS = re.compile(r"(?<=^\*\*Claims of the paper\*\*\n\n)(?:\|.*\n)+", re.MULTILINE)
PLACE = re.compile(r"(<!-- claims: (\w+) -->\n)(?:(?!<!-- claims:).)*?(<!-- end of claims -->)", re.DOTALL)
START, END = "<!-- claims:", "<!-- end of claims -->"


def claims_of(report: str) -> str:
    """Return the table of claims of a report's text; empty where it has none."""
    found = CLAIMS.search(report)
    return found[0] if found else ""


def block(name: str) -> str:
    """Return the command of a reproduction, a link to its report, and the table of its claims."""
    report = REPORTS / name / "report.md"
    table = claims_of(report.read_text(encoding="utf-8"))
    if not table:
        raise MistakeError(f"{report} has no table of claims")
    return f"\n`rlx reproduce {name}` ([report](../results/reports/{name}/report.md))\n\n{table}\n"


def filled(page: str) -> str:
    """Return a page with the tables of now; MistakeError where a mark has no other."""
    num = len(PLACE.findall(page))
    if (page.count(START), page.count(END)) != (num, num):
        raise MistakeError(f"{page.lstrip()[:40]!r}: each {START} NAME --> needs {END} after it, and no other between")
    return PLACE.sub(lambda place: place[1] + block(place[2]) + place[3], page)


def main(write: bool) -> int:
    old = [path for path in sorted(PAGES.glob("*.md")) if (text := path.read_text("utf-8")) != filled(text)]
    for path in old:
        if write:
            path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"{path.name}: {'written' if write else 'not up to date: python scripts/claims.py --write'}")
    return 1 if old and not write else 0


if __name__ == "__main__":
    if set(sys.argv[1:]) - {"--write"}:
        sys.exit("claims.py takes --write, or nothing")
    try:
        sys.exit(main("--write" in sys.argv[1:]))
    except (MistakeError, OSError, UnicodeDecodeError) as error:
        sys.exit(one_line(str(error)))
