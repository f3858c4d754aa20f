"""Where an episode's seconds go, by a clock that the test moves."""

from __future__ import annotations

from rlx.rollout.times import Stopwatch
from rlx.runs.times import TurnTimes
from rlx.types import Start, Task

START = Start(task=Task(id="a", prompt=(), data={}, env="part"), sample=3, repeat=1)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_every_second_is_counted_once_for_what_the_episode_waited_for() -> None:
    clock = Clock()
    watch = Stopwatch(clock=clock)
    clock.now += 1  # in the queue
    watch.begin()
    clock.now += 2  # a thread starts the environment
    watch.go_on()
    watch.wait_for("generate")
    clock.now += 4
    watch.go_on()
    watch.wait_for("environment")
    clock.now += 8
    watch.go_on()
    watch.wait_for("generate")
    clock.now += 16
    watch.go_on()
    clock.now += 32  # a step that is taken at once
    watch.wait_for("environment")
    clock.now += 64
    watch.go_on()
    times = watch.result(START)
    assert (times.task, times.sample, times.repeat) == ("part/a", 3, 1)
    assert (times.queue, times.opening) == (1, 2)
    assert times.turns == (TurnTimes(4, 8), TurnTimes(16, 96))
    assert times.queue + times.opening + sum(map(sum, times.turns)) == clock.now - 100
