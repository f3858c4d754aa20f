"""Find the machine of a profile and the time of a step on it, before anything is loaded: `scaling` fed with a run."""

from __future__ import annotations

from dataclasses import dataclass

from rlx.hardware.machine import gpus
from rlx.hardware.profile import BYTES, Hardware
from rlx.model.shape import Shape
from rlx.plan.peaks import MACHINES, OTHERS, Machine, in_float32, machine_named
from rlx.plan.scaling import estimate_step
from rlx.plan.step import Efficiency, Load, StepTime

CORE = 80e9
"""FLOP/s of one thread, measured in docs/scaling.md."""
CACHED, MEMORY = 49e9, 14e9
"""Bytes a second of weights that stay in a processor's caches, and of weights and contexts that do not; measured there
too."""
CACHE = 32e6
MEASURED = Efficiency(
    update=0.65,
    attention=0.65,
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


def machine_of(hardware: Hardware, shape: Shape) -> Machine | None:
    """Return the machine of a profile; None if the GPU is unknown."""
    if hardware.device == "cpu":
        fits = BYTES[hardware.dtype] * shape.num_parameters < CACHE
        flops = CORE * hardware.num_threads
        weights = CACHED if fits else MEMORY
        return Machine(name="CPU", flops=flops, bandwidth=weights, contexts=MEMORY, link=1e9, network=1e9)
    machine = (MACHINES | OTHERS).get(hardware.gpu or "") or machine_named(gpu.name for gpu in gpus())
    if machine is None:
        return None
    return machine if hardware.learner_dtype == "bfloat16" else in_float32(machine)


def efficiency_of(hardware: Hardware) -> Efficiency:
    """Return what a profile reaches of its machine's peaks."""
    if hardware.device == "cpu":
        return MEASURED
    return Efficiency(layer=LAYER) if hardware.engine == "torch" else Efficiency()


@dataclass(frozen=True, kw_only=True)
class Timer:
    """A model and the machines of a profile, from which the time of a step follows."""

    shape: Shape
    machine: Machine

    @property
    def is_checked(self) -> bool:
        """The estimates were compared with runs on such a machine (docs/scaling.md)."""
        return self.machine.name.lower() in (*MACHINES, "cpu")

    @property
    def is_dense(self) -> bool:
        """No layer has routed experts or recurrent state, of which no run was compared."""
        return not any(layer.experts or layer.state for layer, _ in self.shape.kinds)

    def step(self, hardware: Hardware, load: Load) -> StepTime:
        """Estimate one step."""
        return estimate_step(self.shape, hardware, self.machine, load, efficiency_of(hardware))


def find_timer(hardware: Hardware, shape: Shape | None) -> Timer | None:
    """Return the timer of a profile; None where the model's shape or the GPU is unknown."""
    machine = None if shape is None else machine_of(hardware, shape)
    return None if shape is None or machine is None else Timer(shape=shape, machine=machine)
