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

from rlx.algo.grpo import grpo
from rlx.algo.parts import Optimizer
from rlx.algo.samplers import independent, leave
from rlx.base.console import Screen
from rlx.env.countdown.countdown import Countdown
from rlx.env.game.guess_the_number import GuessEpisode, GuessTheNumber
from rlx.env.game.turns import go_on as answered
from rlx.env.mixed.mixture import Mixture, Portion
from rlx.environment.world import environment_turns
from rlx.evaluation.budget import cut_groups
from rlx.evaluation.replay import replay
from rlx.learner.batch import collate
from rlx.learner.rows import rows
from rlx.model.chat import find_marks
from rlx.protocol.direct import Direct
from rlx.protocol.tags import Tags
from rlx.run.trainee import build_trainee
from rlx.training import train
from rlx.types import Action, Group, Sampling, Step, Task, Trajectory, Turn
from tests.errors import raises_naming


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
    agent = build_trainee(run, run.model)
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
        told = Tags().bind(Countdown.tools, ()).open(group.task)
        if group.task.env == "guess":
            told = "Guess the number that I think of. You have 4 guesses.\nIt is a number from 1 to 20.\n"
        assert starts == {told}
    assert_learner_agrees(agent, groups)
    table = rows(groups, collate(groups))
    assert {group: groups[group].task.env for group in table.group} == dict(enumerate(g.task.env for g in groups))


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize(("window", "agent_turns"), [(None, True), (1, True), (0, True), (None, False)])
def test_the_learner_finds_the_engines_log_probs_whatever_a_turn_remembers(
    agent: Any, small_run: Build, tmp_path: Path, window: int | None, agent_turns: bool, chat: bool
) -> None:
    run, encoded = small_run(tmp_path), []
    env = Patient(high=20, max_turns=4)
    tokenizer = agent.tokenizer
    if chat:
        tokenizer = type(tokenizer)(tokenizer_object=tokenizer.backend_tokenizer, chat_template=CHAT)
    encode = agent.policy.speech.encode
    speech = replace(
        agent.policy.speech,
        dialect=Direct(window=window, agent_turns=agent_turns),
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
            ends = [t.completion.token_ids for t in episode.turns[first:index] if agent_turns]
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
    from rlx.settings.build import build_part
    from rlx.settings.saved import load_tree

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


SUMMING = Direct(summarise_at=40, summary_tokens=6)
GUESSING = Patient(high=20, max_turns=4)


def test_a_policy_that_sums_up_goes_on_from_what_it_said_and_learns_from_it(
    agent: Any, small_run: Build, tmp_path: Path
) -> None:
    run = small_run(tmp_path)
    speech = replace(agent.policy.speech, dialect=SUMMING)
    groups = play(agent, run, GUESSING, speech, num_tasks=4)
    episodes = [t for group in groups for t in group.trajectories]
    assert_learner_agrees(agent, groups)
    assert max(len(environment_turns(t.turns)) for t in episodes) == 4  # as without summaries
    for episode in episodes:
        for index, turn in enumerate(episode.turns):
            past = episode.turns[:index]
            summed = [i for i, one in enumerate(past) if one.action.kind == "summary"]
            asked = bool(past) and past[-1].action.kind != "summary" and len(in_all(past[-1])) >= 40
            assert (turn.action.kind == "summary") == asked
            if asked:
                assert len(turn.completion.token_ids) <= 6
                assert (turn.reward, turn.observation) == (0.0, ())
                assert speech.decode(turn.prompt_ids).endswith(SUMMING.ask)
            elif summed:
                last = past[summed[-1]].completion
                said = f"{SUMMING.open(episode.task)}So far: ", "" if last.stop == "stop" else "\n"
                begins = [*speech.encode(said[0][: -len("So far: ")]), *speech.encode("So far: "), *last.token_ids]
                begins += [*speech.encode(said[1])] if said[1] else []
                begins += speech.encode(SUMMING.say(past[summed[-1] - 1].observation))
                assert list(turn.prompt_ids[: len(begins)]) == begins
    kinds = [turn.action.kind for t in episodes for turn in t.turns]
    assert kinds.count("summary") > len(episodes)
    batch = collate(groups)
    sampled = [token for t in episodes for turn in t.turns for token in turn.completion.token_ids]
    assert batch.token_ids_N[batch.position_M].tolist() == sampled  # those of summaries too
    table = rows(groups, batch)
    credited = grpo(optimizer=Optimizer()).credit(table).advantage.values
    by_episode: dict[int, set[float]] = {}
    for trajectory, advantage in zip(table.trajectory, credited, strict=True):
        by_episode.setdefault(trajectory, set()).add(float(advantage))
    assert all(len(values) == 1 for values in by_episode.values())  # a summary has its episode's credit


def test_in_messages_a_summary_is_the_agents_own(agent: Any, small_run: Build, tmp_path: Path) -> None:
    tokenizer = type(agent.tokenizer)(tokenizer_object=agent.tokenizer.backend_tokenizer, chat_template=CHAT)
    speech = replace(agent.policy.speech, dialect=SUMMING, marks=find_marks(tokenizer))
    groups = play(agent, small_run(tmp_path), GUESSING, speech, num_tasks=2)
    assert_learner_agrees(agent, groups)
    contexts = [
        (speech.decode(past.completion.token_ids), speech.decode(turn.prompt_ids))
        for group in groups for t in group.trajectories for past, turn in zip(t.turns, t.turns[1:])
        if past.action.kind == "summary"
    ]  # fmt: skip
    assert contexts
    assert all(f"So far: <|end|><answer>{said}" in context for said, context in contexts)


def test_an_episode_in_one_message_is_a_transition_each_turn(agent: Any, small_run: Build, tmp_path: Path) -> None:
    """GEM's prompts: no turn continues the one before, and each is trained after the context it was sampled in."""
    tokenizer = type(agent.tokenizer)(tokenizer_object=agent.tokenizer.backend_tokenizer, chat_template=CHAT)
    for agent_turns in (False, True):
        dialect = Direct(agent_turns=agent_turns, prompt_template="qwen3_game")
        speech = replace(agent.policy.speech, dialect=dialect, marks=find_marks(tokenizer))
        groups = play(agent, small_run(tmp_path / str(agent_turns)), Patient(high=20, max_turns=4), speech, num_tasks=3)
        assert_learner_agrees(agent, groups)
        episodes = [t for group in groups for t in group.trajectories]
        assert max(len(t.turns) for t in episodes) == 4
        for episode in episodes:
            told = "Guess the number that I think of. You have 4 guesses.\nIt is a number from 1 to 20.\n"
            for turn in episode.turns:
                assert speech.decode(turn.prompt_ids) == (
                    "<think>You are playing language games. Make valid actions to win.\nObservation: "
                    f"{told.removesuffix(chr(10))}\nPlease reason step by step, and put your final answer within "
                    "\\boxed{}.<|end|><answer>"
                )
                told += speech.decode(turn.completion.token_ids).removesuffix("<|end|>") if agent_turns else ""
                told += f"{turn.observation[0].text}\n"
            for before, turn in zip(episode.turns, episode.turns[1:]):
                assert turn.prompt_ids[: len(in_all(before))] != in_all(before)
        batch = collate(groups)
        sampled = [token for t in episodes for turn in t.turns for token in turn.completion.token_ids]
        assert batch.token_ids_N[batch.position_M].tolist() == sampled


def lived(episode: Trajectory) -> list[Any]:
    """An episode without the rounding of its log-probs."""
    turns = [(t.prompt_ids, t.completion.token_ids, t.action, t.observation, t.reward) for t in episode.turns]
    return [episode.status, episode.success, *turns]


def in_all(turn: Turn) -> tuple[int, ...]:
    return turn.prompt_ids + turn.completion.token_ids


def test_a_fork_leaves_a_summary_in_its_middle_and_a_cut_is_the_play_under_that_limit(
    agent: Any, small_run: Build, tmp_path: Path
) -> None:
    run = small_run(tmp_path)
    policy = replace(agent.policy, speech=replace(agent.policy.speech, dialect=SUMMING))
    tasks = list(islice(GUESSING.tasks("train", 0), 3))
    whole, *shorter = (
        policy.rollout(GUESSING, run.sampling, ("test",), max_rounds=rounds).sample(independent(2), tasks)
        for rounds in (None, 1, 3)
    )
    for rounds, short in zip((1, 3), shorter):
        assert [lived(t) for g in cut_groups(whole, rounds, GUESSING) for t in g.trajectories] == [
            lived(t) for g in short for t in g.trajectories
        ]
    (parent, at) = next(
        (t, i) for g in whole for t in g.trajectories for i, turn in enumerate(t.turns)
        if turn.action.kind == "summary" and len(turn.completion.token_ids) > 2
    )  # fmt: skip
    (fork,) = policy.rollout(GUESSING, run.sampling, ("other",)).play([leave(parent, sample=9, turn=at, token=2)])
    assert fork.turns[:at] == parent.turns[:at]
    assert fork.turns[at].action.kind == "summary"
    assert fork.turns[at].completion.token_ids[:2] == parent.turns[at].completion.token_ids[:2]
    assert 2 <= len(fork.turns[at].completion.token_ids) <= 6
    assert fork.status != "error"


SHORT = (
    "env=game/guess_the_number_easy",
    "algo=grpo",
    "protocol=direct",
    "protocol.summarise_at=40",
    "protocol.summary_tokens=8",
    "warm_start=sft",
    "warm_start.steps=2",
    "sampling.max_new_tokens=8",
    "evaluate.max_new_tokens=8",
)


def test_a_run_with_summaries_warms_up_learns_replays_and_goes_on_to_the_same_bits(
    small_run: Build, tmp_path: Path, agent: Any
) -> None:
    without = ("env", "algo=", "warm_start", "steps", "sampling.max_new_tokens", "evaluate.max_new_tokens")

    def go(name: str, steps: int) -> list[dict[str, float]]:
        run = small_run(tmp_path / name, *SHORT, f"steps={steps}", without=without)
        train(replace(run, env=GUESSING), QUIET)
        return told(tmp_path / name)

    whole = go("whole", 3)
    go("run", 1)
    assert go("run", 3) == whole
    assert all(line["summary/turns"] > 0 for line in whole)
    assert all(0 < line["summary/tokens"] <= 8 for line in whole)
    assert all(line["episode/turns"] <= 4 for line in whole)
    dialect = Direct(summarise_at=40, summary_tokens=8)
    report = replay(tmp_path / "whole", GUESSING, speech=replace(agent.policy.speech, dialect=dialect))
    assert report.ok, str(report)
    (shown,) = demonstrated(agent, dialect)
    summaries = [turn.action.text for turn in shown.turns if turn.action.kind == "summary"]
    assert summaries
    assert all(len(text) > 3 for text in summaries)


def demonstrated(agent: Any, dialect: Direct) -> list[Trajectory]:
    policy, env = replace(agent.policy, speech=replace(agent.policy.speech, dialect=dialect)), GuessTheNumber(high=50)
    return policy.rollout(env, Sampling(), ()).demonstrate(list(islice(env.tasks("train", 0), 1)))


def test_a_summary_without_room_is_refused(small_run: Build, tmp_path: Path) -> None:
    room = ("sampling.max_context=1024", "protocol.summary_tokens=34")
    with raises_naming(ValueError, "protocol.summarise_at=990", 990):
        small_run(tmp_path, *room, "protocol.summarise_at=990")
    small_run(tmp_path, *room, "protocol.summarise_at=989")
