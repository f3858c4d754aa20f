"""Whole runs, small: what they leave, how they repeat, and what stops them."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from io import StringIO
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from rlx.algo.credit import per_row
from rlx.base.console import Screen
from rlx.env.countdown.countdown import Countdown
from rlx.environment import Episode
from rlx.environment.world import dialect_of
from rlx.evaluation.columns import ColumnError
from rlx.evaluation.evaluate import EvaluateError
from rlx.run.evaluation_player import EvaluationPlayer
from rlx.run.evaluation_run import evaluate_model
from rlx.run.execution import RunError
from rlx.run.run import Run
from rlx.run.warm import start_digest
from rlx.runs.codec import FORMAT, NOTES
from rlx.runs.folder import FolderError, open_folder
from rlx.runs.store import load as load_groups
from rlx.runs.store import step_path
from rlx.runs.summary import Summary
from rlx.runs.times import read_times
from rlx.runs.track import is_clock
from rlx.training import train
from rlx.types import Action, Step, Task
from tests.errors import raises_naming

Build = Callable[..., Any]
QUIET = Screen(silent=True)


def told(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without what the clock says."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not is_clock(k)} for line in lines]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, small_run: Build) -> Path:
    folder = tmp_path_factory.mktemp("run")
    train(small_run(folder), Screen(console=Console(file=StringIO())))
    return folder


def test_a_run_leaves_the_times_of_every_stored_episode_beside_it(finished: Path) -> None:
    files = sorted((finished / "trajectories").glob("step-*.jsonl"))
    for number, file in enumerate(files, start=1):
        episodes = [episode for group in load_groups(file) for episode in group.trajectories]
        times = read_times(finished, number)
        assert {(episode.task.key, episode.sample): len(episode.turns) for episode in episodes} == {
            (task, sample): len(one.turns) for (task, sample, _), one in times.items()
        }
    assert files


def test_a_run_leaves_what_it_promises(finished: Path) -> None:
    summary = json.loads((finished / "summary.json").read_text())
    assert summary["status"] == "finished"
    words = {"status", "metrics", "seed", "provenance", "git", "cost", "synchronous", "reproducible", "warnings"}
    assert set(summary) == words | {"steps", "policy", "agents", "evaluate", "reward_range", "ended", "notes"}
    assert (summary["steps"], summary["policy"]) == (3, "checkpoints/step-3")
    assert summary["evaluate"]["num_tasks"] == 2
    assert set(summary["metrics"]["eval/pass@2"]) == {"value", "low", "high"}
    assert {"start/pass@1", "gain/pass@1", "random/pass@1", "eval/tool/calls"} <= set(summary["metrics"])
    assert set(summary["cost"]) == {"tokens", "tool_calls", "seconds", "device_hours"}
    assert summary["cost"]["tokens"] > 0
    lines = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [next(iter(line)) for line in lines] == ["step"] * 3
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert (finished / "config.yaml").is_file()
    assert "# tool_rloo on Countdown" in (finished / "results.md").read_text()


def test_kept_trajectories_say_what_was_made_of_them(finished: Path) -> None:
    turns = [
        turn
        for line in step_path(finished, 1).read_text().splitlines()
        for turn in json.loads(line)["trajectory"]["turns"]
    ]
    assert all(len(turn[name]) == len(turn["tokens"]) for turn in turns for name in (*NOTES[:3], "trained"))
    entropies = [value for turn in turns for value in turn["entropies"]]
    (said,) = [line for line in told(finished) if line["step"] == 1]
    assert sum(entropies) / len(entropies) == pytest.approx(said["entropy/mean"], rel=0.1)
    assert "".join(turns[0]["pieces"]).startswith("<think>")
    assert (finished / "config.yaml").read_text().startswith(f"# A run of rlx, format {FORMAT}\n")


def test_a_folder_of_before_a_change_of_format_says_so_when_it_cannot_be_gone_on_with(
    run_copy: Path, small_run: Build
) -> None:
    path = run_copy / "config.yaml"
    path.write_text(path.read_text().split("\n", 1)[1].replace("seed: 0", "seed: 1", 1))
    with raises_naming(FolderError, f"format {FORMAT}"):
        train(small_run(run_copy, "steps=2"), QUIET)


def test_a_run_keeps_a_log_of_what_it_said(finished: Path) -> None:
    log = (finished / "log.txt").read_text()
    assert "began: " in log
    assert f"run folder: {finished}" in log
    assert "train: 3/3 steps" in log


def test_a_checkpoint_is_a_plain_model_folder(finished: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rlx.model.load import Model, load_tokenizer

    folder = finished / "checkpoints" / "step-3"
    text = "Using the numbers [44, 19, 35], create an equation that equals 98."
    AutoModelForCausalLM.from_pretrained(folder)
    assert AutoTokenizer.from_pretrained(folder).encode(text) == load_tokenizer(Model(path="nano")).encode(text)


def test_it_is_said_how_many_tokens_an_update_learned_from(finished: Path, small_run: Build, tmp_path: Path) -> None:
    train(small_run(tmp_path, "steps=1", "algo.optimizer.num_epochs=3"), QUIET)
    once, thrice = told(finished)[0], told(tmp_path)[0]
    assert thrice["update/tokens"] == 3 * once["update/tokens"] == 3 * 2 * 2 * once["episode/tokens"]


def test_one_seed_gives_one_result(finished: Path, small_run: Build, tmp_path: Path) -> None:
    train(small_run(tmp_path / "same"), QUIET)
    train(small_run(tmp_path / "other", "seed=1", "steps=1"), QUIET)
    assert told(tmp_path / "same") == told(finished)
    assert told(tmp_path / "other")[0] != told(finished)[0]


def test_a_longer_run_goes_on_from_a_shorter_one(finished: Path, small_run: Build, tmp_path: Path) -> None:
    train(small_run(tmp_path, "steps=1"), QUIET)
    train(small_run(tmp_path), QUIET)
    assert told(tmp_path) == told(finished)


def test_what_an_algorithm_remembers_goes_on_with_a_run_that_was_cut_off(small_run: Build, tmp_path: Path) -> None:
    words = ("algo.loss.kl_target=1e-4", "algo.optimizer.num_epochs=3", "algo.optimizer.max_kl=1e-9")
    train(small_run(tmp_path / "whole", "steps=3", *words), Screen(silent=True))
    whole = told(tmp_path / "whole")
    weights = [line["known/kl"] for line in whole]
    assert len(set(weights)) == 3, "it is adapted"
    assert weights[1] == weights[0] * (1 + 0.1 * min(0.2, max(-0.2, whole[0]["kl/mean"] / 1e-4 - 1)))
    assert all(line["optimizer/steps"] < 6 for line in whole), "two steps a pass, three passes, stopped early"
    num_sampled = [line["episode/tokens"] * 4 for line in whole]  # two tasks, two episodes each
    assert all(line["update/tokens"] < 3 * num for line, num in zip(whole, num_sampled, strict=True))
    train(small_run(tmp_path / "cut", "steps=2", *words), Screen(silent=True))
    state = json.loads((tmp_path / "cut" / "checkpoints" / "step-2" / "run.json").read_text())
    assert state["memory"] == {"kl": weights[2]}
    train(small_run(tmp_path / "cut", "steps=3", *words), Screen(silent=True))
    assert told(tmp_path / "cut") == whole


def test_an_altered_checkpoint_is_named_and_the_one_before_it_used(
    finished: Path, small_run: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(small_run(tmp_path, "steps=2"), QUIET)
    weights = tmp_path / "checkpoints" / "step-2" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    train(small_run(tmp_path), Screen())
    assert "step-2 is skipped: model.safetensors has" in capsys.readouterr().err.replace("\n", "")
    assert told(tmp_path) == told(finished)


def test_another_configuration_is_refused_by_name(finished: Path, small_run: Build) -> None:
    with raises_naming(FolderError, "(algo.optimizer.lr:", "-> 0.5"):
        train(small_run(finished, "algo.optimizer.lr=0.5"), QUIET)


def test_a_folder_has_one_run_at_a_time(small_run: Build, tmp_path: Path) -> None:
    run = small_run(tmp_path)
    with open_folder(tmp_path, run.config), raises_naming(FolderError, tmp_path, "in use"):
        train(run, QUIET)


def test_the_learner_sees_what_the_engine_sampled(small_run: Build, tmp_path: Path) -> None:
    from rlx.learner.batch import collate
    from rlx.run.trainee import build_trainee

    run = small_run(tmp_path, "algo.num_samples=4", "env.max_rounds=4")
    agent = build_trainee(run, run.model)
    encoded: list[str] = []
    encode = agent.policy.speech.encode

    def spy(text: str) -> list[int]:
        encoded.append(text)
        return encode(text)

    speech = replace(agent.policy.speech, encode=spy)
    rollout = replace(agent.policy, speech=speech).rollout(run.env, run.sampling, ("test",))
    groups = rollout.sample(run.algo.sample, [task for task, _ in zip(run.env.tasks("train", 0), range(2))])
    batch = collate(groups)
    logp = agent.learner.measure(batch)["logp"]
    assert torch.allclose(logp, batch.engine_logp_M, atol=1e-4)
    turns = [turn for group in groups for t in group.trajectories for turn in t.turns]
    trained = batch.token_ids_N[batch.position_M].tolist()
    assert trained == [token for turn in turns for token in turn.completion.token_ids]
    dialect = dialect_of(run.env, run.protocol)
    once = [
        {dialect.open(t.task), *(dialect.render(turn.observation) for turn in t.turns if turn.observation)}
        for group in groups
        for t in group.trajectories
    ]
    assert sorted(encoded) == sorted(text for texts in once for text in texts)


class Fragile(Episode):
    """An episode that breaks at its second step."""

    def __init__(self, episode: Any) -> None:
        self.episode, self.steps = episode, 0

    def step(self, action: Action) -> Step:
        self.steps += 1
        if self.steps == 2:
            raise RuntimeError("disk on fire")
        return self.episode.step(action)


def breaking(env: Any, share: float) -> Any:
    """The environment, with this share of its tasks breaking."""

    class Breaking(type(env)):  # type: ignore[misc]
        def start(self, task: Task) -> Any:
            episode = super().start(task)
            return Fragile(episode) if len(task.id) % 10 < 10 * share else episode

    return Breaking(**{field.name: getattr(env, field.name) for field in fields(env)})


def test_too_many_broken_episodes_stop_the_run(small_run: Build, tmp_path: Path) -> None:
    run = small_run(tmp_path)
    first = ("RuntimeError", "on fire")
    with raises_naming(RunError, *first, "max_error_share=0.25"):
        train(replace(run, env=breaking(run.env, 1.0)), QUIET)
    with raises_naming(RunError, *first, "nothing"):
        train(replace(run, env=breaking(run.env, 1.0), max_error_share=1.0, folder=tmp_path / "all"), QUIET)
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == "failed"


def test_a_few_broken_episodes_are_counted_and_left_out(small_run: Build, tmp_path: Path) -> None:
    run = small_run(tmp_path, "max_error_share=1.0", "steps=1", "algo.num_prompts=6")
    train(replace(run, env=breaking(run.env, 0.2)), QUIET)
    broken = [t for group in load_groups(step_path(tmp_path, 1)) for t in group.trajectories if t.status == "error"]
    assert told(tmp_path)[0]["episode/errors"] == pytest.approx(len(broken) / 12)


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_batch(small_run: Build, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    run = small_run(tmp_path)
    algo = replace(run.algo, credit=lambda rows: per_row([math.nan] * len(rows.reward)))
    with raises_naming(RunError, "step 1:", "not finite", "algo.credit"):
        train(replace(run, algo=algo), QUIET)
    kept = load_file(tmp_path / "failed" / "step-000001.safetensors")
    assert kept["advantage"].isnan().all()


def check_untrained(folder: Path, alone: Run, first: Summary, second: Summary) -> None:
    """Check that the model without its warm start was evaluated as `rlx eval` would evaluate it."""
    evaluate_model(alone, QUIET)
    tokens = {
        name: [turn.completion.token_ids for group in groups for one in group.trajectories for turn in one.turns]
        for name in ("first/trajectories/untrained-2", "first/trajectories/start-2", "eval/trajectories/eval-2")
        for groups in [list(load_groups(folder / f"{name}.jsonl"))]
    }
    bare, warm, own = tokens.values()
    assert bare == own != warm
    assert {"untrained/pass@1", "gain_untrained/reward", "gain/reward"} <= set(first.metrics)
    assert second.metrics["untrained/reward"] == first.metrics["untrained/reward"]
    gap = first.metrics["eval/reward"].value - first.metrics["untrained/reward"].value
    assert first.metrics["gain_untrained/reward"].value == pytest.approx(gap)


def test_a_warm_start_is_made_once(small_run: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))
    words = ("warm_start=tool_sft", "warm_start.steps=2", "warm_start.algo.num_prompts=2", "steps=1")
    first = train(small_run(tmp_path / "first", *words), QUIET)
    (stage,) = (tmp_path / "cache" / "warm").iterdir()
    made = (stage / "metrics.jsonl").stat().st_mtime_ns
    evaluations = sorted((tmp_path / "cache" / "evaluations").iterdir())
    second = train(small_run(tmp_path / "second", *words, "seed=1"), QUIET)
    assert sorted((tmp_path / "cache" / "evaluations").iterdir()) == evaluations
    check_untrained(tmp_path, small_run(tmp_path / "eval", "steps=0"), first, second)
    assert [stage] == list((tmp_path / "cache" / "warm").iterdir())
    assert (stage / "metrics.jsonl").stat().st_mtime_ns == made
    switched_off = ("evaluate.untrained=false", "env.lambda_call=0.5", "env.verifier=format")
    third = train(small_run(tmp_path / "third", *words, *switched_off), QUIET)
    assert not any("untrained" in name for name in third.metrics)
    assert (stage / "metrics.jsonl").stat().st_mtime_ns == made
    train(small_run(tmp_path / "fourth", *words, "env.high=50"), QUIET)
    assert len(list((tmp_path / "cache" / "warm").iterdir())) == 2


def test_a_warm_start_that_samples_depends_on_what_judges_it(small_run: Build, tmp_path: Path) -> None:
    words = ("warm_start=tool_sft", "algo@warm_start.algo=tool_rloo")
    cheap, dear = (small_run(tmp_path, *words, f"env.lambda_call={cost}") for cost in (0.0, 0.5))
    assert start_digest(cheap) != start_digest(dear)


def test_a_warm_start_depends_on_what_it_takes_from_the_recipe_alone(small_run: Build, tmp_path: Path) -> None:
    words = ("warm_start=tool_sft",)
    first, same, other = (
        start_digest(small_run(tmp_path, *words, *more))
        for more in ((), ("model.recipe.reinforce_lr=1",), ("model.recipe.imitate_lr=1",))
    )
    assert first == same != other


def test_two_runs_are_compared_task_by_task(finished: Path, small_run: Build, tmp_path: Path) -> None:
    from rlx.evaluation.compare import find_gains, gain_tables, gain_values

    train(small_run(tmp_path, "seed=1", "steps=1"), QUIET)
    (gain,) = find_gains(tmp_path, finished)
    accuracy, cost = gain_tables(gain)
    assert [row[0] for row in accuracy.rows] == [str(tmp_path), str(finished), "gain"]
    assert all(row[-1].startswith(("+", "-", "0")) for table in (accuracy, cost) for row in table.rows[-1:])
    assert accuracy.header == ("run", "Pass@1", "Pass@2"), "those of evaluate.ks"
    assert cost.header[1] == "Calls"
    (chosen,) = gain_tables(gain, "pass@1, episode/tokens")
    assert chosen.header == ("run", "Pass@1", "episode/tokens")
    with raises_naming(ColumnError, "'tokns'", "--columns"):
        gain_tables(gain, "tokns")
    told = gain_values(gain)
    assert told["gain"]["eval/pass@1"]["value"] == gain.figures["eval/pass@1"].value
    assert (told["ours"]["name"], told["theirs"]["name"]) == (str(tmp_path), str(finished))
    (own,) = find_gains(finished)
    assert own.theirs.name == "the start"
    stored = json.loads((finished / "summary.json").read_text())["metrics"]
    assert own.figures["eval/reward"].value == pytest.approx(stored["gain/reward"]["value"])
    assert own.side_figures[1]["eval/reward"].value == pytest.approx(stored["start/reward"]["value"])


def test_no_mean_is_taken_over_runs_that_differ_in_more_than_the_seed(finished: Path, tmp_path: Path) -> None:
    from rlx.evaluation.compare import find_gains

    for name, word in (("0", "seed: 0"), ("1", "seed: 1")):
        shutil.copytree(finished, tmp_path / name)
        config = (tmp_path / name / "config.yaml").read_text()
        (tmp_path / name / "config.yaml").write_text(config.replace("seed: 0\nsteps", f"{word}\nsteps"))
    (gain,) = find_gains(tmp_path, finished)
    assert gain.num_runs == (2, 1)
    other = config.replace("lambda_call: 0.02", "lambda_call: 0.5")
    assert other != config
    (tmp_path / "1" / "config.yaml").write_text(other)
    with raises_naming(EvaluateError, tmp_path, "env.lambda_call"):
        find_gains(tmp_path, finished)
    (tmp_path / "1" / "config.yaml").write_text(config.replace("steps: 3", "steps: 4"))
    with raises_naming(EvaluateError, tmp_path, "(steps)"):
        find_gains(finished, tmp_path)


@dataclass(frozen=True)
class Untested(Countdown):
    """Nothing is held out."""

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return iter(()) if split == "test" else super().tasks(split, seed)


def test_an_evaluation_that_cannot_be_is_refused_before_anything_is_trained(small_run: Build, tmp_path: Path) -> None:
    run = small_run(tmp_path)
    with raises_naming(EvaluateError, "test split", "no tasks"):
        train(replace(run, env=Untested()), QUIET)
    assert not (tmp_path / "checkpoints").exists()


def test_an_evaluation_takes_what_the_test_split_has(small_run: Build, tmp_path: Path) -> None:
    train(small_run(tmp_path, "env.num_test=1", "steps=1", "evaluate.num_tasks=9"), QUIET)
    assert "1 held-out problem x 2 samples = 2 episodes a row" in (tmp_path / "results.md").read_text()


def test_a_finished_run_is_told_again_and_not_done_again(finished: Path, small_run: Build) -> None:
    made = (finished / "summary.json").stat().st_mtime_ns
    summary = train(small_run(finished), QUIET)
    assert summary.status == "finished"
    assert (finished / "summary.json").stat().st_mtime_ns == made


def test_a_run_cut_off_after_its_evaluation_does_not_play_it_again(
    small_run: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))
    words = ("steps=1", "evaluate.max_rounds=[2,1]")
    whole = train(small_run(tmp_path / "run", *words), QUIET)
    (tmp_path / "run" / "summary.json").unlink()
    played: list[str] = []
    play = EvaluationPlayer.play_rest

    def spy(player: EvaluationPlayer, *rest: Any) -> Any:
        played.append(player.noun)
        return play(player, *rest)

    monkeypatch.setattr(EvaluationPlayer, "play_rest", spy)
    assert train(small_run(tmp_path / "run", *words), QUIET).metrics == whole.metrics
    assert not played
    train(small_run(tmp_path / "run", *words, "steps=2"), QUIET)
    assert set(played) == {"eval"}, "another policy is evaluated anew"


def test_a_run_that_has_gone_further_is_not_cut_short(finished: Path, small_run: Build) -> None:
    before = (finished / "config.yaml").read_bytes()
    with raises_naming(FolderError, "steps=2", finished / "checkpoints" / "step-3"):
        train(small_run(finished, "steps=2"), QUIET)
    assert (finished / "config.yaml").read_bytes() == before


def test_evaluations_on_the_way_join_the_metrics_and_change_nothing_else(
    finished: Path, small_run: Build, tmp_path: Path
) -> None:
    train(small_run(tmp_path, "evaluate.interval=2"), QUIET)
    lines = told(tmp_path)
    assert [any(name.startswith("eval/pass@") for name in line) for line in lines] == [False, True, False]
    without = [{k: v for k, v in line.items() if not k.startswith("eval")} for line in lines]
    assert without == told(finished)


@pytest.mark.parametrize("algo", ["sft", "ipo", "rloo", "grpo", "tool_sft", "tool_rloo"])
def test_every_algorithm_goes_through_a_step(algo: str, small_run: Build, tmp_path: Path) -> None:
    words = (f"algo={algo}", "algo.num_prompts=2", "steps=1")
    train(small_run(tmp_path, *words, without=("algo", "steps")), QUIET)
    (line,) = told(tmp_path)
    assert line["episode/errors"] == 0
    assert line.get("gap/engine", 0.0) < 1e-4


@dataclass(frozen=True, kw_only=True)
class TwoTasks(Countdown):
    """Countdown with two problems to train on, again and again."""

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        found = super().tasks(split, seed)
        return cycle(islice(found, 2)) if split == "train" else found


def test_groups_of_one_task_in_a_step_are_sampled_apart(tmp_path: Path, small_run: Build) -> None:
    train(replace(small_run(tmp_path, "steps=1", "algo.num_prompts=4"), env=TwoTasks()), QUIET)
    groups = load_groups(step_path(tmp_path, 1))
    assert [group.task.id for group in groups[:2]] == [group.task.id for group in groups[2:]]
    for first, again in zip(groups[:2], groups[2:], strict=True):
        for one, other in zip(first.trajectories, again.trajectories, strict=True):
            assert one.turns[0].prompt_ids == other.turns[0].prompt_ids
            assert one.turns[0].completion.token_ids != other.turns[0].completion.token_ids


def test_a_frozen_policy_acts_as_it_began_after_an_evaluation_on_the_way_too(tmp_path: Path, small_run: Build) -> None:
    def sampled(*words: str) -> list[Any]:
        run = small_run(tmp_path / str(len(words)), "algo=ipo", *SIZES, "steps=2", *words, without=("algo", "steps"))
        train(run, QUIET)
        return [t.turns for group in load_groups(step_path(run.folder, 2)) for t in group.trajectories]

    judged = sampled("evaluate.interval=1")
    assert {turn.completion.version for turns in judged for turn in turns} == {0}
    assert judged == sampled()


SIZES = ("algo.num_prompts=2", "algo.num_samples=2")
