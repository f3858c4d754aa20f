"""A tiny reproduction through the real program: killed in the middle, gone on with, reported."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.base.console import Screen
from rlx.lab.reproduce import jobs
from rlx.lab.reproduce.arm import Arm
from rlx.lab.reproduce.command import all_words_of, check_metrics, find_reproduction, prospect_of, reproduce, times_of
from rlx.lab.reproduce.files import read_reproduction
from rlx.lab.reproduce.jobs import ReproduceError
from rlx.lab.reproduce.members import Member, folders_of, members_of
from rlx.lab.reproduce.reproduction import Reproduction, ReproductionError
from rlx.lab.reproduce.results import read_results
from rlx.lab.reproduce.shared import Shared, choose, shares_of
from rlx.runs.folder import LOCK, FolderError
from rlx.runs.lock import hold
from rlx.runs.store import load
from rlx.runs.track import read_metrics
from rlx.settings.check import ConfigError
from rlx.settings.compose import build_run, compose
from tests.errors import raises_naming


@pytest.fixture
def tiny(small_words: tuple[str, ...], tmp_path: Path) -> Path:
    """Two seeds of a run, and as many minutes of another."""
    given = ("algo=", "algo.num_samples", "steps=", "checkpoint.trajectories")
    words = [word for word in small_words if not word.startswith(given)]
    tree: dict[str, Any] = {
        "source": "a paper",
        "seeds": 2,
        "words": [*words, "steps=2", "checkpoint.trajectories_interval=0"],
        "runs": {
            "own": {"words": ["algo=tool_rloo", "algo.num_samples=2"], "per_seed": True},
            "control": {"words": ["algo=tool_sft"], "as_long_as": "own"},
        },
        "rows": {"ours": "own eval-2", "control": "control eval-2"},
        "gains": {"ours over the control": ["own eval-2", "control eval-2"]},
        "curves": {"Rewards": {"metric": "reward/mean", "runs": ["own", "control"], "by": "tokens", "reach": -9}},
        "comparisons": {"turns": {"operands": ["own batch/turns", "control batch/turns"], "scale": 2}},
        "criticality": {"policies": ["own start", "own eval"], "tasks": 1, "draws": 2},
        "distributions": {"Lengths": {"rows": ["ours"], "correct": False}},
        "published": {"ours": {"pass@1": 0.5}},
        "expected": {
            "ours over the control": {"pass@1": [-1, 1]},
            "turns": {"ratio": [0, 1000]},
            "criticality of own eval": {"flat": [0, 1]},
        },
        "claims": {"It takes more turns": {"row": "turns", "figure": "ratio", "least": 0}},
    }
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def begun(folder: Path) -> list[str]:
    """How often each run was started, by its log."""
    return sorted(
        log.relative_to(folder).as_posix()
        for log in folder.rglob("[0-9].log")
        for line in log.read_text().splitlines()
        if line.startswith("$ ")
    )


def test_a_reproduction_killed_in_the_middle_goes_on_and_reports(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "rlx", "reproduce", str(tiny), "--folder", str(out), "--jobs", "1"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (out / "own" / "1.log").exists():
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    made = (out / "own" / "0" / "summary.json").stat().st_mtime_ns
    assert not (out / "results.md").exists()
    capsys.readouterr()
    assert reproduce(str(tiny), [], seeds=None, jobs=1, folder=out, plan=False)
    told = capsys.readouterr().err
    assert "own/0: finished before" in told
    assert told.index("3 runs, 1 at a time: own/0") < told.index("own/1: begun"), "what it takes is said first"
    assert "about" in told
    assert "within a factor of two" in " ".join(told.split())
    assert begun(out) == ["control/0.log", "own/0.log", "own/1.log", "own/1.log"]
    assert (out / "own" / "0" / "summary.json").stat().st_mtime_ns == made
    report = (out / "results.md").read_text()
    assert "ours over the control, seed 1" in report
    assert "| ours | " in report
    lines = {arm: read_metrics(out / arm / "0" / "metrics.jsonl")[0] for arm in ("own", "control")}
    assert re.search(rf"\| Rewards -9 \| own \| 1, 1 \| 4, 4 \| {lines['own']['batch/tokens']:,.0f}, [\d,]+ \|", report)
    assert lines["own"]["batch/episodes"] == 4
    results = read_results(out / f"{tiny.stem}.json")
    assert results.command == f"rlx reproduce {tiny.stem}"
    assert [*results.cost] == ["own/0", "control/0", "own/1"]
    ours = results.figures["ours"]["pass@1"]
    assert ours.value == pytest.approx(sum(ours.seeds) / 2, abs=1e-5)
    assert len(results.figures["ours over the control"]["pass@1"].seeds) == 2
    assert results.figures["criticality of own eval"]["flat"].over_seeds == (), "its interval is over tasks"
    assert (out / "results.svg").is_file()
    assert (out / "curves.svg").is_file() or "no pictures" in told
    assert (out / "distributions.svg").is_file() or "no pictures" in told
    page = (out / "report" / "report.html").read_text()
    assert 'id="rows-and-claims-of-the-paper"' in page
    assert "Rollout card" in page
    assert page.index("Expected of this reproduction") < page.index("Pass@k")
    assert "| Lengths | ours | " in report
    assert "| turns | own batch/turns | control batch/turns | 2 | ratio | " in report
    assert "| criticality of own eval | flat | " in report
    assert {file.name for file in out.glob("criticality*.json")} == {
        "criticality.json",
        *(f"criticality-own-{name}.json" for name in ("start-0", "eval-0", "eval-1")),
    }
    assert reproduce(str(tiny), [], seeds=None, jobs=2, folder=out, plan=False)
    assert (out / "results.md").read_text() == report, "and nothing is run again"
    assert len(begun(out)) == 4
    with raises_naming(FolderError, "(evaluate.num_tasks: 2 -> 1)"):
        reproduce(str(tiny), ["evaluate.num_tasks=1"], seeds=None, jobs=1, folder=out, plan=False)


def test_a_run_that_fails_is_named_with_its_log(tiny: Path, tmp_path: Path) -> None:
    words = ["model.max_context=100000"]
    with raises_naming(ReproduceError, "own/0", "exit code 2", tmp_path / "out" / "own" / "0.log"):
        reproduce(str(tiny), words, seeds=1, jobs=1, folder=tmp_path / "out", plan=False)
    assert "model.max_context=100000: expected at most" in (tmp_path / "out" / "own" / "0.log").read_text().replace(
        "\n", " "
    )


def test_a_plan_starts_nothing(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(str(tiny), [], seeds=3, jobs=2, folder=tmp_path / "out", plan=True)
    told = capsys.readouterr().err
    assert "4 runs, 2 at a time" in told
    assert "for each at a time" in told
    assert "whose length nothing tells" in " ".join(told.split())
    assert not (tmp_path / "out").exists()


def test_a_plan_takes_the_measured_length_of_episodes_from_the_file(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = yaml.safe_load(tiny.read_text())
    for name in content["runs"]:
        content["runs"][name]["tokens"] = 30
    tiny.write_text(yaml.safe_dump(content))
    assert reproduce(str(tiny), [], seeds=1, jobs=1, folder=tmp_path / "out", plan=True)
    assert "whose length nothing tells" not in " ".join(capsys.readouterr().err.split())


def test_a_seed_for_all_runs_is_refused_and_so_is_a_folder_at_work(tiny: Path, tmp_path: Path) -> None:
    with raises_naming(ReproductionError, "++seed=3", "`seeds`", "--seeds"):
        reproduce(str(tiny), ["++seed=3"], seeds=1, jobs=1, folder=tmp_path / "out", plan=True)
    (tmp_path / "out").mkdir()
    with hold(tmp_path / "out" / LOCK), raises_naming(FolderError, tmp_path / "out", "in use", "--folder"):
        reproduce(str(tiny), [], seeds=1, jobs=1, folder=tmp_path / "out", plan=False)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"rows": {"ours": "own eval-3"}}, ("ours:", "own", "'eval-3'", "eval-2")),
        ({"rows": {"ours": "own evil-2"}}, ("ours:", "own", "'evil-2'", "eval-2")),
        ({"gains": {"x": ["own eval-2", "control random"]}}, ("x:", "control", "'random'")),
        (
            {"rows": {"ours": "own eval-2", "x": "own random"}, "expected": {"x": {"pas@1": [0, 1]}}},
            ("x:", "expected", "'pas@1'"),
        ),
        ({"expected": {"ours": {"pass@9": [0, 1]}}}, ("ours:", "expected", "'pass@9'")),
        ({"published": {"ours": {"pas@1": 1}}}, ("ours:", "published", "'pas@1'", "pass@1")),
        ({"published": {"ours": {"pass@9": 1}}}, ("ours:", "published", "'pass@9'", "pass@1")),
        (
            {"published": {"ours": {"tool/cals": 1}}},
            ("ours:", "published", "'tool/cals'", "tool/calls"),
        ),
        ({"published": {"ours": {"episode/tokens": 1}}}, ("ours:", "published", "'episode/tokens'")),
        (
            {"bars": {"b": {"rows": ["ours"], "figures": ["reward", "tool/cals"]}}},
            ("b:", "'tool/cals'", "tool/calls"),
        ),
        (
            {
                "rows": {"ours": "own eval-2", "floor": "own random"},
                "frontiers": {"f": {"rows": ["floor"], "across": "tool/calls", "up": "pass@1"}},
            },
            ("f:", "'tool/calls'", "pass@1"),
        ),
        (
            {"ks": [1, 9], "pass_curves": {"p": {"rows": ["ours"]}}},
            ("p:", "'pass@9'", "pass@1"),
        ),
        (
            {"distributions": {"d": {"rows": ["ours"], "part": "gsm8k"}}},
            ("d:", "'gsm8k'"),
        ),
        ({"expected": {"turns": {"difference": [0, 1]}}}, ("turns:", "'difference'")),
        (
            {"claims": {"c": {"row": "criticality of own eval", "figure": "flt", "least": 0}}},
            ("own eval", "'flt'", "flat"),
        ),
    ],
)
def test_a_report_of_what_its_runs_will_not_have_is_refused_before_the_first(
    changes: dict[str, Any], names: tuple[str, ...], tiny: Path, tmp_path: Path
) -> None:
    told = yaml.safe_load(tiny.read_text())
    tiny.write_text(yaml.safe_dump({**told, "gains": {}, "expected": {}, "claims": {}, **changes}))
    with raises_naming(ReproductionError, tiny, *names):
        reproduce(str(tiny), [], seeds=1, jobs=1, folder=tmp_path / "out", plan=False)
    assert not (tmp_path / "out").exists()


def test_an_unknown_one_is_told_with_those_there_are() -> None:
    assert find_reproduction("tool_rloo").name == "tool_rloo.yaml"
    with raises_naming(ConfigError, "'tool_rlo'", "tool_rloo"):
        find_reproduction("tool_rlo")


def member(folder: Path, name: str = "own", waits_for: frozenset[str] = frozenset()) -> Member:
    return Member(arm=name, seed=0, words=(), waits_for=waits_for, folder=folder / name / "0")


def test_a_run_whose_reproduction_was_killed_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = member(tmp_path), member(tmp_path, "other", waits_for=frozenset({"own/0"}))
    one.folder.mkdir(parents=True)
    told: list[str] = []
    with ExitStack() as stack:
        stack.enter_context(hold(one.folder / LOCK))  # by the run, which goes on

        def pause(seconds: float) -> None:
            told.append("pause")
            stack.close()

        monkeypatch.setattr(jobs.time, "sleep", pause)
        monkeypatch.setattr(jobs, "begin", lambda member, words, screen: told.append(member.name))
        monkeypatch.setattr(Screen, "say", lambda screen, text: told.append(text))
        shared = {one.name: Shared("", "") for one in (one, other)}
        jobs.play_all([one, other], lambda member: (), 2, Screen(), shared, lambda member: None)
    assert told[:3] == ["own/0: under way already, waited for", "pause", "own/0"]
    assert [text for text in told if text != "pause"][-1] == "other/0"


def test_runs_that_would_make_the_same_at_the_same_time_are_kept_apart_while_others_wait(tmp_path: Path) -> None:
    first, same, different = (member(tmp_path, name) for name in ("first", "same", "different"))
    shared = {"first/0": Shared("s", "a"), "same/0": Shared("s", "a"), "different/0": Shared("s", "b")}
    assert choose([first, same, different], [], shared) is first
    assert choose([same, different], [first], shared) is different
    assert choose([same], [first, different], shared) is same


def shares_in(file: Reproduction, folder: Path) -> dict[str, Shared]:
    members = members_of(file, folder, 2, ())
    return shares_of(file, members, {one.arm: build_run(compose(one.words), one.folder) for one in members})


def test_what_runs_share_is_counted_once(tiny: Path, tmp_path: Path) -> None:
    told = yaml.safe_load(tiny.read_text())
    told["runs"]["own"]["words"] += ["warm_start=brief", "warm_start.steps=3"]
    tiny.write_text(yaml.safe_dump(told))
    file = read_reproduction(tiny)
    shared = shares_in(file, tmp_path)
    assert shared["own/0"] == shared["own/1"]
    first, again = (one for one in members_of(file, tmp_path, 2, ()) if one.arm == "own")
    prospect = prospect_of(build_run(compose(first.words), first.folder), file.runs["own"])
    assert prospect.forecast is not None
    took = times_of(file, [first, again], {"own": prospect}, shared)
    whole, alone = took["own/0"], took["own/1"]
    assert whole is not None
    assert alone is not None
    each = prospect.forecast.evaluation_seconds(prospect.main.load) / prospect.num_evaluations
    load = prospect.main.load
    warm = prospect.forecast.seconds(load) - prospect.forecast.seconds(load, warm=False)
    assert warm > 0
    assert whole - alone == pytest.approx(warm + (1 + prospect.judges_untrained) * each)


def test_a_run_that_goes_on_from_another_shares_no_evaluation_of_its_start(tiny: Path, tmp_path: Path) -> None:
    told = yaml.safe_load(tiny.read_text())
    told["runs"]["further"] = {**told["runs"]["own"], "goes_on_from": "own"}
    tiny.write_text(yaml.safe_dump(told))
    names = {name: one.evaluation for name, one in shares_in(read_reproduction(tiny), tmp_path).items()}
    assert names["own/0"] == names["own/1"]
    assert len({names["own/0"], names["further/0"], names["further/1"]}) == 3


def test_a_metric_that_no_run_has_is_told_after_the_first_and_not_after_all(tiny: Path, tmp_path: Path) -> None:
    told, out = yaml.safe_load(tiny.read_text()), tmp_path / "out"
    told["curves"]["Rewards"]["metric"] = "reward/men"
    del told["criticality"]
    told["expected"].pop("criticality of own eval")
    tiny.write_text(yaml.safe_dump(told))
    for _ in ("when it ends", "when it ended before"):
        with raises_naming(ReproductionError, tiny, "Rewards", out / "own/0", "'reward/men'", "reward/mean"):
            reproduce(str(tiny), [], seeds=2, jobs=1, folder=out, plan=False)
        assert begun(out) == ["own/0.log"]


def test_a_metric_of_a_comparison_is_checked_too(tiny: Path, tmp_path: Path) -> None:
    told = yaml.safe_load(tiny.read_text())
    told["comparisons"]["turns"]["operands"] = ["own batch/turns", "control batch/turn"]
    tiny.write_text(yaml.safe_dump(told))
    what = read_reproduction(tiny)
    for arm in what.runs:
        folder = tmp_path / arm / "0"
        folder.mkdir(parents=True)
        (folder / "metrics.jsonl").write_text('{"step": 1, "batch/turns": 2, "reward/mean": 1}\n')
    check_metrics(tiny, what, member(tmp_path))
    with raises_naming(ReproductionError, tiny, "turns", tmp_path / "control/0", "'batch/turn'", "batch/turns"):
        check_metrics(tiny, what, member(tmp_path, "control"))


def test_what_still_runs_is_asked_to_save_itself_when_another_fails(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    playing = {"own/0": jobs.Playing(member=member(tmp_path), process=process)}
    with pytest.raises(ReproduceError), jobs.ending(playing):
        raise ReproduceError("other/0 failed")
    assert process.returncode == -signal.SIGTERM


def test_a_run_that_goes_on_from_another_begins_with_its_last_weights(tiny: Path, tmp_path: Path) -> None:
    told, out = yaml.safe_load(tiny.read_text()), tmp_path / "out"
    further = {"words": ["algo=grpo", "algo.num_samples=2", "steps=1"], "goes_on_from": "own"}
    told["runs"] = {"own": told["runs"]["own"], "further": further}
    told |= {"rows": {"ours": "own eval-2"}, "gains": {"further": ["further eval-2", "further start-2"]}}
    told["curves"]["Rewards"]["runs"] = ["own"]
    del told["criticality"]
    tiny.write_text(yaml.safe_dump(told | {"expected": {}, "claims": {}, "comparisons": {}}))
    assert reproduce(str(tiny), [], seeds=1, jobs=2, folder=out, plan=False)
    line = next(line for line in (out / "further" / "0.log").read_text().splitlines() if line.startswith("$ "))
    assert f"model.path={out}/own/0/checkpoints/step-2 " in line
    stored = [load(out / "own/0/trajectories/eval-2.jsonl"), load(out / "further/0/trajectories/start-2.jsonl")]
    said = [[turn.completion.logprobs for group in one for turn in group.trajectories[0].turns] for one in stored]
    assert said[0] == said[1], "where one ended the other begins"
    shutil.copytree(out / "own/0", out / "own/7")  # as a run of more seeds leaves it
    assert reproduce(str(tiny), [], seeds=1, jobs=2, folder=out, plan=False)
    assert begun(out) == ["further/0.log", "own/0.log"]
    page = (out / "report/report.md").read_text()
    assert "own/0" in page
    assert "own/7" not in page


def test_a_run_goes_on_from_the_last_checkpoint_of_its_seed_and_from_no_other(tmp_path: Path) -> None:
    own, on = Arm(per_seed=True), Arm(per_seed=True, goes_on_from="own", words=("steps=9",))
    what = Reproduction(source="a paper", runs={"own": own, "on": on}, rows={})
    members = members_of(what, tmp_path / "it's, here", 2, [])
    runs = folders_of(members)
    assert [member.name for member in members] == ["own/0", "on/0", "own/1", "on/1"]
    for step in (2, 10):
        (members[2].folder / "checkpoints" / f"step-{step}").mkdir(parents=True)
    (members[2].folder / "config.yaml").write_text("steps: 10\n")
    *words, begins = all_words_of(what, runs, members[3])
    assert tuple(words) == members[3].words
    assert compose([begins])["model"]["path"] == f"{members[2].folder}/checkpoints/step-10"
    assert all_words_of(what, runs, members[2]) == members[2].words
    (members[2].folder / "checkpoints" / "step-10").rmdir()
    with raises_naming(ReproductionError, members[2].folder / "checkpoints" / "step-10", "gone"):
        all_words_of(what, runs, members[3])


def test_a_run_that_goes_on_is_not_shown_again_what_came_before(tiny: Path, tmp_path: Path) -> None:
    told = yaml.safe_load(tiny.read_text())
    told["runs"] |= {"further": {"words": ["algo=tool_rloo", "warm_start=tool_sft"], "goes_on_from": "own"}}
    tiny.write_text(yaml.safe_dump(told))
    with raises_naming(ReproductionError, tiny, "further", "own", "warm_start=none"):
        reproduce(str(tiny), [], seeds=1, jobs=1, folder=tmp_path / "out", plan=True)
