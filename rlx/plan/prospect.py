"""Facts of a run that has not begun: model, stages, memory, time and disk. Checks and plans read them from one value.

Each fact is computed at most once, when it is first read. So a check that refuses a run has read no more than it
needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from rlx.environment import Environment
from rlx.environment.world import parts_of
from rlx.evaluation.evaluate import held_out
from rlx.hardware.profile import Hardware
from rlx.hardware.sizing.amounts import Budget, Demand, num_trained
from rlx.hardware.sizing.budgets import budgets
from rlx.hardware.sizing.fit import FitError, find_host_misfit, find_misfit, fits, verdict
from rlx.hardware.sizing.host import host_amounts, host_peak
from rlx.hardware.sizing.share import Share, choose_share, device_memory, largest_share
from rlx.model.load import local_folder
from rlx.model.packaged import is_packaged
from rlx.model.shape import Shape, find_file, find_positions, find_shape, why_unsized
from rlx.plan.devices import check_devices, check_packages
from rlx.plan.disk import save_seconds
from rlx.plan.expected import TAIL
from rlx.plan.forecast import Forecast
from rlx.plan.lengths import NO_HINTS, LengthHints
from rlx.plan.measured import Measured
from rlx.plan.metric_names import metrics_of
from rlx.plan.openings import Opening, open_task
from rlx.plan.search import Fitting, Problem, find_fitting
from rlx.plan.stage import Stage, held_bytes
from rlx.plan.timer import find_timer
from rlx.run.demand import demand_of, shape_of
from rlx.run.rehearsed import list_rehearsed
from rlx.run.run import Run
from rlx.types import Task


@dataclass(frozen=True, kw_only=True, eq=False)
class Prospect:
    """A run before it begins, and all that follows from its settings."""

    run: Run
    trains: bool = True
    """The run trains; False: it evaluates its model alone."""
    length_hints: LengthHints = NO_HINTS
    """Lengths of episodes that the user gives, or that a run has measured."""
    measured: Measured | None = None
    """Figures of the last steps of a run that is planned again."""

    @property
    def hardware(self) -> Hardware:
        return self.run.hardware

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Warm starts as runs of their own, the first one first, and the run."""
        return tuple(self.run.stages())

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """Stages of the run: the warm starts in order, then the main stage."""
        num = len(self.runs) - 1
        names = ["warm start"] if num == 1 else [f"stage {number}" for number in range(1, num + 1)]
        warm = [
            Stage(run=run, name=name, key="warm_start." + "before." * (num - number), num_adapted=self.num_adapted)
            for number, (run, name) in enumerate(zip(self.runs, names), 1)
        ]
        return (*warm, Stage(run=self.run, length_hints=self.length_hints, num_adapted=self.num_adapted))

    @property
    def main(self) -> Stage:
        """The run's own stage."""
        return self.stages[-1]

    @cached_property
    def environments(self) -> tuple[Environment, ...]:
        """Every part of the environments of all stages."""
        parts = [env for run in self.runs for env in parts_of(run.env).values()]
        return tuple({id(env): env for env in parts}.values())

    @cached_property
    def held_out(self) -> tuple[Task, ...]:
        """First of the tasks that the run is evaluated on."""
        return tuple(held_out(self.run.evaluate, self.run.env)[:1])

    @cached_property
    def held_out_openings(self) -> tuple[Opening, ...]:
        """Beginning of its episode."""
        return tuple(open_task(self.run.env, self.main.dialects, task) for task in self.held_out)

    @cached_property
    def rehearsed(self) -> tuple[str, ...]:
        """Names of the environments that are played before anything is trained."""
        return tuple(name for _, name, _ in list_rehearsed(self.run))

    @cached_property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics that the run will have."""
        return tuple(metrics_of(self.run))

    # The model

    @cached_property
    def folder(self) -> Path | None:
        """Folder that the model is loaded from; None for one of a hub. A packaged model is unpacked."""
        return local_folder(self.run.model)

    @property
    def is_elsewhere(self) -> bool:
        """The model is on a hub, or packed in a package."""
        return is_packaged(self.run.model.path) or self.folder is None

    @cached_property
    def tokenizer(self) -> Path | None:
        """File of the model's tokenizer, where it is here."""
        return find_file(self.run.model.path, "tokenizer.json")

    @cached_property
    def stored_shape(self) -> Shape | None:
        """Shape of the model as it is; None where no config.json is here and no option says the shape."""
        return find_shape({"path": self.run.model.path, "shape": self.run.model.shape})

    @property
    def num_stored(self) -> int | None:
        """Number of parameters of the stored model; None if its shape is unknown."""
        return None if self.stored_shape is None else self.stored_shape.num_parameters

    @cached_property
    def shape(self) -> Shape | None:
        """The shape with a row for every action that the model has or that the run's protocols add."""
        return shape_of(self.run)

    @cached_property
    def why_unsized(self) -> str:
        """Reason why nothing is said of memory, time or disk where the model's shape is not known."""
        reason = why_unsized({"path": self.run.model.path, "shape": self.run.model.shape})
        return reason or "the model's config.json is not here yet"

    @cached_property
    def num_positions(self) -> int | None:
        """Tokens that the model was made for, where its config.json is here and says so."""
        return find_positions(self.run.model.path)

    @cached_property
    def num_adapted(self) -> int | None:
        """Parameters of adapters, where these alone are trained."""
        lora = self.run.model.lora
        return None if self.shape is None or lora is None else num_trained(lora, self.shape)

    @property
    def num_trained(self) -> int:
        """Parameters that are trained, without a critic's head; 0 where the model's shape is not known."""
        if self.num_adapted is None:
            return 0 if self.shape is None else self.shape.num_parameters
        return self.num_adapted

    # Memory

    @cached_property
    def demand(self) -> Demand | None:
        """Facts that memory depends on; None where the model's shape is not known yet."""
        return demand_of(self.run, self.shape)

    @cached_property
    def device_memory(self) -> int | None:
        """Bytes of one device, or on cpu of this machine; None where they are unknown."""
        return device_memory(self.hardware)

    @cached_property
    def budgets(self) -> tuple[Budget, ...]:
        """Memory that is in use at the same time, at each time; none where the model's shape is not known."""
        if self.demand is None:
            return ()
        return tuple(budgets(self.hardware, self.demand, self.device_memory, trains=self.trains))

    @cached_property
    def verdicts(self) -> tuple[str, ...]:
        """Verdict on each budget: it fits, or what may be too large, and the remedy."""
        adapted = self.demand is not None and self.demand.adapted
        return tuple(
            verdict(self.hardware, budget, self.device_memory, adapted, self.demand) for budget in self.budgets
        )

    @cached_property
    def fullest(self) -> tuple[Budget, str]:
        """Budget that fits worst or is largest, and the verdict on it, where there are some."""
        have = self.device_memory or 0
        return max(zip(self.budgets, self.verdicts), key=lambda pair: (pair[0].total.least > have, pair[0].total.most))

    @cached_property
    def misfit(self) -> FitError | None:
        """Reason why the devices cannot hold the run; None if the run fits or the model's shape is unknown."""
        if self.demand is None:
            return None
        return find_misfit(self.hardware, self.demand, self.budgets, self.device_memory) or self.host_misfit

    @cached_property
    def fitting(self) -> Fitting | None:
        """Best configuration of the same machine that fits; None where none does."""
        if self.demand is None or self.device_memory is None:
            return None
        load = self.main.load
        problem = Problem(
            run=self.run,
            demand=self.demand,
            device_memory=self.device_memory,
            timer=find_timer(self.hardware, self.shape),
            load=load,
            episodes=held_bytes(load),
            trains=self.trains,
        )
        return find_fitting(problem)

    @cached_property
    def share(self) -> Share | None:
        """Share of a device that was chosen for the engine, with its reason; None where the user has chosen."""
        config = self.run.config.get("hardware", {})
        if config.get("engine_memory") is not None:
            return None
        return choose_share(replace(self.hardware, engine_memory=None), self.demand, self.device_memory)

    @cached_property
    def host_amounts(self) -> dict[str, int]:
        """Memory of each machine beside its GPUs, by use, with episodes of the usual length."""
        return {} if self.demand is None else host_amounts(self.hardware, self.demand, held_bytes(self.main.load))

    @cached_property
    def host_needed(self) -> int:
        """The most of that memory that is in use at once; 0 where it is unknown."""
        return 0 if self.demand is None else host_peak(self.hardware, self.demand, held_bytes(self.main.load))

    @cached_property
    def host_peak(self) -> int:
        """Memory that a batch script asks for: with episodes of twice the expected length, or of all that fits, as far
        as a machine has so much; 0 where it is unknown."""
        if self.demand is None:
            return 0
        longest = self.main.loads[-1]
        doubled = held_bytes(longest) * (2 if self.main.expected.is_certain else 1)
        most, have = host_peak(self.hardware, self.demand, doubled), self.hardware.node_memory_gb
        return most if have is None else min(most, max(int(have * 10**9), self.host_needed))

    @cached_property
    def host_misfit(self) -> FitError | None:
        """Reason why a machine's memory beside its GPUs cannot hold the run; None where it can, or is unknown."""
        have = self.hardware.node_memory_gb
        if have is None or not self.trains:
            return None
        return find_host_misfit(self.host_amounts, self.host_needed, int(have * 10**9))

    @cached_property
    def largest_share(self) -> float | None:
        """Largest hardware.engine_memory that fits, where some does."""
        if self.demand is None or self.device_memory is None:
            return None
        return largest_share(self.hardware, self.demand, self.device_memory)

    @cached_property
    def fits_without_recompute(self) -> bool:
        """Every budget surely fits with hardware.recompute=false."""
        return fits(replace(self.hardware, recompute=False), self.demand, self.device_memory)

    @cached_property
    def lacking(self) -> str:
        """Reason why this machine cannot start the run: devices or packages that it lacks; empty where there is
        none."""
        try:
            check_devices(self.hardware)
            check_packages(self.hardware)
        except FitError as error:
            return str(error)
        return ""

    # Time and disk

    @cached_property
    def forecast(self) -> Forecast | None:
        """Time of the run; None where the model's shape or the GPU is unknown."""
        timer = find_timer(self.hardware, self.shape)
        if timer is None:
            return None
        return Forecast(
            stages=self.stages,
            timer=timer,
            num_evaluations=self.num_evaluations,
            saving=self.saving_seconds,
            measured=self.measured if self.is_measured else None,
        )

    @property
    def is_measured(self) -> bool:
        """The run's own steps are timed, not estimated."""
        return self.measured is not None and self.measured.is_same

    @property
    def saving(self) -> float | None:
        """Seconds of a checkpoint that a run with these settings has measured."""
        return self.measured.saving if self.measured is not None and self.is_measured else None

    @property
    def saving_seconds(self) -> float:
        """Seconds of a checkpoint: a run's own median, or an estimate by its size."""
        return save_seconds(self.checkpoint_bytes) if self.saving is None else self.saving

    @cached_property
    def checkpoint_bytes(self) -> int:
        """Bytes of the whole model in float32, two moments of what is trained, and adapters where there are some; 0
        where the model's shape is not known."""
        if self.shape is None:
            return 0
        return 4 * self.shape.num_parameters + self.num_trained * (8 if self.num_adapted is None else 12)

    @cached_property
    def longest_update(self) -> float:
        """Seconds of the longest update that a job should leave time for: with the longest of the expected episodes, or
        four usual updates where their length is not known; 0 where no time is known."""
        if self.forecast is None:
            return 0.0
        updates = [self.forecast.timer.step(self.hardware, load).update for load in self.main.loads]
        return max(updates) if len(updates) == 1 else min(max(updates), TAIL * updates[1])

    @property
    def judges_untrained(self) -> bool:
        """The untrained model is evaluated too; without a warm start it is the start itself."""
        return self.run.evaluate.untrained and len(self.runs) > 1

    @property
    def num_evaluations(self) -> int:
        """Number of evaluations: of the untrained model, the start, the end where it is another, and those between."""
        interval, steps = self.run.evaluate.interval, self.run.steps
        between = (steps - 1) // interval if interval and steps else 0
        return 1 + self.judges_untrained + between + (steps > 0)

    @property
    def num_engines(self) -> int:
        return self.hardware.num_engines

    @property
    def num_idle(self) -> int:
        """Engines that get no episode of a step: episodes are shared out evenly."""
        return max(0, self.num_engines - self.main.load.episodes)
