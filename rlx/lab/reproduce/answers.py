"""Answers of a reproduction to its bands and to the claims of its paper: the figure, its interval over seeds, and the
verdict that follows from both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from rlx.base.table import MISSING, Table
from rlx.evaluation.tables import TOOL_USE, Column, estimate_cell, number_cell, pass_columns
from rlx.lab.reproduce.reproduction import Reproduction, ReproductionError
from rlx.lab.reproduce.results import Figure, Figures
from rlx.lab.reproduce.studies import Claim
from rlx.lab.reproduce.verdicts import Verdict, count_verdicts, verdict_of
from rlx.runs.summary import Estimate

PLAIN = Column(stat="", title="", digits=3)
"""Any other figure."""
CLAIMS = "Claims of the paper"
BANDS = "Expected of this reproduction"
ADDED = "added"
"""Mark of a band that is younger than its results; any other mark is the band before."""
CLAIM_HEADER = ("claim", "means", "measured [over seeds]", "verdict", "mark")
BAND_HEADER = ("row", "figure", "measured [over seeds]", "least", "most", "verdict", "mark")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Figure of a row or gain beside its bounds."""

    sentence: str
    """Claim of the paper; empty for a band."""
    claim: Claim
    column: Column
    measured: Estimate
    """Mean over these seeds, with its interval over seeds; without ends where there are too few."""

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.measured, self.claim.least, self.claim.most, self.claim.untestable)

    @property
    def cell(self) -> str:
        """Return the figure with its interval as text."""
        return estimate_cell(self.measured, self.column)

    @property
    def bounds(self) -> str:
        """Return the bounds in words."""
        words = {"at least": self.claim.least, "at most": self.claim.most}
        phrases = [f"{word} {number_cell(number, self.column)}" for word, number in words.items() if isfinite(number)]
        return " and ".join(phrases)

    @property
    def means(self) -> str:
        """Return the claim in words of the reproduction."""
        return f"{self.column.title} of {self.claim.row} {self.bounds}"

    @property
    def remark(self) -> str:
        """Return the mark, the reason for which nothing can be tested, and the note."""
        return "; ".join(self.remarks)

    @property
    def remarks(self) -> tuple[str, ...]:
        return tuple(text for text in (self.claim.mark, self.claim.untestable, self.claim.note) if text)


def claim_answers(reproduction: Reproduction, figures: Figures) -> list[Answer]:
    """Return the answer to each claim."""
    return [answer_to(reproduction, claim, sentence, figures) for sentence, claim in reproduction.claims.items()]


def band_answers(reproduction: Reproduction, figures: Figures) -> list[Answer]:
    """Return the answer to each band."""
    return [answer_to(reproduction, claim, "", figures) for claim in bands_of(reproduction)]


def bands_of(reproduction: Reproduction) -> list[Claim]:
    """Return the bands of a reproduction in the form of claims."""
    bands = [(name, stat, *ends) for name, figures in reproduction.expected.items() for stat, ends in figures.items()]
    marks = [reproduction.marks.get(name, {}).get(stat, "") for name, stat, _, _ in bands]
    return [
        Claim(
            row=name,
            figure=stat,
            least=low,
            most=high,
            added_after_results=mark == ADDED,
            changed_after_results=mark if mark != ADDED else "",
        )
        for (name, stat, low, high), mark in zip(bands, marks, strict=True)
    ]


def answer_to(reproduction: Reproduction, claim: Claim, sentence: str, figures: Figures) -> Answer:
    """Return the answer to one claim or band; its interval is over seeds, or has no ends."""
    measured = figure_of(claim.row, claim.figure, figures.get(claim.row, {})).measured
    return Answer(sentence=sentence, claim=claim, column=column_of(reproduction, claim.figure), measured=measured)


def column_of(reproduction: Reproduction, stat: str) -> Column:
    """Return the title and the digits of a figure."""
    columns = {column.stat: column for column in (*pass_columns(f"eval/pass@{k}" for k in reproduction.ks), *TOOL_USE)}
    return columns.get(stat, replace(PLAIN, stat=stat, title=stat))


def figure_of(name: str, stat: str, figures: Mapping[str, Figure]) -> Figure:
    """Return a figure of a row, a gain or a curve."""
    if stat not in figures:
        names = ", ".join(sorted(figures))
        raise ReproductionError(f"{name}: expected has no figure {stat!r} to look at among {names}")
    return figures[stat]


def expected_table(answers: Sequence[Answer]) -> Table:
    """Return what was measured beside the bands."""
    rows = tuple(
        (
            answer.claim.row,
            answer.column.title,
            answer.cell,
            number_cell(answer.claim.least, answer.column),
            number_cell(answer.claim.most, answer.column),
            answer.verdict.value,
            answer.remark or MISSING,
        )
        for answer in answers
    )
    return Table(title=BANDS, header=BAND_HEADER, rows=rows)


def claims_table(answers: Sequence[Answer]) -> Table:
    """Return the source's claims beside what was measured."""
    rows = tuple(
        (
            answer.sentence,
            answer.means,
            answer.cell,
            answer.verdict.value,
            answer.remark or MISSING,
        )
        for answer in answers
    )
    return Table(title=CLAIMS, header=CLAIM_HEADER, rows=rows)


def summaries(bands: Sequence[Answer], claims: Sequence[Answer]) -> list[str]:
    """Return the number of each verdict on bands and on claims."""
    kinds = {"bands of this reproduction": bands, "claims of the paper": claims}
    return [
        f"{kind}: {count_verdicts(answer.verdict for answer in answers)}" for kind, answers in kinds.items() if answers
    ]


def contradictions(answers: Iterable[Answer]) -> list[str]:
    """Return a sentence for each band or claim that the interval over seeds contradicts."""
    return [
        f"contradicted: {answer.sentence or 'band'} ({answer.means}; measured {answer.cell})"
        for answer in answers
        if answer.verdict is Verdict.CONTRADICTED
    ]
