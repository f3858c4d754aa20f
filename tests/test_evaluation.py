"""`rlx eval`: of what, with which settings, and where it goes; a run's own results stay as they are."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rlx.base.console import Screen
from rlx.cli import evaluate as rlx_eval
from rlx.evaluation.evaluate import EvaluateError
from rlx.hardware.interrupt import InterruptedRunError
from rlx.rollout.play import Rollout
from rlx.run.evaluation_run import evaluate_model
from rlx.run.process import Process
from rlx.runs.folder import FolderError
from rlx.runs.store import load
from rlx.settings.compose import ConfigError
from rlx.settings.saved import load_tree
from rlx.training import train
from tests.errors import raises_naming

Build = Callable[..., Any]
QUIET = Screen(silent=True)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a run's own, and what it holds."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    named = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    return {name: raw for name, raw in named.items() if not name.startswith("evaluations/")}


def evaluation_of(run: Path) -> Path:
    (folder,) = (run / "evaluations").iterdir()
    return folder


@pytest.mark.parametrize("lost", ["killed before its first", "gone"])
def test_a_run_without_a_checkpoint_is_not_evaluated(run_copy: Path, lost: str) -> None:
    shutil.rmtree(run_copy / "checkpoints")
    if lost != "gone":
        (run_copy / "summary.json").unlink()
        shutil.rmtree(run_copy / "trajectories")
    before = contents(run_copy)
    with raises_naming(EvaluateError, run_copy, "no checkpoint", "rlx train"):
        rlx_eval([f"run={run_copy}"])
    assert contents(run_copy) == before


def test_which_checkpoint_was_evaluated_is_said_and_written(run_copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = run_copy / "checkpoints" / "step-2" / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-2:] = b"\x01\x02"
    weights.write_bytes(raw)
    before = contents(run_copy)
    rlx_eval([f"run={run_copy}", "evaluate.num_tasks=1"])
    said = capsys.readouterr().err
    assert "step-2 is skipped: model.safetensors was altered" in said
    folder = evaluation_of(run_copy)
    assert folder.name.startswith("step-1-")
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["policy"] == str(run_copy / "checkpoints" / "step-1")
    assert summary["steps"] == 1
    assert summary["notes"] == [f"checkpoint {weights.parent} is skipped: model.safetensors was altered"]
    assert summary["evaluate"]["num_tasks"] == 1
    words = [f"run={run_copy}", "evaluate.num_tasks=1"]
    assert json.loads((folder / "command.json").read_text()) == {"command": "eval", "words": words}
    results = (folder / "results.md").read_text().replace("\\", "")
    assert f"evaluated: {run_copy / 'checkpoints' / 'step-1'}" in results
    assert "is skipped: model.safetensors was altered" in results
    assert contents(run_copy) == before


def test_an_option_takes_its_values_from_the_run_and_not_from_the_defaults(run_copy: Path) -> None:
    assert load_tree(run_copy, ["evaluate=quick"])["evaluate"]["max_new_tokens"] == 40
    assert load_tree(run_copy, ["evaluate=quick", "sampling.max_new_tokens=9"])["evaluate"]["max_new_tokens"] == 9
    assert load_tree(run_copy, ["+model/lora=r32"])["model"]["lora"]["rank"] == 32


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("evaluate=quik", ["evaluate", "'quik'", "quick"]),
        ("~evaluate", ["~evaluate:", "KEY=VALUE"]),
        ("seed=1,2", ["seed=1,2", "KEY=VALUE"]),
        ("evaluate.ks.x=1", ["evaluate.ks.x=1"]),
        ("sampling=[1]", ["sampling=[1]"]),
        ("evaluate.num_tasks=${sampling.nothing}", ["Interpolation key", "'sampling.nothing'"]),
        ("model.path=/elsewhere", ["run=", "own checkpoint"]),
    ],
)
def test_a_word_that_cannot_be_applied_is_one_line(run_copy: Path, word: str, names: list[str]) -> None:
    with raises_naming(ConfigError, *names):
        rlx_eval([f"run={run_copy}", word])


def test_an_evaluation_is_told_again_and_not_played_again(
    run_copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rlx_eval([f"run={run_copy}", "evaluate.num_tasks=1"])
    made = contents(evaluation_of(run_copy))["summary.json"]
    monkeypatch.setattr("rlx.run.evaluation_run.play_model", None)
    rlx_eval([f"run={run_copy}", "evaluate.num_tasks=1"])
    assert "evaluated before" in capsys.readouterr().err
    assert contents(evaluation_of(run_copy))["summary.json"] == made


def test_a_model_is_called_by_its_own_name_and_never_in_a_runs_folder(
    run_copy: Path, small_run: Build, tmp_path: Path
) -> None:
    before = contents(run_copy)
    with raises_naming(EvaluateError, run_copy, "own folder"):
        evaluate_model(small_run(run_copy, "steps=0"), QUIET)
    assert contents(run_copy) == before
    evaluate_model(small_run(tmp_path / "model", "steps=0", "evaluate.num_tasks=1"), QUIET)
    results = (tmp_path / "model" / "results.md").read_text()
    assert results.startswith("# nano, as it is on Countdown\n")
    assert "tool_rloo" not in results.replace("\\", "")


def test_a_run_whose_checkpoints_are_gone_keeps_what_it_found(
    run_copy: Path, small_run: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(run_copy / "checkpoints")
    before = {name: raw for name, raw in contents(run_copy).items() if not name.startswith(("ranks/", "results.md"))}
    summary = train(small_run(run_copy, "steps=2"))
    assert summary.status == "finished"
    assert "has no good checkpoint: the run can be neither evaluated nor made longer" in capsys.readouterr().err
    after = contents(run_copy)
    assert {name: after[name] for name in before} == before
    with raises_naming(Exception, run_copy, "finished run", "no checkpoint"):
        train(small_run(run_copy, "steps=3"), QUIET)
    assert contents(run_copy)["summary.json"] == before["summary.json"]
    assert contents(run_copy)["metrics.jsonl"] == before["metrics.jsonl"]


def test_what_changes_no_weight_may_change_until_the_run_is_finished(small_run: Build, tmp_path: Path) -> None:
    train(small_run(tmp_path, "steps=1"), QUIET)
    with raises_naming(FolderError, tmp_path, "(evaluate.num_tasks: 2 -> 1)"):
        train(small_run(tmp_path, "steps=1", "evaluate.num_tasks=1"), QUIET)
    assert load_tree(tmp_path)["evaluate"]["num_tasks"] == 2
    summary = train(small_run(tmp_path, "steps=2", "evaluate.num_tasks=1", "checkpoint.interval=2"), QUIET)
    assert summary.evaluate["num_tasks"] == load_tree(tmp_path)["evaluate"]["num_tasks"] == 1
    (tmp_path / "summary.json").unlink()
    other = train(small_run(tmp_path, "steps=2", "evaluate.num_tasks=1", "evaluate.temperature=1.0"), QUIET)
    assert other.metrics != summary.metrics, "episodes of other settings are not taken for these"


def test_a_warm_start_is_not_evaluated_on_the_way(
    small_run: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))
    words = ("warm_start=tool_sft", "warm_start.steps=2", "warm_start.algo.num_prompts=2", "evaluate.interval=1")
    train(small_run(tmp_path / "run", *words, "steps=1"), QUIET)
    (metrics,) = (tmp_path / "cache" / "warm").glob("*/metrics.jsonl")
    assert "eval/" not in metrics.read_text()


def test_every_hint_works_as_printed(run_copy: Path, small_run: Build, capsys: pytest.CaptureFixture[str]) -> None:
    import shlex

    def hints(text: str) -> list[list[str]]:
        lines = text.splitlines()
        commands = lines[lines.index("next:") + 1 :]
        return [shlex.split(line) for line in commands if line.startswith("  rlx ")]

    train(small_run(run_copy, "steps=2"))
    assert hints(capsys.readouterr().err) == [
        ["rlx", "show", str(run_copy), "--best"],
        ["rlx", "compare", str(run_copy)],
        ["rlx", "eval", f"run={run_copy}", "evaluate.num_tasks=8"],
        ["rlx", "replay", str(run_copy)],
        ["rlx", "view", str(run_copy), "--best"],
    ]
    rlx_eval([f"run={run_copy}", "evaluate.num_tasks=1"])
    evaluated = str(evaluation_of(run_copy))
    assert hints(capsys.readouterr().err) == [
        ["rlx", "show", evaluated, "--best"],
        ["rlx", "replay", evaluated],
        ["rlx", "view", evaluated, "--best"],
    ]


WIDE = ("steps=0", "evaluate.num_tasks=6", "evaluate.num_samples=8")


def kill_in_the_middle(folder: Path, words: Sequence[str]) -> Path:
    """`rlx eval` of these words, killed once some of its episodes are stored; the file in which they grow."""
    command = [sys.executable, "-m", "rlx", "eval", *words, f"hydra.run.dir={folder}", "hardware.num_live=4"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and num_lines(folder) < 6:
        time.sleep(0.01)
    process.kill()
    process.wait()
    (part,) = folder.glob("trajectories/eval-2.*-0.partial")
    return part


def num_lines(folder: Path) -> int:
    return sum(part.read_bytes().count(b"\n") for part in folder.glob("trajectories/*.partial"))


def test_an_evaluation_killed_in_the_middle_goes_on_to_the_same_figures(
    small_words: tuple[str, ...], small_run: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(name: str) -> Any:
        return small_run(tmp_path / name, *WIDE, "hardware.num_live=4", without=("steps", "evaluate.num"))

    whole = evaluate_model(run("whole"), QUIET)
    words = [word for word in small_words if not word.startswith(("steps", "evaluate.num"))]
    part = kill_in_the_middle(tmp_path / "cut", [*words, *WIDE])
    stored = part.read_bytes()
    kept = stored[: stored.rindex(b"\n") + 1].count(b"\n")
    assert 6 <= kept < 48
    lines = stored[: stored.rindex(b"\n") + 1].splitlines(keepends=True)
    part.write_bytes(b"".join(lines[::2]) + b'{"format":')
    part.with_name(part.name.replace("-0.", "-1.")).write_bytes(b"".join(lines[1::2]))  # as two ranks leave them
    asked: list[int] = []
    play = Rollout.play

    def spy(player: Rollout, starts: Sequence[Any]) -> Any:
        asked.append(len(starts))
        return play(player, starts)

    monkeypatch.setattr(Rollout, "play", spy)
    again = evaluate_model(run("cut"), QUIET)
    assert asked == [48 - kept], "only what was not stored is played"
    assert again.metrics == whole.metrics
    assert (again.cost.tokens, again.cost.tool_calls) == (whole.cost.tokens, whole.cost.tool_calls)
    assert sampled(tmp_path / "cut") == sampled(tmp_path / "whole")
    assert not list((tmp_path / "cut").glob("trajectories/*.partial"))


def sampled(folder: Path) -> list[Any]:
    groups = load(folder / "trajectories" / "eval-2.jsonl")
    return [
        (one.task.id, one.sample, one.status, [turn.completion.token_ids for turn in one.turns])
        for group in groups
        for one in group.trajectories
    ]


def test_what_was_stored_of_other_settings_is_not_gone_on_with(
    small_run: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An evaluation interrupted after an episode, and asked for again at another temperature."""
    told: list[Any] = []

    def stop(process: Process, ended: Any) -> None:
        told.append(ended)
        raise InterruptedRunError(15)

    with monkeypatch.context() as patch:
        patch.setattr(Process, "note_end", stop)
        with pytest.raises(InterruptedRunError):
            evaluate_model(small_run(tmp_path / "cut", "steps=0"), QUIET)
    assert num_lines(tmp_path / "cut") == len(told) == 1
    changed = ("steps=0", "evaluate.temperature=1.0")
    fresh = evaluate_model(small_run(tmp_path / "fresh", *changed), QUIET)
    assert evaluate_model(small_run(tmp_path / "cut", *changed), QUIET).metrics == fresh.metrics
    assert sampled(tmp_path / "cut") == sampled(tmp_path / "fresh")
    assert num_lines(tmp_path / "cut") == 0
