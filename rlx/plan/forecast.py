"""Estimate the time of a run before it begins: steps, evaluations, checkpoints and warm starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from rlx.plan.measured import Measured
from rlx.plan.scaling import busiest, cached_rows
from rlx.plan.stage import Stage
from rlx.plan.step import Load, StepTime
from rlx.plan.timer import Timer


@dataclass(frozen=True, kw_only=True, eq=False)
class Forecast:
    """Time of a run whose model's shape and machines are known."""

    stages: tuple[Stage, ...]
    """Warm starts, the first one first, and the run's own stage."""
    timer: Timer
    num_evaluations: int
    saving: float
    """Seconds of a checkpoint."""
    measured: Measured | None = None
    """Figures of the last steps, where a run with these settings has some."""

    @property
    def main(self) -> Stage:
        """The run's own stage."""
        return self.stages[-1]

    @cached_property
    def times(self) -> Mapping[str, tuple[StepTime, ...]]:
        """Time of a step of each stage, by its name, at each of its loads."""
        return {
            stage.name: tuple(self.timer.step(stage.run.hardware, load) for load in stage.loads)
            for stage in self.stages
        }

    def time_at(self, stage: Stage, index: int) -> StepTime:
        """Return the time of a stage's step at one of three lengths, or the one time."""
        times = self.times[stage.name]
        return times[index] if len(times) > 1 else times[0]

    @cached_property
    def totals(self) -> list[tuple[Load, float]]:
        """Seconds of the whole run at each load that its episodes may have."""
        loads = self.main.loads
        indices = range(len(loads)) if len(loads) > 1 else [1]
        return [(load, self.seconds(load, index)) for load, index in zip(loads, indices)]

    def seconds(self, load: Load, index: int = 1, *, warm: bool = True) -> float:
        """Estimate the run with its evaluations and checkpoints, and with its warm starts unless not `warm`, at one of
        three lengths. Measured steps replace the estimate of the run's own, and scale that of its evaluations; steps
        that are done are not counted."""
        run = self.main.run
        step, judging = self.timer.step(run.hardware, load), self.evaluation_seconds(load)
        if self.measured is not None:
            return self.seconds_left(self.measured, step, judging)
        before = self.stages[:-1] if warm else ()
        learning = sum(stage.run.steps * self.time_at(stage, index).seconds for stage in before)
        saves = sum(stage.num_checkpoints for stage in (*before, self.main))
        return learning + run.steps * step.seconds + judging + saves * self.saving

    def seconds_left(self, measured: Measured, step: StepTime, judging: float) -> float:
        """Estimate what is left of a run that has measured its own steps."""
        scale = measured.rollout / step.rollout if step.rollout and measured.rollout else 1.0
        left = max(0, self.main.run.steps - measured.steps)
        judging *= scale * (self.num_evaluations - 1) / self.num_evaluations
        return left * measured.seconds + judging + -(-left // self.main.run.checkpoint.interval) * self.saving

    def evaluation_seconds(self, like: Load) -> float:
        """Estimate all evaluations, with episodes like those of a load."""
        settings = self.main.run.evaluate
        episodes = settings.num_tasks * settings.num_samples
        load = replace(like, episodes=episodes, samples=settings.num_samples, plays=True)
        return self.num_evaluations * self.timer.step(self.main.run.hardware, load).rollout

    @cached_property
    def num_cached(self) -> tuple[int, int]:
        """Episodes of an engine whose contexts its cache holds, and its episodes under way."""
        load, hardware = self.main.load, self.main.run.hardware
        cached = cached_rows(self.timer.shape, hardware, self.timer.machine, load)
        return cached, min(hardware.num_live, busiest(hardware, load))
