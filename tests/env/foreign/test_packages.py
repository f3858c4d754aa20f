"""GEM and TextArena as they play themselves: the same seed and turns, the same words, rewards and ends. A taskset of
verifiers, by its own machinery."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rlx.env.foreign.foreign import Foreign
from rlx.gym.named import build_env
from rlx.settings.folders import read_option, shipped_folder
from rlx.tool.contain import box
from rlx.types import Action, Step, Task, Text
from tests.errors import raises_naming

NUM_GAMES = 10
GEM = (
    "game:GuessTheNumber-v0-hard",
    "game:Mastermind-v0-hard",
    "game:Minesweeper-v0-easy",
    "game:FifteenPuzzle-v0-easy",
    "game:TowerofHanoi-v0-easy",
    "game:Game2048-v0-easy",
    "game:Sokoban-v0-easy",
    "game:Sudoku-v0-easy",
    "rg:leg_counting",
)
TEXTARENA = (
    "GuessTheNumber-v0",
    "TowerOfHanoi-v0",
    "FrozenLake-v0-random",
    "Bandit-v0",
    "Mastermind-v0",
    "Countdown-v0",
)
Hear = Callable[[str, int, list[str]], list[Any]]


def peer_of(package: str, python: str) -> Iterator[tuple[str, Hear]]:
    pipe, script = subprocess.PIPE, str(Path(__file__).with_name("peer_seeded.py"))
    settings = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": ""}
    peer = subprocess.Popen(
        [python, script, package], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=settings
    )

    def hear(task: str, seed: int, said: list[str]) -> list[Any]:
        assert peer.stdin
        assert peer.stdout
        print(json.dumps({"task": task, "seed": seed, "said": said}), file=peer.stdin, flush=True)
        return json.loads(peer.stdout.readline())

    yield python, hear
    peer.kill()
    peer.wait()
    for one in box.OPEN:
        one.end()


@pytest.fixture(scope="module")
def gem(python_of: Callable[[str], str]) -> Iterator[tuple[str, Hear]]:
    yield from peer_of("gem", python_of("gem"))


@pytest.fixture(scope="module")
def textarena(python_of: Callable[[str], str]) -> Iterator[tuple[str, Hear]]:
    yield from peer_of("textarena", python_of("textarena"))


def made(option: str, task: str, python: str, **keys: Any) -> Foreign:
    env = build_env(option, {"task": task, "python": python, **keys})
    assert isinstance(env, Foreign)
    return env


def play(env: Foreign, task: Task, said: list[str]) -> list[Step]:
    episode, steps = env.start(task), []
    for text in said:
        steps.append(episode.step(Action(kind="answer", text=text)))
        if steps[-1].done:
            break
    episode.close()
    return steps


def words(rng: Random) -> list[str]:
    moves = [
        "1 2",
        "2 3",
        "A B",
        "up",
        "down",
        "left",
        "right",
        "reveal 0 1",
        "flag 1 1",
        "0 1 2 3",
        "1",
        "red",
        "1 2 3 4",
    ]
    return [rng.choice([*moves, str(rng.randint(1, 50))]) for _ in range(12)]


def seen_of(step: Step) -> str:
    return "".join(part.text for part in step.observation)


@pytest.mark.parametrize("name", GEM)
def test_gem_is_played_as_it_plays_itself(gem: tuple[str, Hear], name: str) -> None:
    python, hear = gem
    env, rng = made("gem", name, python), Random(name)
    for task in islice(env.tasks("train", 0), NUM_GAMES):
        said = words(rng)
        first, *theirs = hear(name, task.data["seed"], [rf"\boxed{{{text}}}" for text in said])
        assert task.prompt == (Text("\n".join(part.rstrip("\n") for part in first if part)),)
        ours = play(env, task, said)
        assert len(ours) == len(theirs)
        for step, (seen, suffix, reward, terminated, truncated) in zip(ours, theirs):
            assert (step.reward, step.done) == (reward, terminated or truncated)
            assert step.truncated == (truncated and not terminated)
            assert seen_of(step) == (seen if step.done else "\n".join(p.rstrip("\n") for p in (seen, suffix) if p))
        assert not ours[-1].done or ours[-1].success == (sum(step.reward for step in ours) >= 1 - 1e-9)


@pytest.mark.parametrize("name", TEXTARENA)
def test_textarena_is_played_as_it_plays_itself(textarena: tuple[str, Hear], name: str) -> None:
    python, hear = textarena
    env, rng = made("textarena", name, python), Random(name)
    for task in islice(env.tasks("train", 0), NUM_GAMES):
        said = words(rng)
        first, *theirs = hear(name, task.data["seed"], [f"[{text}]" for text in said])
        assert is_told(task.prompt[0].text, first)
        ours = play(env, task, said)
        assert len(ours) == len(theirs)
        for step, seen in zip(ours, theirs):
            if step.done:
                assert [seen_of(step), step.reward] == [seen[0], -1.0 if isinstance(seen[1], str) else seen[1]]
            assert step.done or is_told(seen_of(step), seen)


def is_told(ours: str, theirs: str) -> bool:
    """Line by line; theirs say before some lines who speaks."""
    return all(line in theirs for line in ours.splitlines())


def test_a_game_of_several_players_is_refused(textarena: tuple[str, Hear]) -> None:
    python, _ = textarena
    env = made("textarena", "TicTacToe-v0", python)
    with raises_naming(RuntimeError, "one player"):
        env.start(next(env.tasks("train", 0)))


def test_the_default_task_of_verifiers_is_one_of_its_own(python_of: Callable[[str], str]) -> None:
    task = read_option("env", "verifiers", [shipped_folder("conf")])["task"]
    code = "import sys; from importlib.util import find_spec; print(find_spec(f'verifiers.v1.tasksets.{sys.argv[1]}'))"
    done = subprocess.run([python_of("verifiers"), "-c", code, task], capture_output=True, text=True, check=True)
    assert "ModuleSpec" in done.stdout


def test_a_taskset_of_verifiers_is_played_by_its_own_machinery(sums_python: str) -> None:
    env = made("verifiers", "sums_taskset", sums_python, num_test=5, num_tasks=50, options={"taskset": {"more": 2}})
    for task, turns in zip(env.tasks("test", 0), (["2"], ["no", "3"], ["enough"], ["", "x"])):
        episode = env.start(task)
        assert seen_of(episode.opening()) == f"Sums.\n\nWhat is {task.id} + 2?"
        steps = [episode.step(Action(kind="answer", text=text)) for text in turns[: 1 if not turns[0] else 2]]
        assert [seen_of(step) for step in steps[:-1]] == ["No."] * (len(steps) - 1)
        assert (steps[-1].done, steps[-1].success) == (True, turns[0] not in ("enough", ""))
        episode.close()
    with raises_naming(RuntimeError, "sums_taskset", "task 77"):
        env.start(next(env.describe([77])))
    for one in box.OPEN:
        one.end()
