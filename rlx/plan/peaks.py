"""Published peaks of GPUs, and the machines that `rlx plan` estimates with.

Dense bfloat16 and the memory's bandwidth come from the makers' data sheets. Links are one way: NVLink or PCIe inside a
machine, and all network adapters of an eight-GPU machine together between machines. An A100 has 200 Gb/s of network, an
H100 or H200 400 Gb/s.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Speed of one device, and of its connections to other devices."""

    name: str
    flops: float
    """FLOP/s in the dtype of the learner and the engine, dense."""
    bandwidth: float
    """Bytes a second between a device and its memory."""
    contexts: float | None = None
    """The same for keys and values, where weights come from a cache that these do not fit."""
    memory: float = float("inf")
    """Bytes of one device."""
    link: float = float("inf")
    """Bytes a second from one device to another in the same machine, one way."""
    network: float = float("inf")
    """Bytes a second from one machine to another, all adapters together, one way."""
    host: float = float("inf")
    """Bytes a second between a device and its machine's memory, one way."""
    float32: float | None = None
    """FLOP/s in float32 outside tensor cores, which torch uses unless told otherwise."""


PCIE = 25e9
"""Bytes a second of sixteen lanes of PCIe 4, for cards without NVLink."""

A100 = Machine(
    name="A100", flops=312e12, bandwidth=2.04e12, memory=80e9, link=300e9, network=200e9, host=32e9, float32=19.5e12
)
H100 = Machine(
    name="H100", flops=989e12, bandwidth=3.35e12, memory=80e9, link=450e9, network=400e9, host=64e9, float32=67e12
)
H200 = replace(H100, name="H200", bandwidth=4.8e12, memory=141e9)
MACHINES = {"a100": A100, "h100": H100, "h200": H200}
"""Machines of the shipped profiles."""

OTHERS = {
    "gh200": replace(H100, name="GH200", bandwidth=4.0e12, memory=96e9, host=450e9),
    "b200": replace(H100, name="B200", flops=2250e12, bandwidth=8.0e12, memory=180e9, link=900e9, float32=75e12),
    "h20": replace(H100, name="H20", flops=148e12, bandwidth=4.0e12, memory=96e9, float32=44e12),
    "l40s": Machine(name="L40S", flops=362e12, bandwidth=0.864e12, memory=48e9, link=PCIE, host=PCIE, float32=91.6e12),
    "l4": Machine(name="L4", flops=121e12, bandwidth=0.3e12, memory=24e9, link=PCIE, host=PCIE, float32=30.3e12),
    "a10": Machine(name="A10", flops=125e12, bandwidth=0.6e12, memory=24e9, link=PCIE, host=PCIE, float32=31.2e12),
    "a40": Machine(name="A40", flops=150e12, bandwidth=0.696e12, memory=48e9, link=PCIE, host=PCIE, float32=37.4e12),
    "a6000": Machine(
        name="A6000", flops=155e12, bandwidth=0.768e12, memory=48e9, link=PCIE, host=PCIE, float32=38.7e12
    ),
    "rtx5090": Machine(
        name="RTX 5090", flops=209.5e12, bandwidth=1.79e12, memory=32e9, link=PCIE, host=PCIE, float32=104.8e12
    ),
    "rtx4090": Machine(
        name="RTX 4090", flops=165e12, bandwidth=1.01e12, memory=24e9, link=PCIE, host=PCIE, float32=82.6e12
    ),
    "rtx3090": Machine(
        name="RTX 3090", flops=71e12, bandwidth=0.936e12, memory=24e9, link=PCIE, host=PCIE, float32=35.6e12
    ),
}
"""Further cards. No published run checks their estimates."""


def machine_named(names: Iterable[str]) -> Machine | None:
    """Return the machine whose key is in the GPUs' names, the longest key first; None where no name is known."""
    text = " ".join(names).lower().replace("-", " ")
    machines = MACHINES | OTHERS
    words = set(text.split())
    keys = [key for key in sorted(machines, key=len, reverse=True) if {key, key.removeprefix("rtx")} & words]
    return machines[keys[0]] if keys else None


def in_float32(machine: Machine) -> Machine:
    """Return the machine at its float32 peak."""
    return machine if machine.float32 is None else replace(machine, flops=machine.float32)
