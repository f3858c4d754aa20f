"""Pictures of a reproduction: what they draw, what they refuse, and that no name in them is markup."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.dom import minidom

import numpy as np
import pytest
import yaml

from rlx.evaluation.picture import Panel, figure_of_panels, picture_svg, whiskers
from rlx.lab.reproduce.files import read_reproduction
from rlx.lab.reproduce.members import folders_of, members_of
from rlx.lab.reproduce.report import all_figures, measure_runs, pictures_of, report_tables
from rlx.lab.reproduce.samples import distribution_table, sample_of
from rlx.runs.store import save
from rlx.runs.summary import Estimate
from rlx.types import Action, Completion, Group, Task, Trajectory, Turn
from rlx.view.report.panels import (
    Rows,
    Sample,
    axis_of,
    bars_panel,
    bin_edges,
    distribution_panel,
    frontier_panel,
    pass_panel,
    shares_in,
)
from rlx.view.report.pictures import Bars, Distribution, Frontier, PassCurves, figures_in
from tests.loops import for_each

TINY: dict[str, Any] = {
    "source": "a paper",
    "seeds": 2,
    "runs": {"mine": {"per_seed": True}},
    "ks": [1, 2],
    "rows": {"floor": "mine random", "start": "mine start-2", "ours": "mine eval-2"},
    "pass_curves": {"passes": {"rows": ["floor", "ours"]}},
    "bars": {"bars": {"rows": ["start", "ours"], "figures": ["tool/calls", "reward"]}},
    "distributions": {"lengths": {"rows": ["ours"], "correct": False}},
    "frontiers": {"frontier": {"rows": ["start", "ours"], "across": "tool/calls", "up": "pass@1", "line": ["ours"]}},
    "published": {"ours": {"pass@1": 0.5, "tool/calls": 1.5}},
}


def write(folder: Path, changes: Mapping[str, Any] = {}) -> Path:
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY | changes))
    return path


def estimate(value: float, down: float = 0.1, up: float = 0.2) -> Estimate:
    return Estimate(value=value, low=value - down, high=value + up)


def axes_of(panel: Panel) -> list[Any]:
    pytest.importorskip("matplotlib")
    figure = figure_of_panels([panel])
    return [axes for place in figure.subfigs for axes in place.axes]


def labels_of(panel: Panel) -> list[str]:
    (place,) = figure_of_panels([panel]).subfigs
    return [text.get_text() for legend in place.legends for text in legend.get_texts()]


def lines_of(axes: Any) -> list[tuple[list[float], list[float]]]:
    return [(np.asarray(x, float).tolist(), np.asarray(y, float).tolist()) for x, y in map(xy, axes.lines)]


def xy(line: Any) -> tuple[Any, Any]:
    return line.get_xdata(), line.get_ydata()


def test_pass_curves_are_percent_against_k_with_intervals_and_published_values() -> None:
    rows: Rows = {
        "a": {"eval/pass@1": estimate(0.5), "eval/pass@4": estimate(0.75)},
        "b": {"eval/pass@1": estimate(0.25, math.inf, math.inf)},
    }
    panel = pass_panel(
        "t", PassCurves(rows=("a", "b")), rows, {"a": {"pass@4": (0.875, 0.125), "reward": (1.0,)}}, [1, 4]
    )
    (axes,) = axes_of(panel)
    lines = lines_of(axes)
    left, right = 2**-0.015, 2**0.015
    assert ([left, 4 * left], [50, 75]) in lines, "beside the other row's"
    assert ([left, 4 * left], [40, 65]) in [(x, pytest.approx(y)) for x, y in lines], "lower ends"
    assert ([right], [25]) in lines
    assert ([4], [87.5]) in lines, "published"
    assert ([4], [12.5]) in lines, "of another agent"
    assert labels_of(panel) == ["a", "b", "published"]
    part = PassCurves(rows=("a",), part="gsm8k")
    assert figures_in(part, [1, 4]) == ["gsm8k/pass@1", "gsm8k/pass@4"]
    assert labels_of(pass_panel("t", part, rows, {}, [1, 4])) == ["a (–)"]


def test_an_end_that_nothing_bounds_has_no_whisker() -> None:
    found = [estimate(1.0, 0.25, math.inf), estimate(1.0, math.inf, 0.5), estimate(0.0, math.nan, 0.0)]
    assert whiskers(found, 2) == [[0.5, 0.0, 0.0], [0.0, 1.0, 0.0]]


def test_bars_have_their_published_value_beside_them() -> None:
    rows: Rows = {"a": {"eval/tool/calls": estimate(2.0), "eval/tool/failed_rate": estimate(0.5)}, "b": {}}
    picture = Bars(rows=("a", "b"), figures=("tool/calls", "tool/failed_rate"))
    panel = bars_panel("t", picture, rows, {"a": {"tool/calls": (3.0, 1.0)}})
    calls, failed = axes_of(panel)
    assert [(bar.get_height(), bar.get_facecolor()[3]) for bar in calls.patches] == [(2.0, 1.0), (3.0, 0.0), (1.0, 0.0)]
    assert [bar.get_height() for bar in failed.patches] == [50.0], "percent"
    assert [text.get_text() for text in calls.texts] == ["2.00", "3.00", "1.00", "–"]
    assert (calls.get_title(), failed.get_title()) == ("Calls", "Failed, %")
    assert labels_of(panel) == ["a", "b", "published"]


def test_a_frontier_has_both_intervals_and_a_line_through_chosen_rows() -> None:
    rows: Rows = {
        "a": {"eval/tool/calls": estimate(2.0, 1, 1), "eval/pass@1": estimate(0.5)},
        "b": {"eval/tool/calls": estimate(4.0), "eval/pass@1": estimate(0.25)},
        "c": {"eval/pass@1": estimate(0.25)},
    }
    picture = Frontier(rows=("a", "b", "c"), across="tool/calls", up="pass@1", line=("b", "c", "a"))
    panel = frontier_panel(
        "t", picture, rows, {"a": {"tool/calls": (5.0,), "pass@1": (0.75,)}, "b": {"pass@1": (0.1,)}}
    )
    (axes,) = axes_of(panel)
    lines = lines_of(axes)
    assert lines[0] == ([4, 2], [25, 50])
    assert ([5], [75]) in lines, "published, where both figures are"
    assert ([1], [50]) in lines, "lower end of the cost"
    assert labels_of(panel) == ["a", "b", "c (–)", "published"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Calls", "Pass@1, %")


def test_the_bins_of_whole_numbers_hold_equally_many() -> None:
    assert bin_edges([3.0, 5.0]).tolist() == [2.5, 3.5, 4.5, 5.5]
    assert bin_edges([0.0, 80.0])[:2].tolist() == [-0.5, 2.5]
    assert bin_edges([0.5, 0.5]).tolist() == [0.0, 1.0]
    assert bin_edges([]).tolist() == [0.0, 1.0]
    assert len(bin_edges([0.0, 0.5])) == 41
    assert shares_in([3.0, 3.0, 5.0, 4.0], bin_edges([3.0, 5.0])).tolist() == [0.5, 0.25, 0.25]
    assert shares_in([], bin_edges([3.0])).tolist() == [0.0]


def test_a_distribution_has_a_lane_for_each_row_though_it_has_no_episodes() -> None:
    samples = {"a": Sample(values=(1.0, 2.0, 2.0, 3.0), num_episodes=9), "b": Sample(values=(), num_episodes=5)}
    (axes,) = axes_of(distribution_panel("t", Distribution(rows=("a", "b")), samples))
    first, second = axes.patches
    assert first.get_data().values.tolist() == pytest.approx([0.425, 0.85, 0.425])
    assert second.get_data().values.tolist() == [-1.0, -1.0, -1.0]
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels == ["a\n4 of 9, median 2", "b\n0 of 5"]
    assert axes.get_xlabel() == "tokens of a correct episode"


@for_each(
    "stat, title, percent",
    [
        ("pass@4", "Pass@4, %", True),
        ("gsm8k/pass@1", "gsm8k Pass@1, %", True),
        ("tool/failed_rate", "Failed, %", True),
        ("tool/calls", "Calls", False),
        ("episode/turns", "Turns", False),
        ("episode/tokens", "Tokens", False),
        ("env/hallucinated", "Hallucinated", False),
    ],
)
def test_an_axis_has_a_figure_s_title_and_unit(stat: str, title: str, percent: bool) -> None:
    assert (axis_of(stat).title, axis_of(stat).percent) == (title, percent)


def test_names_in_a_picture_are_text_and_a_picture_is_the_same_each_time() -> None:
    pytest.importorskip("matplotlib")
    name = "_<script>&$x^2$\x1b[31m\ufffe\ud800\n日"
    rows: Rows = {name: {"eval/reward": estimate(0.5), "eval/pass@1": estimate(0.5), "eval/pass@2": estimate(0.5)}}
    panels = [
        pass_panel(name, PassCurves(rows=(name,)), rows, {}, [1, 2]),
        pass_panel("part", PassCurves(rows=("a",), part="env/\x1b<b>"), {"a": {}}, {}, [1, 2]),
        bars_panel(name, Bars(rows=(name,), figures=("reward",)), rows, {name: {"reward": (0.1,)}}),
        distribution_panel(name, Distribution(rows=(name,)), {name: Sample(values=(1.0, 2.5), num_episodes=3)}),
        frontier_panel(name, Frontier(rows=(name,), across="reward", up="pass@1"), rows, {}),
    ]
    text = picture_svg(panels)
    assert text == picture_svg(panels)
    written = [node.firstChild.data for node in minidom.parseString(text.encode()).getElementsByTagName("text")]  # type: ignore[union-attr]
    one = "_<script>&$x^2$\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER} 日"
    assert written.count(one) == 8, "four titles, three legends and a lane"
    assert "env/\N{REPLACEMENT CHARACTER}<b> Pass@k, %" in written
    assert "<script" not in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pass_curves": {"p": {"rows": ["oars"]}}}, "p: there is no row 'oars'; did you mean ours?"),
        ({"pass_curves": {"p": {"rows": []}}}, "reproduction.pass_curves.p: rows: expected 1 to 10 names, not 0"),
        ({"pass_curves": {"p": {"rows": ["ours"] * 2}}}, "reproduction.pass_curves.p: rows: ours is there twice"),
        ({"pass_curves": {"p": {"rows": ["ours"] * 11}}}, "p: rows: expected 1 to 10 names, not 11"),
        ({"pass_curves": {"p": {"row": ["ours"]}}}, "reproduction.pass_curves.p lacks 'rows'"),
        ({"pass_curves": {"p": {"rows": "ours"}}}, "reproduction.pass_curves.p.rows is not a list"),
        ({"ks": [4]}, "passes: pass_curves need two values of ks or more"),
        ({"bars": {"b": {"rows": ["ours"], "figures": []}}}, "bars.b: figures: expected 1 to 8 names, not 0"),
        ({"bars": {"b": {"rows": ["ours"]}}}, "reproduction.bars.b lacks 'figures'"),
        ({"bars": {"b\x1b": {"rows": [3], "figures": ["x"]}}}, r"reproduction.bars.b\x1b.rows is not a string"),
        ({"distributions": {"d": {"rows": ["floor"]}}}, "d: floor: no episodes of random tries are stored"),
        ({"distributions": {"d": {"rows": ["ours"], "figure": "x\ny" * 99}}}, "d: figure=x yx yx"),
        ({"distributions": {"d": {"rows": ["ours"], "correct": 1}}}, "distributions.d.correct is not true or false"),
        (
            {"frontiers": {"f": {"rows": ["ours"], "across": "x", "up": "y", "line": ["start"]}}},
            "reproduction.frontiers.f: line: start: there is no such row of this picture; there is ours",
        ),
        ({"frontiers": {"f": {"rows": ["ours"], "across": "x"}}}, "reproduction.frontiers.f lacks 'up'"),
        ({"frontier": {}}, "reproduction has an unknown key 'frontier'"),
    ],
)
def test_what_a_picture_cannot_be_is_one_line_that_names_it(
    tmp_path: Path, refusal: Callable[[Path], str], changes: Mapping[str, Any], message: str
) -> None:
    assert message in refusal(write(tmp_path, changes))


def episode(task: Task, num_tokens: int, *, success: bool, status: Any = "done") -> Trajectory:
    """Return an episode of two turns with so many tokens in all."""
    sizes = (num_tokens - 1, 1)
    said = [Completion(token_ids=(5,) * size, logprobs=(0.0,) * size, stop="stop") for size in sizes]
    turns = tuple(Turn(prompt_ids=(1, 2, 3), completion=one, action=Action(kind="answer", text="")) for one in said)
    return Trajectory(task=task, sample=0, turns=turns, status=status, success=success)


def test_a_sample_has_the_sampled_tokens_of_correct_episodes_of_a_part(tmp_path: Path) -> None:
    tasks = [Task(id=str(n), prompt=(), data={}, env=env) for n, env in enumerate(["gsm8k", "count", "gsm8k"])]
    sizes = {tmp_path / "0": (10, 20, 30), tmp_path / "1": (12, 22, 32)}
    for run, numbers in sizes.items():
        groups = [
            Group(task=task, trajectories=(episode(task, num, success=True), episode(task, num + 1, success=False)))
            for task, num in zip(tasks, numbers, strict=True)
        ]
        save(run / "trajectories" / "eval-own.jsonl", groups, max_rounds=None)
    picture = Distribution(rows=("a",), part="gsm8k")
    found = sample_of([*sizes], "eval-own", picture)
    assert found == Sample(values=(10.0, 30.0, 12.0, 32.0), num_episodes=8)
    every = sample_of([tmp_path / "0"], "eval-own", Distribution(rows=("a",), correct=False))
    assert every == Sample(values=(10.0, 11.0, 20.0, 21.0, 30.0, 31.0), num_episodes=6)
    none = sample_of([*sizes], "eval-own", Distribution(rows=("a",), part="other"))
    table = distribution_table({"t": picture}, {"t": {"a": found, "b": none}})
    # 10, 12, 30, 32: mean 21, median 21; a tenth of the way through three gaps: 10 + 0.3 * 2, and 30 + 0.7 * 2
    assert table.rows == (
        ("t", "a", "4 of 8", "21.0", "10.6", "21.0", "31.4"),
        ("t", "b", "0 of 0", "–", "–", "–", "–"),
    )
    save(tmp_path / "2" / "trajectories" / "e.jsonl", [failed(tasks[0])], max_rounds=None)
    assert sample_of([tmp_path / "2"], "e", picture) == Sample(values=(), num_episodes=1), "an error is not correct"


def failed(task: Task) -> Group:
    return Group(task=task, trajectories=(episode(task, 9, success=True, status="error"),))


def test_a_report_has_a_file_for_each_kind_of_picture(finished_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    what = read_reproduction(write(tmp_path, {"rows": {k: v for k, v in TINY["rows"].items() if k != "floor"}} | PLAIN))
    members = members_of(what, tmp_path, 2, [])
    for member in members:
        shutil.copytree(finished_run, member.folder)
    found = measure_runs(what, folders_of(members))
    pictures = pictures_of(what, found)
    assert list(pictures) == ["pass_curves.svg", "bars.svg", "distributions.svg", "frontiers.svg"]
    assert all(text == pictures_of(what, found)[file] for file, text in pictures.items())
    tables, *_ = report_tables(what, found, all_figures(what, found))
    assert [table.title for table in tables][-1] == "Distributions over episodes, seeds together"


PLAIN: dict[str, Any] = {"pass_curves": {"passes": {"rows": ["start", "ours"]}}}
