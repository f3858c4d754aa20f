"""Episodes of an evaluation: found where they were stored, or played."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rlx.algo.samplers import group_by_task
from rlx.evaluation.compare import name_rounds
from rlx.rollout.distributed import distribute
from rlx.rollout.play import Rollout
from rlx.run.execution import Execution
from rlx.run.stored_evaluation import (
    evaluation_path,
    is_begun,
    is_of,
    part_path,
    read_evaluation,
    read_parts,
    store_evaluation,
)
from rlx.runs.cache import in_words, time_of
from rlx.runs.store import growing, save
from rlx.types import Group, Sampling, Start, Trajectory

PLAYED = {"eval": "the policy", "start": "the start", "untrained": "the untrained model"}
"""Nouns of figures, as a person is told of them."""
Act = Callable[..., Rollout]
"""Makes the rollout of the policy; it is called only where something is left to play."""


@dataclass(frozen=True, kw_only=True)
class EvaluationPlayer:
    """Gives the episodes of one evaluation of a run, and plays none of them twice."""

    execution: Execution
    act: Act
    noun: str
    key: str
    """Name of all that the episodes depend on."""
    cache: Path | None
    """Folder of the same evaluation by other runs; None: such are not looked for."""

    def play(self, max_rounds: int | None, sampling: Sampling, starts: Sequence[Start]) -> list[Trajectory]:
        """Return the episodes of these starts under a budget: stored episodes of this run, else of another run, else
        new episodes."""
        stored_path, others = self.path(max_rounds), self.path_of_others(max_rounds)
        episodes = self.stored(stored_path, starts)
        if episodes is None and others is not None and not is_begun(self.execution.process, stored_path, self.key):
            cached = read_evaluation(self.execution.process, others, starts)
            if cached is not None:
                say_cached(self.execution, self.noun, others)
                return cached
        if episodes is None:
            episodes = self.play_rest(max_rounds, sampling, starts)
        self.count(episodes, starts, max_rounds)
        return episodes

    def path(self, max_rounds: int | None) -> Path:
        return evaluation_path(self.execution.run, self.noun, max_rounds)

    def path_of_others(self, max_rounds: int | None) -> Path | None:
        return None if self.cache is None else self.cache / f"{name_rounds(max_rounds)}.jsonl"

    def stored(self, path: Path, starts: Sequence[Start]) -> list[Trajectory] | None:
        """Return the run's stored episodes if their key matches this policy and these settings."""
        process = self.execution.process
        return read_evaluation(process, path, starts) if is_of(process, path, self.key) else None

    def count(self, episodes: Sequence[Trajectory], starts: Sequence[Start], max_rounds: int | None) -> None:
        """Count what the episodes cost, and keep them for other runs."""
        num = self.execution.run.evaluate.num_samples
        groups = group_by_task([start.task for start in starts[::num]], episodes, num)
        self.execution.spend(groups)
        others = self.path_of_others(max_rounds)
        if self.execution.process.ranks.is_first and others is not None:
            save_for_others(self.execution, others, groups, max_rounds)

    def play_rest(self, max_rounds: int | None, sampling: Sampling, starts: Sequence[Start]) -> list[Trajectory]:
        """Play, on all ranks, the episodes that were not stored before an interrupt, and store each as it ends."""
        process, path = self.execution.process, self.path(max_rounds)
        run, ranks = self.execution.run, process.ranks
        rollout = self.act(run.env, sampling, ("evaluate", run.evaluate.seed), max_rounds=max_rounds)
        process.pulse.at(f"evaluation of {PLAYED[self.noun]}")
        done = read_parts(process, path, self.key)
        rest = [start for start in starts if (start.task.key, start.sample) not in done]
        title = f"evaluate {PLAYED[self.noun]}"
        with (
            growing(part_path(path, self.key, ranks.rank), max_rounds=max_rounds) as add,
            process.screen.bar(title, len(starts), "episodes", done=len(starts) - len(rest)) as advance,
        ):

            def progress(ended: Trajectory) -> None:
                add(ended)
                process.note_end(ended)
                advance(ranks.size)

            watched = replace(rollout, check=process.interrupt.check, progress=progress)
            player = distribute(watched, ranks, run.hardware.players(ranks.size))
            done |= {
                (trajectory.task.key, trajectory.sample): trajectory
                for trajectory in (player.play(rest) if rest else [])
            }
        return [replace(done[start.task.key, start.sample], task=start.task) for start in starts]

    def store(self, groups: Sequence[Group], max_rounds: int | None) -> None:
        """Store the episodes of an evaluation that is over as the run's own."""
        store_evaluation(self.path(max_rounds), self.key, groups, max_rounds)


def say_cached(execution: Execution, noun: str, path: Path) -> None:
    """Say that an evaluation is another run's, on the screen and in the summary."""
    time_text = execution.process.ranks.first(lambda: in_words(time_of(path)))
    note = f"evaluation of {PLAYED[noun]}: found in the cache, made {time_text}; cost.tokens does not count it"
    if note not in execution.notes:
        execution.process.screen.say(note)
        execution.notes = (*execution.notes, note)


def save_for_others(execution: Execution, path: Path, groups: Sequence[Group], max_rounds: int | None) -> None:
    """Keep an evaluation in the cache, as far as the cache can be written."""
    try:
        save(path, groups, max_rounds=max_rounds)
    except OSError as error:
        execution.process.screen.say(f"the evaluation is not kept in the cache: {error}")
