"""General benchmarks of a run's newest checkpoint and of the model before training, in one table."""

from __future__ import annotations

import gc
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.console import Screen, one_line
from rlx.evaluate.benchmarks import (
    INTERVALS,
    BenchmarkError,
    Benchmarks,
    Row,
    benchmark_table,
    row_from_json,
    row_json,
    rows_of,
)
from rlx.model.load import Model, load_base, load_tokenizer, source_of
from rlx.record.command import LONGEST
from rlx.record.folder import EVALUATIONS, digest_of
from rlx.record.provenance import distributions_of, versions_of
from rlx.regular import inside, read_bounded, write_aside
from rlx.run.evaluation_run import newest_of, refuse_trained
from rlx.run.execution import Execution, open_run
from rlx.run.report import WIDE
from rlx.run.run import Run
from rlx.run.warm import model_digest
from rlx.runs.summary import without_infinities
from rlx.table import markdown_cell, to_markdown, to_rich

if TYPE_CHECKING:
    from rlx.evaluate.benchmarks import Scores

RESULT, PAGE = "benchmarks.json", "benchmarks.md"
BENCHMARK_MODULES = ("lm_eval", "datasets", "torch", "transformers")
"""Modules whose versions a result depends on."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Models to evaluate, each once."""

    after: Model
    before: Model | None
    """The run's model before all training, its warm start included; None for a model as it stands."""
    steps: int = 0


def benchmark_run(run: Run, settings: Benchmarks, screen: Screen | None = None) -> list[Row]:
    """Evaluate the newest good checkpoint of the run in `run.folder` beside the run's model before training."""
    newest, notes = newest_of(run)
    start = replace(run.model, lora=None)
    subject = Subject(after=replace(start, path=str(newest)), before=start, steps=int(newest.name.partition("-")[2]))
    key = result_key(run, settings, subject)
    folder = inside(run.folder, EVALUATIONS, f"{newest.name}-benchmarks-{digest_of(key)[:8]}")
    return evaluate_in(replace(run, folder=folder), settings, subject, key, screen, notes)


def benchmark_model(run: Run, settings: Benchmarks, screen: Screen | None = None) -> list[Row]:
    """Evaluate the run's model as it stands, in the run's folder."""
    refuse_trained(run.folder)
    subject = Subject(after=replace(run.model, lora=None), before=None)
    return evaluate_in(run, settings, subject, result_key(run, settings, subject), screen)


def evaluate_in(
    run: Run,
    settings: Benchmarks,
    subject: Subject,
    key: Mapping[str, Any],
    screen: Screen | None,
    notes: Sequence[str] = (),
) -> list[Row]:
    """Evaluate in `run.folder`, on the first of the processes that were started. Equal settings show the result that
    is there."""
    with open_run(replace(run, words=()), screen, trains=False) as execution:  # they lack the benchmarks
        for note in notes:
            execution.process.screen.say(note)
        execution.process.pulse.at("benchmarks")
        made: list[Row] = []

        def work() -> None:
            found = read_result(execution.run.folder / RESULT, key)
            made.extend(found or measure(execution, settings, subject))
            if found is None:
                write_result(execution, key, subject, made)

        execution.process.ranks.first(work)
        if execution.process.ranks.is_first:
            execution.process.screen.show(to_rich(benchmark_table(made)))
            execution.process.screen.say(f"in {execution.run.folder}: {PAGE}, {RESULT}")
        return made


def result_key(run: Run, settings: Benchmarks, subject: Subject) -> dict[str, Any]:
    """Return what determines a result; BenchmarkError for benchmarks that cannot be."""
    from rlx.evaluate.harness import identity

    for model in filter(None, (subject.before, subject.after)):
        source_of(model)  # fetches a hub's model in a process of its own
    models = [None if model is None else model_digest(model) for model in (subject.before, subject.after)]
    return {
        "settings": {**asdict(settings), "names": list(settings.names)},
        "tasks": identity(settings),
        "models": models,
        "dtype": run.hardware.dtype,
        "intervals": [run.evaluate.num_resamples, run.evaluate.seed],
        "versions": versions_of(BENCHMARK_MODULES),
    }


def measure(execution: Execution, settings: Benchmarks, subject: Subject) -> list[Row]:
    """Return the rows of the table; the models are in memory one after the other."""
    from rlx.evaluate.harness import load_tasks

    tasks = load_tasks(settings)
    before = None if subject.before is None else score(execution, subject.before, tasks, settings)
    after = score(execution, subject.after, tasks, settings)
    return rows_of(after, before, num_resamples=execution.run.evaluate.num_resamples, seed=execution.run.evaluate.seed)


def score(execution: Execution, model: Model, tasks: dict[str, Any], settings: Benchmarks) -> Scores:
    """Load a model, evaluate it, and let go of it."""
    from rlx.evaluate.harness import score_model

    execution.process.screen.say(f"evaluating: {model.path}")
    tokenizer = load_tokenizer(model)
    loaded = load_base(model, dtype=execution.run.hardware.dtype, attention="sdpa").to(execution.run.hardware.device)

    def beat() -> None:
        execution.process.interrupt.check()
        execution.process.pulse.beat()

    found = score_model(loaded, tokenizer, tasks, settings, beat)
    del loaded
    gc.collect()
    return found


def read_result(path: Path, key: Mapping[str, Any]) -> list[Row] | None:
    """Return the rows of a result with the same key; None where there is none. Another result is not overwritten."""
    if not os.path.lexists(path):
        return None
    try:
        value = json.loads(read_bounded(path))
        found, rows = value["key"], [row_from_json(row) for row in value["rows"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchmarkError(f"{path} cannot be read ({type(error).__name__}): move it away") from None
    if found != key:
        raise BenchmarkError(f"{path} is the result of other benchmarks or models: choose another hydra.run.dir")
    return rows


def write_result(execution: Execution, key: Mapping[str, Any], subject: Subject, rows: Sequence[Row]) -> None:
    """Write the result as JSON, and as a page."""
    models = {"before": None if subject.before is None else subject.before.path, "after": subject.after.path}
    value = {
        "key": key,
        **models,
        "steps": subject.steps,
        "rows": [row_json(row) for row in rows],
    }
    folder = execution.run.folder
    write_aside(folder / RESULT, json.dumps(without_infinities(value), indent=1) + "\n")
    write_aside(folder / PAGE, "\n".join(page_lines(execution.run, key, models, rows)))


def page_lines(
    run: Run, key: Mapping[str, Any], models: Mapping[str, str | None], rows: Sequence[Row]
) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# General benchmarks\n"
    words = [*words_of(key["settings"]), *(word for word in run.words if not word.startswith("benchmark"))]
    yield f"    {one_line(shlex.join(['rlx', 'eval', *words]), LONGEST)}\n"
    for noun, path in models.items():
        if path is not None:
            yield f"- {noun}: {markdown_cell(path, WIDE)}"
    settings, names = key["settings"], [name for module in BENCHMARK_MODULES for name in distributions_of(module)]
    limit, shots = settings["limit"] or "all", settings["shots"]
    yield f"- examples of each: {limit}; answers shown in prompts: {'the default' if shots is None else shots}"
    yield f"- intervals: {INTERVALS}"
    yield f"- versions: {', '.join(f'{name} {text}' for name, text in key['versions'].items() if name in names)}\n"
    yield to_markdown(benchmark_table(rows))


def words_of(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words of a command that ask for these benchmarks."""
    yield f"benchmark={','.join(settings['names'])}"
    for name, default in (("limit", None), ("shots", None), ("batch_size", Benchmarks.batch_size), ("code", False)):
        if settings[name] != default:
            yield f"benchmark_{name}={str(settings[name]).lower()}"
