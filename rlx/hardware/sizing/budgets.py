"""Estimate the bytes that each device of a profile must hold: arithmetic on shapes, nothing is loaded.

What is exact stands in both bounds: N parameters, of which T are trained, on n learner processes under ZeRO stage z,
numbers of b bytes in the forward pass (4 float32, 2 bfloat16; DeepSpeed adds gradients up in float32 either way):

    weights    b N       / n if z >= 3        gradients  4 T       / n if z >= 2
    optimizer  8 T, and 4 T for float32 weights beside those of the forward pass (all but z = 0)      / n if z >= 1
    reference  b N       / n if z >= 3, if the algorithm compares with its start policy and there are no adapters to
                         switch off

(Rajbhandari et al. 2020, "ZeRO", arXiv:1910.02054, section 3.) The torch learner keeps weights in float32, and under
bfloat16 a cast of each until the backward pass. The rest depends on how full things get, so it has two bounds:
activations of a full micro-batch at most and of a half full one at least (packing fills them so, on average); caches of
slots that are full at most, and short at least. vLLM takes its whole share of a device at its start.

A vLLM engine beside the learner sleeps during the update, so that the two take turns: sampling and updating are two
budgets. A torch engine stays. Gradients are forgotten after the step, but ZeRO 3 keeps room for its share of them, and
a bucket to collect them in.
"""

from __future__ import annotations

from rlx.hardware.profile import Hardware
from rlx.hardware.sizing.amounts import Amount, Budget, Demand, exactly, program
from rlx.hardware.sizing.engine import VLLM_GRAPHS, cache_notes, engine_amounts
from rlx.hardware.sizing.learner import learner_amounts


def budgets(hardware: Hardware, demand: Demand, have: int | None, *, trains: bool = True) -> list[Budget]:
    """Every budget of a profile: `have` is one device's memory (on cpu the machine's), None if unknown."""
    learner, engine = learner_amounts(hardware, demand), engine_amounts(hardware, demand, have)
    resident = {name: learner[name] for name in resident_names(hardware) if name in learner}
    servers = hardware.num_servers * hardware.tensor_parallel
    notes = cache_notes(hardware, demand, have)
    beside = Budget(name="engine in a server", amounts=engine | program(hardware), devices=servers, notes=notes)
    if not trains:
        alone = Budget(
            name="engine", amounts=engine | program(hardware), devices=servers or hardware.num_processes, notes=notes
        )
        return on_machine(hardware, [alone])
    if servers:
        estimates = [Budget(name="learner", amounts=learner, devices=hardware.num_processes), beside]
    elif sleeps(hardware):
        estimates = [
            Budget(name="sampling", amounts=resident | engine, devices=hardware.num_processes, notes=notes),
            Budget(name="updating", amounts=learner | asleep(), devices=hardware.num_processes),
        ]
    else:
        estimates = [Budget(name="learner and engine", amounts=learner | engine, devices=hardware.num_processes)]
    return on_machine(hardware, estimates)


def sleeps(hardware: Hardware) -> bool:
    """Tell whether the engine leaves the device during the update."""
    return hardware.engine == "vllm" and hardware.device == "cuda" and not hardware.num_servers


def resident_names(hardware: Hardware) -> tuple[str, ...]:
    """Name the amounts that a learner holds between updates."""
    names = ("weights", "reference", "optimizer", "program")
    return (*names, "gradients", "gradient bucket") if hardware.effective_zero_stage == 3 else names


def asleep() -> dict[str, Amount]:
    return {"engine asleep": exactly(VLLM_GRAPHS)}


def on_machine(hardware: Hardware, device_budgets: list[Budget]) -> list[Budget]:
    """On cpu all processes of a node share one memory: one budget of one machine."""
    if hardware.device != "cpu":
        return device_budgets
    amounts: dict[str, Amount] = {}
    for budget in device_budgets:
        for name, amount in budget.amounts.items():
            amounts[name] = amounts.get(name, Amount(least=0, most=0)) + amount * -(
                -budget.devices // hardware.num_nodes
            )
    return [Budget(name="this machine" if hardware.num_nodes == 1 else "each machine", amounts=amounts, devices=1)]
