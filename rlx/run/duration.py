"""How long a run would take and what it would leave on disk, before anything is loaded: `scaling` fed with a run.

Nothing here knows how long episodes will be, so there are two answers: one for episodes as Countdown's were, or as long
as the environment's expert needs (rlx.run.lengths), and one for episodes that all fill their context.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rlx.hardware.machine import gpus
from rlx.hardware.memory import num_trained
from rlx.hardware.profile import BYTES, Hardware
from rlx.hardware.scaling import Efficiency, Load, Machine, StepTime, estimate_step, num_engines
from rlx.model.shape import Shape, num_parameters
from rlx.run.fit import shape_of
from rlx.run.lengths import Lengths, lengths_of, mean_of
from rlx.run.run import Run
from rlx.world import portions_of

A100 = Machine(name="A100", flops=312e12, bandwidth=2.04e12, memory=80e9, link=300e9, network=200e9, host=32e9)
H100 = Machine(name="H100", flops=989e12, bandwidth=3.35e12, memory=80e9, link=450e9, network=400e9, host=64e9)
H200 = replace(H100, name="H200", bandwidth=4.8e12, memory=141e9)
MACHINES = {"a100": A100, "h100": H100, "h200": H200}
"""The makers' published peaks, dense bfloat16, of the SXM forms in an eight-GPU machine with one network adapter a GPU
(200 Gb/s beside an A100, 400 Gb/s beside an H100 or H200)."""
FLOAT32 = {"a100": 19.5e12, "h100": 67e12, "h200": 67e12}
"""Their peaks in float32 outside tensor cores, which is what torch uses unless told otherwise."""

CORE = 80e9
"""FLOP/s of one thread, as docs/scaling.md measured it."""
CACHED, MEMORY = 49e9, 14e9
"""Bytes a second of weights that stay in a processor's caches, and of those that do not; measured there too."""
CACHE = 32e6
MEASURED = Efficiency(update=0.65, prefill=0.65, decode=0.65, tick=0.0, layer=180e-6)
"""Of one thread of an AMD EPYC: what runs of nano and SmolLM2 reached of the model's arithmetic."""
LAYER = 180e-6
"""Seconds that the torch engine spends on a layer of a tick beside its arithmetic, measured on a CPU."""


@dataclass(frozen=True, kw_only=True)
class RunStage:
    """The steps of one algorithm: a warm start's, or the run's own."""

    name: str
    steps: int
    load: Load
    """Of one step, with episodes as long as they usually are."""
    full: Load
    """The same where every context is filled."""
    hardware: Hardware
    told: Mapping[str, Lengths]
    """What experts told of lengths, by part."""


def stages_of(run: Run) -> list[RunStage]:
    """The warm starts, if there are some, and the run."""
    *warm, own = run.stages()
    names = ["warm start"] if len(warm) == 1 else [f"stage {number}" for number in range(1, len(warm) + 1)]
    return [stage_of(stage, name) for stage, name in zip([*warm, own], [*names, "run"], strict=True)]


def stage_of(run: Run, name: str) -> RunStage:
    algo, samples = run.algo, run.config["algo"].get("num_samples", 1)
    told = lengths_of(run)
    usual = mean_lengths(run, told)
    load = replace(
        load_of(run, usual, algo.num_prompts * samples, samples),
        reference="reference" in algo.needs,
        critic=algo.critic is not None,
        plays=not algo.imitates,
        epochs=algo.optimizer.num_epochs,
        updates=algo.optimizer.num_epochs * algo.optimizer.num_minibatches,
    )
    full = replace(as_long(load, usual.filling(run.sampling.max_context)), forked=algo.forks)
    return RunStage(name=name, steps=run.steps, load=load, full=full, hardware=run.hardware, told=told)


def mean_lengths(run: Run, told: Mapping[str, Lengths]) -> Lengths:
    """Of all parts by their weights, each cut where its context ends; of what no expert told, as Countdown's were."""
    parts = {name: portion.weight for name, portion in portions_of(run.env).items() if portion.weight} or {"": 1.0}
    each = [told.get(name, Lengths()).within(run.sampling.max_context) for name in parts]
    return mean_of(each, list(parts.values()))


def load_of(run: Run, lengths: Lengths, episodes: int, samples: int) -> Load:
    shape, lora = shape_of(run), run.model.lora
    trained = None if shape is None or lora is None else num_trained(lora, shape)
    return as_long(Load(episodes=episodes, samples=samples, trained=trained), lengths)


def as_long(load: Load, lengths: Lengths) -> Load:
    """Episodes of such lengths, in whole tokens."""
    prompt, sampled, observed = (round(num) for num in (lengths.prompt, lengths.sampled, lengths.observed))
    return replace(load, prompt=prompt, sampled=max(1, sampled), observed=observed)


def num_tokens(load: Load) -> int:
    """Of a step's episodes and their forks, prompts counted in each."""
    return round((1 + load.forked) * load.episodes) * (load.prompt + load.sampled + load.observed)


def machine_of(hardware: Hardware, shape: Shape) -> Machine | None:
    """What a profile runs on; None where nothing says which GPU it is."""
    if hardware.device == "cpu":
        fits = BYTES[hardware.dtype] * num_parameters(shape) < CACHE
        flops = CORE * hardware.num_threads
        return Machine(name="CPU", flops=flops, bandwidth=CACHED if fits else MEMORY, link=1e9, network=1e9)
    here = " ".join(gpu.name.lower() for gpu in gpus())
    found: str | None = hardware.gpu or next((name for name in MACHINES if name in here), None)
    if found is None:
        return None
    low = hardware.learner_dtype == "bfloat16"
    return MACHINES[found] if low else replace(MACHINES[found], flops=FLOAT32[found])


def efficiency_of(hardware: Hardware) -> Efficiency:
    if hardware.device == "cpu":
        return MEASURED
    return Efficiency(layer=LAYER) if hardware.engine == "torch" else Efficiency()


def estimate(stage: RunStage, load: Load, shape: Shape, machine: Machine) -> StepTime:
    """One step of a stage."""
    return estimate_step(shape, stage.hardware, machine, load, efficiency_of(stage.hardware))


def evaluation_seconds(run: Run, own: RunStage, shape: Shape, machine: Machine, *, full: bool) -> float:
    """Of the start, of what it has become, and on the way; `own` is the run's stage, whose episodes are as long."""
    settings = run.evaluate
    times = 2 + (run.steps // settings.every if settings.every else 0)
    like = own.full if full else own.load
    episodes = settings.num_tasks * settings.num_samples
    load = replace(like, episodes=episodes, samples=settings.num_samples, plays=True, forked=0.0)
    return times * estimate_step(shape, run.hardware, machine, load, efficiency_of(run.hardware)).rollout


def num_idle(hardware: Hardware, episodes: int) -> int:
    """Engines that sample nothing: episodes are shared out evenly."""
    return max(0, num_engines(hardware) - episodes)


def checkpoint_bytes(run: Run, shape: Shape) -> int:
    """The whole model in float32, two moments of what is trained, and the adapters where there are some."""
    lora = run.model.lora
    return 4 * num_parameters(shape) + num_trained(lora, shape) * (8 if lora is None else 12)
