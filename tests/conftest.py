"""Small runs for tests: the embedded model, two tasks of two samples, everything short."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("busy", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")  # how long an example takes says nothing on a machine that others use

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
    "checkpoint.every=1",
    "checkpoint.trajectories_every=1",
)


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No test reads or writes the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["RLX_CACHE"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def small_words() -> tuple[str, ...]:
    return SMALL


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory, small_run: Callable[..., object]) -> Path:
    """The folder of a run of two steps, finished. Look only: copy it to change it."""
    from rlx.console import Screen
    from rlx.train import train

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
    from rlx.config.compose import build_run, compose

    def build(folder: Path, *words: str, without: tuple[str, ...] = ()) -> object:
        return build_run(compose([*(word for word in SMALL if not word.startswith(without or ("-",))), *words]), folder)

    return build
