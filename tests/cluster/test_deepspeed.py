"""DeepSpeed for real, on CPU over gloo: one or two processes, every ZeRO stage, one update."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rlx.runs.track import is_clock

pytest.importorskip("deepspeed", reason="deepspeed is not installed: make setup-cluster")
pytestmark = pytest.mark.cluster

WORKER = Path(__file__).with_name("ranks_worker.py")
LIMIT = 400
"""Seconds for the processes of one test."""
STAGES = (0, 1, 2, 3)

Metrics = list[dict[str, Any]]


def start_ranks(size: int, command: Sequence[str]) -> list[subprocess.Popen[str]]:
    """As torchrun would, without torchrun: its own exit code is always 1."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {**os.environ, "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [
        subprocess.Popen(
            [sys.executable, *command],
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]


def finish(processes: Sequence[subprocess.Popen[str]], codes: Sequence[int] | None = None) -> list[str]:
    """What each printed; its exit code must be as expected, 0 if not said."""
    try:
        said = [process.communicate(timeout=LIMIT)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == list(codes or [0] * len(processes)), "\n".join(said)
    return said


def work(num: int, task: str, /, **arguments: Any) -> list[str]:
    return finish(start_ranks(num, [str(WORKER), task, json.dumps(arguments)]))


def told(folder: Path) -> Metrics:
    """metrics.jsonl without what the clock says."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not is_clock(k)} for line in lines]


def assert_close(ours: Metrics, theirs: Metrics, rel: float = 1e-4, absolute: float = 1e-5) -> None:
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(other, rel=rel, abs=absolute)


@pytest.fixture(scope="module")
def words(small_words: tuple[str, ...]) -> list[str]:
    return [*small_words, "algo.num_prompts=4", "algo.num_samples=4", "steps=2", "hardware=cpux2"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> Path:
    """`SIZE-STAGE`: two steps on so many processes under this stage; `torch`: on the torch learner."""
    folder = tmp_path_factory.mktemp("runs")

    def planned(size: int) -> list[list[Any]]:
        plain = [*words, f"hardware.num_processes={size}"]
        return [[str(folder / f"{size}-{stage}"), [*plain, f"hardware.zero_stage={stage}"]] for stage in STAGES]

    work(1, "run_all", runs=[*planned(1), [str(folder / "torch"), [*words, "hardware=cpu"]]])
    again = [str(folder / "again"), [*words, "steps=1"]], [str(folder / "again"), words]
    to_three = (
        [str(folder / "2-to-3"), [*words, "steps=1"]],
        [str(folder / "2-to-3"), [*words, "hardware.zero_stage=3"]],
    )
    work(2, "run_all", runs=[*planned(2), *again, *to_three])
    return folder


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("size", [1, 2])
def test_every_layout_takes_the_same_steps(runs: Path, size: int, stage: int) -> None:
    assert_close(told(runs / f"{size}-{stage}"), told(runs / "torch"))


def test_resuming_on_the_same_layout_is_exact_to_the_last_bit(runs: Path) -> None:
    assert told(runs / "again") == told(runs / "2-2")


def test_trees_are_the_same_on_two_ranks(words: list[str], tmp_path: Path) -> None:
    rest = [word for word in words if not word.startswith("algo")]
    carl = [*rest, "algo=carl", "algo.num_prompts=4", "algo.num_fresh=2", "algo.num_forks=3"]
    for size in (1, 2):
        work(size, "run_all", runs=[[str(tmp_path / str(size)), [*carl, f"hardware.num_processes={size}"]]])
    assert_close(told(tmp_path / "1"), told(tmp_path / "2"))
    assert told(tmp_path / "1")[0]["tree/edges"] > 2


NESTED = (
    *("env=countdown", "env.max_rounds=3", "protocol=tags", "algo=nested_ppo", "algo.num_turns=20"),
    *("algo.num_prompts=8", "algo.num_samples=2", "algo.critic.lr=1e-2", "algo.token_lam=0.9"),
    *("algo.reward_kl.weight=0.1", "algo.reward_kl.target=0.01", "algo.optimizer.num_epochs=2"),
    *(
        "algo.optimizer.num_minibatches=2",
        "algo.optimizer.max_kl=1.0",
        "algo.optimizer.lr=2e-5",
        "sampling.max_new_tokens=32",
        "steps=3",
    ),
)


@pytest.mark.parametrize("adapted", [False, True], ids=["all weights", "adapters"])
def test_nested_ppo_takes_the_same_steps_on_two_ranks_as_on_one(
    words: list[str], tmp_path: Path, *, adapted: bool
) -> None:
    """Its turns, values, KL price, whitened advantages and early stop are of the whole batch, whoever sampled it."""
    rest = [word for word in words if not word.startswith(("algo", "env"))]
    plain = [*rest, *NESTED, *(["+model/lora=r8"] if adapted else [])]
    work(1, "run_all", runs=[[str(tmp_path / "torch"), [*plain, "hardware=cpu"]]])
    stages = [[str(tmp_path / str(stage)), [*plain, f"hardware.zero_stage={stage}"]] for stage in (0, 2, 3)]
    half = [[str(tmp_path / "half"), [*plain, "steps=2"]]]
    work(2, "run_all", runs=[*stages, *half])
    work(1, "run_all", runs=[[str(tmp_path / "half"), [*plain, "hardware=cpu"]]])
    alone = told(tmp_path / "torch")
    for name in ("0", "2", "3", "half"):
        assert_close(told(tmp_path / name), alone)
    assert [step["critic/loss"] > 0 for step in alone] == [True] * 3
    assert alone[0]["known/reward_kl"] != alone[2]["known/reward_kl"], "the price adapts"
    assert alone[0]["batch/turns"] > alone[0]["batch/episodes"], "episodes have several turns"


def test_two_agents_are_the_same_on_two_ranks(words: list[str], tmp_path: Path) -> None:
    for size in (1, 2):
        work(size, "duel", folder=str(tmp_path / str(size)), words=[*words, f"hardware.num_processes={size}"])
    assert_close(told(tmp_path / "1"), told(tmp_path / "2"))


def test_a_run_goes_on_under_another_stage(runs: Path) -> None:
    assert_close(told(runs / "2-to-3"), told(runs / "2-2"))


@pytest.mark.parametrize("hardware", [["hardware.num_processes=1"], ["hardware=cpu"]], ids=["one process", "torch"])
def test_a_run_goes_on_with_fewer_processes(runs: Path, words: list[str], hardware: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(runs / "2-2", folder)
    shutil.rmtree(folder / "checkpoints" / "step-2")
    (folder / "checkpoints" / "index.json").write_text("[1]")
    work(1, "run_all", runs=[[str(folder), [*words, *hardware]]])
    assert_close(told(folder), told(runs / "2-2"))


@pytest.mark.parametrize("stage", [2, 3])
def test_an_exported_folder_loads_in_transformers_without_a_difference(
    runs: Path, words: list[str], stage: int
) -> None:
    work(2, "compare_export", folder=str(runs / f"2-{stage}"), words=[*words, f"hardware.zero_stage={stage}"])


VARIANTS = [
    {"zero_stage": 1, "offload": True},
    {"zero_stage": 2, "recompute": True},
    {"zero_stage": 3, "offload": True, "recompute": True},
    {"zero_stage": 2, "lora": True},
    {"zero_stage": 3, "lora": True},
    {"zero_stage": 0, "learner_dtype": "bfloat16"},
    {"zero_stage": 3, "learner_dtype": "bfloat16"},
    {"zero_stage": 3, "learner_dtype": "bfloat16", "loaded": "bfloat16"},
]


@pytest.mark.parametrize("size", [1, 2])
def test_offload_recompute_adapters_and_bfloat16_learn_the_same(size: int, tmp_path: Path) -> None:
    stored = tmp_path / "found.json"
    work(size, "learn_variants", size=size, stored=str(stored), variants=VARIANTS)
    for variant, found in zip(VARIANTS, json.loads(stored.read_text()), strict=True):
        if "learner_dtype" in variant:
            assert_close(found["deepspeed"][:1], found["plain"][:1], rel=0.1, absolute=0.05)
        else:
            assert_close(found["deepspeed"], found["plain"])
            assert found["gap"] < 1e-3
    as_float32, as_bfloat16 = json.loads(stored.read_text())[-2:]
    assert as_bfloat16["deepspeed"] == as_float32["deepspeed"]


@pytest.mark.parametrize("size", [1, 2])
def test_rows_of_added_actions_are_learned_kept_and_gone_on_with_as_by_torch(size: int, tmp_path: Path) -> None:
    variants = [
        *({"zero_stage": stage} for stage in STAGES),
        {"zero_stage": 2, "lora": True},
        {"zero_stage": 3, "lora": True},
        {"zero_stage": 3, "of_words": True},
        {"zero_stage": 3, "lora": True, "of_words": True},
    ]
    work(size, "learn_actions", size=size, folder=str(tmp_path), variants=variants)


@pytest.mark.parametrize("size", [1, 2])
def test_families_with_rows_caps_and_sinks_are_learned_as_by_one_rank(size: int) -> None:
    kinds = ("qwen3_5_text", "falcon_h1", "gemma2", "gpt_oss")
    variants = [{"kind": kind, "zero_stage": stage, "micro_batch_tokens": 60} for kind in kinds for stage in (0, 2, 3)]
    work(size, "learn_families", size=size, variants=variants)


@pytest.mark.parametrize("size", [1, 2])
def test_pairs_of_twins_are_learned_from_as_by_one_rank(size: int) -> None:
    variants = [
        *({"zero_stage": stage} for stage in (0, 2, 3)),
        {"zero_stage": 2, "lora": True},
        {"zero_stage": 3, "lora": True},
    ]
    work(size, "learn_twins", size=size, variants=variants)


CRITICS: list[dict[str, Any]] = [
    *({"zero_stage": stage} for stage in STAGES),
    {"zero_stage": 3, "lora": True},
    {"zero_stage": 2, "learner_dtype": "bfloat16"},
    {"zero_stage": 3, "learner_dtype": "bfloat16"},
]


@pytest.mark.parametrize("size", [1, 2])
def test_a_critic_learns_the_same_on_every_layout(size: int, tmp_path: Path) -> None:
    stored = tmp_path / "found.json"
    work(size, "learn_critic", size=size, stored=str(stored), variants=CRITICS)
    for variant, found in zip(CRITICS, json.loads(stored.read_text()), strict=True):
        assert found["head"] > 0.01, "it has moved"
        if "learner_dtype" in variant:
            assert_close(found["deepspeed"][:1], found["plain"][:1], rel=0.1, absolute=0.05)
        else:
            assert_close(found["deepspeed"], found["plain"])
            assert max(found["gaps"].values()) < 2e-4


def test_no_thread_of_gloo_outlives_the_ranks() -> None:
    """Without an engine of DeepSpeed, which holds groups of its own to the end."""
    assert [said.splitlines()[-1] for said in work(2, "leave", size=2)] == ["[]", "[]"]


@pytest.mark.parametrize("stage", [0, 2, 3])
def test_a_loss_that_is_not_finite_stops_all_ranks_before_the_step(stage: int) -> None:
    work(2, "break_loss", size=2, stage=stage)


@pytest.mark.parametrize("size", [1, 2])
def test_zero_3_cuts_a_model_before_it_is_moved(size: int) -> None:
    work(size, "cut_first", size=size)


@pytest.mark.parametrize(("size", "stage"), [(1, 2), (2, 2), (2, 3)])
def test_deepspeed_waits_as_long_for_a_rank_as_we_do(size: int, stage: int) -> None:
    work(size, "keep_patience", size=size, stage=stage)


@pytest.mark.parametrize(
    ("size", "stage", "dtype"), [(1, 0, "float32"), (2, 2, "float32"), (1, 2, "bfloat16"), (2, 3, "bfloat16")]
)
def test_no_gradient_is_left_after_an_update(size: int, stage: int, dtype: str) -> None:
    work(size, "leave_nothing", size=size, stage=stage, dtype=dtype)


CLOSED = [
    *({"zero_stage": stage} for stage in STAGES),
    {"zero_stage": 3, "lora": True, "recompute": True},
    {"zero_stage": 3, "learner_dtype": "bfloat16", "offload": True},
]


@pytest.mark.parametrize("size", [1, 2])
def test_a_closed_learner_leaves_nothing_and_the_next_one_learns_to_the_same_bits(size: int) -> None:
    work(size, "close_learners", size=size, variants=CLOSED)


@pytest.mark.parametrize("stage", [2, 3])
def test_ranks_that_do_not_write_a_checkpoint_keep_step_with_the_one_that_does(stage: int, tmp_path: Path) -> None:
    work(2, "keep_step", size=2, stage=stage, folder=str(tmp_path))


def test_torchrun_needs_no_folder_and_a_signal_to_one_rank_stops_all(words: list[str], tmp_path: Path) -> None:
    more = [*words, "steps=4"]
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "rlx", "train", *more]
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    (undisturbed,) = (tmp_path / "outputs" / "countdown-tool_rloo").iterdir()

    folder = tmp_path / "disturbed"
    train = ["-m", "rlx", "train", *more, f"hydra.run.dir={folder}"]
    processes = start_ranks(2, train)
    while not (folder / "metrics.jsonl").exists() and processes[1].poll() is None:
        time.sleep(0.02)
    processes[1].send_signal(signal.SIGTERM)
    said = finish(processes, [143, 143])
    assert "interrupted by SIGTERM" in said[0]
    assert json.loads((folder / "summary.json").read_text())["status"] == "interrupted"
    finish(start_ranks(2, train))
    assert told(folder) == told(undisturbed)


def test_a_rank_that_hangs_is_named_and_takes_the_run_down(words: list[str], tmp_path: Path) -> None:
    arguments = {"folder": str(tmp_path), "words": [*words, "hardware.step_minutes=0.6"]}
    said = finish(start_ranks(2, [str(WORKER), "hang", json.dumps(arguments)]), [75, 75])
    assert "rlx: rank 1 (host" in said[0]
    assert "hangs: in 'rollout of step 1'" in said[0]


def test_a_second_run_on_a_folder_is_refused_on_all_its_ranks(words: list[str], tmp_path: Path) -> None:
    from rlx.runs.folder import open_folder

    with open_folder(tmp_path, {}):
        said = finish(start_ranks(2, ["-m", "rlx", "train", *words, f"hydra.run.dir={tmp_path}"]), [2, 2])
    assert all(f"is in use by another run (process {os.getpid()} on" in text for text in said)


def test_another_number_of_processes_is_refused(words: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rlx", "train", *words, f"hydra.run.dir={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 2
    assert "hardware.num_processes=2, but 1 started: start it with `rlx launch`" in done.stderr
