"""Check an environment before a run: the number of its tasks, and the room for their prompts.

A fault of a user's own environment is one line with its place, as a wrong value in the configuration is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from rlx.environment.expert import DemonstrationError, demonstration
from rlx.environment.random_play import try_once
from rlx.evaluation.evaluate import EvaluateError
from rlx.model.load import read_tokenizer
from rlx.plan.openings import Opening
from rlx.plan.prospect import Prospect
from rlx.plan.stage import Stage
from rlx.run.curriculum import TaskError
from rlx.types import Task


def check_tasks(prospect: Prospect, *, fetch: bool = True) -> None:
    """Refuse a run without the tasks it needs. Without `fetch`, those that come from elsewhere are not waited for."""
    check_positions(prospect)
    for stage in reversed(prospect.stages) if prospect.trains else [prospect.main]:
        if fetch or not stage.run.env.is_remote:
            check_stage(prospect, stage)


def check_stage(prospect: Prospect, stage: Stage) -> None:
    """Refuse one stage without its tasks."""
    try:
        openings = open_stage(prospect, stage)
        check_room(prospect, stage, openings)
    except TaskError as error:
        raise TaskError(f"{stage.key}{error}") from error.__cause__
    if prospect.trains and stage.run.algo.imitates:
        check_experts(stage)


def open_stage(prospect: Prospect, stage: Stage) -> list[Opening]:
    """Open the first episodes of a stage; the run's own stage has test tasks too. A fault is a TaskError."""
    is_own = stage is prospect.main
    try:
        openings = [*(prospect.held_out_openings if is_own else ()), *(stage.openings if prospect.trains else ())]
        for opening in openings:
            check_data(opening.task)
        for opening in openings if is_own and prospect.run.evaluate.num_tries else ():
            try_once(opening.env, opening.task, prospect.run.evaluate.seed)
        return openings
    except EvaluateError:
        raise
    except Exception as error:
        raise TaskError(describe_error(error)) from error


def check_data(task: Task) -> None:
    """Refuse data of a task that a file of trajectories cannot hold."""
    try:
        json.dumps(dict(task.data), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TaskError(f"env: the data of task {task.id!r:.60} is no JSON: {error}") from error


def describe_error(error: Exception) -> str:
    """Return one line: an environment's own refusal as it is, or the name of another error, which is its fault."""
    lines = str(error).splitlines() or ["no reason given"]
    text = lines[0] if isinstance(error, ValueError) else f"its tasks fail with {type(error).__name__}: {lines[0]}"
    if text.startswith(("env", "protocol.")):
        return text
    return f"env.{text}" if "=" in text.split(" ")[0] else f"env: {text}"


def check_positions(prospect: Prospect) -> None:
    """Refuse more tokens than the model's own config.json says that it can hold, where that file is here."""
    model, most = prospect.run.model, prospect.num_positions
    if most is not None and model.max_context > most:
        raise TaskError(f"model.max_context={model.max_context}: expected at most {most}, as {model.path} was made for")


def check_room(prospect: Prospect, stage: Stage, openings: Iterable[Opening]) -> None:
    """Refuse a prompt that leaves no room for an answer. The tokenizer is read where there is a doubt, if it is
    here."""
    longest = max((opening.prompt for opening in openings), key=len).encode(errors="replace").decode()
    context = stage.run.sampling.max_context
    if len(longest.encode()) < context or prospect.tokenizer is None:
        return
    num_tokens = len(read_tokenizer(prospect.tokenizer).encode(longest, add_special_tokens=False).ids)
    if num_tokens >= context:
        raise TaskError(f"sampling.max_context={context}: expected more than a prompt, which takes {num_tokens} tokens")


def check_experts(stage: Stage) -> None:
    """Refuse an expert that makes no move in the first task of a part, where its moves are to be copied."""
    for opening in stage.openings:
        task = opening.task
        if not demonstration(opening.env, stage.dialects[task.env], task, stage.run.seed)[1]:
            raise DemonstrationError(
                f"env: the expert makes no move in task {task.key!r:.60}, and there is none to copy"
            )
