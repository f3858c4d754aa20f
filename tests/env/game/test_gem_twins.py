"""GEM beside us: the same puzzle, the same words in a box, and the same boards, hints, rewards and ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any

import pytest

from rlx.env.game.fifteen_puzzle import FROM, FifteenPuzzle
from rlx.env.game.game_2048 import DIRECTIONS, Game2048
from rlx.env.game.sokoban import Sokoban
from rlx.env.game.tower_of_hanoi import TowerOfHanoi
from rlx.env.game.turns import UNREADABLE
from rlx.environment.world import dialect_of
from rlx.protocol.boxed import Boxed
from rlx.types import Step, Task
from tests.env.game import gem_twins as twins
from tests.env.game.options import make
from tests.env.steps import played

NUM_GAMES = 100
"""Games of each preset."""


@dataclass(frozen=True, kw_only=True)
class Twin:
    gem: str
    """GEM's name of the game."""
    state: Callable[[Task], Mapping[str, Any]]
    """Attributes of GEM's environment that make it the same puzzle."""
    words: twins.Words
    rows: str
    """Pattern of what GEM shows of the board; the last words of ours are the same."""
    theirs: Mapping[str, str] = field(default_factory=dict)
    """Patterns that are replaced in GEM's rows before they are compared, in small letters."""
    ours: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, str]
    """Pattern of GEM's text: pattern of the first line of ours that holds where GEM's does, and nowhere else."""
    loose: bool = False
    """A hint of ours may stand where GEM gives another one."""
    goes_on: bool = False
    """GEM goes on where we end a game as won."""
    presets: Mapping[str, str] = field(default_factory=lambda: {name: name for name in ("easy", "hard", "random")})
    """Options of ours: GEM's presets."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of ours that differ from the option's."""


SLIDES, WORDS = ("", "x", "up down", "1"), ("", "1", "cr4ne", "a, b")
DISKS = ["A C", "A B", "B C", "C A", "b,a", "CB", "A A"]
TWINS = {
    "crosswords": Twin(
        gem="Crosswords",
        state=twins.crosswords_state,
        words=twins.crosswords_words,
        rows=r"^R\d.*",
        theirs={"^R0?": ""},
        hints={
            "out of bounds": "is not on the board",
            "black dot": "no letter belongs",
            "already filled": "is filled already",
            "it is incorrect": r"\d is not \w$",
            "correctly": "is right",
            "Congratulations": "all is filled",
        },
        presets={"easy": "easy", "hard": "hard", "random": "easy"},  # GEM's random one cannot be made
    ),
    "fifteen_puzzle": Twin(
        gem="FifteenPuzzle",
        state=twins.tiles_state,
        words=twins.moves(FifteenPuzzle(), list(FROM), SLIDES),
        rows=r"^ *[\d_].*",
        theirs={"__": "."},
        hints={"Congratulations": "^solved$", "outside": "^nothing can slide"},
        presets={"easy": "easy", "hard": "hard"},
    ),
    "game_2048": Twin(
        gem="Game2048",
        state=lambda task: {"seed": task.data["seed"]},
        words=twins.moves(Game2048(), DIRECTIONS, SLIDES, weights=(1, 5, 5, 1)),
        rows=r"^ *[\d.].*",
        hints={"Congratulations": "^reached", "Game over": "^nothing can move", "doesn't change": "^nothing moves"},
        presets={"easy": "easy", "hard": "hard", "extreme_hard": "extreme-hard"},
    ),
    "guess_the_number": Twin(
        gem="GuessTheNumber",
        state=twins.number_state,
        words=twins.number_words,
        rows="you guessed 0",  # it has no board
        hints={
            "higher": "^higher than",
            "lower": "^lower than",
            "outside the range": "is not from",
            "guessed before": "before$",
            "Congratulations": "^correct$",
        },
    ),
    "hangman": Twin(
        gem="Hangman",
        state=lambda task: twins.word_state(task, board="_"),
        words=twins.guesses(twins.hangman_guess, lambda task: (task.data["word"], task.data["word"].upper()), WORDS),
        rows="^ +[_A-Z] .*",
        ours={"\ntried.*": ""},
        hints={
            "already guessed before": "^you tried . before$",
            "that is in the secret": "^. is in it$",
            "that is not in the secret": "^. is not in it$",
            "which is incorrect": "^it is not ",
            "but the secret word is of length": "^the word has ",
            "Congratulations": "^correct$",
        },
    ),
    "mastermind": Twin(
        gem="Mastermind",
        state=twins.code_state,
        words=twins.guesses(
            twins.mastermind_guess, lambda task: [" ".join(map(str, task.data["code"]))], ("", "x", "1, 2", "1 2 a")
        ),
        rows=r"guessed (\[.*black peg.*)",
        theirs={
            r"[\[\],()]|peg.s.": "",
            r"\. This guess receives (\d+) black +and (\d+) white.*": r": black \1 white \2",
        },
        hints={
            "black peg": ": black",
            "has length": "^the code has",
            "outside the range": "^digits are from",
            "guessed before": "^you guessed",
            "Congratulations": "^correct$",
        },
    ),
    "minesweeper": Twin(
        gem="Minesweeper",
        state=twins.minesweeper_state,
        words=twins.minesweeper_words,
        rows=r"^ +\d.*",
        hints={
            "outside the bounds": "is not on the board$",
            "already been revealed": "is revealed already$",
            "added a flag": "^flag put$",
            "removed a flag": "^flag taken$",
            "hit a mine": "^that was a mine$",
        },
        goes_on=True,  # unless every mine has a flag
    ),
    "sokoban": Twin(
        gem="Sokoban",
        state=twins.sokoban_state,
        words=twins.moves(Sokoban(), DIRECTIONS, SLIDES),
        rows="^#.*",
        ours={"Q": "P", r"\*": "√"},
        hints={"cannot move": "in the way|cannot move", "pushed a": "^pushed", "Congratulations": "^solved$"},
    ),
    "sudoku": Twin(
        gem="Sudoku",
        state=twins.sudoku_state,
        words=twins.sudoku_words,
        rows=r"^R\d.*",
        theirs={r"^R|\|": ""},
        ours={r"[|:]": ""},
        hints={
            "out of bounds": "are from 1 to",
            "already filled": "already$",
            "violates Sudoku rules": "is not",
            "Congratulations": "^solved$",
        },
    ),
    "tower_of_hanoi": Twin(
        gem="TowerofHanoi",
        state=twins.hanoi_state,
        words=twins.moves(TowerOfHanoi(), DISKS, ("", "x", "A D", "A B C")),
        rows="^[ABC]:.*",
        theirs={r"[\[\],]": ""},
        hints={"is empty": "is empty$", "is larger than": "is larger than", "Congratulations": "^solved$"},
        changes={"scattered": True},
    ),
    "word_search": Twin(
        gem="WordSearch",
        state=twins.search_state,
        words=twins.search_words,
        rows=r"^R\d.*",
        theirs={"^R0?": ""},
        ours={"([A-Z])": r"[\1]"},
        hints={
            "out of bounds": "not on the board$",
            "already tried": "^you tried",
            "not valid": "across or down|^you tried",  # GEM's, of a try that was made the other way round
            "incorrect attempt": "no hidden word|^you tried",
            "You found|Congratulations": "^found |^all",
        },
        loose=True,
    ),
    "wordle": Twin(
        gem="Wordle",
        state=lambda task: twins.word_state(task, milestones=0),
        words=twins.guesses(
            twins.wordle_guess,
            lambda task: (word := task.data["word"], word.upper(), " ".join(word)),
            WORDS,
        ),
        rows=r"Feedback:\n(\w+\n.*)",
        theirs={r"[\[\],']": "", r"\B": " "},
        hints={"guessed before": "^you guessed", "but the secret word has": "^the word has"},
    ),
}


@pytest.fixture(scope="session")
def gem(python_of: Callable[[str], str]) -> Iterator[twins.Gem]:
    peer = twins.Gem(python_of("gem"))
    yield peer
    assert peer.process.stdin
    peer.process.stdin.close()
    peer.process.wait()


@pytest.mark.parametrize(("name", "option"), [(name, one) for name, twin in TWINS.items() for one in twin.presets])
def test_gem_plays_the_same(gem: twins.Gem, name: str, option: str) -> None:
    """Rewards and ends are the same, but that GEM calls a turn truncated which cannot be read, if it is the last."""
    twin, env = TWINS[name], make(f"game/{name}_{option}")
    env, preset = replace(env, **twin.changes), f"game:{twin.gem}-v0-{twin.presets[option]}"
    for seed, task in zip(range(NUM_GAMES), env.tasks("train", 0)):
        words = twin.words(Random(f"{preset}/{seed}"), task)
        ours, theirs = play(env, task, words), gem.play(preset, twin.state(task), words)
        is_over = twin.goes_on and bool(ours[-1].success)
        assert len(ours) == len(theirs) or is_over
        for turn, step, answer in zip(count(), ours, theirs):
            check_board(twin, step, answer)
            if turn:
                check_hints(twin, step, answer)
                assert step.reward == pytest.approx(answer["reward"])
            if not (is_over and step.success):
                assert step.done == answer["terminated"]
                assert step.truncated == answer["truncated"] or step.reward == UNREADABLE


def play(env: Any, task: Task, words: list[str]) -> list[Step]:
    """Return the opening and the steps of an episode in which these words stand in a box."""
    dialect, episode = dialect_of(env, Boxed()), env.start(task)
    opening = episode.opening()
    actions = (dialect.parse(rf"\boxed{{{word}}}", "stop") for word in words)
    return [opening, *played(episode, actions)]


def check_board(twin: Twin, step: Step, answer: Mapping[str, Any]) -> None:
    shown = re.findall(twin.rows, f"{answer['text']}\n{answer['suffix']}", re.MULTILINE)
    ours, theirs = text_of(step), "\n".join(shown)
    assert shown or step.truncated or "\n" not in ours
    if shown and ("\n" in ours or not step.done):
        ours, theirs = replaced(ours, twin.ours).split(), replaced(theirs, twin.theirs).split()
        assert ours[-len(theirs) :] == theirs


def check_hints(twin: Twin, step: Step, answer: Mapping[str, Any]) -> None:
    said = text_of(step).split("\n")[0]
    for theirs, ours in twin.hints.items():
        if re.search(theirs, answer["text"]):
            assert re.search(ours, said)
        elif not (step.truncated or twin.loose):
            assert not re.search(ours, said), answer["text"]


def text_of(step: Step) -> str:
    return "".join(part.text for part in step.observation)


def replaced(text: str, changes: Mapping[str, str]) -> str:
    for pattern, other in changes.items():
        text = re.sub(pattern, other, text, flags=re.MULTILINE)
    return text.lower()
