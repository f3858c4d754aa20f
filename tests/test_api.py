"""rlx from Python: the same run as by the command, read as values, and mistakes as exceptions."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

import rlx
from rlx.base.regular import IrregularError
from rlx.runs.folder import MARK, FolderError
from rlx.runs.store import StoreError
from rlx.runs.summary import SummaryError
from rlx.runs.track import is_clock
from rlx.settings.check import ConfigError
from rlx.settings.in_process import launch_here, set_torch_threads
from rlx.settings.values import word_of
from rlx.settings.words import parse_overrides, quote
from tests.errors import raises_naming
from tests.hostile import dangers
from tests.loops import for_each

Command = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).resolve().parents[1]
TEXTS = st.text(st.sampled_from("ab'\"\\${}[],: ä=\n1e.~tnul"), max_size=8) | st.sampled_from(
    ["null", "TRUE", "1e5", "nan", "1~", "a~b", "${x}", "\\${x}", "-1", "x\\", "\\\\"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=4,
)


def told(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without what the clock says."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not is_clock(k)} for line in lines]


def names_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def trained(small_words: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> rlx.RunFolder:
    folder = tmp_path_factory.mktemp("python") / "run"
    words = [word for word in small_words if not word.startswith(("steps", "evaluate.ks", "env.max_rounds"))]
    return rlx.train(*words, {"evaluate.ks": [1, 2], "env.max_rounds": 2}, steps=2, folder=folder)


def test_the_package_is_light_until_it_is_used() -> None:
    code = "import sys, rlx; sys.exit(bool({'torch', 'pandas', 'hydra', 'numpy', 'typer'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=600).returncode == 0


def test_functions_stay_functions_after_every_import() -> None:
    code = """
import inspect, pkgutil, rlx
before = [inspect.signature(function) for function in (rlx.train, rlx.evaluate, rlx.load)]
for module in pkgutil.iter_modules(rlx.__path__, "rlx."):
    if module.name != "rlx.__main__":
        __import__(module.name)
assert before == [inspect.signature(function) for function in (rlx.train, rlx.evaluate, rlx.load)]
assert all(map(inspect.isfunction, (rlx.train, rlx.evaluate, rlx.load)))
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=600, check=True)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with raises_naming(AttributeError, "'tune'"):
        rlx.tune  # noqa: B018


def test_a_call_makes_what_the_command_makes(
    trained: rlx.RunFolder, small_words: tuple[str, ...], rlx_here: Command, tmp_path: Path
) -> None:
    words = [word for word in small_words if not word.startswith("steps")]
    done = rlx_here("train", *words, "steps=2", f"hydra.run.dir={tmp_path / 'run'}")
    assert done.returncode == 0, done.stderr
    assert told(trained.folder) == told(tmp_path / "run")
    assert names_in(trained.folder) == names_in(tmp_path / "run")
    for name in ("config.yaml", *(f"trajectories/{file}.jsonl" for file in trained.files)):
        assert (trained.folder / name).read_bytes() == (tmp_path / "run" / name).read_bytes(), name


def test_a_program_is_as_it_was_after_a_run(trained: rlx.RunFolder) -> None:
    before = (sys.argv, logging.getLogger().handlers[:], os.environ.get("HYDRA_FULL_ERROR"), os.getcwd())
    words = json.loads((trained.folder / "command.json").read_text())["words"]
    again = rlx.train(*words, folder=trained.folder)
    assert again == trained
    after = (sys.argv, logging.getLogger().handlers[:], os.environ.get("HYDRA_FULL_ERROR"), os.getcwd())
    assert after == before


def test_threads_of_a_torch_that_is_there_already_are_set() -> None:
    import torch

    before = torch.get_num_threads()
    try:
        set_torch_threads(before + 1)
        assert torch.get_num_threads() == before + 1
    finally:
        set_torch_threads(before)


def test_a_run_is_read_as_frames(trained: rlx.RunFolder) -> None:
    run = rlx.load(str(trained.folder))
    assert run.config.loc["steps", "value"] == 2
    assert run.config.loc["evaluate.ks", "value"] == [1, 2]
    assert list(run.metrics.index) == [1, 2]
    assert run.metrics["reward/mean"].tolist() == [line["reward/mean"] for line in told(run.folder)]
    figure = run.result.metrics["eval/pass@1"]
    assert run.summary.loc["eval/pass@1"].tolist() == [figure.value, figure.low, figure.high]
    assert run.result.status == "finished"


def test_episodes_come_one_at_a_time_of_all_files_or_of_one(trained: rlx.RunFolder) -> None:
    assert trained.files[:2] == ["step-000001", "step-000002"]
    every = [episode.task.key for episode in trained.episodes()]
    of_one = {name: [episode.task.key for episode in trained.episodes(name)] for name in trained.files}
    assert every == [key for keys in of_one.values() for key in keys]
    assert [episode.task.key for episode in trained.episodes("2")] == of_one["step-000002"]
    with raises_naming(ValueError, "nowhere"):
        next(trained.episodes("nowhere"))


def test_a_checkpoint_is_evaluated_below_its_run(trained: rlx.RunFolder) -> None:
    found = rlx.evaluate({"evaluate.num_tasks": 3}, run=trained)
    assert found.folder.parent == trained.folder / "evaluations"
    assert found.config.loc["evaluate.num_tasks", "value"] == 3
    assert "eval/pass@1" in found.summary.index
    assert found.metrics.empty
    assert rlx.evaluate("evaluate.num_tasks=3", f"run={trained.folder}") == found


def test_a_model_is_evaluated_as_it_stands(small_words: tuple[str, ...], tmp_path: Path) -> None:
    words = [word for word in small_words if word.startswith(("env", "evaluate", "sampling", "track"))]
    found = rlx.evaluate(*words, folder=tmp_path / "model")
    assert found.folder == tmp_path / "model"
    assert found.result.steps == 0
    assert "eval/pass@1" in found.summary.index


@given(VALUES)
def test_a_value_of_python_is_that_value_in_the_configuration(value: Any) -> None:
    (override,) = parse_overrides([word_of("key", value)])
    assert OmegaConf.to_container(OmegaConf.create({"key": override.value()}), resolve=True) == {"key": value}


@given(TEXTS.filter(lambda text: text.lower() not in ("null", "true", "nan", "1e5")))
def test_text_in_quotes_is_that_text(text: str) -> None:
    found = parse_overrides([f"key={quote(text)}"])[0].value()
    assert found == text or not isinstance(found, str), "a number stands for itself"


@for_each(
    "key, value, named",
    [
        ("algo", object(), "object"),
        ("algo", {1}, "set"),
        ("algo", b"grpo", "bytes"),
        ("algo", "\ud800", "algo=\\ud800"),
        ("policies", {"a b": 1}, "'a b'"),
        ("policies", {1: 1}, "'1'"),
        ("env=a steps", 1, "'env=a steps'"),
        ("", 1, "''"),
        ("\x1b[2J", 1, "'\\x1b[2J'"),
        ("a\n", 1, "'a\\n'"),
    ],
)
def test_a_value_that_no_configuration_holds_is_refused(key: str, value: Any, named: str) -> None:
    with pytest.raises(ConfigError) as info:
        rlx.train({key: value})
    assert named in str(info.value).replace("\\\\", "\\")
    assert len(str(info.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["steps=1,2"], ["steps=1,2"]),
        (["-m"], ["--multirun"]),
        (["--cfg", "job"], ["--cfg"]),
        (["--help"], ["--help"]),
        (["--info"], ["--info"]),
        (["hydra/launcher=slurm"], ["hydra/launcher"]),
        (["hydra.mode=MULTIRUN"], ["hydra.mode"]),
        (["+hydra.job.chdir=true"], ["hydra.job.chdir"]),
        (["algo=nothing"], ["'nothing'"]),
        (["stps=1"], ["stps"]),
        (["steps=\x1b[2J"], ["steps"]),
        (["model=\x1b[2J"], ["model"]),
        (["steps=-1"], ["steps=-1"]),
        (["env=${x}"], ["'${x}'"]),
        (["--bad"], ["'--bad'"]),
        (["steps="], ["steps"]),
        (["", "steps=1"], ["''"]),
    ],
)
@pytest.mark.parametrize("call", ["train", "evaluate"])
def test_words_that_are_no_run_are_refused_before_a_folder_is_made(
    call: str, words: list[str], names: list[str], tmp_path: Path
) -> None:
    with raises_naming(ConfigError, *names) as info:
        getattr(rlx, call)(*words, folder=tmp_path / "run")
    assert str(info.value).isprintable()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["", "a\x00b", "x" * 300])
def test_a_folder_that_cannot_be_is_refused(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ConfigError, FolderError, OSError)) as info:
        rlx.train("env=countdown", folder=place)
    assert str(info.value).isprintable()
    assert list(tmp_path.iterdir()) == []


def test_calls_that_cannot_be_made_are_refused(trained: rlx.RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with raises_naming(rlx.CallError, "folder="):
        rlx.evaluate(run=trained, folder="elsewhere")
    with raises_naming(rlx.CallError, "int"):
        rlx.train(3)  # type: ignore[arg-type]
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    with raises_naming(rlx.CallError, "rlx launch"):
        rlx.train("env=countdown")


def test_another_thread_is_told_that_signals_are_caught() -> None:
    errors: list[Exception] = []

    def call() -> None:
        try:
            rlx.train("env=countdown")
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert [type(error) for error in errors] == [rlx.CallError]


def test_an_error_of_the_job_reaches_the_caller(small_words: tuple[str, ...], tmp_path: Path) -> None:
    def job(run: object) -> None:
        raise LookupError("sought")

    with raises_naming(LookupError, "sought"):
        launch_here([*small_words, f"hydra.run.dir={tmp_path / 'run'}"], job, lambda run, here: None)


def test_a_folder_that_holds_no_run_or_a_part_of_one_is_said(trained: rlx.RunFolder, tmp_path: Path) -> None:
    with raises_naming(FolderError, tmp_path / "none", "config.yaml"):
        rlx.load(tmp_path / "none")
    (tmp_path / "config.yaml").write_text(f"{MARK}steps: 2\n")
    run = rlx.load(tmp_path)
    assert run.metrics.empty
    with raises_naming(SummaryError, tmp_path / "summary.json"):
        run.summary  # noqa: B018
    with raises_naming(StoreError, tmp_path):
        next(run.episodes())
    (tmp_path / "config.yaml").write_text("{")
    with raises_naming(FolderError, tmp_path / "config.yaml"):
        run.config  # noqa: B018


def test_text_of_a_strangers_folder_is_plain_in_the_frames(tmp_path: Path) -> None:
    name = "\x1b]0;x\x07\u202e<script>\ud800"
    (tmp_path / "config.yaml").write_text(json.dumps({"a\u202eb": "c\u202ed", "list": ["\u202e"]}))
    lines = [
        {"step": 1, name: 1.0, "bool": True, "text": "9", "large": 10**400, "none": None, "list": [1]},
        {"step": 1, name: 2.0},
        {"step": 10**30, name: 3.0},
        {"step": -1, name: 3.0},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 2, "x"')
    run = rlx.load(tmp_path)
    assert list(run.config.index) == ["a\N{REPLACEMENT CHARACTER}b", "list"]
    assert run.config["value"].tolist() == ["c\N{REPLACEMENT CHARACTER}d", ["\N{REPLACEMENT CHARACTER}"]]
    (column,) = run.metrics.columns
    assert run.metrics.loc[1, column] == 2.0
    assert list(run.metrics.index) == [1]
    assert not {"\x1b", "\x07", "\u202e", "\ud800"} & set(column)
    assert "<script>" not in run.metrics.to_html()


@pytest.mark.slow
def test_a_name_with_an_escape_or_too_long_is_an_error_in_one_plain_line(tmp_path: Path) -> None:
    for name in ("no\x1b[31m\nrun", "x" * 5000, "a\0b"):
        with pytest.raises(FolderError) as caught:
            rlx.load(tmp_path / name)
        assert not dangers(str(caught.value))


def test_a_link_out_of_the_run_and_a_folder_for_a_file_are_not_read(tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    (run / "trajectories" / "step-000001.jsonl").mkdir(parents=True)
    outside.write_text('{"step": 1, "x": 1}\n')
    for name in ("metrics.jsonl", "summary.json", "config.yaml", "trajectories/step-000002.jsonl"):
        (run / name).symlink_to(outside)
    found = rlx.load(run)
    reads = {
        "metrics.jsonl": lambda: found.metrics,
        "summary.json": lambda: found.summary,
        "config.yaml": lambda: found.config,
        "trajectories/step-000002.jsonl": lambda: next(found.episodes("2")),
    }
    for name, read in reads.items():
        with raises_naming((FolderError, IrregularError, SummaryError, StoreError), run / name):
            read()
    with raises_naming(StoreError, run / "trajectories" / "step-000001.jsonl"):
        next(found.episodes("1"))


def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path: Path) -> None:
    """In a process that has imported torch with other threads before."""
    cells = json.loads((ROOT / "docs" / "python.ipynb").read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2", "WANDB_MODE": "disabled"}
    check = "\nassert torch.get_num_threads() == 1\nassert list(runs[1].metrics.index) == [1, 2]\n"
    program = [sys.executable, "-c", f"import torch\n{code}{check}"]
    done = subprocess.run(program, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "['step-000001', 'step-000002'" in done.stdout
    assert "'tool_rlo'" in done.stdout
