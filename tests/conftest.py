"""Small runs for tests: the embedded model, two tasks of two samples, everything short."""

from __future__ import annotations

import copy
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from rlx.hardware.ranks import Ranks

settings.register_profile("busy", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")  # how long an example takes says nothing on a machine that others use

ROOT = Path(__file__).resolve().parents[1]
Command = Callable[..., "subprocess.CompletedProcess[str]"]
SMALL = (
    "env=countdown",
    "algo=tool_rloo",
    "algo.num_prompts=2",
    "algo.num_samples=2",
    "env.max_rounds=2",
    "steps=3",
    "warm_start=none",
    "sampling.max_new_tokens=40",
    "evaluate.num_tasks=2",
    "evaluate.num_samples=2",
    "evaluate.ks=[1,2]",
    "evaluate.max_new_tokens=40",
    "evaluate.num_resamples=100",
    "track=disabled",
    "checkpoint.interval=1",
    "checkpoint.trajectories_interval=1",
)

SLOWEST = (
    *("test_docs.py", "hardware/test_interrupt.py", "test_train.py", "reproduce/test_command.py", "run/test_life.py"),
    *("check/test_selftest.py", "test_damage.py", "test_async.py", "config/test_options.py", "config/test_compose.py"),
    *("run/test_fleet.py", "test_evaluation.py", "run/test_warm.py", "test_cli.py"),
)
"""Files of 25 seconds and more, the slowest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slowest files first: one that starts last would leave the other worker of `make test` idle."""
    ranks = {ROOT / "tests" / name: rank for rank, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No test reads or writes the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["RLX_CACHE"] = str(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def messages_are_json() -> Iterator[None]:
    """One process tells itself what several would tell each other: JSON, read again."""
    gather = Ranks.gather

    def as_several(ranks: Ranks, value: Any) -> list[Any]:
        return [json.loads(json.dumps(value))] if ranks.size == 1 else gather(ranks, value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ranks, "gather", as_several)
        yield


@pytest.fixture(scope="session")
def small_words() -> tuple[str, ...]:
    return SMALL


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory, small_run: Callable[..., object]) -> Path:
    """The folder of a run of two steps, finished. Look only: copy it to change it."""
    from rlx.base.console import Screen
    from rlx.training import train

    folder = tmp_path_factory.mktemp("finished") / "run"
    train(small_run(folder, "steps=2"), Screen(silent=True))  # type: ignore[arg-type]
    return folder


@pytest.fixture
def run_copy(finished_run: Path, tmp_path: Path) -> Path:
    """A finished run of one's own."""
    return Path(shutil.copytree(finished_run, tmp_path / "run"))


@pytest.fixture(scope="session")
def small_run() -> Callable[..., object]:
    """`small_run(folder, "steps=1", ...)`: a Run, built as the command line builds it."""
    from rlx.settings.compose import build_run, compose

    @cache
    def composed(words: tuple[str, ...], cwd: str, own: str | None) -> dict[str, Any]:
        return compose(words)

    def build(folder: Path, *words: str, without: tuple[str, ...] = ()) -> object:
        kept = tuple(word for word in SMALL if not word.startswith(without or ("-",)))
        tree = composed((*kept, *words), os.getcwd(), os.environ.get("RLX_CONF_DIR"))
        return build_run(copy.deepcopy(tree), folder)

    return build


@pytest.fixture
def rlx_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`rlx_here("plan", "seed=1", said=b"typed", cwd=folder, NAME="value")`: a command, run in this process."""
    from rlx.__main__ import main

    def run(*words: str, said: bytes = b"", cwd: Path = ROOT, **environ: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["rlx", *words])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(said), encoding="utf-8"))
            patch.chdir(cwd)
            for name, value in environ.items():
                patch.setenv(name, value)
            capsys.readouterr()
            with pytest.raises(SystemExit) as end:
                main()
        return subprocess.CompletedProcess(words, end.value.code or 0, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder of random weights that speaks nano's tokens."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from rlx.model.load import Model, load_tokenizer

    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = load_tokenizer(Model(path="nano"))
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    end = tokenizer.eos_token_id
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = Qwen2Config(vocab_size=len(tokenizer), num_key_value_heads=2, eos_token_id=end, **sizes)
        Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def container() -> None:
    """Skip where the machine cannot contain a process."""
    from rlx.tool.contain.box import contained_by
    from rlx.tool.contain.process import RefusedError

    try:
        contained_by()
    except RefusedError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def python_of() -> Callable[[str], str]:
    """`python_of("gem")`: the interpreter that RLX_GEM_PYTHON names; skip the test where none is named."""

    def find(package: str) -> str:
        python = os.environ.get(f"RLX_{package.upper()}_PYTHON")
        if not python:
            pytest.skip(f"RLX_{package.upper()}_PYTHON names no interpreter that has {package}")
        return python

    return find


@pytest.fixture(scope="session")
def sums_python(python_of: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that has verifiers and the taskset of tests/env/foreign/sums_taskset.py."""
    python, folder = python_of("verifiers"), tmp_path_factory.mktemp("sums") / "venv"
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    sites = "import site; print(*site.getsitepackages(), sep='\\n')"
    found, own = (
        subprocess.run([one, "-c", sites], check=True, capture_output=True, text=True).stdout.splitlines()
        for one in (python, folder / "bin" / "python")
    )
    shutil.copy(ROOT / "tests" / "env" / "foreign" / "sums_taskset.py", own[0])
    (Path(own[0]) / "others.pth").write_text("".join(f"import site; site.addsitedir({place!r})\n" for place in found))
    return str(folder / "bin" / "python")
