"""Puzzles for GEM and words to say in both: the attributes that make GEM's environment the same puzzle as a task, and
words that try what is right, wrong and unreadable."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from string import ascii_lowercase
from typing import Any

from rlx.env.game.crossing import Laid, letters_on
from rlx.env.game.minesweeper import Minesweeper
from rlx.env.game.sudoku import Sudoku
from rlx.env.game.tower_of_hanoi import TowerOfHanoi
from rlx.env.game.words import words_of
from rlx.types import Task

Words = Callable[[Random, Task], list[str]]


class Gem:
    """GEM in an interpreter of its own, whose packages are not ours."""

    def __init__(self, python: str) -> None:
        script = str(Path(__file__).with_name("peer_gem.py"))
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([python, script], stdin=pipe, stdout=pipe, text=True)

    def play(self, name: str, state: Mapping[str, Any], said: Sequence[str]) -> list[dict[str, Any]]:
        """GEM's answers, the first of which is the reset's; `state` is laid over its own."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"id": name, "state": state, "said": said}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def spoil(rng: Random, words: list[str], *wrong: str) -> list[str]:
    """Replace one of the words by one that is wrong, in a fifth of the games."""
    if rng.random() < 0.2:
        words[rng.randrange(len(words))] = rng.choice(wrong)
    return words


def moves(game: Any, choices: Sequence[str], wrong: Sequence[str], weights: Sequence[int] | None = None) -> Words:
    """Draw moves, of which many are in vain; in half of the games, let the expert of the game move."""

    def words(rng: Random, task: Task) -> list[str]:
        drawn = rng.choices(choices, weights, k=task.data["max_turns"])
        if rng.random() < 0.5:
            drawn = solution(game, task)
        return spoil(rng, drawn, *wrong)

    return words


def solution(game: Any, task: Task) -> list[str]:
    actions = [move.action for move in game.demonstrate(task, 0, ())]
    return [action.text or action.name for action in actions]


def guesses(
    guess: Callable[[Random, Task], str], right: Callable[[Task], Sequence[str]], wrong: Sequence[str]
) -> Words:
    """Draw guesses, one of the right ones in half of the games."""

    def words(rng: Random, task: Task) -> list[str]:
        drawn = [guess(rng, task) for _ in range(task.data["max_turns"])]
        if rng.random() < 0.5:
            drawn[rng.randrange(len(drawn))] = rng.choice(right(task))
        return spoil(rng, drawn, *wrong)

    return words


def square(cells: Sequence[Any], side: int) -> list[Sequence[Any]]:
    return [cells[start : start + side] for start in range(0, side**2, side)]


def word_state(task: Task, **blank: object) -> dict[str, Any]:
    """Return the word, and for each letter what is known of it: `word_state(task, board="_")`."""
    word = task.data["word"]
    known = {name: [value] * len(word) for name, value in blank.items()}
    return {"secret_word": word.upper(), "word_length": len(word), **known, **sizes(task)}


def sizes(task: Task, **names: str) -> dict[str, Any]:
    """Return the turns of a task, and more of its data by GEM's names: `sizes(task, low="min_number")`."""
    return {theirs: task.data[ours] for ours, theirs in {"max_turns": "max_turns", **names}.items()}


def crosswords_state(task: Task) -> dict[str, Any]:
    side, words = task.data["side"], task.data["words"]
    letters = letters_on([Laid(*word) for word in words], side)
    cells = square([letters.get(cell, ".") for cell in range(side**2)], side)
    return {
        "solution": cells,
        "board": [["." if cell == "." else "_" for cell in row] for row in cells],
        "clues": dict(zip([word for word, *_ in words], task.data["clues"])),
        "placed_words": {word: [row, col, way] for word, row, col, way in words},
        "total_letter_cells": len(letters),
        **sizes(task),
    }


def crosswords_words(rng: Random, task: Task) -> list[str]:
    """Put right letters in random order, some twice, some wrong, some elsewhere."""
    side = task.data["side"]
    letters = letters_on([Laid(*word) for word in task.data["words"]], side)
    told = [(*divmod(cell, side), letters[cell]) for cell in rng.sample(sorted(letters), len(letters))]
    for _ in range(rng.choice([0, 4, 8])):
        row, col, letter = rng.choice(told)
        wrong = [(row, col, rng.choice(ascii_lowercase)), (row, rng.randrange(side + 1), letter.upper())]
        told.insert(rng.randrange(len(told)), rng.choice(wrong))
    return spoil(rng, [f"{row} {col} {letter}" for row, col, letter in told], "", "1 2", "0 0 1", "(0 1 a)")


def tiles_state(task: Task) -> dict[str, Any]:
    return {"board": square([tile or None for tile in task.data["tiles"]], task.data["num_rows"])}


def number_words(rng: Random, task: Task) -> list[str]:
    """Guess numbers, some of them twice or out of the range, though never 0, which GEM cannot read."""
    low, high, turns = (task.data[name] for name in ("low", "high", "max_turns"))
    words = [str(rng.randint(max(1, low - 1), high + 2)) for _ in range(turns)]
    if rng.random() < 0.5:
        words[-1] = words[0]
    return spoil(rng, words, "", "x", "-1", "1 2", "1.0")


def hangman_guess(rng: Random, task: Task) -> str:
    word = task.data["word"]
    letters = [rng.choice(ascii_lowercase), rng.choice(word)]
    return rng.choice([*letters, *letters, rng.choice(words_of(len(word))), rng.choice(words_of(4)), "E"])


def mastermind_guess(rng: Random, task: Task) -> str:
    """Draw a guess, sometimes of a wrong length or of wrong digits."""
    number = len(task.data["code"]) if rng.random() < 0.9 else rng.randint(1, 5)
    return " ".join(str(rng.randint(1, task.data["highest"] + (rng.random() < 0.1))) for _ in range(number))


def number_state(task: Task) -> dict[str, Any]:
    return {
        "game_number": task.data["secret"],
        "previous_guesses": [],
        **sizes(task, low="min_number", high="max_number"),
    }


def code_state(task: Task) -> dict[str, Any]:
    code = task.data["code"]
    return {"game_code": code, "code_length": len(code), **sizes(task, highest="num_numbers")}


def mined(task: Task) -> tuple[Any, int]:
    """Our episode, mined as it is once the first cell, drawn at random, is revealed; and that cell."""
    episode = Minesweeper().start(task)
    first = Random(task.id).randrange(task.data["rows"] * task.data["cols"])
    episode.lay(first)
    return episode, first


def minesweeper_state(task: Task) -> dict[str, Any]:
    episode, _ = mined(task)
    rows, cols = task.data["rows"], task.data["cols"]
    counts = [-1 if cell in episode.mines else count for cell, count in enumerate(episode.counts)]
    grid = [counts[row * cols : row * cols + cols] for row in range(rows)]
    blank = [[False] * cols for _ in range(rows)]
    same = {name: name for name in ("rows", "cols", "num_mines")}
    return {"grid": grid, "first_reveal": False, "revealed": blank, "flags": blank, **sizes(task, **same)}


def minesweeper_words(rng: Random, task: Task) -> list[str]:
    """Reveal cells in random order, most of them safe, some of them flagged for a while or for good; none that has a
    flag is revealed, as GEM's flags do not protect mines."""
    episode, first = mined(task)
    cols, num = task.data["cols"], task.data["rows"] * task.data["cols"]
    cells = rng.sample(range(num), num)
    safe = [cell for cell in cells if cell not in episode.mines]
    flagged = rng.sample(sorted(episode.mines), rng.choice([0, 3, len(episode.mines)]))
    words = [("flag", mine) for mine in flagged] + [("reveal", first)]
    for cell in safe + cells[: rng.choice([0, 3])]:
        twice = [("flag", cell), ("flag", cell)] if rng.random() < 0.1 else []
        words += [*twice, ("reveal", cell)] if cell not in flagged else []
    spelled = [f"{verb} {cell // cols} {cell % cols}" for verb, cell in words]
    for wrong in ("reveal 0 99", "flag 99 0", "flag 0 0 0", "reveal"):
        if rng.random() < 0.1:
            spelled.insert(rng.randrange(len(spelled)), wrong)
    return spelled


def sokoban_state(task: Task) -> dict[str, Any]:
    rows = task.data["rows"]
    return {
        "room_fixed": [[{"#": 0, "O": 2, "*": 2, "Q": 2}.get(one, 1) for one in row] for row in rows],
        "room_state": [["#_O*XP".index(one.replace("Q", "P")) for one in row] for row in rows],
        "player_position": next((down, row.index(one)) for down, row in enumerate(rows) for one in row if one in "PQ"),
        "num_boxes": sum(row.count("X") for row in rows),
        **sizes(task),
    }


def sudoku_state(task: Task) -> dict[str, Any]:
    puzzle, full = (list(map(int, task.data[name])) for name in ("puzzle", "solution"))
    side = int(len(full) ** 0.5)
    grids = {"board": square(puzzle, side), "full_grid": square(full, side)}
    return {**grids, "scale": side, "init_num_empty": puzzle.count(0), **sizes(task)}


def sudoku_words(rng: Random, task: Task) -> list[str]:
    """Fill in mostly right digits, in half of the games all of them, and some that do not stand."""
    words = solution(Sudoku(), task)
    if rng.random() < 0.5:
        words = [word if rng.random() < 0.6 else " ".join(map(str, rng.choices(range(10), k=3))) for word in words]
        words += words[: task.data["max_turns"] - len(words)]
    return spoil(rng, words, "", "x", "1 2", "1,2,3", "1 2 a")


def hanoi_state(task: Task) -> dict[str, Any]:
    towers = TowerOfHanoi().start(task).towers
    board = {tower: list(map(int, disks.split())) for tower, disks in towers.items()}
    return {"board": board, "num_disks": len(task.data["places"]), **sizes(task)}


def search_state(task: Task) -> dict[str, Any]:
    placed = {word.upper(): [row, col, way] for word, row, col, way in task.data["words"]}
    return {"game_board": [list(row.upper()) for row in task.data["rows"]], "placed_words": placed, **sizes(task)}


def search_words(rng: Random, task: Task) -> list[str]:
    """Mark cells at random and words, some backwards; none that was found is marked backwards, as GEM pays it again."""
    side = len(task.data["rows"])
    ends = [Laid(*word).ends() for word in task.data["words"]]
    right = [(*one[2:], *one[:2]) if rng.random() < 0.5 else one for one in ends]
    words = [tuple(rng.randrange(side + (rng.random() < 0.1)) for _ in range(4)) for _ in range(14)]
    words = [one for one in words if one not in ends and (*one[2:], *one[:2]) not in ends]
    words += [one for one in right for _ in range(rng.choice([1, 1, 2])) if rng.random() < 0.9]
    spelled = [" ".join(map(str, one)) for one in rng.sample(words, len(words))]
    return spoil(rng, spelled, "", "1 2 3", "a", "[0 0 0 2]")


def wordle_guess(rng: Random, task: Task) -> str:
    """Draw a word, letters of the right one, or a word of another length."""
    word = task.data["word"]
    drawn = "".join(rng.choices(word + "es", k=len(word)))
    return rng.choice([drawn, rng.choice(words_of(len(word))), rng.choice(words_of(rng.randint(3, 6))).upper()])
