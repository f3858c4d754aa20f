"""The batch script of a profile asks for what the profile says, and quotes what a person wrote."""

from __future__ import annotations

import shlex
from pathlib import Path

from rlx.cluster.sbatch import grace_of, grace_seconds, sbatch_script
from rlx.hardware.profile import Hardware
from rlx.plan.lengths import LengthHints
from rlx.plan.prospect import Prospect
from rlx.settings.compose import build_run, compose

SERVED = Hardware(
    num_nodes=2, num_processes=8, device="cuda", learner="deepspeed", engine="vllm", num_servers=2, tensor_parallel=4
)


def options(script: str) -> dict[str, str]:
    lines = [line.removeprefix("#SBATCH --") for line in script.splitlines() if line.startswith("#SBATCH")]
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def test_nodes_tasks_and_gpus_are_the_profiles() -> None:
    asked = options(sbatch_script(SERVED, []))
    assert (asked["nodes"], asked["ntasks-per-node"], asked["gpus-per-node"]) == ("2", "4", "8")
    assert asked["signal"].startswith("B:USR2@")  # the batch process, which is `rlx launch`
    assert "requeue" in asked
    assert "gpus-per-node" not in options(sbatch_script(Hardware(), []))


def test_memory_is_asked_for_where_it_is_known() -> None:
    assert "mem" not in options(sbatch_script(SERVED, []))
    assert options(sbatch_script(SERVED, [], 5 * 2**30 + 1))["mem"] == "6G"


def test_words_are_quoted_for_the_shell() -> None:
    word = "algo.x=$(rm -rf ~);'"
    last = sbatch_script(SERVED, ["env=countdown", word]).splitlines()[-1]
    assert shlex.split(last)[-2:] == ["env=countdown", word]
    assert "\n" not in last


def test_a_measured_checkpoint_sets_the_time_before_the_limit() -> None:
    assert grace_seconds(10**9) == 300 + 60
    assert grace_seconds(10**9, took=600.0) == 300 + 60 * 16


def test_a_job_is_told_of_its_time_limit_by_the_size_of_its_checkpoint() -> None:
    assert options(sbatch_script(SERVED, []))["signal"] == "B:USR2@300"
    assert options(sbatch_script(SERVED, [], grace=840))["signal"] == "B:USR2@840"
    assert grace_seconds(0) == 300
    assert grace_seconds(177 * 10**9) >= 300 + 177 * (1 / 0.5 + 1 / 1.0)


def test_a_job_is_warned_in_time_for_its_longest_update() -> None:
    assert grace_seconds(10**9, took=0.0, update=6000.0) == 300 + 6000
    run = build_run(compose(["+paper=carl_3b"]), Path())
    prospect = Prospect(run=run, length_hints=LengthHints(observed=15000.0))
    assert prospect.forecast is not None
    updates = [prospect.forecast.timer.step(run.hardware, load).update for load in prospect.main.loads]
    assert grace_of(prospect) >= 300 + min(max(updates), 4 * updates[1])
    certain = Prospect(run=run, length_hints=LengthHints(tokens=9000, observed=15000.0))
    assert certain.forecast is not None
    assert grace_of(certain) >= 300 + certain.forecast.timer.step(run.hardware, certain.main.load).update > 2000
