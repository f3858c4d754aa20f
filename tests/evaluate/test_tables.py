from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from io import StringIO
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from rlx.base.table import Table, markdown_cell, to_markdown, to_rich, to_svg
from rlx.evaluation.tables import accuracy_table, has_column, part_tables, tool_table
from rlx.runs.summary import Estimate
from tests.loops import for_each

EVIL = "<script>a(1)</script>|[red]x[/red]\x1b[31m\n`b` ![i](http://c) &lt;"
FIGURES = {
    "eval/pass@1": Estimate(value=0.535, low=0.501, high=0.57),
    "eval/pass@16": Estimate(value=0.86, low=0.86, high=0.86),
    "eval/tool/calls": Estimate(value=4.631, low=4.5, high=4.75),
    "eval/tool/failed_rate": Estimate(value=0.0008, low=0.0, high=0.002),
    "eval/reward": Estimate(value=0.4311, low=-0.02, high=0.5),
}
PUBLISHED = {
    "Tool-RLOO": {
        "eval/pass@1": (0.535,),
        "eval/tool/calls": (4.63, 3.26),
        "eval/tool/failed_rate": (0.0008,),
        "eval/reward": (0.431,),
    }
}


def test_accuracy_is_in_percent_with_intervals_and_without_columns_nobody_has() -> None:
    table = accuracy_table({"Tool-RLOO": FIGURES, "floor": {"eval/pass@1": Estimate(value=0.1, low=0.0, high=0.2)}})
    assert table.header == ("run", "Pass@1", "Pass@16")
    assert table.rows == (("Tool-RLOO", "53.5 [50.1,57.0]", "86.0"), ("floor", "10.0 [0.0,20.0]", "–"))


def test_tool_use_has_the_columns_of_table_3() -> None:
    table = tool_table({"Tool-RLOO": FIGURES})
    assert table.header == ("run", "Calls", "Failed, %", "Reward")
    assert table.rows == (("Tool-RLOO", "4.63 [4.50,4.75]", "0.08 [0.00,0.20]", "0.431 [-0.020,0.500]"),)


def test_what_the_paper_printed_stands_beside_what_was_measured() -> None:
    table = tool_table({"Tool-RLOO": FIGURES, "ours": FIGURES}, published=PUBLISHED)
    assert table.header == ("run", "Calls", "paper", "Failed, %", "paper", "Reward", "paper")
    assert [row[2] for row in table.rows] == ["4.63, 3.26", "–"], "of two agents"
    assert [row[4] for row in table.rows] == ["0.08", "–"]
    assert [row[6] for row in table.rows] == ["0.431", "–"]


def shown(table: Table, width: int = 200) -> str:
    out = StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None).print(to_rich(table))
    return out.getvalue()


def test_turns_stand_where_no_tool_was_used_and_there_was_more_than_one() -> None:
    game = {name: Estimate(value=x, low=x, high=x) for name, x in (("eval/episode/turns", 4.86), ("eval/reward", 1.0))}
    assert tool_table({"a": game}).header == ("run", "Turns", "Reward")
    assert tool_table({"a": game}).rows[0][1].startswith("4.86")
    once = game | {"eval/episode/turns": Estimate(value=1.0, low=1.0, high=1.0)}
    assert tool_table({"a": once}).header == ("run", "Reward")
    assert "Turns" not in tool_table({"a": game | FIGURES}).header


def test_the_deviation_of_the_reward_is_shown_where_it_says_more_than_the_mean() -> None:
    mean, std = Estimate(value=0.25, low=0.0, high=0.5), Estimate(value=0.5, low=0.4, high=0.6)
    figures = {"eval/reward": mean, "eval/reward_std": std}
    assert tool_table({"a": figures}).header == ("run", "Reward", "Reward std")
    of_coins = {"eval/reward": mean, "eval/reward_std": Estimate(value=(0.25 * 0.75) ** 0.5, low=0.3, high=0.5)}
    assert tool_table({"a": of_coins}).header == ("run", "Reward")
    parts = {f"eval/{part}/{name}": one for part in "xy" for name, one in (("reward", mean), ("reward_std", std))}
    reward, spread = part_tables({"a": parts})
    assert (reward.header, spread.title) == (("run", "x", "y"), "Reward std by part [95% interval]")
    assert spread.rows == (("a", "0.500 [0.400,0.600]", "0.500 [0.400,0.600]"),)
    assert has_column("reward_std")
    assert has_column("x/reward_std")


def test_what_ended_in_an_error_is_shown_where_something_did() -> None:
    one = Estimate(value=0.25, low=0.0, high=0.5)
    assert tool_table({"a": {"eval/reward": one, "eval/episode/errors": one}}).header == ("run", "Errors, %", "Reward")
    none = Estimate(value=0.0, low=0.0, high=0.5)
    assert tool_table({"a": {"eval/reward": one, "eval/episode/errors": none}}).header == ("run", "Reward")


def test_hostile_names_are_literal_in_the_terminal() -> None:
    text = shown(accuracy_table({EVIL: FIGURES}))
    assert "\x1b[31m" not in text
    assert "[red]x[/red]" in text


def test_a_narrow_terminal_hides_no_digit() -> None:
    text = shown(
        accuracy_table({"a": FIGURES}, published={"a": {"eval/pass@1": (0.5,), "eval/pass@16": (0.5,)}}), width=30
    )
    digits = "".join(c for c in text if c.isdigit())
    assert "…" not in text
    assert len(digits) >= len("116") + len("535501570860500500")


NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
WIDE = {
    f"eval/{stat}": Estimate(value=value, low=low, high=high)
    for stat, value, low, high in [
        *((f"pass@{k}", 0.535 + k / 100, 0.501 + k / 100, 0.57 + k / 100) for k in (1, 2, 4, 8, 16)),
        ("reward", -0.431, -0.502, -0.195),
        ("tool/calls", 14.631, 14.5, 14.752),
        ("tool/failed_rate", 0.0008, 0.0, 0.1234),
        ("tool/mismatch_rate", 0.5, 0.4321, 1.0),
        ("tool/tokens", 1024.5, 999.9, 2048.1),
    ]
}


def cells_of(text: str) -> dict[str, list[str]]:
    """The columns of tables as they were drawn, by their titles: what stands in a column, line by line."""
    found: dict[str, list[str]] = {}
    header: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split("[│┃]", line)[1:-1]]
        if "┃" in line:
            header = [f"{old} {new}".strip() for old, new in zip(header, cells, strict=True)] if header else cells
        elif cells:
            for name, cell in zip(header, cells, strict=True):
                found.setdefault(name, []).extend([cell] * bool(cell))
        elif "┏" in line:
            header = []
    return found


@for_each("width, make", product([60, 80, 100], [accuracy_table, tool_table]))
def test_a_table_of_any_width_gives_all_its_numbers_back(width: int, make: Callable[..., Table]) -> None:
    names = ["Tool-RLOO, 5 rounds", "Tool-RLOO over further Tool-SFT, means of seeds", "random"]
    table = make(dict.fromkeys(names, WIDE), published={name: {"eval/pass@4": (0.621,)} for name in names})
    text = shown(table, width)
    assert max(map(len, text.splitlines())) <= width
    columns = cells_of(text)
    for index, name in enumerate(table.header[1:], start=1):
        if table.header.count(name) > 1 or name == "paper":
            continue
        printed = [number for cell in columns[name] for number in NUMBER.findall(cell)]
        assert printed == [number for row in table.rows for number in NUMBER.findall(row[index])]
    words = " ".join(columns["run"])
    assert all(word in words for name in names for word in name.split())


def test_an_interval_stands_whole_below_its_value() -> None:
    lines = cells_of(shown(accuracy_table({"a": WIDE}), 60))["Pass@16"]
    assert lines == ["69.5", "[66.1,73.0]"]


def test_a_path_that_is_too_long_goes_on_below_after_a_slash() -> None:
    path = "outputs/2026-11-22/10-00-00/a-run-of-its-own"
    table = Table(title="", header=("run", "state", "step"), rows=((path, "running", "12/100"),))
    cells = cells_of(shown(table, 40))
    assert "".join(cells["run"]) == path
    assert cells["run"][:3] == ["outputs/", "2026-11-22/", "10-00-00/"]
    assert cells["step"] == ["12/100"]


@given(
    st.integers(40, 120),
    st.lists(st.lists(st.floats(-1e4, 1e4).map(lambda x: f"{x:.2f}"), min_size=4, max_size=4), min_size=1, max_size=3),
)
@settings(max_examples=40)
def test_no_width_breaks_a_number(width: int, rows: list[list[str]]) -> None:
    cells = tuple((f"run {i}", *(f"{x} [{x},{x}]" for x in row)) for i, row in enumerate(rows))
    columns = cells_of(shown(Table(title="", header=("run", "a", "b", "c", "d"), rows=cells), width))
    for index, name in enumerate("abcd"):
        assert [number for cell in columns[name] for number in NUMBER.findall(cell)] == [
            number for row in rows for number in 3 * [row[index]]
        ]


@pytest.mark.parametrize("ks", [(2,), (1, 2), (1, 4, 8, 16, 64)])
def test_the_ks_that_were_asked_for_are_those_shown(ks: tuple[int, ...]) -> None:
    figures = {f"eval/pass@{k}": Estimate(value=0.5, low=0.4, high=0.6) for k in ks}
    table = accuracy_table({"a": figures, "b": {"eval/reward": WIDE["eval/reward"]}})
    assert table.header == ("run", *(f"Pass@{k}" for k in ks))
    assert [row[0] for row in table.rows] == ["a"]


def test_hostile_names_are_literal_in_markdown() -> None:
    lines = to_markdown(accuracy_table({EVIL: FIGURES})).splitlines()
    assert len(lines) == 5
    row = lines[-1]
    assert row.count("|") - row.count("\\|") == 4


HOSTILE = (
    "[x](https://evil.example)",
    "![x](https://evil.example/x.png)",
    "[x][y] and [y]: https://evil.example",
    "<img src=x onerror=alert(1)> <!-- x -->",
    "*a* **b** _c_ __d__ ~~e~~ `f` $g$",
    "&lt;script&gt; &#60; \\&lt; \\\\",
    "[a\\](b) [a](\\b)",
    "> quote",
    "a | b \\| c",
)


@for_each("text", HOSTILE)
def test_hostile_text_reads_as_it_was_written_in_rendered_markdown(text: str) -> None:
    page = (
        MarkdownIt("commonmark")
        .enable(["table", "strikethrough"])
        .parse(to_markdown(Table(title=text, header=("run", text), rows=((text, "1"),))))
    )
    inline = [token for token in page if token.type == "inline"]
    kinds = {child.type for token in inline for child in token.children or ()}
    assert kinds <= {"text", "text_special", "strong_open", "strong_close"}
    assert {"".join(child.content for child in token.children or ()) for token in inline} == {text, "run", "1"}


@for_each("text", ["https://evil.example", "www.evil.example", "a@evil.example", "@someone", ":smile:"])
def test_what_github_alone_reads_is_escaped(text: str) -> None:
    assert "\\" in markdown_cell(text)


@for_each("text", ["2026-11-25 13:44 UTC", "Pass@1", "tool_rloo", "5.2 [4.1,6.3]", "rounds: 4", "a & b, 5 > 3!"])
def test_plain_text_stays_plain_in_markdown(text: str) -> None:
    assert markdown_cell(text) == text


def test_gains_have_signs_and_stand_below_the_runs() -> None:
    gain = {
        "eval/pass@1": Estimate(value=0.09, low=-0.004, high=0.2),
        "eval/tool/failed_rate": Estimate(value=-0.01, low=-0.02, high=0.0),
        "eval/tool/calls": Estimate(value=1.5, low=1.0, high=2.0),
    }
    table = accuracy_table({"ours": FIGURES}, gains={"gain over the start": gain})
    assert table.rows[-1] == ("gain over the start", "+9.0 [-0.4,+20.0]", "–")
    assert tool_table({"ours": FIGURES}, gains={"gain": gain}).rows[-1][:3] == (
        "gain",
        "+1.50 [+1.00,+2.00]",
        "-1.00 [-2.00,0.00]",
    )
    assert "[-0.4,+20.0]" in shown(table, 60)


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


def test_a_mixture_has_a_column_for_each_part_of_every_figure_that_it_tells_and_a_paper_s_beside_it() -> None:
    def value(of: float) -> Estimate:
        return Estimate(value=of, low=of - 0.1, high=of + 0.1)

    ours = {"eval/pass@1": value(0.5), "eval/count/pass@1": value(0.4), "eval/arithmetic/pass@1": value(0.6)}
    both = {"ours": ours, "theirs": {**ours, "eval/count/pass@16": value(0.8), "eval/count/reward": value(0.7)}}
    published = {"ours": {"eval/count/pass@1": (0.25,)}}
    both["theirs"] |= {"eval/count/tool/calls": value(2.5), "eval/arithmetic/tool/calls": value(0.0)}
    first, second, reward, calls = part_tables(both, published=published)
    assert first.title == "Pass@1 by part, % [95% interval]"
    assert first.header == ("run", "arithmetic", "count", "paper")
    assert first.rows[0] == ("ours", "60.0 [50.0,70.0]", "40.0 [30.0,50.0]", "25.0")
    assert (second.title, second.rows) == ("Pass@16 by part, % [95% interval]", (("theirs", "80.0 [70.0,90.0]"),))
    assert reward.rows == (("theirs", "0.700 [0.600,0.800]"),)
    assert (calls.title, calls.header) == ("Calls by part [95% interval]", ("run", "count"))
    assert calls.rows == (("theirs", "2.50 [2.40,2.60]"),)
    assert [has_column(f"count/{stat}") for stat in ("pass@1", "reward", "tool/calls", "turns")] == [True] * 3 + [False]


def test_what_is_no_mixture_has_no_table_by_part() -> None:
    assert part_tables({"a": FIGURES}) == []


def test_what_several_parts_say_of_themselves_has_a_column_for_each_and_what_one_says_alone_has_none() -> None:
    told = {"two/env/swaps": 0.5, "four/env/swaps": 1.917, "four/env/sort_4_needs_1": 1.0, "two/env/reward": 3.0}
    told |= {"two/reward": 0.5, "four/env/reward": 4.0}
    ours = {f"eval/{name}": Estimate(value=value, low=value, high=value) for name, value in told.items()}
    tables = {
        one.header: one for one in part_tables({"ours": ours}, published={"ours": {"eval/four/env/swaps": (1.9,)}})
    }
    assert {one.title.split(" by part")[0] for one in tables.values()} == {"Swaps", "Reward"}
    assert len(tables) == 3
    assert tables["run", "four", "paper", "two"].rows == (("ours", "1.92", "1.90", "0.50"),)
    assert has_column("four/env/swaps")
