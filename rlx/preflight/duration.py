"""Estimate how long a run takes and what it leaves on disk, before anything is loaded: `scaling` fed with a run.

Where the length of episodes is known a stage has one estimate, elsewhere three (rlx.preflight.lengths).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rlx.algo.parts import Algorithm, Sampler
from rlx.hardware.machine import gpus
from rlx.hardware.profile import BYTES, Hardware
from rlx.model.shape import Shape
from rlx.preflight.disk import save_seconds
from rlx.preflight.fit import shape_of
from rlx.preflight.lengths import NOTHING_GIVEN, TAIL, Expected, Given, Lengths, expect_lengths
from rlx.preflight.measured import Measured
from rlx.preflight.memory import num_trained
from rlx.preflight.peaks import MACHINES, OTHERS, Machine, in_float32, machine_named
from rlx.preflight.scaling import estimate_step, num_engines
from rlx.preflight.step import Efficiency, Load, StepTime
from rlx.run.run import Run

CORE = 80e9
"""FLOP/s of one thread, as docs/scaling.md measured it."""
CACHED, MEMORY = 49e9, 14e9
"""Bytes a second of weights that stay in a processor's caches, and of those that do not; measured there too."""
CACHE = 32e6
MEASURED = Efficiency(
    update=0.65,
    half_width=0.0,
    prefill=0.65,
    decode=0.65,
    tick=0.0,
    row=0.0,
    layer=180e-6,
    launch=0.0,
    handover=0.0,
    host=0.0,
)
"""Shares of one thread of an AMD EPYC that runs of nano and SmolLM2 reached."""
LAYER = 180e-6
"""Seconds that the torch engine spends on a layer of a tick beside its arithmetic, measured on a CPU."""


@dataclass(frozen=True, kw_only=True)
class RunStage:
    """Steps of one algorithm: a warm start's, or the run's own."""

    name: str
    steps: int
    loads: tuple[Load, ...]
    """One step, at each length that episodes may have: one where it is known, else three."""
    sampler: Sampler
    num_prompts: int
    expected: Expected
    hardware: Hardware
    extend: int = 0
    """Times that a warm start's `steps` may double."""

    @property
    def load(self) -> Load:
        """The one load, or that in the middle."""
        return self.loads[len(self.loads) // 2]

    def at(self, index: int) -> Load:
        """Return the load of one of three lengths; where the length is known, the one load."""
        return self.loads[index] if len(self.loads) > 1 else self.loads[0]


def stages_of(run: Run, given: Given = NOTHING_GIVEN) -> list[RunStage]:
    """Return the warm starts, if there are some, and the run, whose lengths may be `given`."""
    *warm, own = run.stages()
    names = ["warm start"] if len(warm) == 1 else [f"stage {number}" for number in range(1, len(warm) + 1)]
    before = [stage_of(stage, name, NOTHING_GIVEN) for stage, name in zip(warm, names, strict=True)]
    return [*before, stage_of(own, "run", given)]


def stage_of(run: Run, name: str, given: Given) -> RunStage:
    """Build one stage with its loads."""
    expected = expect_lengths(run, given)
    loads = tuple(load_of(run, lengths, expected.most) for lengths in expected.lengths)
    return RunStage(
        name=name,
        steps=run.steps,
        loads=loads,
        sampler=run.algo.sample,
        num_prompts=run.algo.num_prompts,
        expected=expected,
        hardware=run.hardware,
        extend=run.extend,
    )


def load_of(run: Run, lengths: Lengths, most: int) -> Load:
    """Build the load of a step whose episodes have such lengths."""
    algo = run.algo
    shape, lora = shape_of(run), run.model.lora
    sampled, turns = max(1, round(lengths.sampled)), max(1, round(lengths.turns))
    return Load(
        episodes=episodes_of(algo, turns),
        samples=max(1, round(episodes_a_task(algo.sample, turns))),
        prompt=round(lengths.prompt),
        sampled=sampled,
        observed=round(lengths.observed),
        turns=turns,
        longest=min(most, TAIL * sampled),
        reference="reference" in algo.needs,
        critic=algo.critic is not None,
        plays=not algo.imitates,
        epochs=algo.optimizer.num_epochs,
        updates=algo.optimizer.num_epochs * algo.optimizer.num_minibatches,
        trained=None if shape is None or lora is None else num_trained(lora, shape),
    )


def episodes_of(algo: Algorithm, turns: int) -> int:
    """Count the episodes of a step: those of all tasks, or as many as have the step's turns."""
    most = round(algo.num_prompts * episodes_a_task(algo.sample, turns))
    return most if algo.num_turns is None else min(most, math.ceil(algo.num_turns / turns))


def episodes_a_task(sampler: Sampler, turns: int) -> float:
    """Count the episodes of a task; a fork that is always played is (T + 1) / 2T of one with T turns.

    That is its share where every turn is as likely to be forked; a sampler may give another (`fork_turns`). Other forks
    that may be played are not counted.
    """
    forks = sampler.num_forks if sampler.forks_always else 0
    played = forks * (turns + 1) / 2 if sampler.fork_turns is None else sampler.fork_turns(turns)
    return sampler.num_episodes + played / turns


def num_tokens(load: Load) -> int:
    """Count the tokens of a step's episodes, prompts in each."""
    return load.episodes * (load.prompt + load.sampled + load.observed)


def machine_of(hardware: Hardware, shape: Shape) -> Machine | None:
    """Return what a profile runs on; None where nothing says which GPU it is."""
    if hardware.device == "cpu":
        fits = BYTES[hardware.dtype] * shape.num_parameters < CACHE
        flops = CORE * hardware.num_threads
        return Machine(name="CPU", flops=flops, bandwidth=CACHED if fits else MEMORY, link=1e9, network=1e9)
    found = (MACHINES | OTHERS).get(hardware.gpu or "") or machine_named(gpu.name for gpu in gpus())
    if found is None:
        return None
    return found if hardware.learner_dtype == "bfloat16" else in_float32(found)


def efficiency_of(hardware: Hardware) -> Efficiency:
    """Return what a profile reaches of its machine's peaks."""
    if hardware.device == "cpu":
        return MEASURED
    return Efficiency(layer=LAYER) if hardware.engine == "torch" else Efficiency()


def estimate(stage: RunStage, load: Load, shape: Shape, machine: Machine) -> StepTime:
    """Estimate one step of a stage."""
    return estimate_step(shape, stage.hardware, machine, load, efficiency_of(stage.hardware))


def num_evaluations(run: Run) -> int:
    """Count the evaluations: of the untrained model, the start, what it has become, and those on the way."""
    settings = run.evaluate
    ends = 2 + (settings.untrained and run.before() is not None)
    return ends + (run.steps // settings.every if settings.every else 0)


def evaluation_seconds(run: Run, like: Load, shape: Shape, machine: Machine) -> float:
    """Estimate all evaluations of a run, with episodes like those of its steps."""
    settings = run.evaluate
    episodes = settings.num_tasks * settings.num_samples
    load = replace(like, episodes=episodes, samples=settings.num_samples, plays=True)
    step = estimate_step(shape, run.hardware, machine, load, efficiency_of(run.hardware))
    return num_evaluations(run) * step.rollout


def total_seconds(
    run: Run, stages: list[RunStage], shape: Shape, machine: Machine, index: int = 1, measured: Measured | None = None
) -> float:
    """Estimate a run with its warm starts, evaluations and checkpoints, at one of three lengths where none is known. A
    measured step replaces the estimate of the run's own, and scales that of its evaluations; steps that are done are
    not counted."""
    *before, own = stages
    saving, early = saving_seconds(run, shape, measured), sum(num_checkpoints(stage) for stage in run.stages()[:-1])
    learning = sum(stage.steps * estimate(stage, stage.at(index), shape, machine).seconds for stage in before)
    step = estimate(own, own.at(index), shape, machine)
    judging = evaluation_seconds(run, own.at(index), shape, machine)
    if measured is None or not measured.is_same:
        return learning + own.steps * step.seconds + judging + (early + num_checkpoints(run)) * saving
    scale = measured.rollout / step.rollout if step.rollout and measured.rollout else 1.0
    left = max(0, own.steps - measured.steps)
    judging *= scale * (num_evaluations(run) - 1) / num_evaluations(run)
    return left * measured.seconds + judging + -(-left // run.checkpoint.every) * saving


def num_checkpoints(run: Run) -> int:
    """Count the checkpoints of one stage: one every few steps, and one after the last."""
    return -(-run.steps // run.checkpoint.every)


def saving_seconds(run: Run, shape: Shape, measured: Measured | None = None) -> float:
    """Return the seconds of a checkpoint: a run's own median, or an estimate by its size."""
    own = measured.saving if measured is not None and measured.is_same else None
    return save_seconds(checkpoint_bytes(run, shape)) if own is None else own


def num_idle(hardware: Hardware, episodes: int) -> int:
    """Count the engines that sample nothing: episodes are shared out evenly."""
    return max(0, num_engines(hardware) - episodes)


def checkpoint_bytes(run: Run, shape: Shape) -> int:
    """Count the whole model in float32, two moments of what is trained, and the adapters where there are some."""
    lora = run.model.lora
    return 4 * shape.num_parameters + num_trained(lora, shape) * (8 if lora is None else 12)
