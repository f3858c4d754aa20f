"""Amounts of memory with two bounds, and the facts of a run that they follow from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rlx.hardware.profile import Hardware
from rlx.model.load import Lora
from rlx.model.shape import Shape

PROGRAM = {"cpu": 500_000_000, "cuda": 1_500_000_000}
"""Bytes of one process before any weight: libraries, the CUDA context, communication."""

VLLM_PROGRAM = 450_000_000
"""Bytes of vLLM on CPU beside its weights and cache: a process grew by 244 MB at its start, by 14 MB while sampling. A
run of four processes once held 0.1 GB more than with 300 MB here."""

SHORT = 64
"""Tokens that an episode surely has, prompt and all."""


@dataclass(frozen=True, kw_only=True)
class Amount:
    """Bytes, at least and at most."""

    least: int
    most: int

    def __mul__(self, count: int) -> Amount:
        return Amount(least=self.least * count, most=self.most * count)

    def __add__(self, other: Amount) -> Amount:
        return Amount(least=self.least + other.least, most=self.most + other.most)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Memory that is in use at the same time."""

    name: str
    """Owner and time: `learner, updating`."""
    amounts: Mapping[str, Amount]
    devices: int
    """Devices that each hold it; on cpu 1, the machine."""
    notes: tuple[str, ...] = field(default=())

    @property
    def total(self) -> Amount:
        return sum(self.amounts.values(), Amount(least=0, most=0))


@dataclass(frozen=True, kw_only=True)
class Demand:
    """Facts of a run that its memory depends on, beside the hardware."""

    shape: Shape
    num_trained: int
    adapted: bool = False
    """Only adapters are trained; the reference policy is the model without them."""
    needs_reference: bool = False
    num_head: int = 0
    """Numbers of a critic's head, beside the model; counted in `num_trained` too."""
    max_context: int
    """Tokens of one episode at most."""
    num_episodes: int = 1
    """Episodes of a step, forks among them."""
    frozen: bool = False
    """The policy that plays never changes: a sleeping engine keeps the weights."""
    num_opponents: int = 0
    """Policies in engines of their own beside the run's, each counted at the run's size."""


def exactly(num_bytes: int) -> Amount:
    return Amount(least=num_bytes, most=num_bytes)


def share(num_bytes: int, processes: int, shared: bool) -> int:
    return -(-num_bytes // processes) if shared else num_bytes


def program(hardware: Hardware) -> dict[str, Amount]:
    libraries = VLLM_PROGRAM if hardware.engine == "vllm" and hardware.device == "cpu" else 0
    return {"program": exactly(PROGRAM[hardware.device] + libraries)}


def num_trained(lora: Lora | None, shape: Shape) -> int:
    """All parameters, or those of the adapters, rank x (in + out) of every map that has one, and of added actions."""
    if lora is None:
        return shape.num_parameters
    names = {name.rpartition(".")[2] for name in lora.targets or shape.adapted}
    pairs = [pair for layer in shape.stack for name, pair in layer.maps.items() if name in names]
    return lora.rank * sum(map(sum, pairs)) + shape.added * shape.width
