"""Two environments with protocols and actions of their own in one batch, on the real engine and learner; windows of
turns and messages of a chat, whose log-probs the learner finds again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from rlx.algo.parts import independent
from rlx.console import Screen
from rlx.env.countdown import Countdown
from rlx.env.game.guess_the_number import GuessEpisode, GuessTheNumber
from rlx.env.game.turns import told as answered
from rlx.env.mixture import Mixture, Portion
from rlx.evaluate.replay import replay
from rlx.learner.batch import collate, rows
from rlx.model.chat import find_marks
from rlx.protocol.direct import Direct
from rlx.protocol.tags import Tags
from rlx.run.agent import build_agent
from rlx.train import train
from rlx.types import Action, Group, Step, Task


@dataclass(frozen=True, kw_only=True)
class Patient(GuessTheNumber):
    """A turn that cannot be read costs the turn, so that what knows nothing plays to the end."""

    def start(self, task: Task) -> GuessEpisode:
        return PatientEpisode(**task.data)


class PatientEpisode(GuessEpisode):
    def play(self, action: Action) -> Step:
        return super().play(action) or answered("Error: guess a number")

    def step(self, action: Action) -> Step:
        return super().step(replace(action, kind="act"))

    def at_limit(self, step: Step) -> float:
        return 0.0


Build = Callable[..., Any]
QUIET = Screen(silent=True)
CHAT = (
    "{% for m in messages %}{{ '<think>' if m['role'] == 'user' else '<answer>' }}{{ m['content'] }}<|end|>"
    "{% endfor %}<answer>"
)
MIX = Mixture(
    parts={
        "countdown": Portion(env=Countdown(max_rounds=2)),
        "guess": Portion(env=Patient(high=20, max_turns=4), protocol=Direct(), weight=2.0),
    }
)


@pytest.fixture(scope="module")
def agent(small_run: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    run = small_run(tmp_path_factory.mktemp("run"))
    agent = build_agent(run, run.model)
    yield agent
    agent.learner.close()
    agent.policy.engine.close()


def play(agent: Any, run: Any, env: Any, speech: Any, num_tasks: int = 6, num_samples: int = 3) -> list[Group]:
    policy = replace(agent.policy, speech=speech)
    rollout = policy.rollout(env, run.sampling, ("test",))
    return rollout.sample(independent(num_samples), list(islice(env.tasks("train", 0), num_tasks)))


def assert_learner_agrees(agent: Any, groups: list[Group]) -> None:
    batch = collate(groups)
    assert torch.allclose(agent.learner.measure(batch)["logp"], batch.engine_logp_M, atol=1e-4)


def test_two_environments_with_protocols_of_their_own_learn_from_one_batch(
    agent: Any, small_run: Build, tmp_path: Path
) -> None:
    run = small_run(tmp_path)
    groups = play(agent, run, MIX, agent.policy.speech)
    assert [group.task.env for group in groups] == ["guess", "countdown", "guess", "guess", "countdown", "guess"]
    for group in groups:
        assert {(t.task.env, t.task.id) for t in group.trajectories} == {(group.task.env, group.task.id)}
        assert all(t.status != "error" for t in group.trajectories)
        kinds = {turn.action.kind for t in group.trajectories for turn in t.turns}
        assert kinds <= ({"act", "invalid"} if group.task.env == "guess" else {"call", "answer", "invalid"})
        starts = {agent.policy.speech.decode(t.turns[0].prompt_ids) for t in group.trajectories}
        told = Tags().bound(Countdown.tools, ()).open(group.task)
        if group.task.env == "guess":
            told = "Guess the number that I think of. You have 4 guesses.\nIt is a number from 1 to 20.\n"
        assert starts == {told}
    assert_learner_agrees(agent, groups)
    table = rows(groups, collate(groups))
    assert {group: groups[group].task.env for group in table.group} == dict(enumerate(g.task.env for g in groups))


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("window", [None, 1, 0])
def test_the_learner_finds_the_engines_log_probs_whatever_a_turn_remembers(
    agent: Any, small_run: Build, tmp_path: Path, window: int | None, chat: bool
) -> None:
    run, encoded = small_run(tmp_path), []
    env = Patient(high=20, max_turns=4)
    tokenizer = agent.tokenizer
    if chat:
        tokenizer = type(tokenizer)(tokenizer_object=tokenizer.backend_tokenizer, chat_template=CHAT)
    encode = agent.policy.speech.encode
    speech = replace(
        agent.policy.speech,
        dialect=Direct(window=window),
        encode=lambda text: encoded.append(text) or encode(text),
        marks=find_marks(tokenizer) if chat else {},
    )
    groups = play(agent, run, env, speech, num_tasks=3)
    episodes = [t for group in groups for t in group.trajectories]
    assert max(len(t.turns) for t in episodes) == 4
    assert_learner_agrees(agent, groups)
    for episode in episodes:
        for index, turn in enumerate(episode.turns):
            first = 0 if window is None else max(0, index - window)
            ends = [t.completion.token_ids for t in episode.turns[first:index]]
            kept = list(turn.prompt_ids)
            for ids in ends:  # as they were sampled, one after the other
                assert any(tuple(kept[i : i + len(ids)]) == ids for i in range(len(kept)))
            if not chat:
                seen = "It is a number from 1 to 20." if not first else episode.turns[first - 1].observation[0].text
                assert speech.decode(turn.prompt_ids).startswith(
                    f"Guess the number that I think of. You have 4 guesses.\n{seen}\n"
                )
    texts = [{*(t.turns[i].observation[0].text for i in range(len(t.turns) - 1))} for t in episodes]
    assert len(encoded) == sum(2 + len(observed) for observed in texts)  # prompt, opening, and each once
    trained = collate(groups)
    sampled = [token for t in episodes for turn in t.turns for token in turn.completion.token_ids]
    assert trained.token_ids_N[trained.position_M].tolist() == sampled


WORDS = (
    "env=mixture",
    "env@env.parts.second.env=game/guess_the_number",
    "env.parts.first.env.max_rounds=2",
    "env.parts.second.env.high=20",
    "env.parts.second.env.max_turns=4",
    "steps=2",
    "algo.num_prompts=3",
    "evaluate.num_tasks=4",
)


@pytest.fixture(scope="module")
def mixed(small_run: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed") / "run"
    train(small_run(folder, *WORDS, without=("env", "steps", "algo.num_prompts", "evaluate.num_tasks")), QUIET)
    return folder


def told(folder: Path) -> list[dict[str, float]]:
    """Metrics, but for the clock's."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {name: value for name, value in line.items() if not name.startswith(("time/", "rate/", "memory/"))}
        for line in lines
    ]


def test_a_mixture_has_metrics_of_each_part_and_of_all(mixed: Path) -> None:
    for line in told(mixed):
        whole, parts = line["success/mean"], [line[f"{name}/success/mean"] for name in ("first", "second")]
        assert min(parts) <= whole <= max(parts)
        assert "first/tool/calls" in line
        assert "second/tool/calls" not in line
    metrics = json.loads((mixed / "summary.json").read_text())["metrics"]
    for name in ("eval/pass@1", "eval/first/pass@1", "eval/second/pass@1", "eval/second/episode/turns"):
        assert 0 <= metrics[name]["value"] <= 4
    assert "second" in (mixed / "results.md").read_text()


def test_a_mixture_replays_by_the_names_of_its_parts(mixed: Path, agent: Any) -> None:
    from rlx.config.build import build_part
    from rlx.config.saved import load_tree

    tree = load_tree(mixed)
    env, protocol = build_part(tree, "env"), build_part(tree, "protocol")
    report = replay(mixed, env, speech=replace(agent.policy.speech, dialect=protocol))
    assert report.ok, str(report)
    assert report.num_trajectories == 2 * 3 * 2 + 2 * 4 * 2


def test_a_mixture_that_was_cut_off_goes_on_to_the_same_bits(mixed: Path, small_run: Build, tmp_path: Path) -> None:
    without = ("env", "steps", "algo.num_prompts", "evaluate.num_tasks")
    train(small_run(tmp_path / "run", *WORDS, "steps=1", without=without), QUIET)
    train(small_run(tmp_path / "run", *WORDS, without=without), QUIET)
    assert told(tmp_path / "run") == told(mixed)
