"""Stored figures of reproductions (docs/results/NAME.json): intervals follow from seeds, and pages from the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlx.base.limits import MistakeError
from rlx.evaluation.seeds import welch
from rlx.lab.reproduce.reproduction import ReproductionError
from rlx.lab.reproduce.results import Figure, Results, RunCost, read_results, to_json
from scripts.claims import filled, gain_cells
from scripts.results import FOLDER, figures_table, page_of, read_stored, stored_names
from tests.errors import raises_naming

NAMES = stored_names()


def measured(name: str, row: str, stat: str) -> tuple[float, float, float]:
    figure = read_stored(name).results.figures[row][stat].measured
    return figure.value, figure.low, figure.high


def test_figures_are_those_of_the_deleted_reports() -> None:
    """Copied by hand from three reports of commit 423c4670."""
    assert measured("tool_rloo", "Tool-RLOO over Tool-SFT", "pass@1") == pytest.approx((0.188, 0.138, 0.238))
    assert measured("carl", "D_upd of CARL over GRPO", "ratio") == pytest.approx((0.784, 0.682, 0.807))
    assert measured("earl_calc_seeds", "EARL over ExpA+GRPO", "countdown/pass@1") == pytest.approx(
        (0.012, -0.029, 0.053)
    )
    stored = read_stored("gem_tool").results
    assert stored.figures["with the tool"]["pass@1"].seeds == (0.71, 0.747, 0.703)
    assert stored.figures["untrained with the tool"]["pass@1"].value == 0
    assert stored.cost["tool/1"] == RunCost(tokens=246_982, tool_calls=5_998, seconds=2_771)
    assert stored.commits == ("7a36a881137a91f2162e6a12d835ab6f6320815c",)


def test_intervals_of_gains_over_seeds_follow_from_the_seeds_of_both_sides() -> None:
    """A gain of a seed is rounded to a thousandth, so an end is right to a few of them. Paired gains have their own."""
    num_checked = 0
    for name in NAMES:
        stored = read_stored(name)
        for gain, (ours, theirs) in stored.reproduction.gains.items():
            rows = {place: row for row, place in stored.reproduction.rows.items()}
            figures, others = stored.results.figures[gain], stored.results.figures.get(rows.get(theirs, ""), {})
            for stat in ("pass@1", "reward"):
                figure, other = figures.get(stat), others.get(stat)
                if figure is None or other is None or len(figure.seeds) < 2 or not figure.over_seeds:
                    continue
                shared = not theirs.split(" ")[1].startswith("eval")
                is_paired = ours.split(" ")[0] == theirs.split(" ")[0] and not shared
                if is_paired or not (shared or other.seeds):
                    continue
                expected = welch(np.array(figure.seeds), np.array([0.0, 0.0] if shared else other.seeds))
                reach = (expected.high - expected.low) / 2
                bound = 1.0 if stat == "pass@1" else np.inf
                ends = [max(-bound, figure.value - reach), min(bound, figure.value + reach)]
                assert figure.over_seeds == pytest.approx(ends, abs=5e-3), (name, gain, stat)
                num_checked += 1
    assert num_checked > 60


def test_means_are_those_of_the_seeds() -> None:
    for name in NAMES:
        for row, figures in read_stored(name).results.figures.items():
            for stat, figure in figures.items():
                if figure.seeds:
                    digit = 1e-3 if stat.endswith(("pass@1", "reward")) else 0.05
                    assert np.mean(figure.seeds) == pytest.approx(figure.value, abs=digit), (name, row, stat)
                if figure.over_seeds:
                    assert figure.over_seeds[0] <= figure.value <= figure.over_seeds[1], (name, row, stat)


def test_each_reproduction_is_on_one_results_page_with_its_untrained_model() -> None:
    for name in NAMES:
        stored = read_stored(name)
        untrained = [row for row, place in stored.reproduction.rows.items() if "untrained" in place.split(" ")[1]]
        shown = {row[0] for row in figures_table(stored).rows}
        assert untrained, name
        assert {*untrained} <= shown, name
        assert f"### Figures of {name}" in (FOLDER / page_of(name)).read_text(encoding="utf-8")


def test_a_gain_in_bold_is_certain_for_these_seeds_alone() -> None:
    assert gain_cells("tool_rloo", "Tool-RLOO over Tool-SFT", "Pass@1") == ("18.8 [16.3, 21.3]", "[13.8, 23.8]")
    assert gain_cells("carl", "CARL-Lite over GRPO", "Reward") == ("-.031 [-.054, -.010]", "**[-.145, .083]**")
    with raises_naming(MistakeError, "carl", "Pass@9"):
        gain_cells("carl", "CARL-Lite over GRPO", "Pass@9")
    with raises_naming(MistakeError, "gains"):
        filled("<!-- gains: main -->\n| a | b |\n|---|---|\n| c | d |\n<!-- end of gains -->\n")


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    figure = Figure(value=0.5, over_problems=(0.25, 0.75), seeds=(0.4, 0.6))
    results = Results(
        command="rlx reproduce x",
        commits=("abc",),
        figures={'a "row" | <b>': {"pass@1": figure}},
        cost={"x/0": RunCost(tokens=1, tool_calls=2, seconds=3.5)},
    )
    file = tmp_path / "x.json"
    file.write_text(to_json(results), encoding="utf-8")
    assert read_results(file) == results
    assert figure.measured.low == -np.inf, "an interval over problems decides nothing"
    for wrong in ('{"command": 1}', "[", file.read_text(encoding="utf-8").replace("[0.25, 0.75]", "[0.25]")):
        file.write_text(wrong, encoding="utf-8")
        with raises_naming(ReproductionError, "x.json"):
            read_results(file)
