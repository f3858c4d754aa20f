"""What outlives a stage of a run, the run, and its failure: nothing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlx import agent as agents
from rlx.console import Screen
from rlx.train import train

Build = Callable[..., Any]
QUIET = Screen(silent=True)
WARM = ("warm_start=tool_sft", "warm_start.steps=2", "warm_start.algo.num_prompts=2", "steps=1")


class Census:
    """Who was born, and who of them lives."""

    def __init__(self) -> None:
        self.born: list[tuple[str, weakref.ref[Any]]] = []
        self.alive_at_birth: list[tuple[str, list[str]]] = []

    def add(self, kind: str, *parts: Any) -> None:
        self.born += [(kind, weakref.ref(part)) for part in parts]

    def alive(self) -> list[str]:
        return sorted(kind for kind, part in self.born if part() is not None)


@pytest.fixture
def census(monkeypatch: pytest.MonkeyPatch) -> Iterator[Census]:
    """Of learners and engines, while references alone are counted and no garbage is collected."""
    found = Census()
    learner_of, build_engine = agents.learner_of, agents.build_engine

    def learner(*told: Any) -> Any:
        found.alive_at_birth.append(("learner", found.alive()))
        made = learner_of(*told)
        found.add("learner", made, made.model, made.adam)
        return made

    def engine(*told: Any) -> Any:
        found.alive_at_birth.append(("engine", found.alive()))
        made = build_engine(*told)
        found.add("engine", made)
        return made

    monkeypatch.setattr(agents, "learner_of", learner)
    monkeypatch.setattr(agents, "build_engine", engine)
    gc.collect()
    gc.disable()
    monkeypatch.setattr(gc, "collect", lambda: 0)
    yield found
    gc.enable()


@pytest.mark.parametrize("words", [(), ("+model/lora=r32",)], ids=["whole", "adapters"])
def test_a_warm_start_s_learner_is_gone_before_the_run_s_is_made_and_one_engine_serves_both(
    words: tuple[str, ...], small_run: Build, tmp_path: Path, census: Census, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))
    train(small_run(tmp_path / "run", *WARM, *words, without=("warm_start", "steps")), QUIET)
    three = ["learner"] * 3
    assert census.alive_at_birth == [("learner", []), ("engine", three), ("learner", ["engine"])]
    assert census.alive() == []
