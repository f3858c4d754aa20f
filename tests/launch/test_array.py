"""What SLURM is asked for, and what is said of its jobs; without SLURM."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from rlx.config.compose import build_run, compose
from rlx.config.folders import read_option, shipped_folder
from rlx.hardware.command import srun_command, start_command
from rlx.hardware.profile import Hardware
from rlx.launch.array import Job, follow, memory_gb, names_of, one_shape, refuse_failures, sbatch_parameters, shape_of
from rlx.launch.ending import Ended, log_of, record_end
from rlx.launch.slurm import Record, SlurmError
from rlx.launch.start import LaunchError, check_allocation, default_folder
from rlx.preflight.prospect import Prospect
from rlx.record.folder import LOGS
from tests.errors import raises_naming

PARAMS = yaml.safe_load((shipped_folder("conf") / "hydra" / "launcher" / "slurm.yaml").read_text())
TWO_NODES = Hardware(num_nodes=2, num_processes=16, num_threads=8, device="cuda", learner="deepspeed", num_servers=4)


def prospect_of(*words: str) -> Prospect:
    return Prospect(run=build_run(compose(words), Path()))


def test_a_job_has_the_shape_of_its_profile_unless_told() -> None:
    assert shape_of(TWO_NODES, PARAMS) == {"nodes": 2, "tasks_per_node": 8, "cpus_per_task": 12, "gpus_per_node": 10}
    assert shape_of(TWO_NODES, {**PARAMS, "cpus_per_task": 3})["cpus_per_task"] == 3
    assert shape_of(Hardware(), PARAMS)["gpus_per_node"] == 0


def test_a_task_has_processors_for_its_servers_and_on_a_gpu_for_its_tools_too() -> None:
    assert TWO_NODES.cpus_per_task == 8 + 2 + 4 * 8 // 16
    assert Hardware(num_threads=4, num_tool_workers=8, device="cuda").cpus_per_task == 12
    assert Hardware(num_threads=3, num_tool_workers=8).cpus_per_task == 3
    assert Hardware(num_threads=3, num_servers=1).cpus_per_task == 6
    for path in (shipped_folder("conf") / "hardware").glob("*.yaml"):
        profile = Hardware(**{k: v for k, v in read_option("hardware", path.stem).items() if k != "_target_"})
        if profile.device == "cuda":
            assert 8 <= profile.cpus_per_task <= (16 if profile.num_servers else 12), path.stem


def test_an_array_asks_for_the_memory_that_its_largest_run_needs() -> None:
    half, seven = ["model=qwen2_5_0_5b", "hardware=a100x8"], ["model=qwen2_5_7b", "hardware=a100x8"]
    small, large = (prospect_of(*words, "algo=grpo", "warm_start=none") for words in (half, seven))
    # eight programs and a piece of a checkpoint, and 2 bytes a parameter that each of them loads
    loading = 8 * 2 * 7_615_616_512
    assert memory_gb([small, large]) == memory_gb([large]) == -(-(8 * 6 * 10**9 + 10**10 + loading) // 2**30)
    assert memory_gb([small]) < memory_gb([large])
    assert memory_gb([prospect_of("hardware=cpu")]) is None


def test_what_the_plug_ins_import_when_a_job_runs_is_there() -> None:
    for path in (shipped_folder("conf").parent / "hydra_plugins").glob("*/__init__.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rlx."):
                module = importlib.import_module(node.module or "")
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == [], path


def test_an_array_has_one_shape() -> None:
    assert one_shape([Hardware(), Hardware()], PARAMS)["nodes"] == 1
    with raises_naming(LaunchError, "one shape"):
        one_shape([Hardware(), TWO_NODES], PARAMS)


def test_what_is_empty_is_not_asked_for() -> None:
    params = {key: value for key, value in PARAMS.items() if key != "_target_"}
    asked = sbatch_parameters(shape_of(Hardware(), PARAMS), {**params, "partition": "low"})
    assert asked["partition"] == "low"
    assert asked["additional_parameters"] == {"requeue": True}
    assert not {"gpus_per_node", "account", "wait", "max_num_timeout"} & set(asked)
    assert None not in asked.values()


def test_every_key_of_the_launcher_is_explained() -> None:
    lines = (shipped_folder("conf") / "hydra" / "launcher" / "slurm.yaml").read_text().splitlines()
    for key in PARAMS.keys() - {"_target_", "qos", "account", "constraint", "exclude", "gres", "comment"}:
        place = next(i for i, line in enumerate(lines) if line.startswith(f"{key}:"))
        assert lines[place - 1].startswith("#"), key
    assert PARAMS["max_num_timeout"] >= 1


def test_one_machine_takes_torchrun_and_several_srun(tmp_path: Path) -> None:
    words = ["env=countdown", "seed=1,2"]
    one = start_command(Hardware(num_processes=4, learner="deepspeed"), tmp_path, words)
    assert "torch.distributed.run" in one
    assert "--nproc-per-node=4" in one
    two = start_command(TWO_NODES, tmp_path, words)
    assert two[:4] == ["srun", "--nodes=2", "--ntasks-per-node=8", "--cpus-per-task=12"]
    assert two[-3:] == [*words, f"hydra.run.dir={tmp_path}"]
    assert "torch.distributed.run" not in start_command(Hardware(), tmp_path, words)
    assert srun_command(1, 2, 3, ["x"])[-1] == "x"


def test_an_allocation_must_be_large_enough() -> None:
    check_allocation(Hardware(), {})
    with raises_naming(LaunchError, "hardware.num_nodes=2", "SLURM"):
        check_allocation(TWO_NODES, {})


def test_every_attempt_of_a_job_goes_to_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_folder("outputs/a-b/2026", 3, {}) == Path("outputs/a-b/2026")
    assert default_folder("outputs/a-b/2026", 3, {}) == Path("outputs/a-b/2026-2")
    assert default_folder("outputs/a-b/2026", 3, {"SLURM_JOB_ID": "7"}) == Path("outputs/a-b/job-7-seed3")


def test_a_job_is_named_by_what_is_its_own() -> None:
    words = [["env=countdown", "seed=1"], ["env=countdown", "seed=2"]]
    assert names_of(words, [Path("a"), Path("b")]) == ["seed=1", "seed=2"]
    assert names_of([["seed=1"]], [Path("runs/a")]) == ["a"]


def jobs_in(folder: Path) -> list[Job]:
    return [Job(id=f"9_{i}", name=f"seed={i}", folder=folder / str(i)) for i in range(4)]


def test_each_end_is_told_and_none_is_waited_for_in_vain(tmp_path: Path) -> None:
    jobs, said = jobs_in(tmp_path), list[str]()
    (tmp_path / "1" / LOGS).mkdir(parents=True)
    record_end(tmp_path / "1", Ended(rank=1, code=1))
    log_of(tmp_path / "1", 1).write_text("before\n\x1b[31mValueError: no\n")
    answers = iter(
        [
            {job.id: Record(state="PENDING") for job in jobs},
            {"9_0": Record(state="COMPLETED"), "9_1": Record(state="FAILED"), "9_2": Record(state="CANCELLED")},
        ]
    )

    def inquire(ids: Sequence[str]) -> dict[str, Record]:
        return next(answers)

    over = follow(jobs, said.append, inquire=inquire, pause=lambda _: None)
    assert [over[job.id].state for job in jobs] == ["COMPLETED", "FAILED", "CANCELLED", "LOST"]
    assert said[0] == "job 9_0: seed=0: finished"
    assert said[1].startswith("job 9_1: seed=1: failed (rank 1 ended with exit code 1); the end of ")
    assert said[3] == "    \N{REPLACEMENT CHARACTER}[31mValueError: no"
    assert said[4] == "job 9_2: seed=2: was cancelled; the others go on"
    with raises_naming(LaunchError, "3 of 4 jobs", "9_1 (seed=1) failed") as refused:
        refuse_failures(jobs, over)
    assert refused.value.exit_code == 1


def test_a_controller_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    answers: list[dict[str, Record] | SlurmError] = [
        SlurmError("no answer"),
        {},
        {"9_0": Record(state="RUNNING")},
        {"9_0": Record(state="COMPLETED")},
    ]

    def inquire(ids: Sequence[str]) -> dict[str, Record]:
        answer = answers.pop(0)
        if isinstance(answer, SlurmError):
            raise answer
        return answer

    over = follow(jobs_in(tmp_path)[:1], lambda _: None, inquire=inquire, pause=lambda _: None)
    assert over["9_0"].state == "COMPLETED"
    refuse_failures(jobs_in(tmp_path)[:1], over)
