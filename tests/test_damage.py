"""Every file of a run's folder, harmed in every way, under every command that reads it: one line that names it at most,
and nothing that is good is written over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlx import cli
from rlx.base.console import Screen
from rlx.commands import follow
from rlx.commands.last_words import one_line_of
from rlx.training import train

Build = Callable[..., Any]
Harm = Callable[[Path], None]

FILES = (
    "config.yaml",
    "metrics.jsonl",
    "summary.json",
    "trajectories/eval-2.jsonl",
    "checkpoints/step-2/run.json",
    "checkpoints/step-2/checksums.json",
    "checkpoints/step-2/model.safetensors",
    "checkpoints/step-2/tokenizer.json",
    "checkpoints/index.json",
    ".lock",
    "ranks/rank-0",
)
MAY_CHANGE = ("ranks/", ".lock", "results.md", "log.txt")
"""Written by every command that opens the folder."""


READS = {
    "train": FILES,
    "replay": ("config.yaml", "trajectories/eval-2.jsonl"),
    "status": ("config.yaml", "metrics.jsonl", "summary.json", ".lock"),
    "compare": ("trajectories/eval-2.jsonl",),
    "compare --table": ("config.yaml", "summary.json"),
}
"""What each command reads."""


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)))


def other_json(path: Path) -> None:
    path.write_text('[{"a": 1}, null]\n')


def other_object(path: Path) -> None:
    path.write_text('{"seed": [], "status": "finished", "step": {}, "host": 3}\n')


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


COMMANDS: dict[str, Callable[[Path, Build], Any]] = {
    "train": lambda run, build: train(build(run, "steps=2"), Screen()),
    "longer": lambda run, build: train(build(run, "steps=3"), Screen()),
    "eval": lambda run, build: cli.evaluate([f"run={run}", "evaluate.num_tasks=1", "evaluate.num_samples=2"]),
    "replay": lambda run, build: cli.replay(run),
    "status": lambda run, build: follow.status(run.parent),
    "compare": lambda run, build: follow.compare(run, run),
    "compare --table": lambda run, build: follow.compare(run.parent, table=True),
}


def contents(run: Path) -> dict[str, bytes]:
    files = {path.relative_to(run).as_posix(): path for path in run.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not name.startswith(MAY_CHANGE)}


@pytest.mark.parametrize("harm", [cut, empty, binary, other_json, other_object, folder], ids=lambda harm: harm.__name__)
@pytest.mark.parametrize(("command", "name"), [(c, name) for c, names in READS.items() for name in names])
def test_a_harmed_file_is_named_and_nothing_good_is_lost(
    run_copy: Path, small_run: Build, name: str, harm: Harm, command: str
) -> None:
    harm(run_copy / name)
    before = contents(run_copy)
    stopped_in_one_line(COMMANDS[command], run_copy, small_run)
    after = contents(run_copy)
    assert {file: after.get(file) for file in before} == before


@pytest.mark.parametrize("harm", [binary, folder], ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("name", ["config.yaml", "summary.json", *FILES[4:8]])
def test_an_evaluation_of_a_harmed_run_touches_nothing(run_copy: Path, small_run: Build, name: str, harm: Harm) -> None:
    harm(run_copy / name)
    before = contents(run_copy)
    stopped_in_one_line(COMMANDS["eval"], run_copy, small_run)
    assert {file: raw for file, raw in contents(run_copy).items() if not file.startswith("evaluations/")} == before


@pytest.mark.parametrize("harm", [cut, folder], ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("name", ["config.yaml", "metrics.jsonl", "summary.json", "checkpoints/step-2/run.json"])
def test_a_longer_run_goes_on_or_says_why_not(run_copy: Path, small_run: Build, name: str, harm: Harm) -> None:
    harm(run_copy / name)
    bad = contents(run_copy).get(name)
    stopped = stopped_in_one_line(COMMANDS["longer"], run_copy, small_run)
    if stopped:
        assert contents(run_copy).get(name) == bad
    else:
        assert (run_copy / "checkpoints" / "step-3").is_dir()


def test_damaged_metrics_are_said_and_kept(
    run_copy: Path, small_run: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run_copy / "metrics.jsonl"
    binary(path)
    raw = path.read_bytes()
    COMMANDS["train"](run_copy, small_run)
    assert "metrics.jsonl: the lines of 2 of 2 steps cannot be read" in capsys.readouterr().err.replace("\n", "")
    COMMANDS["longer"](run_copy, small_run)
    assert path.with_name("metrics.jsonl.damaged").read_bytes() == raw


@pytest.mark.parametrize(
    ("place", "harm"), [("checkpoints/step-1/model.safetensors", binary), ("config.yaml", folder), (".", binary)]
)
def test_a_bad_entry_of_the_cache_is_set_aside_and_made_again(
    small_run: Build,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: str,
    harm: Harm,
) -> None:
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))
    words = ("warm_start=tool_sft", "warm_start.steps=1", "warm_start.algo.num_prompts=1", "steps=1")
    words += ("evaluate.untrained=false",)
    first = train(small_run(tmp_path / "first", *words), Screen(silent=True))
    (stage,) = (tmp_path / "cache" / "warm").iterdir()
    (kept,) = (tmp_path / "cache" / "evaluations").glob("*/2.jsonl")
    if place == ".":
        stage.rename(tmp_path / "elsewhere")
        stage.write_text("")
    else:
        harm(stage / place)
    harm(kept)
    capsys.readouterr()
    again = train(small_run(tmp_path / "second", *words), Screen())
    said = capsys.readouterr().err
    assert again.metrics == first.metrics
    assert f"{kept}.damaged" in said
    assert kept.is_file()
    assert str(stage) in said


def stopped_in_one_line(command: Callable[[Path, Build], Any], run: Path, build: Build) -> bool:
    """Whether it was stopped, which one line says that names a file or folder of the run's."""
    try:
        command(run, build)
    except cli.typer.Exit:
        return True
    except Exception as error:
        told = one_line_of(error)
        if told is None:
            raise
        assert str(run) in told
        assert "\n" not in told
        return True
    return False
