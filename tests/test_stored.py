"""Intervals over seeds of stored reports follow from the figures of each seed, and views repeat them."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from rlx.evaluate.seeds import welch
from rlx.record.plain_yaml import parse_small
from scripts.refresh import refreshed
from scripts.stored import REPORTS, RESULTS, Stored, read_stored

PAGE_OF = {"gem": "gem.md", "carl": "carl.md", "earl": "earl.md"}


def estimate(name: str, of: str, figure: str) -> tuple[float, float, float]:
    found = read_stored(name).over_seeds(of, figure)
    assert found is not None
    return found.value, found.low, found.high


def test_an_interval_of_the_report_itself_goes_first() -> None:
    assert estimate("tool_rloo", "Tool-RLOO over Tool-SFT", "pass@1") == pytest.approx((0.188, 0.138, 0.238))
    assert estimate("earl_calc_seeds", "EARL over ExpA+GRPO", "countdown/pass@1") == pytest.approx(
        (0.012, -0.029, 0.053)
    )
    assert estimate("carl", "D_upd of CARL over GRPO", "ratio") == pytest.approx((0.784, 0.682, 0.807))


def test_figures_of_seeds_give_welchs_interval_around_the_stored_mean() -> None:
    """Of each seed the report has a gain over the mean of the other's seeds, and the other's figures."""
    ours, theirs = np.array([0.024, 0.008, 0.024]), np.array([0.879, 0.845, 0.875])
    reach = (welch(ours, theirs).high - welch(ours, theirs).low) / 2
    of = "direct, 0: nested over the bandit"
    assert estimate("babyai", of, "reward") == pytest.approx((0.019, 0.019 - reach, 0.019 + reach), abs=1e-9)
    assert estimate("gem_tool", "tool over none", "pass@1") == pytest.approx((0.41, 0.349, 0.471), abs=2e-3)
    value, low, high = estimate("gem_gamma", "gamma 0.9 over 0.999", "episode/turns")
    assert (value, low, high) == pytest.approx((-0.327, -0.862, 0.208), abs=2e-3), "the other's turns are on the page"
    assert estimate("gem_shaping", "steps, -1/+1 over ReBN", "tool/calls")[0] == pytest.approx(0.15)


def test_one_seed_and_a_mean_of_seeds_that_nobody_wrote_down_have_no_interval() -> None:
    assert read_stored("babyai").over_seeds("direct, 5: nested over the bandit", "reward") is None
    assert read_stored("carl").over_seeds("CARL over GRPO", "episode/tokens") is None
    assert read_stored("tool_rloo").over_seeds("Tool-RLOO", "tool/failed_rate") is None
    assert read_stored("gem_tool").over_seeds("tool over none at the start", "pass@1") is None or all(
        abs(end) == inf for end in estimate("gem_tool", "tool over none at the start", "pass@1")[1:]
    )


def test_figures_of_seeds_beside_the_reports_stand_on_their_pages() -> None:
    pages = parse_small((RESULTS / "seeds.yaml").read_text(encoding="utf-8"))
    for name, runs in pages.items():
        page = (RESULTS / PAGE_OF[name.split("_")[0]]).read_text(encoding="utf-8")
        stored = read_stored(name)
        for run, figures in runs.items():
            assert stored.reproduction.runs[run].every_seed
            for figure, values in figures.items():
                assert len(values) == stored.reproduction.seeds
                scale, digits = (100, 1) if figure.startswith("sudoku/") else (1, 2)
                words = ", ".join(f"{scale * value:.{digits}f}" for value in values)
                shorter = re.sub(r"\b0\.", ".", words)
                in_each = f"{shorter.split(', ')[0]} in each" if len(set(values)) == 1 else words
                assert words in page or shorter in page or in_each in page, (name, run, figure)


def test_a_stored_report_is_its_own_view() -> None:
    """What changes of a report follows from it and the registry, so a second look changes nothing."""
    for path in sorted(REPORTS.glob("*/report.md")):
        assert refreshed(path.parent.name) == path.read_text(encoding="utf-8")


def test_reports_follow_the_published_figures_and_cut_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = read_stored("gem_gamma")
    reproduction = replace(stored.reproduction, published={"gamma 0.9": {"episode/turns": (5.6, 7.25)}})
    text = stored.text.replace("| Reward | reward/mean | rebn |", "| Reward | success/mean | rebn |")
    text = re.sub(r"(success/mean \| rebn \| \S+ )\S+", r"\g<1>[-0.500,1.500]", text)
    monkeypatch.setattr(
        "scripts.refresh.read_stored", lambda name: replace(stored, reproduction=reproduction, text=text)
    )
    changed = refreshed("gem_gamma")
    assert "5.60, 7.25" in changed
    assert "gamma 0.9 (agent 2 of 2)" in changed
    assert re.search(r"success/mean \| rebn \| \S+ \[0\.000,1\.000\]", changed)
    assert "[-0.500,1.500]" not in changed


def test_means_are_those_of_the_reports_tables() -> None:
    stored: Stored = read_stored("carl")
    assert stored.mean("CARL over GRPO", "env/f1_hotpot") == pytest.approx(-0.008)
    assert stored.mean("all turns over CARL", "env/f1_hotpot") == pytest.approx(0.50 - 0.64), "of two rows"
    assert read_stored("babyai").mean("direct, 0: nested", "go_to/pass@1") == pytest.approx(0.977)
    assert read_stored("earl_sorting").mean("EARL", "sort4/env/comparisons") == pytest.approx(4.847)
