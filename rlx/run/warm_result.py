"""Result of a warm start: its loss, and the success of its own policy on a few training tasks. The result is stored in
the warm start's folder, so that a run that finds the warm start in the cache shows it too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rlx.algo.samplers import independent
from rlx.base.console import format_count
from rlx.base.regular import inside, write_aside
from rlx.environment.agents import groups_of_agents
from rlx.learner.checkpoint import newest_good
from rlx.rollout.distributed import distribute
from rlx.rollout.measure import measure
from rlx.run.execution import Execution
from rlx.run.process import Process
from rlx.run.run import Run
from rlx.run.trainee import Trainee
from rlx.runs.folder import METRICS, STEP, TRAJECTORIES
from rlx.runs.single_files import read_json
from rlx.runs.store import save
from rlx.runs.track import is_number, read_metrics
from rlx.types import Group

NUM_TASKS = 8
"""Training tasks that the warm start's policy plays, one episode each."""
NUM_DECIDING = 32
"""The same where the result decides whether the warm start goes on: of a policy that solves one task in ten, eight
episodes earn nothing in 43% of the cases, and 32 in 3%."""
SILENT = 0.2
"""Share of invalid turns above which a policy does not speak its protocol yet."""
STILL_FALLS = 0.9
"""Share of the loss before an extension below which the loss still falls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmResult:
    """One warm start after `steps` updates."""

    steps: int
    loss: float
    """Loss of the last update."""
    episodes: int
    success: float
    """Share of these episodes that succeeded."""
    invalid: float
    """Share of their turns that were invalid."""
    most_invalid: float
    """The same in the environment of a mixture where it is largest."""
    least_earned: float
    """Success or mean reward, the larger of the two, in the environment of a mixture where it is least."""
    truncated: float
    """Share of turns cut off by their length."""

    @property
    def speaks(self) -> bool:
        return self.most_invalid <= SILENT

    @property
    def earns(self) -> bool:
        """Tell whether there was any success or reward, without which no algorithm learns from the policy."""
        return self.least_earned > 0

    @property
    def lack(self) -> str:
        """Return what the policy cannot do yet; empty if it does both."""
        return "speak" if not self.speaks else "" if self.earns else "earn anything"

    def __str__(self) -> str:
        solved = f"solved {round(self.success * self.episodes)} of {format_count(self.episodes, 'training task')}"
        cut = f" ({self.truncated:.0%} cut off by their length)" if self.truncated else ""
        part = f", {self.most_invalid:.0%} in one environment" if self.most_invalid > self.invalid else ""
        return f"loss {self.loss:.3f}; its policy {solved}, {self.invalid:.0%} of its turns were invalid{part}{cut}"


def result_path(stage: Run) -> Path:
    """Return the file of the result of a warm start of so many steps."""
    return stage.folder / f"result-{stage.steps}.json"


def read_result(stage: Run) -> WarmResult | None:
    """Return a stored result; None where there is none that can be read."""
    fields = read_json(result_path(stage))
    names = ("loss", "success", "invalid", "most_invalid", "least_earned", "truncated")
    if not all(is_number(fields.get(name)) for name in names) or not isinstance(fields.get("episodes"), int):
        return None
    return WarmResult(steps=stage.steps, episodes=fields["episodes"], **{name: float(fields[name]) for name in names})


def result_of_stage(stage: Run, lines: Sequence[Mapping[str, Any]], groups: Sequence[Group]) -> WarmResult:
    """Return the result of a stage that played these groups, for the agents that it trains: others may have another
    policy."""
    return result_of(stage.steps, lines, groups_of_agents(groups, stage.trained_agents))


def result_of(steps: int, lines: Sequence[Mapping[str, Any]], groups: Sequence[Group]) -> WarmResult:
    """Return the result of a warm start with these metrics, whose policy played these groups."""
    metrics = measure(groups)
    parts = {f"{group.task.env}/" if group.task.env else "" for group in groups}
    loss = next((line["loss/value"] for line in reversed(lines) if is_number(line.get("loss/value"))), 0.0)
    return WarmResult(
        steps=steps,
        loss=loss,
        episodes=len(groups),
        success=metrics["success/mean"],
        invalid=metrics["turn/invalid"],
        most_invalid=max(metrics[f"{part}turn/invalid"] for part in parts),
        least_earned=min(max(metrics[f"{part}success/mean"], metrics[f"{part}reward/mean"]) for part in parts),
        truncated=metrics["turn/truncated"],
    )


def try_out(execution: Execution, stage: Run, trainee: Trainee) -> WarmResult:
    """Play a few training tasks with the policy of a warm start, sampled as in training, and store what came of it."""
    execution.process.pulse.at("episodes of the warm start's policy")
    act = trainee.policy.rollout(
        stage.env,
        stage.sampling,
        ("warm start", stage.seed),
        prepare=trainee.sync,
        check=execution.process.interrupt.check,
        progress=execution.process.note_end,
    )
    player = distribute(act, execution.process.ranks, stage.hardware.players(execution.process.ranks.size))
    tasks = list(islice(stage.env.tasks("train", stage.seed + 1), NUM_DECIDING if stage.extend else NUM_TASKS))
    groups = player.sample(independent(1), tasks)
    fields = asdict(result_of_stage(stage, read_metrics(stage.folder / METRICS), groups))
    result = WarmResult(**execution.process.ranks.broadcast(fields))
    if execution.process.ranks.is_first:
        path = inside(stage.folder, TRAJECTORIES) / f"result-{stage.steps}.jsonl"
        save(path, groups, max_rounds=stage.env.max_rounds)
        write_aside(result_path(stage), json.dumps(asdict(result)) + "\n")
    return result


def stored_result(execution: Execution, stage: Run) -> WarmResult | None:
    """Return rank 0's stored result on every rank."""
    result = read_result(stage) if execution.process.ranks.is_first else None
    fields = execution.process.ranks.broadcast(None if result is None else asdict(result))
    return None if fields is None else WarmResult(**fields)


def rounds_of_warm(stage: Run) -> list[Run]:
    """Return the stage before and after each extension; an extension doubles the steps.

    The learning rate falls linearly to zero at the last step. So a stage of twice the steps resumes at half the rate,
    while the fifth of five equal parts would resume at a fifth of it.
    """
    return [replace(stage, steps=stage.steps << doubled) for doubled in range(1 + stage.extend)]


def goes_on(before: WarmResult | None, now: WarmResult) -> bool:
    """Return True if more steps may help: the policy does not speak or earns nothing, and its loss still falls."""
    return now.lack != "" and (before is None or now.loss < STILL_FALLS * before.loss)


def last_step(execution: Execution) -> int:
    """Return the step of the newest good checkpoint; 0 without one."""
    newest, _ = newest_good(execution.checkpoints, execution.process.pulse.beat)
    return 0 if newest is None else int(newest.name.removeprefix(STEP))


def waiting_for(process: Process, folder: Path) -> Callable[[str], None]:
    """Return what to do while another run makes a warm start: name that run once, and listen to signals."""
    announced: set[str] = set()

    def waiting(holder: str) -> None:
        if holder not in announced:
            process.screen.say(f"waiting for {holder}, which makes the same warm start in {folder}")
        announced.add(holder)
        process.interrupt.check()

    return waiting


def advice(result: WarmResult, key: str = "warm_start") -> str:
    """Return a warning about a warm start whose policy does not speak; empty for one that does."""
    if result.speaks:
        return ""
    cut_off = result.truncated >= max(SILENT, result.most_invalid / 2)
    also = ", or a larger sampling.max_new_tokens" if cut_off else ""
    longer = f"try {key}.steps={3 * result.steps}{also}, or a protocol whose words are tokens of the model"
    symptom = f"after the warm start {result.most_invalid:.0%} of the policy's turns are invalid"
    return f"{symptom}: {longer} (docs/reward-stays-0.md)"
