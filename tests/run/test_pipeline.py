"""A pipeline plays ahead with the weights of its time, the same way every time, also after a stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.run.pipeline import AbandonedError, Pipeline
from tests.loops import for_each


class Learner:
    """Counts its updates; a step's rollouts say which step and how many updates their policy had."""

    def __init__(self, num_updates: int = 0, busy: float = 0.0) -> None:
        self.num_updates, self.busy = num_updates, busy
        self.lock = threading.Lock()

    def launch(self, step: int) -> Callable[[], tuple[int, int]]:
        version = self.num_updates

        def play() -> tuple[int, int]:
            assert self.lock.acquire(blocking=False), "two plays at once"
            time.sleep(self.busy * (step % 3))
            self.lock.release()
            return step, version

        return play


def run(first: int, last: int, staleness: int, kept: Mapping | None = None, until: int | None = None) -> tuple:
    """Steps first to `until`; what each took, and what was under way then."""
    learner = Learner(first, busy=0.002)
    pipeline = Pipeline(learner.launch, staleness=staleness, last=last, restored=kept)
    took = []
    try:
        for step in range(first, last if until is None else until):
            took.append(pipeline.take(step))
            learner.num_updates += 1
        return took, pipeline.wait(first + len(took))
    finally:
        pipeline.close()


@for_each("staleness", [0, 1, 2, 9])
def test_rollouts_lag_by_the_staleness_and_no_more(staleness: int) -> None:
    took, ahead = run(0, 6, staleness)
    assert took == [(step, step - min(step, staleness)) for step in range(6)]
    assert ahead == {}


@settings(max_examples=30)
@given(st.integers(0, 3), st.integers(1, 5), st.integers(0, 5))
def test_a_run_that_stops_and_goes_on_takes_what_it_would_have_taken(staleness: int, last: int, stop: int) -> None:
    stop = min(stop, last)
    first, ahead = run(0, last, staleness, until=stop)
    second, _ = run(stop, last, staleness, kept=ahead)
    assert first + second == run(0, last, staleness)[0]


def test_a_step_that_was_taken_but_not_learned_is_kept() -> None:
    learner = Learner()
    pipeline = Pipeline(learner.launch, staleness=1, last=5)
    pipeline.take(0)
    assert pipeline.wait(0) == {0: (0, 0), 1: (1, 0)}
    assert pipeline.wait(1) == {1: (1, 0)}
    pipeline.close()


def test_playing_goes_on_beside_learning() -> None:
    begun = threading.Event()

    def launch(step: int) -> Callable[[], int]:
        def play() -> int:
            if step == 1:
                begun.set()
            return step

        return play

    pipeline = Pipeline(launch, staleness=1, last=3)
    assert pipeline.take(0) == 0
    assert begun.wait(20)
    pipeline.close()


def test_an_error_in_a_rollout_is_the_run_s() -> None:
    def launch(step: int) -> Callable[[], int]:
        return lambda: 1 // (1 - step)

    pipeline = Pipeline(launch, staleness=1, last=3)
    assert pipeline.take(0) == 1
    with pytest.raises(ZeroDivisionError):
        pipeline.take(1)
    pipeline.close()


def test_what_nobody_waits_for_stops() -> None:
    stopped: list[Exception] = []
    begun = threading.Event()

    def launch(step: int) -> Callable[[], int]:
        def play() -> int:
            while step:
                begun.set()
                try:
                    pipeline.check()
                except AbandonedError as error:
                    stopped.append(error)
                    raise
                time.sleep(0.001)
            return step

        return play

    pipeline = Pipeline(launch, staleness=1, last=3)
    assert pipeline.take(0) == 0
    assert begun.wait(20)
    pipeline.close()
    assert len(stopped) == 1
