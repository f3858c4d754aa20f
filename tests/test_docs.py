"""The pages on adding an environment and an algorithm, followed to the letter in an empty folder; what they list."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


MEASURED = (
    "algo/*.py",
    "learner/*.py",
    "rollout/measure.py",
    "protocol/final_answer.py",
    "run/fleet.py",
    "run/execution.py",
    "run/step.py",
)
"""Where metrics are named."""


def listed_metrics() -> set[str]:
    """All that docs/metrics.md lists."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    return {name for row in re.findall(r"^\|(.+?)\|", page, re.MULTILINE) for name in re.findall(r"`(.+?)`", row)}


def metrics_of(folder: Path) -> set[str]:
    """All that a run wrote, those that others name by their nouns."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    names = {name for line in lines for name in json.loads(line)} - {"step"}
    return {re.sub(r"\b(known|env|eval)/.*", r"\1/NAME", name) for name in names}


def follow(page: str, folder: Path) -> None:
    """Write the page's files where it says."""
    for name, text in BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8")):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def run(*words: str, cwd: Path, timeout: float = 300) -> str:
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "RLX_CACHE": str(cwd / "cache"),
        "WANDB_MODE": "disabled",
    }
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("page", ["adding-an-environment.md", "adding-an-algorithm.md"])
def test_a_page_can_be_followed_as_it_stands(page: str, tmp_path: Path) -> None:
    follow(page, tmp_path)
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", ".", cwd=tmp_path)
    scripts = ["setup.sh", *sorted(script.name for script in tmp_path.glob("try*.sh"))]
    tried = run("bash", "-ec", "".join(f". ./{script}; " for script in scripts), cwd=tmp_path, timeout=900)
    first = next(option for group in ("algo", "env") for option in sorted(tmp_path.glob(f"conf/{group}/*.yaml")))
    assert re.search(rf"^{first.stem} +{first.read_text().splitlines()[0][2:]}$", tried, re.MULTILINE)
    for option in [*tmp_path.glob("conf/algo/*.yaml"), *tmp_path.glob("conf/env/*.yaml")]:
        assert (tmp_path / "outputs" / option.stem / "summary.json").is_file()
    for folder in (tmp_path / "outputs").iterdir():
        written = metrics_of(folder)
        parts = {name for name in written if name.count("/") > 1}
        assert {name.split("/", 1)[1] for name in parts} | (written - parts) <= listed_metrics()


def gains(env: str, folder: Path) -> dict[str, dict[str, float]]:
    """Train on an environment of the folder as its page says; return the metrics of its summary."""
    train = f"rlx train env={env} hydra.run.dir=outputs/learns"
    run("bash", "-ec", f'export PYTHONPATH="$PWD:$PYTHONPATH"; {train}', cwd=folder, timeout=3600)
    summary = (folder / "outputs" / "learns" / "summary.json").read_text(encoding="utf-8")
    metrics: dict[str, dict[str, float]] = json.loads(summary)["metrics"]
    return metrics


@pytest.mark.slow
def test_a_new_environment_learns_with_the_command_that_is_printed_for_it(tmp_path: Path) -> None:
    """It takes a minute on one core."""
    printed = run("rlx", "new", "env", "cellar", cwd=tmp_path).splitlines()[-1].strip()
    assert printed == "rlx train env=cellar algo=grpo evaluate=quick steps=200"
    metrics = gains("cellar algo=grpo evaluate=quick steps=200", tmp_path)
    assert metrics["untrained/reward"]["value"] < 0.05
    assert metrics["gain/reward"]["low"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("env", ["higher_lower algo=grpo evaluate=quick", "corridor algo=grpo evaluate=quick"])
def test_an_example_learns_with_default_settings(env: str, tmp_path: Path) -> None:
    follow("adding-an-environment.md", tmp_path)
    assert gains(env, tmp_path)["gain_untrained/pass@1"]["low"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("env", ["shop", "library evaluate=quick"])
def test_an_example_with_a_tool_learns_to_ask_no_more_than_it_must(env: str, tmp_path: Path) -> None:
    """Demonstrations ask for more than is needed; reinforcement saves what they waste."""
    follow("adding-an-environment.md", tmp_path)
    metrics = gains(env, tmp_path)
    assert metrics["gain_untrained/pass@1"]["low"] > 0
    assert metrics["gain/reward"]["low"] > 0
    assert metrics["gain/tool/calls"]["high"] < 0


def test_the_examples_of_environments_for_other_trainers_run(tmp_path: Path) -> None:
    follow("gym.md", tmp_path)
    assert "'status': 'done'" in (one := run(sys.executable, "one.py", cwd=tmp_path)) or "'status': 'truncated'" in one
    assert run(sys.executable, "from_gem.py", cwd=tmp_path).splitlines()[-1] == "1"
    assert run(sys.executable, "tools_from_gem.py", cwd=tmp_path).splitlines()[-1] == "python_code False"
    assert run(sys.executable, "registered.py", cwd=tmp_path).strip().endswith("[1. 1.]")
    assert len(re.findall(r"games solved$", run(sys.executable, "reinforce.py", "2", cwd=tmp_path), re.MULTILINE)) == 2


def test_the_example_of_an_adapter_runs(tmp_path: Path) -> None:
    follow("other-packages.md", tmp_path)
    seen = run(sys.executable, "play_echo.py", cwd=tmp_path).splitlines()
    assert seen[0] == "Say stone backwards."
    assert "'success': True" in seen[-1]
    words = "env=echo protocol=whole warm_start=none --num 1 --split test"
    assert "Say level backwards." in run("bash", "-ec", f"PYTHONPATH=$PWD:$PYTHONPATH rlx data {words}", cwd=tmp_path)


def test_the_example_that_feeds_trl_runs(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="without the extra `bench`")
    follow("gym.md", tmp_path)
    run(sys.executable, "feed_trl.py", cwd=tmp_path)


def test_the_example_that_walks_with_trl_runs(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="without the extra `bench`")
    pytest.importorskip("minigrid", reason="without the extra `babyai`")
    follow("gym.md", tmp_path)
    said = run(sys.executable, "walk_with_trl.py", cwd=tmp_path)
    assert re.search(r"^mean reward: -?\d\S* loss: -?(?!0(\.0)?$)\d", said, re.MULTILINE)


def test_the_list_of_metrics_is_that_of_the_code() -> None:
    text = "".join(file.read_text() for pattern in MEASURED for file in (ROOT / "rlx").glob(pattern))
    named = set(re.findall(r'"([a-z]+/[a-z_]+)"', text))
    assert listed_metrics() - {"known/NAME", "env/NAME", "eval/NAME", "reply/NAME"} == named
