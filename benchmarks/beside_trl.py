"""Common parts of the benchmarks beside TRL: a model of nano's shape with random weights, and steps that take turns.

Both sides start from the same weights, sample in float32 at temperature 1 without filters, and cannot end a completion
early. TRL's trainer runs as it is, its own step timed from `on_step_begin` to `on_step_end`, and ours runs between two
of its steps, so whatever disturbs the machine disturbs both. Times are process CPU time of one thread: a tool's own
process is not in them, for neither side. Figures are medians, the first step of both is left out.
"""

from __future__ import annotations

import copy
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PrinterCallback, TrainerCallback
from transformers.utils.logging import set_verbosity_error

import rlx
from rlx.algo.parts import Algorithm
from rlx.environment import Environment
from rlx.environment.dialect import Dialect
from rlx.learner.batch import collate
from rlx.learner.rows import rows
from rlx.learner.torch import TorchLearner
from rlx.model.load import Model, encode_text, load_tokenizer
from rlx.protocol.history import History
from rlx.rollout.measure import measure
from rlx.rollout.play import Rollout
from rlx.rollout.speech import Speech
from rlx.rollout.stops import decoder
from rlx.rollout.torch.engine import TorchEngine
from rlx.types import Action, Group, Move, Part, Sampling, Stop, Task, Verb

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
warnings.simplefilter("ignore", FutureWarning)

NANO = Path(rlx.__file__).parent / "model" / "nano"
NEVER = "\x00 not in any text \x00"
"""A stop string that no completion holds."""
NO_TOKEN = 1_000_000
"""An end of sequence that no completion holds."""


@dataclass
class Clock:
    """CPU seconds of each part of each step."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def time(self, part: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.seconds.setdefault(part, []).append(time.process_time() - start)

    def medians(self) -> dict[str, float]:
        """Median over all steps but the first."""
        return {part: statistics.median(found[1:]) for part, found in self.seconds.items()}


def build_model() -> Any:
    """Nano's shape, random weights."""
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(NANO), dtype=torch.float32)


def build_tokenizer() -> Any:
    return load_tokenizer(Model(path=str(NANO)))


@dataclass(frozen=True, kw_only=True)
class Free(History):
    """A dialect in which every completion acts, whatever it says, and none ends before its last token."""

    prompt: Callable[[Task], str]
    reply: Callable[[tuple[Part, ...]], str]
    tools: tuple[str, ...] = ("python",)
    stops: tuple[str, ...] = (NEVER,)

    def open(self, task: Task) -> str:
        return self.prompt(task)

    def bind(self, tools: tuple[Verb, ...], actions: tuple[Verb, ...]) -> Free:
        return self

    def parse(self, text: str, stop: Stop) -> Action:
        return Action(kind="call", name="python", text=text)

    def render(self, observation: tuple[Part, ...]) -> str:
        return self.reply(observation)

    def write(self, move: Move) -> str:
        raise NotImplementedError("nothing is demonstrated here")


def our_step(
    model: Any,
    algo: Algorithm,
    env: Environment,
    dialect: Dialect,
    tasks: list[Task],
    sampling: Sampling,
    engine_as: Callable[[TorchEngine], Any] = lambda engine: engine,
) -> tuple[Clock, Callable[[], list[Group]]]:
    """One step of rlx.training's loop with `hardware=cpu`: play, collate, credit, update, hand the weights on."""
    tokenizer = build_tokenizer()
    learner = TorchLearner(
        copy.deepcopy(model), optimizer=algo.optimizer, num_steps=100, needs=algo.needs, micro_batch_tokens=1024
    )
    engine = engine_as(
        TorchEngine(config=model.config, weights=learner.weights(), tokenizer=tokenizer, eos_ids=(), num_slots=64)
    )
    speech = Speech(
        dialect=dialect,
        encode=lambda text: encode_text(tokenizer, text),
        decode=decoder(tokenizer),
    )
    clock = Clock()

    def step() -> list[Group]:
        with clock.time("step"):
            with clock.time("rollout"):
                if engine.version != learner.num_updates:
                    engine.load(learner.weights(), learner.num_updates)
                stream = (0, learner.num_updates)
                act = Rollout(env=env, speech=speech, engine=engine, sampling=sampling, stream=stream, tool_ticks=1)
                groups = act.sample(algo.sample, tasks)
            with clock.time("update"):
                batch = learner.annotate(collate(groups), algo.needs)
                learner.update(batch.with_credit(algo.credit(rows(groups, batch))), algo.loss, algo.unit)
            measure(groups)
        return groups

    return clock, step


def trl_arguments(folder: str, num_prompts: int, num_samples: int, num_new: int, micro_batch: int, steps: int) -> dict:
    """Keywords of TRL's configs: what is equal, and everything optional switched off."""
    return {
        "output_dir": folder,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "per_device_train_batch_size": micro_batch,
        "gradient_accumulation_steps": num_prompts * num_samples // micro_batch,
        "num_generations": num_samples,
        "max_completion_length": num_new,
        "generation_kwargs": {"eos_token_id": NO_TOKEN},
        "max_steps": steps,
        "learning_rate": 3e-4,
        "max_grad_norm": 1.0,
        "beta": 0.0,
        "save_strategy": "no",
        "logging_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "seed": 0,
    }


class TakeTurns(TrainerCallback):
    """Times TRL's steps, and lets ours run after each."""

    def __init__(self, clock: Clock, ours: Callable[[], Any]) -> None:
        self.clock, self.ours, self.began = clock, ours, 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.began = time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.clock.seconds.setdefault("step", []).append(time.process_time() - self.began)
        self.ours()


def interleave(trainer: Any, ours: Callable[[], Any]) -> Clock:
    """All steps of a TRL trainer, one of ours after each; how long TRL's took, and its rollouts (with scoring)."""
    set_verbosity_error()
    clock, generate = Clock(), trainer._generate_and_score_completions

    def timed(inputs: Any) -> Any:
        with clock.time("rollout"):
            return generate(inputs)

    trainer._generate_and_score_completions = timed
    trainer.eos_token_ids = [NO_TOKEN]
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(TakeTurns(clock, ours))
    trainer.train()
    return clock


def report(bench: str, ours: Clock, theirs: Clock, **counts: int) -> dict[str, Any]:
    """One line: seconds of both and ratios."""
    rlx_s, trl_s = ours.medians(), theirs.medians()
    trl_s["update"] = trl_s["step"] - trl_s["rollout"]
    return {
        "bench": bench,
        **counts,
        **{f"rlx_{part}_s": round(seconds, 2) for part, seconds in rlx_s.items()},
        **{f"trl_{part}_s": round(seconds, 2) for part, seconds in trl_s.items()},
        "rollout_ratio": round(trl_s["rollout"] / rlx_s["rollout"], 2),
        "update_ratio": round(trl_s["update"] / rlx_s["update"], 2),
        "ratio": round(trl_s["step"] / rlx_s["step"], 2),
    }


def scratch() -> tempfile.TemporaryDirectory:
    """Folder in which TRL may write."""
    return tempfile.TemporaryDirectory(prefix="rlx-bench-")
