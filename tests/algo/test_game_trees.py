"""Trees of games: each agent's credit is that of the tree of all agents' turns, with the agent's own rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from rlx.algo.at2po import backed_up_values
from rlx.algo.branches import until_contrast
from rlx.algo.carl import tree_outcome
from rlx.algo.credit import by_token
from rlx.algo.forks import every_state, in_rounds, least_likely_tokens, uniform_states
from rlx.algo.parts import Credit, Credited, Sampler
from rlx.algo.tree import progressive, tree_difference
from rlx.environment.agents import groups_of_agents
from rlx.learner.batch import collate
from rlx.learner.returned import call_credit
from rlx.learner.rows import decisions, game_decisions, rows
from rlx.types import Action, Completion, Fork, Group, Start, Task, Trajectory, Turn
from tests.algo.test_methods import ESTIMATORS
from tests.algo.trees import Process, grow
from tests.loops import for_each

AGENTS = ("A", "B")
Place = tuple[int, int]
"""Sample, and turn of the game."""
SAMPLERS: Mapping[str, Sampler] = {
    "carl": progressive(3, 9, "largest", 2),
    "tree_grpo": in_rounds(2, 2, 8, uniform_states(2)),
    "vineppo": in_rounds(2, 1, 99, every_state(3, 16), always=False),
    "branpo": until_contrast(4, 0.6),
    "in mid-turn": in_rounds(3, 1, 12, least_likely_tokens(2, 2)),
}
FOLLOWS_CHILDREN = ("carl", "at2po_mean")
"""Means over children, which a cut in another agent's turn would weigh otherwise; these methods fork whole turns."""
EQUAL = (
    *FOLLOWS_CHILDREN,
    "carl_outcome",
    "at2po_leaves",
    "at2po_leaf",
    "arpo",
    "tree_grpo",
    "tree_grpo_tree",
    "branpo",
)


class Game(Process):
    """A process whose turns are taken by A, by B, and then by either, and pay the other one too."""

    def play(self, start: Start) -> Trajectory:
        played = super().play(start)
        turns = tuple(turn if turn.agent else self.taken(number, turn) for number, turn in enumerate(played.turns))
        return replace(played, turns=turns)

    def taken(self, number: int, turn: Turn) -> Turn:
        agent = AGENTS[number] if number < 2 else AGENTS[sum(turn.prompt_ids) % 2]
        other = AGENTS[agent == "A"]
        return replace(turn, agent=agent, rewards={other: self.rng.choice([-1.0, 0.0, 0.5])})


def of_agent(agent: str, group: Group) -> Group:
    """The game as if the agent took every turn: its own rewards in each."""

    def earned(turn: Turn) -> float:
        return turn.reward if turn.agent == agent else turn.rewards[agent]

    return replace(
        group,
        trajectories=tuple(
            replace(one, turns=tuple(replace(turn, agent="", reward=earned(turn), rewards={}) for turn in one.turns))
            for one in group.trajectories
        ),
    )


def by_place(places: Sequence[Place], found: Credited) -> dict[Place, tuple[list[float], bool]]:
    """Advantages, and whether anything is kept, by place; a turn whose tokens are all alike has one advantage."""
    kept = [[1.0]] * len(places) if found.keep is None else by_token(found.keep)
    return {
        place: (sorted({round(float(x), 9) for x in values}), any(keep))
        for place, values, keep in zip(places, by_token(found.advantage), kept, strict=True)
    }


def credit_of_agent(agent: str, group: Group, credit: Credit) -> dict[Place, tuple[list[float], bool]]:
    own = groups_of_agents([group], {"": (agent,)})
    places = [(d.episode.sample, d.turn) for d in game_decisions(own) if not d.is_other]
    assert len(places) == len(list(decisions(own)))
    return by_place(places, call_credit(credit, rows(own, collate(own))))


def credit_of_game(agent: str, group: Group, credit: Credit) -> dict[Place, tuple[list[float], bool]]:
    alone = [of_agent(agent, group)]
    places = [(d.episode.sample, d.turn) for d in decisions(alone)]
    takes = {(one.sample, turn): sampled.agent for one in group.trajectories for turn, sampled in enumerate(one.turns)}
    found = by_place(places, call_credit(credit, rows(alone, collate(alone))))
    return {place: value for place, value in found.items() if takes[place] == agent}


@for_each("sampler", SAMPLERS)
def test_credit_of_an_agent_is_that_of_the_tree_of_the_game(sampler: str) -> None:
    is_cut = sampler == "in mid-turn"
    names = (
        [*EQUAL, "vineppo"]
        if sampler == "vineppo"
        else [name for name in EQUAL if not (is_cut and name in FOLLOWS_CHILDREN)]
    )
    num_lost = 0
    for seed in range(12):
        group = grow(SAMPLERS[sampler], Game(seed, length=5, tokens=3).play, Random(seed))
        for agent in AGENTS:
            own = groups_of_agents([group], {"": (agent,)})[0]
            num_lost += sum(one.fork is not None and not one.new_turns for one in own.trajectories)
            for name in names:
                found, game = (of(agent, group, ESTIMATORS[name]) for of in (credit_of_agent, credit_of_game))
                assert found.keys() == game.keys(), name
                for place, (values, keep) in found.items():
                    assert values == pytest.approx(game[place][0], abs=1e-7), (name, seed, agent, place)
                    assert keep == game[place][1], (name, seed, agent, place)
    assert num_lost > 5 or sampler == "branpo", "forks after which an agent has no turn"


TASK = Task(id="t", prompt=(), data={})


def said(agent: str, word: int, reward: float = 0.0, prompt: tuple[int, ...] = (9,), **more: float) -> Turn:
    return Turn(
        prompt_ids=prompt,
        completion=Completion(token_ids=(word,), logprobs=(-1.0,), stop="stop"),
        action=Action(kind="answer", text=str(word)),
        reward=reward,
        agent=agent,
        rewards=more,
    )


def game(sample: int, *turns: Turn, fork: int | None = None) -> Trajectory:
    left = None if fork is None else Fork(parent=0, turn=fork)
    return Trajectory(task=TASK, sample=sample, turns=turns, status="done", fork=left)


ONE = said("B", 1)
ENDINGS = [said("A", word, prompt=(9, 1), B=pay) for word, pay in enumerate((1.0, -1.0, -1.0, -1.0))]
LOSING = Group(
    task=TASK,
    trajectories=(
        game(0, ONE, ENDINGS[0]),
        *(game(number, ONE, ENDINGS[number], fork=1) for number in (1, 2, 3)),
        game(4, said("B", 2), fork=0),
    ),
)
"""B says 1, and A's four endings pay B +1, -1, -1, -1. B's other word pays 0."""


def test_a_word_whose_endings_another_agent_chose_is_worth_the_mean_of_them() -> None:
    expected = {(0, 0): -0.25, (4, 0): 0.25}  # Q is -.5 and 0, V is -.25
    for credit in (tree_difference("critical"), tree_difference("critical", merge=True), tree_difference("all")):
        found = credit_of_agent("B", LOSING, credit)
        assert {place: values[0] for place, (values, _) in found.items()} == pytest.approx(expected)
        assert all(keep for _, keep in found.values())
    for name in ("arpo", "carl_outcome", "tree_grpo", "at2po_mean", "at2po_leaves", "treerl"):
        credit = ESTIMATORS[name]
        assert credit_of_agent("B", LOSING, credit)[0, 0][0][0] < 0 < credit_of_agent("B", LOSING, credit)[4, 0][0][0]


def test_turns_after_different_words_of_another_agent_are_no_siblings() -> None:
    """B's second turn follows A's first word in one episode, and A's other word in a fork of A's turn."""
    first = game(0, said("B", 1), said("A", 1, prompt=(8,)), said("B", 3, 1.0, prompt=(9, 1)))
    fork = game(1, said("B", 1), said("A", 2, prompt=(8,)), said("B", 3, 0.0, prompt=(9, 2)), fork=1)
    group = Group(task=TASK, trajectories=(first, fork))
    own = groups_of_agents([group], {"": ("B",)})
    found = tree_difference("critical")(rows(own, collate(own)))
    assert found.metrics == {"tree/edges": 3, "tree/critical": 0}
    assert credit_of_agent("B", group, tree_outcome("critical"))[0, 2][1] is False


def test_an_agent_inherits_from_its_own_turn_and_not_from_anothers() -> None:
    """Equation 14: B's last turns have no siblings. Those of A before them have, and say nothing of B's choices."""
    group = Group(
        task=TASK,
        trajectories=(
            game(0, said("B", 1), said("A", 1, prompt=(8,)), said("B", 3, 1.0, prompt=(9, 1))),
            game(1, said("B", 1), said("A", 2, prompt=(8,)), said("B", 3, 0.0, prompt=(9, 2)), fork=1),
            game(2, said("B", 2, -1.0), fork=0),
        ),
    )
    found = credit_of_agent("B", group, tree_difference("all"))
    assert {place: values[0] for place, (values, _) in found.items()} == pytest.approx(
        {(0, 0): 0.75, (0, 2): 0.75, (1, 2): 0.75, (2, 0): -0.75}
    )


def test_hidden_words_of_the_agent_keep_states_of_the_other_apart_where_texts_are_merged() -> None:
    """A does not see what B said, so A's texts are equal; what B earns depends on it."""
    group = Group(
        task=TASK,
        trajectories=(
            game(0, said("B", 1), said("A", 1, prompt=(8,), B=1.0)),
            game(1, said("B", 2), said("A", 1, prompt=(8,), B=0.0), fork=0),
        ),
    )
    found = credit_of_agent("B", group, tree_difference("critical", merge=True))
    assert {place: values[0] for place, (values, _) in found.items()} == pytest.approx({(0, 0): 0.5, (1, 0): -0.5})


def test_without_forks_an_agents_rows_are_its_own_turns_alone() -> None:
    own = groups_of_agents([Group(task=TASK, trajectories=(LOSING.trajectories[0],))], {"": ("B",)})
    seen = rows(own, collate(own))
    assert (seen.turn, seen.reward, seen.other) == ((0,), (1.0,), ())


def test_softmax_of_values_weighs_the_words_of_another_agent_alike() -> None:
    found, mean = (
        credit_of_agent("B", LOSING, backed_up_values(of, "parent")) for of in ("child_softmax", "child_mean")
    )
    assert found == mean
