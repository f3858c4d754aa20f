"""The registry's tables and settings equal other transcriptions, which were made from the papers' text without it."""

from __future__ import annotations

import re
from pathlib import Path
from unicodedata import normalize

from rlx.evaluation.tables import has_column
from rlx.lab.reproduce.files import read_reproduction, read_tree
from rlx.lab.reproduce.papers import PrintedTable, read_registered
from rlx.runs.plain_yaml import parse_small
from rlx.settings.papers import read_presets

HERE = Path(__file__).resolve().parent / "transcription"
REPRODUCTIONS = sorted((HERE.parents[2] / "scripts" / "reproduce").glob("*.yaml"))
READ_AS = {"gpt40": "gpt4o"}
"""Names that the text of a PDF has wrong."""


def letters(name: str) -> str:
    """Return the letters and digits of a name, without accents and case."""
    plain = re.sub(r"[^a-z0-9]", "", normalize("NFKD", name).lower())
    return READ_AS.get(plain, plain)


def differences(table: PrintedTable, lines: list[list[str | float | None]]) -> list[str]:
    """Return the rows of a table that are not the lines of the transcription."""
    found = [] if len(table.rows) == len(lines) else [f"{len(table.rows)} rows, {len(lines)} lines"]
    for (row, values), (name, *printed) in zip(table.rows.items(), lines, strict=False):
        if not letters(row).endswith(letters(str(name))) or list(values) != printed:
            found.append(f"{row}: {values}; the text has {name}: {printed}")
    return found


def test_every_table_of_the_registry_equals_the_second_transcription() -> None:
    papers = read_registered()
    assert set(papers) == {file.stem for file in HERE.glob("*.yaml")}
    for name, paper in papers.items():
        lines = parse_small((HERE / f"{name}.yaml").read_text(encoding="utf-8"))
        assert set(lines) == set(paper.tables), name
        found = {title: differences(table, lines[title]) for title, table in paper.tables.items()}
        assert not any(found.values()), (name, found)


def as_number(value: object) -> object:
    """Return the number of a text such as 5e-6, which YAML reads as text; other values as they are."""
    is_number = isinstance(value, str) and re.fullmatch(r"\d[\d.]*e-\d+", value)
    return float(str(value)) if is_number else value


def test_settings_of_the_registry_are_those_that_the_papers_print() -> None:
    printed = parse_small((HERE.parent / "settings.yaml").read_text(encoding="utf-8"))
    presets = read_presets()
    for preset, settings in printed.items():
        stated = {key: value for key, value, *_ in presets[preset]["rows"]}
        pairs = {key: (as_number(stated.get(key)), value) for key, (value, _) in settings.items()}
        wrong = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
        assert not wrong, (preset, wrong)


def test_a_setting_that_a_paper_prints_has_a_place_in_the_registry() -> None:
    """A row whose source is a release, or nothing published, is none of the paper's."""
    printed = parse_small((HERE.parent / "settings.yaml").read_text(encoding="utf-8"))
    presets = read_presets()
    for preset, settings in printed.items():
        sources = {row[0]: row[2] for row in presets[preset]["rows"]}
        assert not [key for key in settings if sources[key].startswith(("code", "not published", "sibling", "base"))]


NUMBER = re.compile(r"(?<![\w.^])\d*\.?\d+(?![\w^])")


def test_numbers_beside_the_claims_are_in_the_tables() -> None:
    """`where` of a claim has the figures that it compares: each with a decimal point stands in a table of its paper."""
    for name in (file.stem for file in HERE.glob("*.yaml")):
        lines = parse_small((HERE / f"{name}.yaml").read_text(encoding="utf-8"))
        cells = {cell for table in lines.values() for _, *row in table for cell in row if cell is not None}
        for sentence, claim in read_registered()[name].claims.items():
            _, _, figures = claim.where.partition(":")
            decimals = [float(one) for one in NUMBER.findall(re.sub(r"sections? [\d.]+", "", figures)) if "." in one]
            assert cells.issuperset(decimals), (name, sentence, decimals)


def test_a_wrong_digit_and_a_missing_row_are_seen() -> None:
    table = read_registered()["tool_rloo"].tables["Table 3"]
    lines: list[list[str | float | None]] = [[name, *values] for name, values in table.rows.items()]
    assert differences(table, lines) == []
    assert len(differences(table, [lines[0], [*lines[1][:-1], 0.432]])) == 1
    assert len(differences(table, lines[:1])) == 1
    assert differences(table, lines[::-1]), "rows in another order"


def test_figures_of_the_registry_have_columns_in_reports() -> None:
    for name, paper in read_registered().items():
        for title, table in paper.tables.items():
            stats = {stat for figures in table.figures.values() for stat in figures}
            unknown = [stat for stat in stats if not has_column(stat) and stat != "episode/turns"]
            assert not unknown, (name, title, unknown)


def test_reproductions_of_papers_refer_to_the_registry_and_copy_nothing() -> None:
    papers = read_registered()
    for file in REPRODUCTIONS:
        tree = read_tree(file)
        if "like" in tree:
            continue
        assert ("paper" in tree) == (tree["source"] != "no paper; docs/credit.md"), file.name
        for references in tree.get("published", {}).values():
            assert all(isinstance(one, str) and ": " in one for one in references), file.name
        assert all(isinstance(sentence, str) for sentence in tree.get("claims", [])), file.name
        if "paper" in tree:
            tested = [text for text, claim in papers[tree["paper"]].claims.items() if file.stem in claim.tests]
            assert tree["claims"] == tested, f"{file.name}: every claim that has a test here, in the registry's order"
            assert read_reproduction(file).claims
    assert {name for paper in papers.values() for claim in paper.claims.values() for name in claim.tests} <= {
        file.stem for file in REPRODUCTIONS
    }


def test_both_agents_of_nested_ppo_stand_beside_the_rows_and_so_does_the_collapsed_one() -> None:
    (file,) = (file for file in REPRODUCTIONS if file.stem == "babyai")
    published = read_reproduction(file).published
    assert published["direct, 0: nested"]["pick_up/reward"] == (0.85, 0.86)
    assert published["reasoning, 0: nested"]["pick_up/pass@1"] == (0.88, 1.0)
    collapsed = {level: published["reasoning, 3: nested"][f"{level}/pass@1"][1] for level in ("go_to", "pick_up")}
    assert collapsed == {"go_to": 0.14, "pick_up": 0.22}
    assert published["reasoning, 3: nested"]["pick_up_test/pass@1"] == (0.92, 0.1)


def test_what_cpo_gains_with_actions_is_of_one_table() -> None:
    earl = read_registered()["earl"]
    rows = earl.tables["Table 5"].figures
    side = "without a prompt"
    gain = rows[f"ExpA+CPO, {side}"]["countdown/pass@1"] - rows[f"ExpA+GRPO, {side}"]["countdown/pass@1"]
    (claim,) = (claim for text, claim in earl.claims.items() if text.startswith("CPO gains 2.97 points"))
    assert round(gain, 4) == 0.0297
    assert all(test.least >= gain / 2 - 1e-4 for test in claim.tests.values()), "half of what the paper has"
