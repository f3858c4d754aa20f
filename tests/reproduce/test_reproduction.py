"""A paper's result as data: what its file may say, in which order its runs come, and what its report holds."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.base.table import Table
from rlx.evaluation.compare import find_gains, gain_tables
from rlx.evaluation.figures import mean_ratios, score
from rlx.evaluation.passk import estimates
from rlx.lab.reproduce.arm import in_order
from rlx.lab.reproduce.files import read_reproduction
from rlx.lab.reproduce.members import Member, folders_of, members_of, words_of
from rlx.lab.reproduce.report import all_figures, cost_of, cost_table, measure_runs, report_tables, report_text
from rlx.lab.reproduce.reproduction import Reproduction, ReproductionError
from rlx.runs.store import load
from rlx.runs.track import read_metrics
from tests.errors import raises_naming

ROOT = Path(__file__).resolve().parents[2]
TINY: dict[str, Any] = {
    "source": "a paper",
    "seeds": 2,
    "words": ["env=countdown"],
    "runs": {
        "control": {"words": ["algo=tool_sft"], "as_long_as": "own", "by_steps_of": "trial"},
        "own": {"words": ["algo=tool_rloo"], "per_seed": True},
        "trial": {"needs": ["own"]},
    },
    "ks": [1, 2],
    "rows": {"floor": "own random", "start": "own start-2", "ours": "own eval-2"},
    "gains": {"ours over the start": ["own eval-2", "own start-2"]},
    "curves": {"Rewards": {"metric": "reward/mean", "runs": ["own"], "window": 2}},
    "published": {"ours": {"pass@1": 0.5}},
    "expected": {"ours": {"pass@1": [0, 1], "reward": [-9, 9]}, "Rewards": {"own": [-9, 9]}},
}


def write(folder: Path, changes: Mapping[str, Any] = {}) -> Path:
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY | changes))
    return path


def put_link(place: Path, target: Path) -> None:
    place.parent.mkdir(parents=True)
    place.symlink_to(target)


@pytest.mark.parametrize("file", sorted((ROOT / "scripts" / "reproduce").glob("*.yaml")), ids=lambda file: file.stem)
def test_every_shipped_file_can_be_read_and_makes_runs_that_have_its_report(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlx.lab.reproduce.command import check_pictures, check_report
    from rlx.lab.reproduce.measurements import check_study
    from rlx.model.load import SHIPPED
    from rlx.settings.compose import build_run, compose

    what = read_reproduction(file)
    monkeypatch.chdir(tmp_path)
    for word in what.words:
        # the model that a user builds first, as the file says
        if word.startswith("model.path=outputs/"):
            put_link(Path(word.partition("=")[2]), SHIPPED / "nano")
    built = {one.name: build_run(compose(one.words), one.folder) for one in members_of(what, tmp_path, 2, [])}
    check_report(file, what, {arm: built[f"{arm}/0"] for arm in what.runs})
    check_pictures(file, what, {arm: built[f"{arm}/0"] for arm in what.runs})
    check_study(what, {arm: built[f"{arm}/0"] for arm in what.runs})
    assert what.expected


def test_runs_come_after_those_they_wait_for_and_seeds_one_after_another(tmp_path: Path) -> None:
    what = read_reproduction(write(tmp_path))
    assert in_order(what.runs) == ["own", "trial", "control"]
    members = members_of(what, tmp_path, 2, ["steps=3"])
    assert [member.name for member in members] == ["own/0", "trial/0", "control/0", "own/1"]
    assert members[3].words == ("env=countdown", "algo=tool_rloo", "seed=1", "steps=3")
    assert members[3].folder == tmp_path / "own" / "1"
    further = {"goes_on_from": "own", "per_seed": True}
    members = members_of(read_reproduction(write(tmp_path, {"runs": TINY["runs"] | {"on": further}})), tmp_path, 2, [])
    assert {member.name: set(member.waits_for) for member in members} == {
        "own/0": set(),
        "own/1": set(),
        "trial/0": {"own/0", "own/1"},  # needed, all of it
        "control/0": {"own/0", "trial/0"},  # whose length it has, of seed 0
        "on/0": {"own/0"},  # its own seed
        "on/1": {"own/1"},
    }


@pytest.mark.parametrize(
    ("key", "steps"),
    [("as_long_as", 6), ("as_much_as", 30)],  # 3 steps of 4 s at 2 s a step; of 100 tokens at 10 a step
)
def test_a_control_has_the_length_of_what_it_is_a_control_of(tmp_path: Path, key: str, steps: int) -> None:
    control = {"words": ["algo=tool_sft"], key: "own", "by_steps_of": "trial"}
    what = read_reproduction(write(tmp_path, {"runs": TINY["runs"] | {"control": control}}))
    members = members_of(what, tmp_path, 2, [])
    spent = {0: ([4.0, 9.0, 4.0], [90, 100, 110]), 1: ([1.0, 2.0, 60.0], [5, 10, 10])}
    for index, columns in spent.items():
        members[index].folder.mkdir(parents=True)
        rows = enumerate(zip(*columns, strict=True), start=1)
        lines = [{"step": step, "time/step": seconds, "update/tokens": num} for step, (seconds, num) in rows]
        (members[index].folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert words_of(what, members[2], folders_of(members))[-1] == f"steps={steps}"
    assert words_of(what, members[0], folders_of(members)) == members[0].words


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": {"x": "nobody eval-2"}}, "x: there is no run 'nobody' among control, own, trial"),
        ({"rows": {"x": "own"}}, "rows and gains name a run and one of its evaluations"),
        ({"gains": {"x": ["own eval-2"]}}, "reproduction.gains.x has 1 entries, not 2"),
        (
            {"published": {"oars": {"pass@1": 1}}},
            "oars: published is of rows, and there is no such row; did you mean ours?",
        ),
        ({"published": {"Rewards": {"own": 1}}}, "Rewards: published is of rows, and there is no such row"),
        (
            {"expected": {"Reward": {"own": [0, 1]}}},
            "Reward: there is no such row, gain or curve; did you mean Rewards?",
        ),
        ({"curves": {"c": {"metric": "x", "runs": ["nobody"]}}}, "c: there is no run 'nobody' among control, own"),
        ({"curves": {"c": {"metric": "x", "runs": [], "window": 0}}}, "window=0: expected an integer from 1"),
        (
            {"curves": {"c": {"metric": "x", "runs": ["own"]}}, "expected": {"c": {"trial": [0, 1]}}},
            "c: expected names 'trial', which is none of its runs: own",
        ),
        (
            {"curves": {"ours": {"metric": "x", "runs": ["own"]}}},
            "ours: rows, gains, curves and comparisons share no names",
        ),
        ({"runs": {"own": {"needs": ["own"]}}}, "own wait for each other"),
        ({"runs": {"own": {"needs": ["other"]}}}, "own: there is no run 'other' among own"),
        ({"runs": {"own": {"needs": ["trial"]}, "trial": {"needs": ["own"]}}}, "own, trial wait for each other"),
        ({"runs": {"own": {"word": ["a"]}, "trial": {}}}, "reproduction.runs.own has an unknown key 'word'"),
        ({"runs": {"own": {"as_long_as": "x", "as_much_as": "x"}}}, "as_long_as and as_much_as: expected one of them"),
        (
            {"runs": {"own": {}, "trial": {"goes_on_from": "own", "per_seed": True}}},
            "trial goes on from own for every seed, which has seed 0 alone",
        ),
        ({"runs": {"own": {"goes_on_from": "other"}}}, "own: there is no run 'other' among own"),
        ({"seeds": 0}, "seeds=0: expected"),
        ({"row": {}}, "reproduction has an unknown key 'row'"),
        ({"runs": [1, 2]}, "reproduction.runs is not an object"),
        ({"runs": {"../up": {}}}, "a run's name is letters, digits, _ and -, not '../up'"),
        ({"seeds": [0, 1]}, "reproduction.seeds is not a whole number"),
        ({"words": [3]}, "reproduction.words is not a string"),
        ({"rows": {"\x1b[31m": 3}}, r"reproduction.rows.\x1b[31m is not a string"),
        ({"expected": {"x": {"pass@1": ["low", 1]}}}, "reproduction.expected.x.pass@1 is not a number"),
        ({"runs": {"own": None}}, "reproduction.runs.own is not an object"),
        ({"runs": {"own": "algo=ppo"}}, "reproduction.runs.own is not an object"),
        (
            {"runs": {}, "rows": {}, "gains": {}, "curves": {}, "published": {}, "expected": {}},
            "runs: expected at least",
        ),
        ({"words": ["-m"]}, "-m: expected a word of a run's configuration, not an option"),
        ({"words": ["seed=3"]}, "seed=3: each run has a seed of its own; `seeds`, or --seeds, says how many"),
        ({"seeds": 10**15}, "seeds=1000000000000000: expected an integer from 1 to 1000000"),
        ({"ks": [1, 0]}, "ks=0: expected an integer from 1 to 1000000"),
        ({"curves": {"c": {"metric": "x", "runs": []}}}, "runs: expected at least one run"),
        ({"curves": {"c": {"metric": "x", "runs": ["own"], "reach": math.nan}}}, "reach=nan: expected a number from"),
        ({"curves": {"c": {"metric": "x", "runs": ["own"], "by": "a\nb" * 900}}}, "by=a b"),
        ({"curves": {"c": {"metric": "x", "runs": ["own"], "amount": 0}}}, "amount=0.0: expected a number from 1"),
        (
            {"comparisons": {"c": {"operands": ["own x", "nobody x"]}}},
            "c: there is no run 'nobody' among control, own, trial",
        ),
        ({"comparisons": {"c": {"operands": ["own", "own x"]}}}, "operands=own: expected a run and a metric"),
        (
            {"comparisons": {"c": {"operands": ["own x", "own y"], "kind": "sum"}}},
            "kind=sum: expected one of ratio, difference",
        ),
        ({"comparisons": {"c": {"operands": ["own x", "own y"], "scale": math.nan}}}, "scale=nan: expected a number"),
        (
            {"comparisons": {"ours": {"operands": ["own x", "own y"]}}},
            "ours: rows, gains, curves and comparisons share no names",
        ),
        ({"criticality": {"policies": ["nobody eval"]}}, "criticality: there is no run 'nobody' among control, own"),
        ({"criticality": {"policies": ["own"]}}, "policies: expected at least one policy"),
        ({"criticality": {"policies": ["own eval"], "draws": 1}}, "draws=1: expected an integer from 2"),
        ({"credit": {"runs": ["nobody"]}}, "credit: there is no run 'nobody' among control, own, trial"),
        ({"credit": {"runs": []}}, "runs: expected at least one run"),
        ({"credit": {"runs": ["own"], "tasks": 1}}, "tasks=1: expected an integer from 2 to 1000"),
        ({"credit": {"runs": ["own"], "tokens": 0}}, "tokens=0: expected an integer"),
        (
            {"credit": {"runs": ["own"]}, "expected": {"credit of trial": {"gradient": [0, 1]}}},
            "credit of trial: there is no such row, gain or curve; did you mean credit of own",
        ),
        ({"published": {"ours": {"pass@1": "inf"}}}, "pass@1=inf: expected a number from"),
        ({"expected": {"ours": {"pass@1": [1, 0]}}}, "ours: pass@1=[1, 0]: expected the least before the most"),
        (
            {"expected": {"ours": {"pass@1": [0, math.nan]}}},
            "ours: pass@1=[0, nan]: expected the least before the most",
        ),
    ],
)
def test_what_a_file_cannot_say_is_one_line_that_names_it(
    tmp_path: Path, refusal: Callable[[Path], str], changes: Mapping[str, Any], message: str
) -> None:
    assert message in refusal(write(tmp_path, changes))


@pytest.mark.parametrize(
    "lines",
    [
        "",
        "torn",
        '{"step": 1, "time/step": 0.0}\n',
        '{"step": 1, "time/step": null}\n',
        '{"step": 1, "time/step": NaN}\n',
        '{"step": 1, "time/step": "x"}\n',
        '{"step": 2, "time/step": 1.0}\n',
        '{"step": 1, "reward/mean": 1.0}\n',
    ],
)
def test_no_length_is_taken_from_metrics_that_do_not_tell_it(tmp_path: Path, lines: str) -> None:
    what = read_reproduction(write(tmp_path))
    members = members_of(what, tmp_path, 2, [])
    for member in members[:2]:
        member.folder.mkdir(parents=True)
        (member.folder / "metrics.jsonl").write_text(lines)
    with raises_naming(ReproductionError, "own/0/metrics.jsonl:", "time/step"):
        words_of(what, members[2], folders_of(members))


def test_nothing_that_a_file_says_is_markup_in_the_report(tmp_path: Path) -> None:
    said = {"source": "a [paper](x)\n# \x1b[31m<b>\ud800", "setting": "`one`\u202e"}
    text = report_text("../x|y", read_reproduction(write(tmp_path, said)), [])
    assert text.startswith("# ../x\\|y\n\nPublished: a [paper\\](x) # \N{REPLACEMENT CHARACTER}[31m\\<b>")
    assert text.encode()
    assert not {"\x1b", "\u202e"} & set(text)


@pytest.mark.parametrize("text", ["[", "- 1", "", "\x00", "a: &a [*a]", "seeds: 1\nseeds: 2"])
def test_what_is_no_such_file_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with raises_naming(ReproductionError, path):
        read_reproduction(path)
    with raises_naming(ReproductionError, tmp_path / "none.yaml", "read"):
        read_reproduction(tmp_path / "none.yaml")


def test_a_report_has_means_over_seeds_beside_the_paper_s_and_what_is_expected(
    finished_run: Path, tmp_path: Path
) -> None:
    what = read_reproduction(write(tmp_path))
    members = [member for member in members_of(what, tmp_path, 2, []) if member.arm == "own"]
    for member in members:
        shutil.copytree(finished_run, member.folder)
    other = [replaced(group) for group in load(finished_run / "trajectories" / "eval-2.jsonl")]
    save_to(members[1].folder, other)
    tables, counts, failed = report(what, members)
    assert failed == []
    assert counts == ["bands of this reproduction: 1 supported, 0 contradicted, 2 undecided, 0 not testable here"]
    accuracy, _, gain, rows_over_seeds, over_seeds, ends, expected = tables
    both = [[score(g) for g in load(m.folder / "trajectories" / "eval-2.jsonl")] for m in members]
    mean = estimates(mean_ratios(both, (1, 2)))["pass@1"].value
    (ours,) = (row for row in accuracy.rows if row[0] == "ours")
    assert accuracy.header[:3] == ("run", "Pass@1", "paper")
    assert ours[1].split(" ")[0] == f"{100 * mean:.1f}"
    assert ours[2] == "50.0", "as the paper prints it"
    assert [row[0] for row in gain.rows] == [
        "ours over the start",
        "ours over the start, seed 0",
        "ours over the start, seed 1",
    ]
    assert [row[0] for row in over_seeds.rows] == ["ours over the start"]
    assert over_seeds.rows[0][1].split(" ")[0] == gain.rows[0][1].split(" ")[0], "the same gain, bounded otherwise"
    assert {row[0] for row in rows_over_seeds.rows} == {"start", "ours"}, "not the floor"
    (ours_over_seeds,) = (row for row in rows_over_seeds.rows if row[0] == "ours")
    assert ours_over_seeds[1].split(" ")[0] == ours[1].split(" ")[0], "the same mean, bounded otherwise"
    verdicts = dict(zip([row[1] for row in expected.rows], [row[-2] for row in expected.rows], strict=True))
    assert verdicts == {"Pass@1": "supported", "Reward": "undecided", "own": "undecided"}
    rewards = [line["reward/mean"] for line in read_metrics(finished_run / "metrics.jsonl")]
    assert ends.rows[0][:3] == ("Rewards", "reward/mean", "own")
    assert ends.rows[0][3].split(" ")[0] == f"{sum(rewards) / 2:.3f}", "of the last two of two steps"
    text = report_text("tiny", what, [*tables, cost_table(cost_of(members))])
    assert text.startswith("# tiny\n\nPublished: a paper. ")
    assert "own/1" in text
    (members[1].folder / "trajectories" / "start-2.jsonl").write_bytes(
        (members[1].folder / "trajectories" / "eval-2.jsonl").read_bytes() * 2
    )
    with raises_naming(ReproductionError, "start:", "same tasks"):
        report(what, members)
    shutil.copy(finished_run / "trajectories" / "start-2.jsonl", members[1].folder / "trajectories")
    strict = read_reproduction(write(tmp_path, {"expected": {"ours": {"pass@1": [1.1, 2]}}}))
    (told,) = report(strict, members)[2]
    assert "Pass@1 of ours at least 110.0 and at most 200.0" in told
    claimed = {
        "says so": {"row": "ours", "figure": "pass@1", "least": 2},
        "true": {"row": "ours", "figure": "pass@1", "most": 1},
    }
    tables, _, failed = report(read_reproduction(write(tmp_path, {"claims": claimed})), members)
    assert [row[-2] for row in tables[-1].rows] == ["contradicted", "supported"]
    (told,) = failed
    assert "says so" in told
    assert "Pass@1 of ours at least 200.0" in told
    unknown = read_reproduction(write(tmp_path, {"expected": {"ours": {"pas@1": [0, 1]}}}))
    with raises_naming(ReproductionError, "ours:", "'pas@1'", "pass@1"):
        report(unknown, members)
    (found,) = find_gains(tmp_path / "own", finished_run)
    assert found.num_runs == (2, 1)
    assert [row[0] for row in gain_tables(found)[0].rows] == [
        f"{tmp_path / 'own'}, mean of 2 runs",
        str(finished_run),
        "gain",
    ]
    assert found.over_seeds == {}, "one run says nothing of other seeds"
    (of_both,) = find_gains(tmp_path / "own")
    assert gain_tables(of_both)[0].rows[-1][0] == "gain, interval over seeds"
    assert found.side_figures[1]["eval/pass@1"].value == pytest.approx(mean - found.figures["eval/pass@1"].value)
    alone = estimates(mean_ratios(both[:1], (1, 2)))["pass@1"].value
    assert found.figures["eval/pass@1"].value == pytest.approx(mean - alone)


def report(what: Reproduction, members: Sequence[Member]) -> tuple[list[Table], list[str], list[str]]:
    found = measure_runs(what, folders_of(members))
    return report_tables(what, found, all_figures(what, found))


def replaced(group: Any) -> Any:
    """All episodes solved."""
    from dataclasses import replace

    return replace(group, trajectories=tuple(replace(one, success=True, status="done") for one in group.trajectories))


def save_to(folder: Path, groups: Any) -> None:
    from rlx.runs.store import save

    save(folder / "trajectories" / "eval-2.jsonl", groups, max_rounds=2)


def test_arms_keep_the_order_of_their_runs(tmp_path: Path) -> None:
    names = [f"arm{number}" for number in range(9, 0, -1)]
    arms = [Member(arm=name, seed=0, words=(), waits_for=frozenset(), folder=tmp_path / name) for name in names]
    assert list(folders_of(arms)) == names
