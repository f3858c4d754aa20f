"""Evaluations as a report shows them: Pass@k, tool use, gains, Pass@k curves, and accuracy against the tool's cost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rlx.evaluation.picture import picture_svg
from rlx.evaluation.tables import Published, accuracy_table, part_tables, tool_table
from rlx.view.report.cohorts import GAINS, Cohort, Figures, unlike_keys
from rlx.view.report.document import Picture, Section
from rlx.view.report.panels import frontier_panel, pass_panel
from rlx.view.report.pictures import Frontier, PassCurves
from rlx.view.report.training import chunks, numbered_name, part_title

FLOORS = ("random", "untrained", "start")
"""Policies that several cohorts may share."""
PASS = re.compile(r"eval/pass@(\d+)")


def results_section(cohorts: Sequence[Cohort], published: Published, draws: bool) -> Section:
    """Return the tables and pictures of the evaluations; `published` has `eval/stat` by cohort."""
    rows, gains = rows_of(cohorts), gains_of(cohorts)
    tables = [
        accuracy_table(rows, gains=gains, published=published),
        tool_table(rows, gains=gains, published=published),
        *part_tables(rows, published=published),
    ]
    pictures = [*pass_pictures(cohorts, rows, published), *frontier_pictures(cohorts, rows)] if draws else []
    return Section(title="Results", blocks=(*tables[:1], *pictures, *tables[1:]))


def rows_of(cohorts: Sequence[Cohort]) -> dict[str, Figures]:
    """Return the figures of each row, floors first: a floor with equal figures in all cohorts has one row."""
    rows: dict[str, Figures] = {}
    for noun in nouns_of(cohorts):
        by_cohort = {cohort.name: cohort.figures[noun] for cohort in cohorts if noun in cohort.figures}
        if noun.partition("@")[0] in FLOORS and all(
            figures == next(iter(by_cohort.values())) for figures in by_cohort.values()
        ):
            rows[spoken(noun)] = next(iter(by_cohort.values()))
        else:
            rows |= {row_name(name, noun): figures for name, figures in by_cohort.items()}
    return rows


def nouns_of(cohorts: Sequence[Cohort]) -> list[str]:
    """Return the policies that any cohort has figures of, gains left out."""
    nouns = dict.fromkeys(noun for cohort in cohorts for noun in cohort.figures if noun.partition("@")[0] not in GAINS)
    return sorted(nouns, key=lambda noun: (noun.partition("@")[0] not in FLOORS, "@" in noun))


def spoken(noun: str) -> str:
    """Return a policy's name, with the limit of turns if the noun states a limit."""
    word, _, limit = noun.partition("@")
    names = {"random": "random play", "untrained": "untrained model"}
    return f"{names.get(word, word)}{f', {limit} rounds' if limit else ''}"


def row_name(cohort: str, noun: str) -> str:
    """Return the name of a row; a trained policy has the cohort's own."""
    word, _, limit = noun.partition("@")
    suffix = f", {limit} rounds" if limit else ""
    return f"{cohort}{suffix}" if word == "eval" else f"{cohort}, {spoken(noun)}"


def gains_of(cohorts: Sequence[Cohort]) -> dict[str, Figures]:
    """Return the gains of each cohort over its start and over the untrained model."""
    return {
        gain_name(cohort.name, *noun.partition("@")[::2]): figures
        for cohort in cohorts
        for noun, figures in cohort.figures.items()
        if noun.partition("@")[0] in GAINS
    }


def gain_name(cohort: str, word: str, limit: str) -> str:
    """Return the name of a gain's row."""
    return f"{row_name(cohort, f'eval@{limit}' if limit else 'eval')} over the {spoken(GAINS[word])}"


def ks_of(rows: Mapping[str, Figures]) -> list[int]:
    """Return the values of k for which any row has pass@k."""
    return sorted({int(match[1]) for figures in rows.values() for name in figures if (match := PASS.fullmatch(name))})


def pass_pictures(cohorts: Sequence[Cohort], rows: Mapping[str, Figures], published: Published) -> Iterator[Picture]:
    """Yield Pass@k curves of the trained policies, ten at a time, beside a start and a floor that all share."""
    ks = ks_of(rows)
    papers = {name: {stat.partition("/")[2]: x for stat, x in figures.items()} for name, figures in published.items()}
    shared = [spoken(noun) for noun in FLOORS if spoken(noun) in rows]
    parts = [chunk for chunk in chunks([cohort for cohort in cohorts if "eval" in cohort.figures]) if len(ks) > 1]
    for number, part in enumerate(parts, start=1):
        names = tuple([*shared, *(cohort.name for cohort in part)][-10:])
        panel = pass_panel("", PassCurves(rows=names), rows, papers, ks)
        title = part_title("Pass@k", number, len(parts))
        yield Picture(name=numbered_name("pass", number), title=title, svg=picture_svg([panel]))


def frontier_pictures(cohorts: Sequence[Cohort], rows: Mapping[str, Figures]) -> Iterator[Picture]:
    """Yield accuracy against the calls of an episode, where several cohorts call tools."""
    users = [cohort for cohort in cohorts if {"eval/tool/calls", "eval/pass@1"} <= {*cohort.figures.get("eval", ())}]
    calls = [cohort for cohort in users if cohort.figures["eval"]["eval/tool/calls"].value > 0]
    parts = chunks(calls) if len(calls) > 1 else []
    for number, part in enumerate(parts, start=1):
        names = tuple(cohort.name for cohort in part)
        picture = Frontier(rows=names, across="tool/calls", up="pass@1", line=in_sweep(part))
        title = part_title("Accuracy against tool cost", number, len(parts))
        yield Picture(
            name=numbered_name("cost", number), title=title, svg=picture_svg([frontier_panel("", picture, rows, {})])
        )


def in_sweep(cohorts: Sequence[Cohort]) -> tuple[str, ...]:
    """Return the names by the value of the one number that a sweep varies; none where more varies, or no number."""
    keys = unlike_keys([run for cohort in cohorts for run in cohort.runs])
    if len(keys) != 1 or len(cohorts) < 2:
        return ()
    values = {cohort.name: cohort.runs[0].settings.get(keys[0]) for cohort in cohorts}
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values.values()):
        return ()
    return tuple(sorted(values, key=lambda name: float(values[name] or 0)))
