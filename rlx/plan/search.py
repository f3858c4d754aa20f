"""Search the settings of one machine for a configuration that fits a run, and spell it in words of the command line.

The search is bounded and deterministic. It moves GPUs between learners and servers, splits engines, shares state out by
ZeRO, offloads, recomputes, shrinks micro-batches, leaves `engine_memory` to the choice, and last trains adapters alone.
Of the configurations that fit, the fastest by the estimate of a step wins, and the one with fewer words among those
that are nearly as fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from rlx.hardware.profile import Hardware
from rlx.hardware.sizing.amounts import Demand
from rlx.hardware.sizing.budgets import budgets
from rlx.hardware.sizing.fit import LEAST_MICRO_BATCH, find_misfit, fits
from rlx.hardware.sizing.host import host_peak
from rlx.hardware.sizing.share import choose_share, share_fits
from rlx.model.load import Lora
from rlx.plan.step import Load
from rlx.plan.timer import Timer
from rlx.run.demand import demand_of
from rlx.run.run import Run

ADAPTERS = "+model/lora=r32"
"""Word that trains adapters alone."""
SPLITS = (1, 2, 4, 8)
"""Devices of one engine that are tried."""
NEARLY = 1.1
"""Ratio of two estimated times within which fewer words decide."""


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """A configuration of the same machine that fits."""

    words: tuple[str, ...]
    """Words to append to the command."""
    hardware: Hardware
    seconds: float
    """Estimated time of a step; 0 where nothing says how fast the machine is."""
    trains_adapters: bool = False
    """Adapters alone are trained, which the command did not ask for."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Run whose machine is searched, and facts for the search."""

    run: Run
    demand: Demand
    device_memory: int
    timer: Timer | None
    load: Load
    episodes: int = 0
    """Bytes of a step's episodes in each process."""
    trains: bool = True


def describe_fitting(fitting: Fitting | None) -> str:
    """Name the words that make a run fit its machine, or say that there are none."""
    if fitting is None:
        return "no configuration of this machine was found that fits: choose a larger profile or a smaller model"
    adapters = ", where adapters alone are trained" if fitting.trains_adapters else ""
    return f"these words fit this machine{adapters}: {' '.join(fitting.words)}"


def find_fitting(problem: Problem) -> Fitting | None:
    """Return the best configuration of the run's machine that fits; None where none does."""
    for run, trains_adapters in with_adapters(problem.run) if problem.trains else [(problem.run, False)]:
        demand = demand_of(run, problem.demand.shape)
        if demand is not None and (best := find_best(problem, run, demand)) is not None:
            words = [*spell(problem.run, best), *([ADAPTERS] if trains_adapters else [])]
            return Fitting(
                words=tuple(words), hardware=best, seconds=step_seconds(problem, best), trains_adapters=trains_adapters
            )
    return None


def with_adapters(run: Run) -> Iterator[tuple[Run, bool]]:
    """Yield the run, and the run that trains adapters alone where the command did not ask for them."""
    yield run, False
    if run.model.lora is None:
        yield replace(run, model=replace(run.model, lora=Lora(rank=32))), True


def find_best(problem: Problem, run: Run, demand: Demand) -> Hardware | None:
    """Return the fastest profile that fits, with few words."""
    fitting = [hardware for hardware in candidates(problem, run, demand) if fits_machine(problem, hardware, demand)]
    if not fitting:
        return None
    seconds = [step_seconds(problem, hardware) for hardware in fitting]
    near = [hardware for hardware, time in zip(fitting, seconds, strict=True) if time <= NEARLY * min(seconds)]
    return min(near, key=lambda hardware: len(spell(run, hardware)))


def step_seconds(problem: Problem, hardware: Hardware) -> float:
    """Estimate a step; 0 where nothing says how fast the machine is."""
    return 0.0 if problem.timer is None else problem.timer.step(hardware, problem.load).seconds


def fits_machine(problem: Problem, hardware: Hardware, demand: Demand) -> bool:
    """Return True if every budget surely fits the devices, the engine starts, and the machine's memory is enough."""
    have = problem.device_memory
    if find_misfit(hardware, demand, budgets(hardware, demand, have, trains=problem.trains), have) is not None:
        return False
    is_engine = hardware.engine == "vllm" and hardware.device == "cuda"
    if not fits(hardware, demand, have) or (
        is_engine and not share_fits(hardware, demand, have, hardware.engine_share)
    ):
        return False
    host = hardware.node_memory_gb
    return host is None or host_peak(hardware, demand, problem.episodes) <= host * 10**9


def candidates(problem: Problem, run: Run, demand: Demand) -> Iterator[Hardware]:
    """Yield the profiles of the run's machine that the run accepts, the nearest first."""
    for layout in layouts(run.hardware):
        for hardware in variants(layout):
            chosen = choose_share(hardware, demand, problem.device_memory)
            settled = hardware if chosen is None else replace(hardware, engine_memory=chosen.share)
            if accepts(run, settled):
                yield settled


def accepts(run: Run, hardware: Hardware) -> bool:
    """Return True if the run may use a profile: some algorithms and protocols need an engine on one device."""
    try:
        replace(run, hardware=hardware)
    except ValueError:
        return False
    return True


def layouts(hardware: Hardware) -> Iterator[Hardware]:
    """Yield the profile with its GPUs shared out in other ways between learner processes and servers."""
    opened = replace(hardware, engine_memory=None) if hardware.engine == "vllm" else hardware
    yield opened
    each = hardware.node_gpus
    if hardware.device != "cuda" or hardware.engine != "vllm" or each is None or each < 2:
        return
    nodes = hardware.num_nodes
    colocated = {"num_servers": 0, "staleness": 0, "tensor_parallel": 1, "num_processes": each * nodes}
    ways = [colocated] if hardware.num_servers else []
    for split in SPLITS:
        for servers in range(1, each // split):
            served = {"num_servers": servers * nodes, "tensor_parallel": split}
            ways.append({**served, "num_processes": (each - servers * split) * nodes})
    for way in ways:
        try:
            yield replace(opened, **deepspeed(way, hardware), **way)  # type: ignore[arg-type]
        except ValueError:
            continue


def deepspeed(way: dict[str, int], hardware: Hardware) -> dict[str, object]:
    """Return the learner that a number of processes needs."""
    return {"learner": "deepspeed", "zero_stage": 2} if way["num_processes"] > 1 > hardware.zero_stage else {}


def variants(hardware: Hardware) -> Iterator[Hardware]:
    """Yield a profile with state shared out, offloaded and recomputed, and with smaller micro-batches."""
    many = hardware.learner == "deepspeed"
    stages = [stage for stage in (2, 3) if stage > hardware.zero_stage] if many and hardware.num_processes > 1 else []
    tokens = [hardware.micro_batch_tokens]
    while tokens[-1] // 2 >= LEAST_MICRO_BATCH:
        tokens.append(tokens[-1] // 2)
    for stage in (hardware.zero_stage, *stages):
        for offload in (False, True) if many and hardware.device == "cuda" else (hardware.offload,):
            for recompute in dict.fromkeys((hardware.recompute, True)):
                for num in tokens:
                    changes = {"zero_stage": stage, "offload": offload, "recompute": recompute}
                    yield replace(hardware, **changes, micro_batch_tokens=num)  # type: ignore[arg-type]


def spell(run: Run, hardware: Hardware) -> list[str]:
    """Return words that change the run's profile to `hardware`. No number of `engine_memory` is among them, as it is
    chosen anew."""
    names = [field.name for field in fields(Hardware) if field.name != "engine_memory"]
    words = [
        f"hardware.{name}={text_of(getattr(hardware, name))}"
        for name in names
        if getattr(hardware, name) != getattr(run.hardware, name)
    ]
    named = run.config.get("hardware", {}).get("engine_memory") is not None
    return [*words, "hardware.engine_memory=null"] if named and hardware.engine == "vllm" else words


def text_of(value: object) -> str:
    """Write a value for the command line."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
