"""Put the verdicts on the papers' claims and the figures of reproductions into the pages that show them.

    python -m scripts.claims            # name the files that are not up to date; the exit code is then 1
    python -m scripts.claims --write    # bring them up to date

Verdicts follow from the registry (scripts/papers) and the figures of each seed (docs/results/NAME.json), which
`rlx reproduce NAME` writes. A page marks the places:

    <!-- claims: NAME -->    and after it <!-- end of claims -->: the claims that a reproduction tests
    <!-- verdicts: PAPER --> and after it <!-- end of verdicts -->: the main claims of a paper; of `all`, their numbers
    <!-- figures: NAME -->   and after it <!-- end of figures -->: bands, figures and cost of a reproduction
    <!-- gains: main -->     and after it <!-- end of gains -->: the gains that the block's own lines name
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from rlx.base.console import one_line
from rlx.base.limits import MistakeError
from rlx.base.table import MISSING, Table
from rlx.evaluation.tables import estimate_cell
from rlx.lab.reproduce.answers import Answer, claims_table, column_of
from rlx.lab.reproduce.files import read_tree
from rlx.lab.reproduce.papers import PaperClaim, read_registered
from rlx.lab.reproduce.verdicts import Verdict, combine
from scripts.results import FOLDER, ROOT, figures_block, read_stored, rows_in, stored_names

DOCS = ROOT / "docs"
RESULTS = FOLDER
PAGES = (
    *sorted((DOCS / "papers").glob("*.md")),
    *sorted(RESULTS.glob("*.md")),
    DOCS / "index.md",
    DOCS / "credit.md",
    DOCS / "intervals.md",
    ROOT / "README.md",
)
KINDS = "claims|verdicts|figures|gains"
PLACE = re.compile(
    rf"(<!-- (?P<kind>{KINDS}): (?P<name>\w+) -->\n)"
    rf"(?P<old>(?:(?!<!-- (?:{KINDS}):).)*?)(?P<end><!-- end of (?P=kind) -->)",
    re.DOTALL,
)
MARK = re.compile(rf"<!-- (?:end of )?(?:{KINDS})\b")
GAIN = re.compile(r"^\| \[(\w+)\]\([^)]*\) \| (.+?) \| (\S+) \|", re.MULTILINE)
GAINS_HEAD = "| results | gain | figure | over problems | over seeds |"
LEADING_ZERO = re.compile(r"(?<![\d.])0(?=\.)")
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
    """Return the answers of a reproduction to the claims of its paper."""
    return tuple(read_stored(name).claims)


@cache
def reproductions() -> Mapping[str, str]:
    """Return the results that decide for each reproduction: of its variants the one with most seeds."""
    deciding: dict[str, str] = {}
    seeds = {name: read_stored(name).reproduction.seeds for name in stored_names()}
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


def claims_block(name: str, folder: Path) -> str:
    """Return the claims that a reproduction tests, with a link to its figures."""
    answers = answers_of(name)
    if not answers:
        raise MistakeError(f"{name}: its reproduction tests no claims")
    place = os.path.relpath(RESULTS / read_stored(name).page, folder)
    return f"`rlx reproduce {name}` ([figures]({place}))\n\n{rows_in(claims_table(answers))}"


def gains_block(lines: str, folder: Path) -> str:
    """Return the gains that a block names by reproduction, gain and figure, with both intervals.

    Bold: certain for these seeds, and not for others.
    """
    chosen = GAIN.findall(lines)
    if len(chosen) != len(lines.strip().splitlines()) - 2:
        raise MistakeError("gains: expected lines such as | [carl](PLACE) | CARL over GRPO | Reward | ...")
    rows = [GAINS_HEAD, "|---|---|---|---:|---:|"]
    for name, gain, title in chosen:
        place = os.path.relpath(RESULTS / read_stored(name).page, folder)
        rows.append(f"| [{name}]({place}) | {gain} | {title} | {' | '.join(gain_cells(name, gain, title))} |")
    return "\n".join(rows)


def gain_cells(name: str, gain: str, title: str) -> tuple[str, str]:
    """Return a gain with its interval over problems, and its interval over seeds."""
    stored = read_stored(name)
    figures = stored.results.figures.get(gain, {})
    columns = [column_of(stored.reproduction, stat) for stat in figures]
    column = next((column for column in columns if column.title == title), None)
    if column is None:
        raise MistakeError(f"gains: {name} has no {title} of {gain}")
    figure = figures[column.stat]
    problems = estimate_cell(figure.problems, column).replace(",", ", ")
    seeds = estimate_cell(figure.measured, column).replace(",", ", ").partition(" ")[2]
    is_bold = excludes_zero(figure.over_problems) and not excludes_zero(figure.over_seeds)
    return LEADING_ZERO.sub("", problems), f"{'**' * is_bold}{LEADING_ZERO.sub('', seeds)}{'**' * is_bold}"


def excludes_zero(ends: Sequence[float]) -> bool:
    """Tell whether an interval has ends on one side of 0."""
    return bool(ends) and min(ends) * max(ends) > 0


def block(kind: str, name: str, old: str, folder: Path) -> str:
    """Return the text of a marked place in a page of this folder."""
    if kind == "gains":
        text = gains_block(old, folder)
    elif kind == "figures":
        text = figures_block(read_stored(name), folder)
    elif kind == "claims":
        text = claims_block(name, folder)
    else:
        text = rows_in(counts_table() if name == "all" else verdicts_table(name))
    return f"\n{text.strip()}\n\n"


def filled(page: str, folder: Path = DOCS / "papers") -> str:
    """Return a page of this folder with its tables brought up to date; MistakeError where a mark has no other."""
    if len(MARK.findall(page)) != 2 * len(PLACE.findall(page)):
        raise MistakeError(
            f"{page.lstrip()[:40]!r}: each <!-- claims: NAME --> needs its end after it, and no other between"
        )
    return PLACE.sub(
        lambda place: place[1] + block(place["kind"], place["name"], place["old"], folder) + place["end"], page
    )


def views() -> Iterator[tuple[Path, str]]:
    """Yield each page with its new text."""
    for page in PAGES:
        yield page, filled(page.read_text(encoding="utf-8"), page.parent)


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
