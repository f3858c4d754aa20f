"""Check before a run that its environment has the tasks it needs, and its model the room for them.

What a user's own environment does wrong is told in one line with its place, as a value in the configuration is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from rlx.evaluate.evaluate import EvaluateError, held_out
from rlx.expert import DemonstrationError, demonstration
from rlx.model.load import Model
from rlx.model.shape import find_file, find_positions
from rlx.protocol.history import first_prompt
from rlx.random_play import has_random_episodes, has_tries, random_act, tries_of
from rlx.run.course import TaskError
from rlx.run.run import Run
from rlx.types import Environment, Step, Task
from rlx.world import lawful, open_episode, opening_of, part_of, trained_parts


def check_tasks(run: Run, *, fetch: bool = True, trains: bool = True) -> None:
    """Refuse a run without the tasks it needs. Without `fetch`, those that come from elsewhere are not waited for."""
    check_positions(run.model)
    check_stage(run, fetch=fetch, trains=trains, tests=True)
    before = run.before() if trains else None
    key = "warm_start."
    while before is not None:
        try:
            check_stage(before, fetch=fetch)
        except TaskError as error:
            raise TaskError(f"{key}{error}") from error
        before, key = before.before(), f"{key}before."


def check_stage(run: Run, *, fetch: bool, trains: bool = True, tests: bool = False) -> None:
    """The tasks of one stage alone."""
    if not fetch and getattr(run.env, "fetches", False):
        return
    try:
        held = held_out(run.evaluate, run.env)[:1] if tests else []
        begun = list(first_tasks(run)) if trains else []
        tasks = [*held, *begun]
        for task in tasks if tests and run.evaluate.num_tries else ():
            try_at_random(part_of(run.env, task), task, run.evaluate.seed)
        openings = [look(part_of(run.env, task), task) for task in tasks]
        seen = [() if opening is None else opening.observation for opening in openings]
        prompts = [first_prompt(run.dialects[task.env], task, shown) for task, shown in zip(tasks, seen, strict=True)]
    except EvaluateError:
        raise
    except Exception as error:
        raise TaskError(describe_error(error)) from error
    if None in openings:
        raise TaskError("env: what start(task) gives has no step(action), which every Episode needs")
    check_room(run, prompts)
    for task in begun if run.algo.imitates else ():
        if not demonstration(part_of(run.env, task), run.dialects[task.env], task, run.seed)[1]:
            raise DemonstrationError(
                f"env: the expert makes no move in task {task.key!r:.60}, and there is none to copy"
            )


def try_at_random(env: Environment, task: Task, seed: int) -> None:
    """Draw the random tries of an evaluation's floor, so that a fault shows before the training."""
    if has_tries(env):
        list(tries_of(env, task, 1, seed))
    elif has_random_episodes(env):
        random_act(env, task, None, Random(seed))


def look(env: Environment, task: Task) -> Step | None:
    """Return the first step of an episode; None if it has no `step`."""
    with open_episode(env, task) as episode:
        return lawful(env, opening_of(episode)) if hasattr(episode, "step") else None


def first_tasks(run: Run) -> Iterator[Task]:
    """The first of each endless stream: of every part that is trained on."""
    for name, env in trained_parts(run.env).items():
        task = next(env.tasks("train", run.seed), None)
        if task is None:
            raise ValueError("tasks('train') gives no task")
        yield replace(task, env=name)


def describe_error(error: Exception) -> str:
    """Return one line: an environment's own refusal as it is, or the name of another error, which is its fault."""
    lines = str(error).splitlines() or ["no reason given"]
    text = lines[0] if isinstance(error, ValueError) else f"its tasks fail with {type(error).__name__}: {lines[0]}"
    if text.startswith(("env", "protocol.")):
        return text
    return f"env.{text}" if "=" in text.split(" ")[0] else f"env: {text}"


def check_positions(model: Model) -> None:
    """The model's own config.json, where that is here, says how many tokens it can hold."""
    most = find_positions(model.path)
    if most is not None and model.max_context > most:
        raise TaskError(f"model.max_context={model.max_context}: expected at most {most}, as {model.path} was made for")


def check_room(run: Run, prompts: list[str]) -> None:
    """A prompt leaves room for an answer; told where the tokenizer is here, and only read where it is in doubt."""
    longest = max(prompts, key=len).encode(errors="replace").decode()  # as the model will read it
    file = find_file(run.model.path, "tokenizer.json")
    if len(longest.encode()) < run.sampling.max_context or file is None:
        return
    from tokenizers import Tokenizer

    num_tokens = len(Tokenizer.from_file(str(file)).encode(longest, add_special_tokens=False).ids)
    if num_tokens >= run.sampling.max_context:
        limit = f"expected more than a prompt, which takes {num_tokens} tokens"
        raise TaskError(f"sampling.max_context={run.sampling.max_context}: {limit}")
