"""What every game owes, each option of conf/env/game by itself: splits apart, tasks in JSON, episodes that replay,
experts that win, an end to every game, and an answer to whatever is said."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from rlx.environment.random_play import tries_of
from rlx.environment.world import dialect_of, moves_of
from rlx.protocol.boxed import Boxed
from rlx.protocol.direct import Direct
from rlx.types import Action, Step
from tests.env.game.options import GAMES, NUM, make, some
from tests.env.steps import played
from tests.errors import raises_naming
from tests.loops import for_each

TEXT = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["", " ", "1", "1 1 1", "a", "A B", "up", "crane", "0 0", "9" * 50, "١", "\x1b[2J", "x" * 100_000]),
)


def kind_of(name: str) -> type:
    return type(make(name))


KINDS = {kind.__name__: [name for name in GAMES if kind_of(name) is kind] for kind in map(kind_of, GAMES)}
"""Options of each game."""


def actions(name: str) -> st.SearchStrategy[Action]:
    """Draw actions of every kind, most of them declared ones."""
    verbs = st.sampled_from(make(name).actions)
    declared = st.builds(lambda verb, text: Action(kind="act", name=verb.name, text=text), verbs, TEXT)
    other = st.builds(Action, kind=st.sampled_from(["answer", "call", "invalid"]), text=TEXT, name=st.just("x"))
    return st.one_of(declared, declared, declared, other)


@for_each("name", GAMES)
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
    with raises_naming(ValueError, "split=other", "train", "test"):
        env.tasks("other", 0)


@for_each("name", GAMES)
def test_a_task_is_json_and_all_that_an_episode_needs(name: str) -> None:
    for task in some(name, "train"):
        again = replace(task, data=json.loads(json.dumps(task.data)))
        assert again.data == task.data
        assert make(name).start(again).opening() == make(name).start(task).opening()
        assert len(task.id) < 500


@for_each("name", GAMES)
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


@for_each("name", GAMES)
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


@for_each("name", [name for name in GAMES if make(name).has_expert])
def test_what_an_expert_says_is_heard(name: str) -> None:
    env = make(name)
    for protocol in (Boxed(), Direct()):
        dialect = dialect_of(env, protocol)
        for move in islice(moves_of(env, some(name, "train")[0], 0, ()), 5):
            said = replace(move, thought="") if isinstance(protocol, Direct) else move
            assert dialect.parse(dialect.write(said), "stop") == move.action


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_whatever_is_said_has_an_answer(kind: str, data: st.DataObject) -> None:
    """Play the same turns in every option of a game, as drawing them takes longer than playing them."""
    options = KINDS[kind]
    place = data.draw(st.integers(0, NUM - 1))
    said = data.draw(st.lists(actions(options[0]), min_size=1, max_size=4))
    for name in options:
        note(name)
        for step in played(make(name).start(some(name, "train")[place]), said):
            assert isinstance(step, Step)
            assert -0.1 <= step.reward <= 1.0
            assert step.done or step.observation
            assert max((len(part.text) for part in step.observation), default=0) < 5000


@for_each("name", GAMES)
def test_a_turn_that_cannot_be_read_ends_the_game_at_a_price(name: str) -> None:
    step = make(name).start(some(name, "train")[0]).step(Action(kind="invalid", text="it was cut off"))
    assert (step.reward, step.done, step.truncated, step.success) == (-0.1, True, False, False)
    assert "it was cut off" in step.observation[0].text


DRAWN = {"Crosswords", "FifteenPuzzle", "Game2048", "Minesweeper", "Sokoban", "Sudoku", "TowerOfHanoi", "WordSearch"}
"""Games that have a board."""


@for_each("name", GAMES)
def test_a_board_is_drawn_as_it_is_and_the_others_draw_nothing(name: str) -> None:
    env, task = make(name), some(name, "train")[0]
    episode = env.start(task)
    assert bool(episode.picture()) == (type(env).__name__ in DRAWN)
    assert episode.picture() in episode.opening().observation[0].text if episode.picture() else True
    for step in played(episode, tries_of(env, task, 5, 0) if env.has_random_tries else ()):
        if not step.done:
            assert episode.picture() in step.observation[0].text


UNREADABLE = {
    "Crosswords": ("", "o", "1 o", "1 1", "1 1 1", "1 1 oo", "1 1 1 o", "o 1 1", "1 1 ö", "a b c"),
    "GuessTheNumber": ("", "a", "٢٠", "2" * 99, "20.0", "1e1", "-20", "0x14", "2 0"),
    "Hangman": ("", "g3ese", "é", "g!", "?", "g, e"),
    "Mastermind": ("", "3,1,4,2", "a b c d", "[3 1 4 2]", "-3 1 4 2", "٣ 1 4 2", "3 1 4 " + "2" * 9999),
    "Minesweeper": ("", "1", "1 2 3", "a b", "-1 0", "1,2"),
    "Sudoku": ("", "1 2", "1 2 3 4", "1,2,3", "a b c", "1 2 x", "-1 2 3", "1 2 " + "3" * 99),
    "TowerOfHanoi": ("", "A", "A D", "A  B C", "AÁ", "A-C", "move A C", "A,,C", "ſ A"),
    "WordSearch": ("", "hot", "0 1", "0 1 2 1 1", "(0, 1) (2, 1)", "0 1 -2 1"),
    "Wordle": ("", "cr4ne", "crâne", "crane!", "c-r-a-n-e", "[crane]"),
}
"""Arguments of moves that cannot be read, of every game whose moves have one."""


@for_each("kind, text", [(kind, text) for kind, texts in UNREADABLE.items() for text in texts])
def test_an_argument_that_cannot_be_read_ends_the_game_at_a_price(kind: str, text: str) -> None:
    for name in KINDS[kind]:
        env = make(name)
        for verb in env.actions:
            step = env.start(some(name, "train")[0]).step(Action(kind="act", name=verb.name, text=text))
            assert (step.reward, step.done, step.truncated, step.success) == (-0.1, True, False, False), name


def test_every_game_whose_moves_have_an_argument_has_some_that_cannot_be_read() -> None:
    assert {kind for kind, (name, *_) in KINDS.items() if make(name).actions[0].argument} == UNREADABLE.keys()


SAID = ("guess_the_number", "mastermind", "wordle", "hangman", "crosswords", "word_search")
"""Games of free moves; the others show a board on which a move is seen."""


@for_each("name", [name for name in GAMES if name.removeprefix("game/").startswith(SAID)])
def test_what_is_seen_says_what_was_done(name: str) -> None:
    """Whoever sees observations alone (protocol.agent_turns=false, GEM's concat) knows which moves were made."""
    env, task = make(name), some(name, "train")[0]
    moves = dict.fromkeys(tries_of(env, task, 12, 0))
    seen = [step.observation for move in moves for step in played(env.start(task), [move]) if not step.done]
    assert len(set(seen)) == len(seen) > 3


@for_each("name", [name for name in GAMES if len(make(name).actions) > 1])
def test_actions_may_be_said_in_capitals(name: str) -> None:
    boxed = dialect_of(make(name), Boxed())
    for verb in make(name).actions:
        said = f"\\boxed{{{verb.name.upper()}{' 1 1' if verb.argument else ''}}}"
        assert boxed.parse(said, "eos").name == verb.name


WRONG = [
    *((kind, {"max_turns": 0}, (1,)) for kind in KINDS),
    *((kind, {"num_test": 0}, (1,)) for kind in KINDS),
    ("Crosswords", {"num_words": 0}, (1, 10)),
    ("Crosswords", {"shortest": 6}, ("longest=5",)),
    ("Crosswords", {"longest": 9}, (3, 8)),
    ("Crosswords", {"max_turns": 14}, (15,)),
    ("Crosswords", {"max_turns": 20, "random": True}, (30,)),
    ("FifteenPuzzle", {"num_rows": 1}, (2, 4)),
    ("FifteenPuzzle", {"num_rows": 5}, (2, 4)),
    ("FifteenPuzzle", {"distance": 0}, (1,)),
    ("Game2048", {"target": 100}, (8, 131072)),
    ("Game2048", {"target": 4}, (8, 131072)),
    ("Game2048", {"size": 1}, (2, 8)),
    ("GuessTheNumber", {"high": 1}, ("low=1",)),
    ("GuessTheNumber", {"low": -1}, (0,)),
    ("Hangman", {"length": 2}, (3, 8)),
    ("Hangman", {"length": 9}, (3, 8)),
    ("Mastermind", {"length": 7}, (1, 6)),
    ("Mastermind", {"highest": 10}, (2, 9)),
    ("Mastermind", {"length": 5, "highest": 4}, ("highest=4", "repeats=true")),
    ("Minesweeper", {"rows": 2}, (3, 10)),
    ("Minesweeper", {"cols": 11}, (3, 10)),
    ("Minesweeper", {"num_mines": 8, "rows": 4, "cols": 4}, (1, 9, "rows * cols")),
    ("Minesweeper", {"num_mines": 0}, (1, 9, "rows * cols")),
    ("Sokoban", {"num_rows": 4}, (5, 12)),
    ("Sokoban", {"num_boxes": 3}, (1, 2)),
    ("Sokoban", {"num_boxes": 0}, (1, 2)),
    ("Sudoku", {"size": 6}, (4, 9)),
    ("Sudoku", {"clues": 16}, (17, 80)),
    ("Sudoku", {"clues": 16, "size": 4}, (4, 15)),
    ("Sudoku", {"grade": 4}, (1, 3)),
    ("TowerOfHanoi", {"num_disks": 0}, (1, 9)),
    ("TowerOfHanoi", {"num_disks": 10}, (1, 9)),
    ("WordSearch", {"num_words": 11}, (1, 10)),
    ("WordSearch", {"shortest": 2}, (3, 8)),
    ("WordSearch", {"longest": 9}, (3, 8)),
    ("WordSearch", {"shortest": 6}, ("longest=5",)),
    ("Wordle", {"length": 2}, (3, 8)),
    ("Wordle", {"length": 9}, (3, 8)),
]
"""Games, arguments of which the first is refused, and what the error names beside it: its limits."""


@for_each("kind, wrong, limits", WRONG)
def test_games_that_cannot_be_are_refused(kind: str, wrong: dict[str, Any], limits: tuple[object, ...]) -> None:
    key, value = next(iter(wrong.items()))
    with raises_naming(ValueError, f"{key}={value}", *limits):
        kind_of(KINDS[kind][0])(**wrong)
