"""Parts of a training step between its episodes and its line in metrics.jsonl."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rlx.algo.parts import Algorithm, adapt_state, recall
from rlx.environment.agents import groups_of_agents
from rlx.hardware.profile import TOLERANCE
from rlx.learner.batch import Batch, collate
from rlx.learner.comparison import check_layout
from rlx.learner.learner import NotFiniteError
from rlx.learner.notes import join_notes, notes_of
from rlx.learner.returned import call_credit
from rlx.learner.rows import rows
from rlx.rollout.measure import gpu_peak, lag_of, measure, peak_memory, with_credit_figures
from rlx.rollout.waves import num_dropped
from rlx.run import curriculum
from rlx.run.execution import AllNotes, Execution, keep_evidence, keeps_trajectories, refuse_errors
from rlx.run.trainee import Trainee
from rlx.types import Group, Metrics


@dataclass(frozen=True, kw_only=True)
class CreditedBatch:
    """A step's episodes, cut into rows and given credit, before the learner has seen them."""

    groups: Sequence[Group]
    agent_groups: Sequence[Group]
    """Each trained agent's own part of the episodes, from which the rows are."""
    batch: Batch
    """Rows that are trained, with their advantages."""
    num_tokens: int
    num_rows: int
    num_selected: int
    """Turns that credit selects (|D_upd|), before those with an advantage of 0 are left out."""
    lag: Metrics
    """Updates since the episodes' policy, where rollouts run ahead."""
    credit_metrics: Mapping[str, float]
    notes: AllNotes


@dataclass(kw_only=True)
class StepTimer:
    """Seconds and peak GPU memory of a step's phases."""

    execution: Execution
    step: int
    seconds: dict[str, float] = field(default_factory=dict)
    peaks: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure one phase, whose name the heartbeat has meanwhile."""
        self.execution.process.pulse.at(f"{name} of step {self.step}")
        began = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - began
        self.peaks |= gpu_peak(name, self.execution.run.hardware.device)

    def metrics(self, num_tokens: int) -> Metrics:
        rollout, update = self.seconds["rollout"], self.seconds["update"]
        seconds = rollout + update
        times = {"time/rollout": rollout, "time/update": update, "time/step": seconds}
        return {**times, "rate/tokens": num_tokens / seconds, **self.peaks}


def give_credit(execution: Execution, trainee: Trainee, groups: list[Group], step: int) -> CreditedBatch:
    """Cut a step's episodes into rows, and give each its advantage."""
    run = execution.run
    refuse_errors(groups, run.max_error_share)
    trainee.learner.beat = execution.process.pulse.beat
    algo = algorithm_now(execution)
    agent_groups = groups_of_agents(groups, run.trained_agents)
    collated = collate(agent_groups)
    if trainee.learner.num_updates == 0:
        check_layout(trainee.learner, collated, TOLERANCE[run.hardware.learner_dtype])
    annotated = trainee.learner.annotate(collated, algo.needs)
    credited = call_credit(algo.credit, rows(agent_groups, annotated))
    batch = annotated.with_credit(credited)
    is_kept = keeps_trajectories(run, step)
    return CreditedBatch(
        groups=groups,
        agent_groups=agent_groups,
        batch=batch,
        num_tokens=annotated.num_tokens,
        num_rows=len(annotated.trajectory_R),
        num_selected=annotated.num_selected(credited, batch),
        lag={"version/lag": lag_of(groups, trainee.learner.num_updates)} if run.hardware.staleness else {},
        credit_metrics=credited.metrics,
        notes=take_notes(execution, trainee, groups, agent_groups, annotated, batch) if is_kept else (),
    )


def algorithm_now(execution: Execution) -> Algorithm:
    """Return the algorithm with the state that earlier steps left."""
    return recall(execution.run.algo, execution.progress.memory)


def take_notes(
    execution: Execution,
    trainee: Trainee,
    groups: Sequence[Group],
    agent_groups: Sequence[Group],
    annotated: Batch,
    batch: Batch,
) -> AllNotes:
    """Return notes to store beside trajectories: measures of the sampling policy, and what will be trained."""
    measured = annotated.old_M or trainee.learner.measure(annotated)
    if not execution.process.ranks.is_first:
        return ()
    notes = notes_of(agent_groups, annotated, batch, measured["entropy"], trainee.policy.speech.decode)
    return join_notes(groups, execution.run.trained_agents, notes)


def update(execution: Execution, trainee: Trainee, credited: CreditedBatch, step: int) -> Metrics:
    """Let the learner take its optimizer steps on a batch; keep the micro-batch of a loss that is not finite."""
    algo = algorithm_now(execution)
    try:
        return trainee.learner.update(credited.batch, algo.loss, algo.unit)
    except NotFiniteError as error:
        raise keep_evidence(execution, step - 1, error) from error


def record(execution: Execution, credited: CreditedBatch, stats: Metrics, timer: StepTimer) -> Metrics:
    """Return a step's metrics, and let algorithm and curriculum adapt to them."""
    run, process, groups = execution.run, execution.process, credited.groups
    algo, memory = algorithm_now(execution), execution.progress.memory
    state_metrics = {f"known/{name}": value for name, value in memory.items() if isinstance(value, float)}
    state_metrics |= curriculum.tell(run, execution.progress.counts)
    figures = with_credit_figures({**measure(credited.agent_groups, run.env), **stats}, credited.credit_metrics)
    execution.advance(
        memory=adapt_state(algo, memory, groups, figures),
        counts=curriculum.adapt(run, execution.progress.counts, groups),
    )
    counts = {
        "batch/groups": len(groups),
        "batch/episodes": sum(len(group.trajectories) for group in groups),
        "batch/turns": credited.num_rows,
        "batch/tokens": credited.num_tokens,
        "update/turns": credited.batch.num_turns,
        "update/selected_turns": credited.num_selected,
        "memory/peak": peak_memory(),
    }
    dropped = {"batch/dropped_groups": num_dropped(groups, algo.num_prompts, algo.num_turns)} if algo.num_turns else {}
    servers = {} if process.fleet is None else process.fleet.measure(process.ranks)
    return {
        **figures,
        **state_metrics,
        **credited.lag,
        **servers,
        **dropped,
        **counts,
        **timer.metrics(credited.num_tokens),
    }
