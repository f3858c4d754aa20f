"""Environments of other packages, each episode in a process of its own with a limit of time (rlx.tool.contain).

task      a name of the package, its options, and a seed. The prompt is its first observation.
turn      text as the protocol reads it --form--> the package's step --> text, reward, end
error     the package raises, takes too long, dies or answers nonsense: this episode, and no other
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import isfinite
from random import Random
from typing import Annotated, Any, ClassVar

from rlx.base.limits import (
    CONSENT,
    MANY,
    ForeignOptions,
    MistakeError,
    Module,
    Program,
    Switch,
    above,
    near,
    refuse,
    within,
)
from rlx.environment import Environment, Episode, Pace
from rlx.environment.world import NOTHING_SEEN
from rlx.tool.contain.box import Box, Limits, box
from rlx.tool.contain.process import ChildError, LateError, Process, RefusedError, StartError, to_plain
from rlx.types import Action, Step, Task, Text

LIMITS = Limits(memory_mb=4096, cpu_seconds=3600)
PLACE = "..."
"""Placeholder of the agent's text in a form."""
LATE = 0.01
"""Share of the tasks told of, and one more, that may take too long to begin: each is waited for."""


class HangError(ValueError):
    """More than those do; the message is one line."""

    exit_code = 2


@dataclass(frozen=True, kw_only=True)
class Foreign(Environment):
    """Environment of another package, played by an adapter module (rlx.tool.contain.server)."""

    answer_form: ClassVar = "turn"

    adapter: Module
    """Module that plays the environments of the package."""
    task: str
    """Id of the environment in the package, such as GEM's game:Sokoban-v0-easy or TextArena's Wordle-v0."""
    package: Module = ""
    """Name of the package for pip."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The environment's own options, as the package names them: +env.options.max_turns=5."""
    form: str | None = None
    """Template of a turn; text without the template's beginning is inserted into the template; null: pass turns on
    unchanged."""
    python: Program | None = None
    """An interpreter that has the package; null: this one."""
    contained: Switch = True
    """Containment of an episode's process by the kernel: no network, no processes, no files but its own /tmp; false:
    what a model wrote may run with all that you may do, for packages that run code, grade in a pool of processes or
    ask servers."""
    files: Annotated[tuple[str, ...], CONSENT] = ()
    """Folders that the package reads beside its own, such as data sets: [~/nltk_data]; an episode sees no others."""
    replayable: bool = True
    """The same seed and actions always give the same answers; false: no replay and no forks."""
    seconds: float = 10.0
    """Seconds for a turn; a slower turn ends the episode as an error."""
    seconds_to_begin: float = 60.0
    """Seconds for an episode to begin."""
    success_at: float = 1.0
    """Reward of a whole episode from which on it is a success, where the adapter says nothing of that."""
    num_test: int = 500
    """Test tasks: the seeds from 0; training has those after them."""
    num_tasks: int | None = None
    """Tasks that there are, where a seed is the number of one; null: no end of them."""
    max_rounds: int | None = None
    """Limit of turns beside the environment's own; null: no other limit."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", tuple(self.files))
        above(0, 3600, seconds=self.seconds, seconds_to_begin=self.seconds_to_begin)
        within(-1e6, 1e6, success_at=self.success_at)
        within(1, MANY, num_test=self.num_test)
        within(self.num_test + 1, 2**31, num_tasks=self.num_tasks)
        within(0, MANY, max_rounds=self.max_rounds)
        if self.form is not None and self.form.count(PLACE) != 1:
            refuse("form", self.form, f"text with one {PLACE}, where the agent's words stand")

    @property
    def pace(self) -> Pace:
        return "ticks" if self.replayable else "live"

    @property
    def box(self) -> Box:
        try:
            spec = find_spec(self.adapter)
        except (ImportError, ValueError):  # nor a package of that name, nor a name of one
            spec = None
        if spec is None or spec.origin is None:
            raise MistakeError(f"env.adapter={self.adapter:.80}: there is no such module: is its folder on PYTHONPATH?")
        python = sys.executable if self.python is None else os.path.expanduser(self.python)
        python_path = os.environ.get("PYTHONPATH", "").split(os.pathsep) if self.python is None else []
        readable_paths = (os.path.dirname(spec.origin), *python_path, *map(os.path.expanduser, self.files))
        return box(spec.origin, python, self.contained, tuple(filter(None, readable_paths)))

    def check_inputs(self) -> None:
        """Refuse a package that is not there, or that has no such task."""
        box = self.box
        try:
            report = box.know()
        except RefusedError:
            raise
        except (StartError, OSError, ValueError) as error:
            raise MistakeError(f"env.python={self.python}: {getattr(error, 'strerror', None) or error}") from None
        if "error" in report:
            raise MistakeError(self.missing(report))
        if report["tasks"] is not None and self.task not in report["tasks"]:
            raise MistakeError(f"env.task={self.task:.80}: there is none{near(self.task, report['tasks'])}")

    def data_version(self) -> str:
        """Return a digest of all packages in another interpreter, or an empty text for this interpreter."""
        if self.python is None:
            return ""
        versions = self.box.know().get("versions", "")
        return hashlib.sha256(json.dumps(versions, sort_keys=True).encode()).hexdigest()[:16]

    def missing(self, report: Mapping[str, Any]) -> str:
        """Why the adapter does not load, and what to do."""
        if report["missing"] is None or not self.package:
            return f"env.adapter={self.adapter}: {to_plain(report['error'])}"
        other = "or name an interpreter that has it: env.python=…/bin/python"
        return f"env: {report['missing']} is not installed: pip install {self.package}, {other}"

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        if split not in ("train", "test"):
            raise ValueError(f"split={split}: expected train or test")
        self.check_inputs()
        if split == "test":
            return self.describe(range(self.num_test))
        rng = Random(f"foreign/{self.adapter}/{self.task}/train/{seed}")
        return self.describe(iter(lambda: rng.randrange(self.num_test, self.num_tasks or 2**31), None))

    def describe(self, seeds: Iterable[int]) -> Iterator[Task]:
        """Their tasks; without a prompt where that is not known before an episode begins, or it does not begin, which
        its episode will say."""
        late = 0
        for num, seed in enumerate(seeds, 1):
            data = {"task": self.task, "options": dict(self.options), "seed": seed}
            prompt: tuple[Text, ...] = ()
            try:
                prompt = self.first(data) if self.replayable else ()
            except LateError:
                late += 1
                if late > 1 + LATE * num:
                    raise HangError(self.hanging(late, num)) from None
            except (ChildError, ValueError):
                pass
            yield Task(id=str(seed), prompt=prompt, data=data)

    def hanging(self, late: int, num: int) -> str:
        problem = f"{late} of the first {num} seeds did not begin within {self.seconds_to_begin:g} s"
        return f"env.task={self.task:.80}: {problem}: give them more with env.seconds_to_begin, or play another task"

    def first(self, data: Mapping[str, Any]) -> tuple[Text, ...]:
        """Return the first observation."""
        process, first_step = self.begin(data)
        process.end()
        return first_step.observation

    def begin(self, data: Mapping[str, Any]) -> tuple[Process, Step]:
        process = self.box.begin(dict(data), LIMITS, data["seed"])
        try:
            return process, step_of(process.hear(self.seconds_to_begin))
        except BaseException:
            process.end()
            raise

    def start(self, task: Task) -> ForeignEpisode:
        process, first_step = self.begin(task.data)
        if task.prompt and first_step.observation != task.prompt:
            process.end()
            raise ValueError(f"env.replayable=true: seed {task.id} did not begin as it did before")
        return ForeignEpisode(self, process, first_step if not task.prompt else NOTHING_SEEN)


@dataclass(frozen=True, kw_only=True)
class Taskset(Foreign):
    """Environment of a package that imports the module its task names, and what its options name."""

    task: Module
    """A taskset by its id there, or the name of a package; options are its environment's:
    +env.options.taskset.split=train. The default is the one for an agent of text that verifiers ships, with the game
    Wordle-v0 unless +env.options.taskset.game says another: it needs `verifiers[ta]` and two data sets of nltk,
    which it downloads."""
    options: ForeignOptions = field(default_factory=dict)
    """The task's own, as the package names them."""


class ForeignEpisode(Episode):
    def __init__(self, foreign: Foreign, process: Process, first_step: Step) -> None:
        self.foreign, self.process, self.first_step, self.total = foreign, process, first_step, 0.0

    def opening(self) -> Step:
        return self.first_step

    def step(self, action: Action) -> Step:
        """Play a turn. An invalid turn, or one that was cut off, is an empty text, which the package judges."""
        text = "" if action.kind in ("invalid", "call") else fill_form(action.text, self.foreign.form)
        step = step_of(self.process.ask(text, self.foreign.seconds), self.foreign.success_at - self.total)
        self.total += step.reward
        return step

    def close(self) -> None:
        self.process.end()


def fill_form(text: str, form: str | None) -> str:
    if form is None or form.partition(PLACE)[0] in text:
        return text
    return form.replace(PLACE, text)


def step_of(answer: Mapping[str, Any], wanted: float = 0.0) -> Step:
    """Validate the answer of a package. If it does not report success, an end with the reward `wanted` is one."""
    text, reward = answer.get("text"), answer.get("reward", 0.0)
    done, truncated = answer.get("done", False), answer.get("truncated", False)
    if not isinstance(text, str) or type(done) is not bool or type(truncated) is not bool:
        raise ValueError(f"the package answers nonsense: {dict(answer)!r:.100}")
    if isinstance(reward, bool) or not isinstance(reward, (int, float)) or not isfinite(reward):
        raise ValueError(f"the package answers nonsense: reward={reward!r:.60}")
    success = bool(answer.get("success", reward >= wanted - 1e-9)) if done else None
    observation = (Text(text),) if text else ()
    return Step(observation=observation, reward=float(reward), done=done, truncated=truncated, success=success)
