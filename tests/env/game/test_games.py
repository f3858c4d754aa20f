"""What every game owes, each option of conf/env/game by itself: splits apart, tasks in JSON, episodes that replay,
experts that win, an end to every game, and an answer to whatever is said."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.config.folders import list_options, read_option, shipped_folder
from rlx.env.game.tower_of_hanoi import TowerOfHanoi
from rlx.protocol.boxed import Boxed
from rlx.protocol.direct import Direct
from rlx.random_play import tries_of
from rlx.types import Action, Step, Task
from rlx.world import dialect_of, moves_of

GAMES = [name for name in list_options("env", [shipped_folder("conf")]) if name.startswith("game/")]
NUM = 4
"""Tasks of each split that are looked at."""
TEXT = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["", " ", "1", "1 1 1", "a", "A B", "up", "crane", "0 0", "9" * 50, "١", "\x1b[2J", "x" * 100_000]),
)


@cache
def make(name: str) -> Any:
    keys = read_option("env", name)
    module, _, what = keys.pop("_target_").rpartition(".")
    return getattr(import_module(module), what)(**keys)


@cache
def some(name: str, split: str) -> tuple[Task, ...]:
    return tuple(islice(make(name).tasks(split, 0), NUM))


def actions(name: str) -> st.SearchStrategy[Action]:
    """Of every kind, most of them declared ones."""
    declared = st.builds(lambda verb, text: Action(kind="act", name=verb.name, text=text), verbs(name), TEXT)
    other = st.builds(Action, kind=st.sampled_from(["answer", "call", "invalid"]), text=TEXT, name=st.just("x"))
    return st.one_of(declared, declared, declared, other)


def verbs(name: str) -> st.SearchStrategy[Any]:
    return st.sampled_from(make(name).actions)


def played(episode: Any, moves: Iterable[Action]) -> Iterator[Step]:
    """Steps up to the end."""
    for action in moves:
        step: Step = episode.step(action)
        yield step
        if step.done:
            return


def starts_alike(env: Any) -> bool:
    """Games that have but one start, by their rules: both splits are the same, and a score is one of memory."""
    return isinstance(env, TowerOfHanoi) and not env.scattered


@pytest.mark.parametrize("name", GAMES)
def test_splits_never_overlap_and_the_test_is_the_same_for_every_seed(name: str) -> None:
    env = make(name)
    test = [task.id for task in islice(env.tasks("test", 0), 20)]
    assert test == [task.id for task in islice(env.tasks("test", 1), 20)]
    assert test
    assert len(test) == len(set(test))
    train = [task.id for task in islice(env.tasks("train", 0), 20)]
    if env.apart:
        assert set(test).isdisjoint(train)
    else:
        assert set(test) & set(train)
    assert train == [task.id for task in islice(env.tasks("train", 0), 20)]
    if len(set(train)) > 10:
        assert train != [task.id for task in islice(env.tasks("train", 1), 20)]
    with pytest.raises(ValueError, match=r"^split=other: expected train or test"):
        env.tasks("other", 0)


@pytest.mark.parametrize("name", GAMES)
def test_a_task_is_json_and_all_that_an_episode_needs(name: str) -> None:
    for task in some(name, "train"):
        again = replace(task, data=json.loads(json.dumps(task.data)))
        assert again.data == task.data
        assert make(name).start(again).opening() == make(name).start(task).opening()
        assert len(task.id) < 500


@pytest.mark.parametrize("name", GAMES)
def test_a_task_tells_its_limit_of_turns_and_the_game_ends_there(name: str) -> None:
    assert make(name).pace == "inline"
    for task in some(name, "test")[:2]:
        assert str(task.data["max_turns"]) in task.prompt[0].text
        for seed in range(3):
            moves = tries_of(make(name), task, 1, seed) if make(name).has_random_tries else iter(())
            first = next(moves, Action(kind="act", name=make(name).actions[0].name, text="1"))
            steps = list(played(make(name).start(task), [first] * (task.data["max_turns"] + 5)))
            assert len(steps) <= task.data["max_turns"]
            assert steps[-1].done
            assert steps[-1].success is not None


@pytest.mark.parametrize("name", GAMES)
def test_the_same_actions_give_the_same_steps_and_a_game_won_is_worth_one(name: str) -> None:
    env = make(name)
    for seed, task in enumerate(some(name, "train")):
        moves = [move.action for move in moves_of(env, task, seed, ())] if env.has_expert else []
        moves = moves or list(tries_of(env, task, 5, seed))
        first, second = env.start(task), env.start(task)
        assert first.opening() == second.opening()
        steps = list(played(first, moves))
        assert steps == list(played(second, moves))
        if steps[-1].success:
            assert sum(step.reward for step in steps) == pytest.approx(1.0)


@pytest.mark.parametrize("name", GAMES)
def test_what_an_expert_says_is_heard(name: str) -> None:
    env = make(name)
    if not env.has_expert:
        pytest.skip("it has no expert")
    for protocol in (Boxed(), Direct()):
        dialect = dialect_of(env, protocol)
        for move in islice(moves_of(env, some(name, "train")[0], 0, ()), 5):
            said = replace(move, thought="") if isinstance(protocol, Direct) else move
            assert dialect.parse(dialect.write(said), "stop") == move.action


@pytest.mark.parametrize("name", GAMES)
@given(data=st.data())
def test_whatever_is_said_has_an_answer(name: str, data: st.DataObject) -> None:
    env = make(name)
    task = data.draw(st.sampled_from(some(name, "train")))
    steps = list(played(env.start(task), data.draw(st.lists(actions(name), min_size=1, max_size=4))))
    for step in steps:
        assert isinstance(step, Step)
        assert -0.1 <= step.reward <= 1.0
        assert step.done or step.observation
        assert max((len(part.text) for part in step.observation), default=0) < 5000


@pytest.mark.parametrize("name", GAMES)
def test_a_turn_that_cannot_be_read_ends_the_game_at_a_price(name: str) -> None:
    step = make(name).start(some(name, "train")[0]).step(Action(kind="invalid", text="it was cut off"))
    assert (step.reward, step.done, step.truncated, step.success) == (-0.1, True, False, False)
    assert "it was cut off" in step.observation[0].text


SAID = ("guess_the_number", "mastermind", "wordle", "hangman", "crosswords", "word_search")
"""Games of free moves; the others show a board on which a move is seen."""


@pytest.mark.parametrize("name", [name for name in GAMES if name.removeprefix("game/").startswith(SAID)])
def test_what_is_seen_says_what_was_done(name: str) -> None:
    """Whoever sees observations alone (protocol.said=false, GEM's concat) knows which moves were made."""
    env, task = make(name), some(name, "train")[0]
    moves = dict.fromkeys(tries_of(env, task, 12, 0))
    seen = [step.observation for move in moves for step in played(env.start(task), [move]) if not step.done]
    assert len(set(seen)) == len(seen) > 3


def test_actions_may_be_said_in_capitals() -> None:
    for name in GAMES:
        env = make(name)
        boxed = dialect_of(env, Boxed())
        for verb in env.actions if len(env.actions) > 1 else ():
            said = f"\\boxed{{{verb.name.upper()}{' 1 1' if verb.argument else ''}}}"
            assert boxed.parse(said, "eos").name == verb.name
