"""Stored and played episodes of several agents: each agent's own reward, success and context."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.commands.data import build_rows, show_row
from rlx.commands.find import Wanted, find_file, pick, scan
from rlx.commands.play import Play
from rlx.commands.show import show_episodes
from rlx.environment.agents import episode_of_agent
from rlx.protocol.direct import Direct
from rlx.rollout.episode import demonstrate_episode, worlds_of
from rlx.rollout.speech import Speech
from rlx.runs.results import AgentResult, read_earned, results_of_agents
from rlx.runs.store import save
from rlx.types import Action, Group, Move, Sampling, Task, Trajectory
from tests.duel import Duel

SPEECH = Speech(dialect=Direct(), encode=lambda text: list(text.encode()), decode=lambda ids: bytes(ids).decode())


class Shown(Duel):
    """The same, with an expert for both players: red wins an odd task by 3, and blue an even one."""

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        last = ("aaaa", "b") if int(task.id[-1]) % 2 else ("a", "bbbb")
        for word in ("a", "b", *last):
            yield Move(thought="", action=Action(kind="answer", text=word))


TASKS = list(Shown().tasks("test", 0))


def played(task: Task) -> Trajectory:
    return demonstrate_episode(worlds_of(Shown(), SPEECH)[""], task, 0)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that has not ended and trains blue; blue wins the first of two episodes, and red the second."""
    groups = [Group(task=task, trajectories=(played(task),)) for task in TASKS[:2]]
    save(tmp_path / "trajectories" / "step-000001.jsonl", groups, max_rounds=4)
    (tmp_path / "config.yaml").write_text("model: {path: nowhere}\npolicies: {red: {}}\n")
    return tmp_path


@pytest.mark.parametrize("task", TASKS[:2])
def test_the_results_are_those_of_the_learner(task: Task) -> None:
    episode = played(task)
    own = {agent: episode_of_agent(agent, episode) for agent in ("red", "blue")}
    assert results_of_agents([read_earned(turn) for turn in episode.turns], episode.success) == [
        AgentResult(agent, pytest.approx(one.reward), one.success) for agent, one in own.items()
    ]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["red", "blue"]),
            st.integers(-9, 9),
            st.dictionaries(st.sampled_from(["red", "blue"]), st.integers(-9, 9)),
        ),
        min_size=1,
    )
)
def test_rewards_add_up_to_those_of_the_learner(turns: list[tuple[str, int, dict[str, float]]]) -> None:
    """Also rewards that others' turns give before an agent's first."""
    (turn,) = played(TASKS[0]).turns[:1]
    made = tuple(
        replace(turn, agent=agent, reward=reward, rewards={name: x for name, x in rewards.items() if name != agent})
        for agent, reward, rewards in turns
    )
    episode = replace(played(TASKS[0]), turns=made)
    found = {result.agent: result.reward for result in results_of_agents([read_earned(one) for one in made], True)}
    assert found == {agent: episode_of_agent(agent, episode).reward for agent in found}


def test_an_episode_is_chosen_by_the_agent_that_the_run_trains(run: Path) -> None:
    file = find_file(run)
    assert [line.reward for line in scan(file, Wanted())] == pytest.approx([3.01, -2.99])
    assert [line.number for line in scan(file, Wanted(success=True))] == [1]
    assert pick(file, Wanted(), by="best").number == 1
    (run / "summary.json").write_text(json.dumps({"agents": {"": "red"}}))
    assert [line.reward for line in scan(file, Wanted())] == pytest.approx([-2.98, 3.02])
    assert [line.number for line in scan(file, Wanted(success=True))] == [2]
    assert pick(file, Wanted(), by="best").number == 2


def test_each_agent_is_shown_with_its_reward_and_success(run: Path) -> None:
    listed = list(show_episodes(run, "", Wanted(), listed=True))
    assert "blue solved 3.010, red failed -2.980" in listed[0]
    (told,) = show_episodes(run, "", Wanted())
    assert "red reward -2.980, not solved; blue reward 3.010, solved; 4 turns" in told
    assert "turn 4 of blue: answer, reward 3.000, reward of red -3.000" in told
    assert "observation of blue\n  red said 1" in told


def test_each_agent_is_shown_with_its_first_context(run: Path) -> None:
    (run / "config.yaml").write_text("model: {path: nano}\n")
    (told,) = show_episodes(run, "", Wanted())
    assert told.count("prompt of red\n") == told.count("prompt of blue\n") == 1


def test_a_played_episode_names_the_agent_of_each_turn() -> None:
    told: list[str] = []
    play = Play(world=worlds_of(Shown(), SPEECH)[""], task=TASKS[0], sampling=Sampling())
    play.run(iter(["a\n", "b\n", "a\n", "bbbb\n"]), told.append)
    text = "\n".join(told)
    assert "blue sees" in text
    assert text.count("You are red.") == text.count("You are blue.") == 1
    assert "turn 4 of blue: answer, 5 tokens, reward 3.000, reward of red -3.000" in text
    assert told[-1].startswith("red reward -2.980, not solved; blue reward 3.010, solved (done); 4 turns")


def test_the_data_has_a_trace_of_each_agent() -> None:
    red, blue = build_rows(Shown(), Direct(), "test", 0, 1)
    assert (red["agent"], blue["agent"]) == ("red", "blue")
    assert "You are red." in red["prompt"]
    assert "red said 1" in blue["prompt"]
    assert [turn["text"].strip() for turn in blue["turns"]] == ["b", "bbbb"]
    assert "red said" in blue["turns"][0]["observation"]
    assert (red["reward"], red["success"]) == (-2.98, False)
    assert (blue["reward"], blue["success"]) == (3.01, True)
    assert "blue" in show_row(blue).splitlines()[0]


def test_a_demonstration_that_fails_is_named_for_each_agent() -> None:
    rows = list(build_rows(Duel(), Direct(), "test", 0, 1))
    assert [row["agent"] for row in rows] == ["red", "blue"]
    assert all(row["error"] and not row["turns"] for row in rows)
