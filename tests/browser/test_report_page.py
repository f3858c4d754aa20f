"""The page of `rlx report` as axe wants it, in both themes, for narrow and wide screens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlx.lab.reproduce.against import find_paper
from rlx.view.report.build import report_of, write_report
from rlx.view.report.runs import read_runs
from rlx.view.report.training import is_wanted
from tests.report.run_folders import run_folder

pytestmark = pytest.mark.browser
CURVES = {"reward/mean": 0.5, "success/mean": 0.25, "entropy/mean": 1.0, "kl/mean": 0.1, "loss/value": 0.3}


@pytest.fixture(scope="session")
def report_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two settings with two seeds each, one of them damaged, with pictures of every kind."""
    folder = tmp_path_factory.mktemp("report")
    for name in ("grpo", "rloo"):
        algo = {"_target_": f"rlx.algo.{name}.{name}", "num_prompts": 2}
        for seed in (0, 1):
            changes = {"algo": algo, "steps": 30}
            run = folder / "runs" / name / str(seed)
            run_folder(run, seed=seed, solved=3 + seed, changes=changes, num_steps=30, metrics=CURVES, note="a note")
    with open(folder / "runs" / "grpo" / "0" / "metrics.jsonl", "a") as file:
        file.write("{torn\n")
    records = read_runs([folder / "runs"], is_wanted)
    write_report(report_of("Runs", records, paper=find_paper("tool_rloo")), folder / "report")
    return folder / "report" / "report.html"


@pytest.mark.parametrize(
    "screen", [(1440, 900, "light"), (1440, 900, "dark"), (360, 740, "light"), (360, 740, "dark")], indirect=True
)
def test_a_report_is_accessible_with_everything_unfolded(screen: Any, report_page: Path) -> None:
    screen.open(report_page.as_uri(), "h1")
    screen.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    screen.shot("report")
    assert screen.problems() == []
    assert screen.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "no scrolling sideways"
