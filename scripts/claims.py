"""Put the verdicts on the papers' claims into the pages (docs/papers, README, docs/index) and the stored reports.

    python scripts/claims.py            # name the files that are not up to date; the exit code is then 1
    python scripts/claims.py --write    # bring them up to date

Verdicts follow from the registry (scripts/papers) and the figures of the stored reports. A page marks the places:

    <!-- claims: NAME -->    and after it <!-- end of claims -->: the claims that a reproduction tests
    <!-- verdicts: PAPER --> and after it <!-- end of verdicts -->: the main claims of a paper; of `all`, their numbers
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from rlx.console import one_line
from rlx.limits import MistakeError
from rlx.reproduce.answers import Answer, claims_table
from rlx.reproduce.files import read_tree
from rlx.reproduce.papers import PaperClaim, read_registered
from rlx.reproduce.verdicts import Verdict, combine
from rlx.table import MISSING, Table, to_markdown
from scripts.refresh import refreshed
from scripts.stored import REPORTS, ROOT, read_stored

DOCS = ROOT / "docs"
PAGES = (*sorted((DOCS / "papers").glob("*.md")), DOCS / "index.md", ROOT / "README.md")
PLACE = re.compile(
    r"(<!-- (?P<kind>claims|verdicts): (?P<name>\w+) -->\n)"
    r"(?:(?!<!-- (?:claims|verdicts):).)*?(<!-- end of (?P=kind) -->)",
    re.DOTALL,
)
MARK = re.compile(r"<!-- (?:end of )?(?:claims|verdicts)\b")
TITLES = {
    "tool_rloo": "Cost-aware Tool-RLOO",
    "earl": "EARL",
    "carl": "CARL",
    "nested_ppo": "nested PPO",
    "gem": "GEM",
}
"""Order and names of the papers in tables of all."""


@cache
def answers_of(name: str) -> tuple[Answer, ...]:
    """Return the answers of a stored report to the claims of its paper."""
    return tuple(read_stored(name).answers()[1])


@cache
def reproductions() -> Mapping[str, str]:
    """Return the stored report that decides for each reproduction: of its variants the one with most seeds."""
    deciding: dict[str, str] = {}
    seeds = {path.parent.name: read_stored(path.parent.name).reproduction.seeds for path in REPORTS.glob("*/report.md")}
    for name in sorted(seeds, key=lambda name: seeds[name]):
        deciding[read_tree(ROOT / "scripts" / "reproduce" / f"{name}.yaml").get("like", name)] = name
    return deciding


def answers_to(sentence: str, claim: PaperClaim) -> Iterator[Answer]:
    """Yield the answer of each reproduction to a claim; of a variant with more seeds, where that has the claim."""
    for name in claim.tests:
        reports = [reproductions().get(name, name), name]
        answers = [answer for report in reports for answer in answers_of(report) if answer.sentence == sentence]
        yield answers[0]


def verdict_on(sentence: str, claim: PaperClaim) -> Verdict:
    """Return the verdict on a claim of the registry."""
    if claim.untested:
        return Verdict.UNDECIDED
    if claim.untestable:
        return Verdict.NOT_TESTABLE
    return combine(answer.verdict for answer in answers_to(sentence, claim))


def remark_on(sentence: str, claim: PaperClaim) -> str:
    """Return the marks, reasons and notes of a claim, each once."""
    remarks = dict.fromkeys(remark for answer in answers_to(sentence, claim) for remark in answer.remarks)
    return "; ".join(text for text in (*remarks, claim.untested, claim.untestable) if text) or MISSING


def main_claims(paper: str) -> dict[str, PaperClaim]:
    """Return the claims of a paper's abstract and conclusions."""
    return {sentence: claim for sentence, claim in read_registered()[paper].claims.items() if claim.main}


def verdicts_table(paper: str) -> Table:
    """Return the main claims of a paper with their verdicts."""
    rows = tuple(
        (sentence, claim.where, verdict_on(sentence, claim).value, remark_on(sentence, claim))
        for sentence, claim in main_claims(paper).items()
    )
    return Table(title="", header=("main claim", "where", "verdict", "mark"), rows=rows)


def counts_table() -> Table:
    """Return the numbers of verdicts on the main claims of each paper."""
    verdicts = {name: [verdict_on(*item) for item in main_claims(name).items()] for name in TITLES}
    total = [verdict for some in verdicts.values() for verdict in some]
    named = [*((TITLES[name], some) for name, some in verdicts.items()), ("all", total)]
    rows = tuple((title, str(len(some)), *(str(some.count(verdict)) for verdict in Verdict)) for title, some in named)
    return Table(title="", header=("paper", "main claims", *(verdict.value for verdict in Verdict)), rows=rows)


def rows_in(table: Table) -> str:
    """Return the rows of a table as markdown, without a title."""
    return to_markdown(table).partition("\n\n")[2]


def block(kind: str, name: str) -> str:
    """Return what stands at a mark."""
    if kind == "verdicts":
        return f"\n{rows_in(counts_table() if name == 'all' else verdicts_table(name))}\n"
    answers = answers_of(name)
    if not answers:
        raise MistakeError(f"{name}: its reproduction tests no claims")
    link = f"[report](../results/reports/{name}/report.md)"
    return f"\n`rlx reproduce {name}` ({link})\n\n{rows_in(claims_table(answers))}\n"


def filled(page: str) -> str:
    """Return a page with the tables of now; MistakeError where a mark has no other."""
    if len(MARK.findall(page)) != 2 * len(PLACE.findall(page)):
        raise MistakeError(
            f"{page.lstrip()[:40]!r}: each <!-- claims: NAME --> needs its end after it, and no other between"
        )
    return PLACE.sub(lambda place: place[1] + block(place["kind"], place["name"]) + place[4], page)


def views() -> Iterator[tuple[Path, str]]:
    """Yield every page and stored report with its text as it should be."""
    for page in PAGES:
        yield page, filled(page.read_text(encoding="utf-8"))
    for report in sorted(REPORTS.glob("*/report.md")):
        yield report, refreshed(report.parent.name)


def main(write: bool) -> int:
    old = [(path, text) for path, text in views() if path.read_text(encoding="utf-8") != text]
    for path, text in old:
        if write:
            path.write_text(text, encoding="utf-8")
        name = path.relative_to(ROOT)
        print(f"{name}: {'written' if write else 'not up to date: python -m scripts.claims --write'}")
    return 1 if old and not write else 0


if __name__ == "__main__":
    if set(sys.argv[1:]) - {"--write"}:
        sys.exit("claims.py takes --write, or nothing")
    try:
        sys.exit(main("--write" in sys.argv[1:]))
    except (MistakeError, OSError, UnicodeDecodeError) as error:
        sys.exit(one_line(str(error)))
