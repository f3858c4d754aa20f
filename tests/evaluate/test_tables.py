from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from io import StringIO
from pathlib import Path

from rich.console import Console

from rlx.evaluate.intervals import Estimate
from rlx.evaluate.tables import (
    Table,
    accuracy_table,
    read_published,
    to_markdown,
    to_rich,
    to_svg,
    tool_table,
)

EVIL = "<script>a(1)</script>|[red]x[/red]\x1b[31m\n`b` ![i](http://c) &lt;"
FIGURES = {
    "eval/pass@1": Estimate(value=0.535, low=0.501, high=0.57),
    "eval/pass@16": Estimate(value=0.86, low=0.86, high=0.86),
    "eval/tool_calls": Estimate(value=4.631, low=4.5, high=4.75),
    "eval/failed_rate": Estimate(value=0.0008, low=0.0, high=0.002),
    "eval/reward": Estimate(value=0.4311, low=-0.02, high=0.5),
}
PUBLISHED = Path(__file__).parents[2] / "scripts" / "published" / "tool_rloo.json"


def test_accuracy_is_in_percent_with_intervals_and_without_columns_nobody_has() -> None:
    table = accuracy_table({"Tool-RLOO": FIGURES, "floor": {"eval/pass@1": Estimate(value=0.1, low=0.0, high=0.2)}})
    assert table.header == ("run", "Pass@1", "Pass@16")
    assert table.rows == (("Tool-RLOO", "53.5 [50.1,57.0]", "86.0"), ("floor", "10.0 [0.0,20.0]", "–"))


def test_tool_use_has_the_columns_of_table_3() -> None:
    table = tool_table({"Tool-RLOO": FIGURES})
    assert table.header == ("run", "Calls", "Failed", "Reward")
    assert table.rows == (("Tool-RLOO", "4.63 [4.50,4.75]", "0.08 [0.00,0.20]", "0.431 [-0.020,0.500]"),)


def test_another_noun_reads_another_budget() -> None:
    five = {"eval@5/pass@1": Estimate(value=0.5, low=0.4, high=0.6)}
    assert accuracy_table({"a": FIGURES | five}, noun="eval@5").rows == (("a", "50.0 [40.0,60.0]"),)


def test_what_the_paper_printed_stands_beside_what_was_measured() -> None:
    published = read_published(PUBLISHED)
    table = tool_table({"Tool-RLOO": FIGURES, "ours": FIGURES}, published=published)
    assert table.header == ("run", "Calls", "paper", "Failed", "paper", "Reward", "paper")
    assert [row[2] for row in table.rows] == ["4.63", "–"]
    assert [row[4] for row in table.rows] == ["0.08", "–"]
    assert [row[6] for row in table.rows] == ["0.431", "–"]


def test_the_published_numbers_are_those_of_the_paper() -> None:
    published = read_published(PUBLISHED)
    names = ["SFT", "IPO", "RLOO", "Tool-SFT", "Tool-RLOO"]
    passes = [[round(100 * published[run][f"eval/pass@{k}"], 1) for k in (1, 4, 8, 16)] for run in names]
    assert list(published) == [*names, "Tool-RLOO, 5 rounds"]
    assert published["Tool-RLOO, 5 rounds"] == {"eval/pass@16": 0.74}
    assert passes[0] == [33.5, 62.4, 69.2, 72.0]
    assert passes[1] == [35.8, 63.1, 70.5, 74.0]
    assert passes[2] == [60.1, 71.9, 73.5, 74.0]
    assert passes[3] == [46.9, 62.1, 68.8, 74.0]
    assert passes[4] == [53.5, 69.9, 76.8, 86.0]


def shown(table: Table, width: int = 200) -> str:
    out = StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None).print(to_rich(table))
    return out.getvalue()


def test_hostile_names_are_literal_in_the_terminal() -> None:
    text = shown(accuracy_table({EVIL: FIGURES}))
    assert "\x1b[31m" not in text
    assert "[red]x[/red]" in text


def test_a_narrow_terminal_hides_no_digit() -> None:
    text = shown(accuracy_table({"a": FIGURES}, published={"a": {"eval/pass@1": 0.5, "eval/pass@16": 0.5}}), width=30)
    digits = "".join(c for c in text if c.isdigit())
    assert "…" not in text
    assert len(digits) >= len("116") + len("535501570860500500")


def test_hostile_names_are_literal_in_markdown() -> None:
    lines = to_markdown(accuracy_table({EVIL: FIGURES})).splitlines()
    assert len(lines) == 5
    row = lines[-1]
    assert row.count("|") - row.count("\\|") == 4
    for mark in "<>[]`&!":
        assert row.count(mark) == row.count("\\" + mark)


def test_markdown_is_a_pipe_table() -> None:
    table = Table(title="t", header=("run", "x"), rows=(("a-b", "1.0"),))
    assert to_markdown(table) == "**t**\n\n| run | x |\n|---|---:|\n| a-b | 1.0 |\n"


def test_a_picture_is_inert_xml_and_repeats() -> None:
    picture = to_svg([accuracy_table({EVIL: FIGURES})], title=EVIL)
    tags = {element.tag.split("}")[-1] for element in ElementTree.fromstring(picture).iter()}
    assert tags <= {"svg", "style", "defs", "clipPath", "rect", "text", "g", "circle"}
    assert "url(http" not in picture.replace('"', "")
    assert "@font-face" not in picture
    assert "53.5" in picture
    assert picture == to_svg([accuracy_table({EVIL: FIGURES})], title=EVIL)
