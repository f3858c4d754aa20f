"""`rlx resume`: a run goes on by the words in its folder, which may come from a stranger."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rlx.commands.resume import needs_launch, resume_command
from rlx.hardware.interrupt import InterruptedRunError
from rlx.hardware.ranks import ALONE
from rlx.run.execution import record_words
from rlx.run.run import Run
from rlx.runs.folder import COMMAND, FolderError, claim_config, read_config
from rlx.settings.check import ConfigError
from tests.errors import raises_naming

Build = Callable[..., Run]


def record(folder: Path, *words: str) -> None:
    (folder / COMMAND).write_text(json.dumps({"words": words}))


def test_the_command_of_a_folder_is_its_words_and_those_given_now(run_copy: Path, small_words: tuple[str, ...]) -> None:
    record(run_copy, *small_words, "steps=2")
    command = resume_command(run_copy, ["steps=5"])
    assert command == [*small_words, "steps=2", "steps=5", f"hydra.run.dir={run_copy}"]


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["steps=2", "env.max_rounds=3"], "env.max_rounds"),
        (["steps=2", "hydra/launcher=slurm"], "hydra/launcher"),
        (["steps=2", "hydra.run.dir=elsewhere"], "hydra.run.dir"),
        (["steps=2", "hydra.job.chdir=true"], "'hydra.job.chdir=true'"),
        (["steps=1,2"], "'steps=1,2'"),
        (["steps=2", "--config-dir=/evil"], "config-dir"),
        (["steps=2", "+x=${oc.env:HOME}"], "x"),
    ],
)
def test_words_of_a_folder_that_do_not_give_its_configuration_are_refused(
    run_copy: Path, small_words: tuple[str, ...], words: list[str], key: str
) -> None:
    record(run_copy, *small_words, *words)
    with raises_naming(ConfigError, key):
        resume_command(run_copy)


def test_a_folder_without_words_is_told_so(run_copy: Path, finished_run: Path) -> None:
    with raises_naming(ConfigError, COMMAND):
        resume_command(run_copy)
    (run_copy / COMMAND).write_text('{"words": [1, {}]}')
    with raises_naming(ConfigError, COMMAND):
        resume_command(run_copy)
    (run_copy / COMMAND).write_text('{"command": "eval", "words": ["env=countdown"]}')
    with raises_naming(ConfigError, COMMAND):
        resume_command(run_copy)


def test_a_run_that_is_cut_off_names_the_command_that_goes_on(small_run: Build, tmp_path: Path) -> None:
    run = replace(small_run(tmp_path), words=("env=countdown", "a=b c"))
    with (
        raises_naming(InterruptedRunError, f"rlx resume {tmp_path}") as stopped,
        record_words(ALONE, run, trains=True),
    ):
        raise InterruptedRunError(signal.SIGINT)
    assert stopped.value.exit_code == 130
    assert json.loads((tmp_path / COMMAND).read_text()) == {"command": "train", "words": ["env=countdown", "a=b c"]}


def test_another_configuration_names_the_command_of_the_run_that_is_there(run_copy: Path) -> None:
    config = read_config(run_copy)
    with raises_naming(FolderError, f"rlx resume {run_copy}"):
        claim_config(run_copy, {**config, "seed": 9})


def test_a_run_of_several_processes_is_launched_unless_it_is_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    several = ["env=countdown", "algo=grpo", "hardware=cpux2", "hydra.run.dir=x"]
    assert needs_launch(several)
    assert not needs_launch(["env=countdown", "algo=grpo", "hardware=cpu"])
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    assert not needs_launch(several)
