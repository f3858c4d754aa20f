"""EleutherAI's lm-evaluation-harness: its tasks, its prompts, its scoring, with a model that rlx has loaded.

https://github.com/EleutherAI/lm-evaluation-harness

Import this module only where the extra `benchmarks` is installed.

Legend: B sequences, L positions, V vocabulary.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
import numpy as np
import torch
from huggingface_hub import constants
from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment
from lm_eval import utils
from lm_eval.api import metrics  # noqa: F401  # registers the harness's metrics
from lm_eval.api.registry import metric_registry
from lm_eval.defaults import DEFAULT_OTHER_SEED, DEFAULT_RANDOM_SEED
from lm_eval.evaluator import evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from torch import Tensor

from rlx.evaluate.benchmarks import BenchmarkError, Benchmarks, Score, Scores
from rlx.evaluate.task_file import digest_of_files, is_place, read_task, task_files, yaml_files
from rlx.fetch import PATIENCE
from rlx.hardware.pulse import nothing
from rlx.limits import near
from rlx.record.folder import digest_of

REMEDY = (
    "run the same command once where the hub is reachable and keep HF_HOME, or give a local task file: "
    "benchmark=FILE.yaml (docs/benchmarks.md)"
)
LOST = ("connect", "reach", "offline", "resolve", "couldn't find", "doesn't exist on the hub", "timed out")
"""Words of errors that say that a hub did not answer."""


class LoadedModel(HFLM):
    """The harness's model for transformers, with a model that is loaded already.

    Its rows of added actions (rlx/model/expand.py) are no part of the head, so they have no share of a probability.
    """

    def __init__(self, model: Any, tokenizer: Any, *, batch_size: int, beat: Callable[[], None] = nothing) -> None:
        super().__init__(pretrained=model, tokenizer=tokenizer, backend="causal", batch_size=batch_size)
        self.beat = beat

    def _model_call(self, inps: Tensor, attn_mask: Tensor | None = None, labels: Tensor | None = None) -> Tensor:
        """Return logits (B, L, V); a signal ends the evaluation between two passes."""
        self.beat()
        return super()._model_call(inps, attn_mask, labels)

    def _model_generate(self, *args: Any, **kwargs: Any) -> Tensor:
        self.beat()
        return super()._model_generate(*args, **kwargs)

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Split the ids of a prompt and its continuation.

        The harness cuts the ids of the whole text at the length of the prompt's. A tokenizer that joins text across
        blanks, as nano's does, has a token on both sides of that place, and the cut loses a part of the answer. Such a
        pair is encoded text by text, as in an episode.
        """
        context_ids, rest_ids = super()._encode_pair(context, continuation)
        if self.tok_encode(context + continuation) == context_ids + rest_ids:
            return context_ids, rest_ids
        return self.tok_encode(context), self.tok_encode(continuation, add_special_tokens=False)


def prepare() -> None:
    """Have the harness evaluate templates in Jinja's sandbox, and print nothing but errors."""
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    datasets.disable_progress_bars()
    huggingface_hub.logging.set_verbosity_error()
    boxed = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    boxed.filters |= {"regex_replace": utils.regex_replace}
    utils.env = boxed


def load_tasks(settings: Benchmarks) -> dict[str, Any]:
    """Load the tasks and their data sets; BenchmarkError in one line for a name, file or data set that cannot be."""
    prepare()
    manager = manager_for(settings)
    specs = [(name, spec) for name in settings.names for spec in specs_of(name, settings.code)]
    if not all(isinstance(spec, dict) and is_local(spec) for _, spec in specs):
        use_cache_without_hub()
    whole: dict[str, Any] = {"tasks": {}, "groups": {}, "group_map": {}}
    for name, spec in specs:
        loaded = load_spec(manager, name, spec)
        for task in loaded["tasks"]:
            if task in whole["tasks"]:
                raise BenchmarkError(f"benchmark={name:.200}: {task!r:.80} is named twice; leave one out")
        for key, inner in whole.items():
            inner.update(loaded.get(key) or {})
    return whole


def manager_for(settings: Benchmarks) -> TaskManager:
    """Return the harness's tasks, after a look at the names. Its own 14,000 are read only where one is named."""
    named = [name for name in settings.names if not is_place(name)]
    manager = task_manager(bool(named))
    for name in named:
        if name not in manager.task_index:
            raise BenchmarkError(f"benchmark={name:.80}: there is no such benchmark{near(name, manager.all_tasks)}")
    return manager


@cache
def task_manager(with_own: bool) -> TaskManager:
    return TaskManager(include_defaults=with_own)


def use_cache_without_hub() -> None:
    """Look once whether a hub answers; if none does, read its cache at once instead of asking for half a minute."""
    try:
        huggingface_hub.get_session().head(constants.ENDPOINT, timeout=PATIENCE)
    except Exception:  # every client of HTTP has errors of its own
        constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True


def specs_of(name: str, code: bool) -> Iterator[str | dict[str, Any]]:
    """Yield what the harness is asked for: a name, or the values of a task file. The file itself only with consent."""
    if not is_place(name):
        yield name
        return
    for file in yaml_files(name) if code else task_files(name):
        yield str(file) if code else read_task(file, set(metric_registry))


def load_spec(manager: TaskManager, name: str, spec: str | dict[str, Any]) -> Mapping[str, Any]:
    """Build a task or group with its data set."""
    try:
        return manager.load([spec])
    except Exception as error:  # a task's template, its data set and its code raise anything
        why = " ".join(str(error).split())[:200] or type(error).__name__
        is_lost = isinstance(error, OSError) or any(word in why.lower() for word in LOST)
        advice = f"; {REMEDY}" if is_lost and not (isinstance(spec, dict) and is_local(spec)) else ""
        raise BenchmarkError(f"benchmark={name:.200}: its task or data set cannot be loaded: {why}{advice}") from error


def is_local(config: Mapping[str, Any]) -> bool:
    """Tell whether a task's data set is in files here."""
    return "data_files" in (config.get("dataset_kwargs") or {})


def identity(settings: Benchmarks) -> list[str]:
    """Return what tells these benchmarks from others of the same names: digests of local task files and their data.
    BenchmarkError for a name that the harness does not know."""
    prepare()
    manager_for(settings)
    found = []
    for name in settings.names:
        for spec in specs_of(name, settings.code):
            if isinstance(spec, dict):
                files = digest_of_files(spec["dataset_kwargs"].get("data_files", []))
                found.append(digest_of({"config": spec, "files": files}))
            else:
                found.append(digest_of_folder(spec) if is_place(spec) else spec)
    return found


def digest_of_folder(name: str) -> str:
    """Return a digest of a task file whose code is run, and of what lies beside it, by size and time."""
    stats = [(path.name, path.stat()) for path in sorted(Path(name).parent.glob("*")) if path.is_file()]
    beside = [[own, stat.st_size, stat.st_mtime_ns] for own, stat in stats]
    return digest_of({"file": digest_of_files(name), "beside": beside})


def score_model(
    model: Any, tokenizer: Any, tasks: dict[str, Any], settings: Benchmarks, beat: Callable[[], None] = nothing
) -> Scores:
    """Evaluate a model that is loaded. The same model, tasks and settings give the same scores."""
    lm = LoadedModel(model, tokenizer, batch_size=settings.batch_size, beat=beat)
    seed_all(tasks, settings.shots)
    try:
        found = evaluate(
            lm, tasks, limit=settings.limit, bootstrap_iters=0, log_samples=True, confirm_run_unsafe_code=settings.code
        )
    except ValueError as error:
        if "unsafe" not in str(error):
            raise
        names = ",".join(settings.names)
        why = "it runs code that the model writes, on this machine; benchmark_code=true allows it"
        raise BenchmarkError(f"benchmark={names:.200}: {why}") from error
    return scores_of(found)


def seed_all(tasks: Mapping[str, Any], shots: int | None) -> None:
    """Set the harness's own seeds, and the examples in prompts, as its `simple_evaluate` does for a model by name."""
    random.seed(DEFAULT_RANDOM_SEED)
    np.random.seed(DEFAULT_OTHER_SEED)
    torch.manual_seed(DEFAULT_OTHER_SEED)
    for task in tasks["tasks"].values():
        own = task.get_config("num_fewshot")
        if own is None or (shots is not None and own != 0):
            task.set_config(key="num_fewshot", value=shots or 0)
        task.set_fewshot_seed(seed=DEFAULT_OTHER_SEED)


def scores_of(found: Mapping[str, Any]) -> Scores:
    """Return the scores in the harness's results."""
    scores: dict[tuple[str, str, str], Score] = {}
    for task, figures in {**found["results"], **(found.get("groups") or {})}.items():
        samples = found["samples"].get(task, [])
        prompts = digest_of([[one["doc_hash"], one["prompt_hash"], one["target_hash"]] for one in samples])
        for name, value in figures.items():
            metric, comma, chosen = name.rpartition(",")
            if not comma or metric.endswith("_stderr") or isinstance(value, bool | str) or value is None:
                continue
            examples = examples_of(samples, metric, chosen, float(value))
            scores[task, metric, chosen] = Score(value=float(value), examples=examples, prompts=prompts)
    return scores


def examples_of(
    samples: Sequence[Mapping[str, Any]], metric: str, chosen: str, value: float
) -> tuple[float, ...] | None:
    """Return a metric of each example; None where the figure is not their mean."""
    told = [one.get(metric) for one in samples if one["filter"] == chosen]
    if not told or not all(isinstance(one, int | float | np.number | np.bool_) for one in told):
        return None
    numbers = tuple(float(one) for one in told if one is not None)
    is_mean = all(map(math.isfinite, numbers)) and math.isclose(math.fsum(numbers) / len(numbers), value, rel_tol=1e-9)
    return numbers if is_mean else None
