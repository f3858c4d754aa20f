"""GEM beside us: the same puzzle, the same words in a box, the same rewards and ends."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rlx.env.game.turns import UNREADABLE
from rlx.protocol.boxed import Boxed
from rlx.types import Step, Task
from rlx.world import dialect_of

NUM_GAMES = 100
"""Played with GEM by each preset."""


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

    def beside(
        self,
        env: Any,
        name: str,
        state: Callable[[Task], Mapping[str, Any]],
        said: Callable[[Random, Task], Sequence[str]],
        excused: Callable[[Step, dict[str, Any]], bool] = lambda step, answer: False,
    ) -> Iterator[tuple[Task, list[Step], list[dict[str, Any]]]]:
        """Games that both play, our steps and GEM's answers, the openings first. Rewards and ends are the same, but
        that GEM calls a turn truncated which cannot be read, if it is the last; the ends of steps that are `excused`
        may differ, and what follows them."""
        for seed, task in zip(range(NUM_GAMES), env.tasks("train", 0)):
            words = said(Random(f"{name}/{seed}"), task)
            ours, theirs = play(env, task, words), self.play(name, state(task), words)
            assert len(ours) == len(theirs) or any(map(excused, ours, theirs))
            for step, answer in zip(ours[1:], theirs[1:]):
                assert step.reward == pytest.approx(answer["reward"])
                if excused(step, answer):
                    break
                assert step.done == answer["terminated"]
                assert step.truncated == answer["truncated"] or step.reward == UNREADABLE
            yield task, ours, theirs


def play(env: Any, task: Task, said: Sequence[str]) -> list[Step]:
    dialect, episode = dialect_of(env, Boxed()), env.start(task)
    steps = [episode.opening()]
    for one in said:
        steps.append(episode.step(dialect.parse(rf"\boxed{{{one}}}", "stop")))
        if steps[-1].done:
            break
    return steps


@pytest.fixture(scope="session")
def gem() -> Iterator[Gem]:
    python = os.environ.get("RLX_GEM_PYTHON")
    if not python:
        pytest.skip("RLX_GEM_PYTHON names no interpreter that has GEM")
    peer = Gem(python)
    yield peer
    assert peer.process.stdin
    peer.process.stdin.close()
    peer.process.wait()
