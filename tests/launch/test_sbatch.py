"""The batch script of a profile asks for what the profile says, and quotes what a person wrote."""

from __future__ import annotations

import shlex

from rlx.hardware.profile import Hardware
from rlx.launch.sbatch import grace_seconds, sbatch_script

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
    small, large = (options(sbatch_script(SERVED, [], checkpoint=gb * 10**9))["signal"] for gb in (0, 177))
    assert small == "B:USR2@300"
    assert int(large.partition("@")[2]) >= 300 + 177 * (1 / 0.5 + 1 / 1.0)
