"""`rlx eval benchmark=…`: a run's checkpoint and its model before training, scored by lm-evaluation-harness."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlx.cli import evaluate as rlx_eval
from rlx.console import Screen
from rlx.evaluate.benchmarks import BenchmarkError
from rlx.preflight import checks
from rlx.run import benchmark
from rlx.train import train
from tests.errors import raises_naming

Build = Callable[..., Any]
TASK = """
task: sums
dataset_path: json
dataset_kwargs: {data_files: {train: sums.jsonl, test: sums.jsonl}}
training_split: train
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
metric_list:
- {metric: acc, aggregation: mean, higher_is_better: true}
"""


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The harness, with a cache of data sets of the test's own."""
    pytest.importorskip("lm_eval", reason="without the extra `benchmarks`")
    from rlx.evaluate import harness

    monkeypatch.setattr(harness.datasets.config, "HF_DATASETS_CACHE", tmp_path / "data")
    return harness


@pytest.fixture
def task(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    folder.mkdir()
    sums = [(a, b) for a in range(1, 6) for b in range(2, 6)]
    rows = [
        {"question": f"What is {a} + {b}?", "choices": [str(a + b + j) for j in (1, 0, 2)], "answer": 1}
        for a, b in sums
    ]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "sums.yaml").write_text(TASK)
    return folder / "sums.yaml"


def test_without_the_extra_it_is_said_how_to_install_it(
    task: Path, run_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "lacks", lambda extra: "lm-eval is missing")
    with raises_naming(BenchmarkError, "lm-eval", "pip install", "[benchmarks]'"):
        rlx_eval([f"run={run_copy}", f"benchmark={task}"])
    assert not (run_copy / "evaluations").exists()


@pytest.mark.slow
def test_a_checkpoint_and_the_model_before_training_are_in_one_table(
    harness: Any, task: Path, run_copy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"run={run_copy}", f"benchmark={task}", "benchmark_limit=12"]
    rlx_eval(words)
    (folder,) = (run_copy / "evaluations").iterdir()
    found = json.loads((folder / "benchmarks.json").read_text())
    (row,) = found["rows"]
    assert (row["benchmark"], row["metric"], row["examples"]) == ("sums", "acc", 12)
    assert row["difference"]["value"] == pytest.approx(row["after"]["value"] - row["before"]["value"])
    assert row["difference"]["low"] <= row["difference"]["value"] <= row["difference"]["high"]
    assert "paired by example" in row["interval"]
    assert (found["before"], found["steps"]) == ("nano", 2)
    assert found["after"].endswith("step-2")
    page = (folder / "benchmarks.md").read_text()
    assert "| benchmark | metric | examples | before | after | difference |" in page
    assert f"benchmark={task} benchmark_limit=12" in page
    assert "before" in capsys.readouterr().err

    with monkeypatch.context() as patch:
        patch.setattr(benchmark, "measure", lambda *_: pytest.fail("evaluated again"))
        rlx_eval(words)
    raw = (folder / "benchmarks.json").read_bytes()
    (folder / "benchmarks.json").unlink()
    rlx_eval(words)
    assert (folder / "benchmarks.json").read_bytes() == raw, "one seed, one result"
    rlx_eval([f"run={run_copy}", f"benchmark={task}", "benchmark_shots=2"])
    assert len(list((run_copy / "evaluations").iterdir())) == 2


@pytest.mark.slow
def test_a_model_as_it_stands_has_one_value(harness: Any, task: Path, tmp_path: Path) -> None:
    words = ["model=nano", f"benchmark={task.parent}", f"hydra.run.dir={tmp_path / 'out'}"]
    rlx_eval(words)
    (row,) = json.loads((tmp_path / "out" / "benchmarks.json").read_text())["rows"]
    assert (row["examples"], row["before"], row["difference"]) == (20, None, None)
    with raises_naming(BenchmarkError, "other benchmarks", "hydra.run.dir"):
        rlx_eval([*words, "benchmark_limit=3"])


@pytest.mark.slow
def test_log_likelihoods_are_the_learners_log_probs(harness: Any, small_run: Build, tmp_path: Path) -> None:
    """Of a checkpoint with merged adapters, whose critic is no part of the model."""
    from rlx.algo.parts import Optimizer
    from rlx.learner.batch import collate
    from rlx.learner.torch import TorchLearner
    from rlx.model.load import Model, load_base, load_tokenizer
    from rlx.types import Action, Completion, Group, Task, Trajectory, Turn

    run = small_run(tmp_path / "run", "algo=ppo", "+model/lora=r8", "steps=1", without=("algo", "warm_start", "steps"))
    train(run, Screen(silent=True))
    model = Model(path=str(tmp_path / "run" / "checkpoints" / "step-1"))
    loaded, tokenizer = load_base(model, dtype="float32", attention="sdpa"), load_tokenizer(model)
    lm = harness.LoadedModel(loaded, tokenizer, batch_size=4)
    pairs = [
        ("Question: What is 2 + 3?\nAnswer:", " 5"),
        ("The answer is", " not known"),
        ("Using the numbers [1, 2], create", " an equation that equals 3. Use each number"),
        ("The cat ", "sat on the mat"),
    ]
    found = lm.loglikelihood([SimpleNamespace(args=pair) for pair in pairs], disable_tqdm=True)

    groups = []
    for index, pair in enumerate(pairs):
        context_ids, rest_ids = lm._encode_pair(*pair)
        assert context_ids + rest_ids == lm.tok_encode("".join(pair)) or tokenizer.decode(rest_ids) == pair[1]
        assert rest_ids
        completion = Completion(token_ids=tuple(rest_ids), logprobs=(-1.0,) * len(rest_ids), stop="stop")
        turn = Turn(
            prompt_ids=tuple(context_ids), completion=completion, action=Action(kind="answer", text=""), reward=0.0
        )
        one = Task(id=str(index), prompt=(), data={})
        groups.append(Group(task=one, trajectories=(Trajectory(task=one, sample=0, turns=(turn,), status="done"),)))
    batch = collate(groups)
    learner = TorchLearner(loaded, optimizer=Optimizer(lr=1e-3), num_steps=1, micro_batch_tokens=4096)
    logp_M = learner.measure(batch)["logp"]
    sums = [float(logp_M[batch.row_M == row].sum()) for row in range(len(pairs))]
    assert [value for value, _ in found] == pytest.approx(sums, abs=1e-4)


@pytest.mark.slow
def test_a_prompt_whose_tokens_join_its_answers_loses_nothing_of_them(harness: Any, tmp_path: Path) -> None:
    """nano has tokens across blanks: cut at the prompt's length, an answer would miss its beginning."""
    from rlx.model.load import Model, load_base, load_tokenizer

    model = Model(path="nano")
    tokenizer = load_tokenizer(model)
    lm = harness.LoadedModel(load_base(model, dtype="float32", attention="sdpa"), tokenizer, batch_size=4)
    phrase = "Using the numbers ["
    cuts = [(phrase[:at], phrase[at:]) for at in range(1, len(phrase)) if phrase[at] == " "]
    joined = [pair for pair in cuts if tokenizer.decode(lm.tok_encode(pair[0])) != ""]
    split = [lm._encode_pair(*pair) for pair in joined]
    assert any(ids + rest != lm.tok_encode(phrase) for ids, rest in split), "the phrase is one token"
    assert [tokenizer.decode(rest) for _, rest in split] == [rest for _, rest in joined]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("doc_to_text: \"{{ cycler.__init__.__globals__.os.system('touch RAN') }}\"", ["unsafe"]),
        ("doc_to_text: \"{{ ''.__class__.__mro__[1].__subclasses__() }}\"", ["unsafe"]),
        ("process_docs: !function evil.work", ["!function", "imports code"]),
        ('doc_to_text: "{{ no_such_column }}"', ["'no_such_column'"]),
        ("test_split: gone", ["loaded"]),
        ("no_such_key: 1", ["no_such_key"]),
    ],
)
def test_a_task_file_of_a_stranger_runs_nothing_in_the_harness(
    harness: Any, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, names: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = tmp_path / "RAN"
    (task.parent / "evil.py").write_text(f"open({str(ran)!r}, 'w').close()\ndef work(docs):\n    return docs\n")
    own = task.with_name("own.yaml")
    own.write_text(f"include: sums.yaml\ntask: own\n{line}\n")
    with raises_naming(BenchmarkError, *names):
        rlx_eval(["model=nano", f"benchmark={own}", f"hydra.run.dir={tmp_path / 'out'}"])
    assert not ran.exists()


@pytest.mark.slow
def test_code_of_a_task_file_runs_where_the_user_says_so(harness: Any, task: Path, tmp_path: Path) -> None:
    ran = tmp_path / "RAN"
    (task.parent / "mine.py").write_text(f"def work(docs):\n    open({str(ran)!r}, 'w').close()\n    return docs\n")
    own = task.with_name("own.yaml")
    own.write_text(TASK.replace("task: sums", "task: own").replace("sums.jsonl", str(task.parent / "sums.jsonl")))
    own.write_text(own.read_text() + "process_docs: !function mine.work\n")
    rlx_eval(["model=nano", f"benchmark={own}", "benchmark_code=true", f"hydra.run.dir={tmp_path / 'out'}"])
    assert ran.exists()


@pytest.mark.slow
def test_an_unknown_benchmark_is_one_line_with_near_names(harness: Any, tmp_path: Path) -> None:
    with raises_naming(BenchmarkError, "hellaswg", "hellaswag"):
        rlx_eval(["model=nano", "benchmark=hellaswg", f"hydra.run.dir={tmp_path / 'out'}"])


@pytest.mark.slow
def test_a_hub_that_does_not_answer_is_one_line(harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with raises_naming(BenchmarkError, "arc_easy", "same command"):
        harness.load_tasks(harness.Benchmarks(names=("arc_easy",)))


@pytest.mark.parametrize(
    ("spec", "error", "is_advised"),
    [
        ("arc_easy", OSError("gone"), True),
        ("arc_easy", RuntimeError("Couldn't reach the hub"), True),
        ("arc_easy", RuntimeError("no such column"), False),
        ({"dataset_kwargs": {"data_files": "sums.jsonl"}}, OSError("gone"), False),
        ({"dataset_path": "owner/name"}, OSError("gone"), True),
        ({"dataset_path": "owner/name"}, RuntimeError("no such column"), False),
    ],
)
def test_only_data_of_a_hub_that_did_not_answer_is_worth_another_try(
    harness: Any, spec: Any, error: Exception, is_advised: bool
) -> None:
    class Failing:
        def load(self, specs: list[Any]) -> None:
            raise error

    with raises_naming(BenchmarkError, "benchmark=sums") as info:
        harness.load_spec(Failing(), "sums", spec)
    assert (harness.REMEDY in str(info.value)) == is_advised
