"""`rlx report`: what its sections say, that the same runs give the same bytes, and that no name is more than text."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from rlx.base.table import Table
from rlx.commands.report import default_folder, write_runs
from rlx.lab.reproduce.against import find_paper
from rlx.runs.summary import Estimate
from rlx.settings.check import ConfigError
from rlx.view.report.build import report_of, write_report
from rlx.view.report.card import DROPS, remarks_of, rollout_table, rules_of
from rlx.view.report.cohorts import Cohort, cohorts_of
from rlx.view.report.curves import MOST_POINTS, drawn_points
from rlx.view.report.document import Block, Code, Document, Folded, to_report_markdown
from rlx.view.report.page import to_html
from rlx.view.report.paper import Paper, PaperSetting, beside_table, published_of, settings_table
from rlx.view.report.results import in_sweep, rows_of
from rlx.view.report.runs import RunRecord, read_runs
from rlx.view.report.training import is_wanted, line_of_cohort, times_of, window_of
from tests.errors import raises_naming
from tests.report.run_folders import CONFIG, read_html, run_folder, write_steps

HOSTILE = "<script>x()</script>\x1b[31m\u202e|*`\"'"


def read(*folders: Path) -> list[RunRecord]:
    return read_runs(folders, is_wanted)


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    """Two seeds of one run, and a run of another algorithm."""
    for seed in (0, 1):
        run_folder(tmp_path / "runs" / "grpo" / str(seed), seed=seed, solved=3 + seed)
    run_folder(tmp_path / "runs" / "rloo" / "0", changes={"algo": {"_target_": "rlx.algo.rloo.rloo", "num_prompts": 4}})
    return tmp_path / "runs"


def blocks_of(document: Document) -> list[Block]:
    """The blocks of a report, and those that are folded."""
    blocks = [block for section in document.filled for block in section.blocks]
    inner = [one for block in blocks if isinstance(block, Folded) for one in block.blocks]
    return [*blocks, *inner]


def tables_of(document: Document) -> dict[str, Table]:
    """The tables of a report by their titles, folded ones too."""
    return {block.title: block for block in blocks_of(document) if isinstance(block, Table)}


def commands_in(document: Document) -> tuple[str, ...]:
    (found,) = [block.lines for block in blocks_of(document) if isinstance(block, Code)]
    return found


def test_a_report_has_every_section_that_its_runs_fill(seeds: Path) -> None:
    document = report_of("t", read(seeds), draws=False)
    assert [section.title for section in document.filled] == [
        "Results", "Training", "Time by stage", "Settings", "Rollout card",
    ]  # fmt: skip
    tables = tables_of(document)
    settings = tables["Settings in which the runs differ"]
    assert settings.header == ("setting", "grpo", "rloo")
    assert ("algo.num_prompts", "2", "4") in settings.rows
    assert not any(row[0] == "seed" for row in settings.rows)
    spread = {row[0]: row for row in tables["Spread over seeds"].rows if row[1].startswith("Pass@1")}
    assert spread["grpo"][3:] == ("58.3", "11.8", "50.0", "66.7", "0: 50.0, 1: 66.7")
    budget = {row[0]: row for row in tables["Budget: training and evaluation, sums over seeds"].rows}
    assert budget["grpo"][1:6] == ("finished", "0, 1", "cpu", "2 min 0 s", "1.00")
    assert budget["all"][-2:] == ("3,000", "15")
    lines = commands_in(document)
    assert lines[lines.index("# grpo/1") + 1] == "rlx train env=countdown seed=1"


def card_row(records: list[RunRecord]) -> dict[str, str]:
    table = rollout_table({"a": records})
    (row,) = table.rows
    return dict(zip(table.header, row, strict=True))


def test_the_card_counts_what_was_played_failed_skipped_and_dropped(tmp_path: Path) -> None:
    records = read(run_folder(tmp_path / "a", changes={"algo": {"drop_equal": True}, "steps": 9}))
    # four steps of 4 groups, a quarter of them with equal rewards, of 8 episodes, a quarter of them failed, and of 20
    # turns, of which 15 are learned from
    assert card_row(records) == {
        "runs": "a", "steps": "4 of 9",
        "episodes played": "32", "failed": "8", "cut off": "–",
        "groups": "16", "skipped groups": "4", "skipped, %": "25.0", "dropped groups": "0",
        "turns played": "80", "turns selected": "72", "turns trained": "60",
    }  # fmt: skip
    rules = [*rules_of(records)]
    assert "0.25" in rules[0]
    assert any("algo.drop_equal" in rule and "a" in rule for rule in rules)
    assert not any("num_turns" in rule for rule in rules)


def test_the_card_counts_groups_that_a_number_of_turns_drops(tmp_path: Path) -> None:
    algo = {"_target_": "rlx.algo.ppo.ppo", "num_turns": 10}
    run = run_folder(tmp_path / "a", changes={"algo": algo})
    assert card_row(read(run))["dropped groups"] == "–", "a run that counts turns, before the metric was there"
    write_steps(run, 4, {"batch/dropped_groups": 1.0})
    records = read(run)
    assert card_row(records)["dropped groups"] == "4"
    assert any("algo.num_turns" in rule for rule in rules_of(records))


@pytest.mark.parametrize("name", DROPS)
def test_the_card_has_the_rule_of_an_algorithm_that_drops_turns(name: str, tmp_path: Path) -> None:
    records = read(run_folder(tmp_path / "a", changes={"algo": {"_target_": f"rlx.algo.{name}.{name}"}}))
    assert any(rule.startswith(DROPS[name]) and rule.endswith(": a.") for rule in rules_of(records))
    assert callable(getattr(import_module(f"rlx.algo.{name}"), name))


def test_a_step_that_takes_longer_than_its_stages_has_a_rest(tmp_path: Path) -> None:
    (cohort,) = cohorts_of(read(run_folder(tmp_path / "a")))
    times = times_of(cohort)
    assert times is not None
    assert (times.step, times.stages, times.total) == (10.0, {"rollout": 6.0, "update": 3.0, "other": 1.0}, 40.0)
    write_steps(tmp_path / "a", 3, {"time/update": 7.0, "time/step": 10.0})
    times = times_of(cohorts_of(read(tmp_path / "a"))[0])
    assert times is not None
    assert times.stages["other"] == 0.0, "stages that overlap take no less than nothing"


def test_a_curve_is_the_mean_of_the_seeds_at_the_steps_that_all_say(seeds: Path) -> None:
    write_steps(seeds / "grpo" / "1", 3, {"reward/mean": 1.5})
    cohort = cohorts_of(read(seeds))[0]
    line = line_of_cohort(cohort, "reward/mean", 1)
    assert line is not None
    assert line.steps.tolist() == [1.0, 2.0, 3.0]
    assert line.mean.tolist() == pytest.approx([1.01, 1.02, 1.03])
    assert line_of_cohort(cohort, "kl/mean", 1) is None
    assert window_of([cohort]) == 1


def test_a_long_line_is_drawn_with_few_points_and_both_ends() -> None:
    assert drawn_points(3).tolist() == [0, 1, 2]
    chosen = drawn_points(100_000).tolist()
    assert (len(chosen), chosen[0], chosen[-1]) == (MOST_POINTS, 0, 99_999)


def test_what_all_runs_are_compared_with_is_there_once(seeds: Path) -> None:
    cohorts = cohorts_of(read(seeds))
    assert list(rows_of(cohorts)) == ["start", "grpo", "rloo"]
    odd = Cohort(name="odd", runs=(), figures={"start": {"eval/reward": Estimate(value=9, low=9, high=9)}})
    assert list(rows_of([*cohorts, odd])) == ["grpo, start", "rloo, start", "odd, start", "grpo", "rloo"]


def test_a_sweep_of_one_number_is_a_line_in_its_order(tmp_path: Path) -> None:
    for name, price in {"a": 0.1, "b": 0.02, "c": 1}.items():
        run_folder(tmp_path / name, changes={"env": CONFIG["env"] | {"lambda_call": price}})
    cohorts = cohorts_of(read(tmp_path))
    assert in_sweep(cohorts) == ("b", "a", "c")
    run_folder(tmp_path / "d", changes={"algo": {}})
    assert in_sweep(cohorts_of(read(tmp_path))) == ()


PAPER = Paper(
    name="p",
    source="a paper",
    rows={"Theirs": "grpo eval-own", "Start": "grpo start-own", "Other": "grpo eval-7", "Odd": "nobody eval-own"},
    published={"Theirs": {"pass@1": (0.6,), "reward": (9.0,)}, "Start": {"pass@1": (0.99,)}, "Odd": {"pass@1": (0.5,)}},
    settings=(
        PaperSetting(key="algo.num_prompts", value="2e0", source="table 1"),
        PaperSetting(key="env.lambda_call", value=0.5, source="table 2", reason="why"),
        PaperSetting(key="steps", value=7, source="not published: ours"),
    ),
)


def test_published_values_stand_beside_those_measured(seeds: Path) -> None:
    cohorts = cohorts_of(read(seeds))
    rows = {(row[0], row[2]): row for row in beside_table(PAPER, cohorts).rows}
    assert set(rows) == {("Theirs", "Pass@1, %"), ("Theirs", "Reward"), ("Start", "Pass@1, %")}
    theirs = rows["Theirs", "Pass@1, %"]
    assert (theirs[1], theirs[3].split()[0], *theirs[4:]) == ("grpo", "58.3", "60.0", "-1.7", "yes")
    assert rows["Theirs", "Reward"][-1] == "no"
    assert rows["Start", "Pass@1, %"][-1] == "no"
    assert published_of(PAPER, cohorts) == {"grpo": {"eval/pass@1": (0.6,), "eval/reward": (9.0,)}}
    alone = beside_table(PAPER, [one for one in cohorts if one.name == "rloo"]).rows
    assert {row[0] for row in alone} == {"Theirs", "Start", "Odd"}, "one cohort stands beside all rows"


def test_another_limit_of_turns_is_no_published_row(tmp_path: Path) -> None:
    run_folder(tmp_path / "grpo" / "0", changes={"evaluate": CONFIG["evaluate"] | {"max_rounds": [8]}})
    run_folder(tmp_path / "x" / "0", changes={"algo": {}})
    cohorts = cohorts_of(read(tmp_path))
    paper = Paper(name="p", source="", rows={"R": "grpo eval-5"}, published={"R": {"pass@1": (0.5,)}})
    assert beside_table(paper, cohorts).rows == ()
    same = Paper(name="p", source="", rows={"R": "grpo eval-8"}, published={"R": {"pass@1": (0.5,)}})
    assert len(beside_table(same, cohorts).rows) == 1


def test_settings_that_differ_from_the_papers_are_told_apart(seeds: Path) -> None:
    document = report_of("t", read(seeds), paper=PAPER, draws=False)
    tables = tables_of(document)
    assert settings_table(PAPER, cohorts_of(read(seeds))).header == ("setting", "paper", "grpo", "rloo", "source")
    differ = {row[0]: row for row in tables["Settings that differ from the paper's"].rows}
    assert set(differ) == {"algo.num_prompts", "env.lambda_call"}, "2 is 2e0 of grpo, and 4 of rloo is not"
    assert differ["env.lambda_call"][1:4] == ("0.5", "0.02", "0.02")
    assert tables["Settings of the paper"].rows[2][:2] == ("steps", "–")


def test_a_paper_is_a_reproduction_a_preset_or_both() -> None:
    both = find_paper("tool_rloo")
    assert both.published["Tool-RLOO"]["pass@16"] == (0.86,)
    assert both.rows["Tool-RLOO"] == "tool_rloo_paper eval-8"
    assert any(one.key == "algo.optimizer.lr" for one in both.settings)
    assert find_paper("gem_game").published == {}
    with raises_naming(ConfigError, "--against", "tool_rlo", "tool_rloo"):
        find_paper("tool_rlo")


def test_the_same_runs_give_the_same_bytes_wherever_they_are(seeds: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    shutil.copytree(seeds, tmp_path / "elsewhere" / "runs")
    for folder in (seeds, tmp_path / "elsewhere" / "runs"):
        write_runs([folder], PAPER, folder.parent / "out")
    first, second = tmp_path / "out", tmp_path / "elsewhere" / "out"
    names = sorted(os.listdir(first))
    assert names == sorted(os.listdir(second))
    assert {"report.html", "report.md", "curves.svg", "pass.svg", "time.svg"} <= set(names)
    assert [(first / name).read_bytes() for name in names] == [(second / name).read_bytes() for name in names]
    linked = re.findall(r"\]\(([^)]*\.svg)\)", (first / "report.md").read_text())
    assert set(linked) == {name for name in names if name.endswith(".svg")}


def test_a_note_names_the_run_and_not_the_path_that_it_was_written_to(tmp_path: Path) -> None:
    run_folder(tmp_path / "runs" / "grpo" / "0", note="look with `rlx show /far/away/grpo/0 3` or /far/away/grpo/1")
    run_folder(tmp_path / "runs" / "grpo" / "1", seed=1)
    run, _ = read_runs([tmp_path / "runs"], is_wanted)
    assert list(remarks_of([run])) == ["grpo/0: look with `rlx show grpo/0 3` or /far/away/grpo/1"]


def test_a_report_lies_in_its_run_or_here_by_the_name_of_the_runs(seeds: Path, tmp_path: Path) -> None:
    assert default_folder([seeds / "grpo" / "0"]) == seeds / "grpo" / "0" / "report"
    assert default_folder([seeds]) == Path("report-runs")
    assert default_folder([seeds / "grpo" / "0", seeds / "grpo" / "1"]) == Path("report-grpo-0")
    assert default_folder([tmp_path / "..", tmp_path / "x"]).name.startswith("report-")
    assert default_folder([tmp_path / "<b>\x1b"]) == Path("report-b")


def test_a_command_is_whole_in_both_files_so_that_it_can_be_copied(tmp_path: Path) -> None:
    words = [f"env.parts.part{number}.env.expert=any" for number in range(200)]
    folder = run_folder(tmp_path / "a b; date")
    (folder / "command.json").write_text(json.dumps({"command": "train", "words": words}))
    document = report_of("t", read(folder), draws=False)
    name, command = commands_in(document)
    assert shlex.split(name, comments=False) == ["#", read(folder)[0].name]
    assert shlex.split(command) == ["rlx", "train", *words]
    assert command in to_report_markdown(document).splitlines()
    assert command in to_html(document)


def test_hostile_names_are_text_in_every_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    place = tmp_path / HOSTILE.replace("/", "")
    for number in range(2):
        folder = run_folder(
            place / f"{HOSTILE.replace('/', '')}{number}",
            changes={"env": {HOSTILE: HOSTILE + str(number)}, "algo": {"_target_": HOSTILE}},
            metrics={f"time/{HOSTILE}": 1.0, HOSTILE: 2.0},
            note=HOSTILE + "x" * 1_000_000,
        )
        (folder / "command.json").write_text(json.dumps({"words": [HOSTILE, "\ud800"]}))
        saved = json.loads((folder / "summary.json").read_text())
        saved["provenance"] |= {"packages": {"torch": HOSTILE}, "code": {HOSTILE: str(number)}, "interpreter": HOSTILE}
        saved["git"]["commit"] = HOSTILE
        saved["metrics"][f"eval/{HOSTILE}/pass@1"] = saved["metrics"]["eval/pass@1"]
        (folder / "summary.json").write_text(json.dumps(saved))
        with (folder / "metrics.jsonl").open("a") as file:
            file.write(HOSTILE + "\n")
    paper = Paper(name=HOSTILE, source=HOSTILE, settings=(PaperSetting(key=HOSTILE, value=HOSTILE, source=HOSTILE),))
    out = tmp_path / "out"
    for path in write_report(report_of(HOSTILE, read(place), paper=paper), out):
        text = path.read_text()
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\ud800-\udfff]", text), path
        prose = re.sub(r"(?ms)^(`{3,})\n.*?^\1$", "", text) if path.suffix == ".md" else text
        assert "<script" not in prose.replace(r"\<script", ""), path
        assert len(text) < 2_000_000, path
    read_page = read_html((out / "report.html").read_text())
    assert not {"script", "style"} & set(read_page.tags[read_page.tags.index("body") :])
    assert {name for _, name, _ in read_page.attributes if name.startswith("on") or name == "style"} == set()
