"""How many bytes each device of a profile must hold: arithmetic on shapes, nothing is loaded.

What is exact stands in both bounds: N parameters, of which T are trained, on n learner processes under ZeRO stage z,
numbers of b bytes in the forward pass (4 float32, 2 bfloat16; DeepSpeed adds gradients up in float32 either way):

    weights    b N       / n if z >= 3        gradients  4 T       / n if z >= 2
    optimizer  8 T, and 4 T for float32 weights beside those of the forward pass (all but z = 0)      / n if z >= 1
    reference  b N       / n if z >= 3, if the algorithm compares with its start policy and there are no adapters to
                         switch off

(Rajbhandari et al. 2020, "ZeRO", arXiv:1910.02054, section 3.) The torch learner keeps weights in float32, and under
bfloat16 a cast of each until the backward pass. The rest depends on how full things get, so it has two bounds:
activations of a full micro-batch at most and of a half full one at least (packing fills them so, on average); caches of
slots that are full at most, and short (on vLLM: one full context, which it insists on) at least.

A vLLM engine beside the learner sleeps during the update, so that the two take turns: sampling and updating are two
budgets. A torch engine stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rlx.hardware import BYTES, Hardware
from rlx.model.load import Lora
from rlx.model.shape import Shape, linear_maps, num_parameters

CHUNK_ELEMENTS = {"cpu": 2**22, "cuda": 2**26}
"""Logits that exist at the same time, as in rlx/learner/logprob.py."""

BUCKET_ELEMENTS = 500_000_000
"""Gradients or weights that DeepSpeed moves at once."""

PROGRAM = {"cpu": 500_000_000, "cuda": 1_500_000_000}
"""Of one process before any weight: libraries, the CUDA context, communication."""

VLLM_WORK = 1_500_000_000
"""Of a vLLM engine on a GPU beside weights and cache: graphs and the largest pass."""

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
    """What must be held at the same time."""

    name: str
    """By whom and when: `learner, updating`."""
    amounts: Mapping[str, Amount]
    devices: int
    """That hold it, each; on cpu 1, the machine."""
    notes: tuple[str, ...] = field(default=())

    @property
    def total(self) -> Amount:
        return sum(self.amounts.values(), Amount(least=0, most=0))


@dataclass(frozen=True, kw_only=True)
class Job:
    """What memory depends on beside the hardware."""

    shape: Shape
    num_trained: int
    adapted: bool = False
    """Only adapters are trained; the reference policy is the model without them."""
    needs_reference: bool = False
    max_context: int
    """Tokens of one episode at most."""
    num_episodes: int = 1
    """Of a step."""


def budgets(hardware: Hardware, job: Job, have: int | None, *, trains: bool = True) -> list[Budget]:
    """Every budget of a profile: `have` is one device's memory (on cpu the machine's), None if unknown."""
    learner, engine = learner_amounts(hardware, job), engine_amounts(hardware, job, have)
    resident = {name: learner[name] for name in ("weights", "reference", "optimizer", "program") if name in learner}
    servers = hardware.num_servers * hardware.tensor_parallel
    notes = cache_notes(hardware, job, have)
    beside = Budget(name="engine in a server", amounts=engine | program(hardware), devices=servers, notes=notes)
    if not trains:
        alone = Budget(
            name="engine", amounts=engine | program(hardware), devices=servers or hardware.num_processes, notes=notes
        )
        return on_machine(hardware, [alone])
    if servers:
        found = [Budget(name="learner", amounts=learner, devices=hardware.num_processes), beside]
    elif sleeps(hardware):
        found = [
            Budget(name="sampling", amounts=resident | engine, devices=hardware.num_processes, notes=notes),
            Budget(name="updating", amounts=learner, devices=hardware.num_processes),
        ]
    else:
        found = [Budget(name="learner and engine", amounts=learner | engine, devices=hardware.num_processes)]
    return on_machine(hardware, found)


def sleeps(hardware: Hardware) -> bool:
    """Whether the engine leaves the device during the update."""
    return hardware.engine == "vllm" and hardware.device == "cuda" and not hardware.num_servers


def on_machine(hardware: Hardware, found: list[Budget]) -> list[Budget]:
    """On cpu all processes of a node share one memory: one budget of one machine."""
    if hardware.device != "cpu":
        return found
    amounts: dict[str, Amount] = {}
    for budget in found:
        for name, amount in budget.amounts.items():
            amounts[name] = amounts.get(name, Amount(least=0, most=0)) + amount * -(
                -budget.devices // hardware.num_nodes
            )
    return [Budget(name="this machine" if hardware.num_nodes == 1 else "each machine", amounts=amounts, devices=1)]


def exactly(num_bytes: int) -> Amount:
    return Amount(least=num_bytes, most=num_bytes)


def program(hardware: Hardware) -> dict[str, Amount]:
    return {"program": exactly(PROGRAM[hardware.device])}


def learner_amounts(hardware: Hardware, job: Job) -> dict[str, Amount]:
    """What one learner process holds during an update, without what is empty."""
    amounts = {name: exactly(num) for name, num in learner_state(hardware, job).items()}
    amounts |= {"communication": communication(hardware, job), "activations": activations(hardware, job)}
    return {name: amount for name, amount in (amounts | program(hardware)).items() if amount.most}


def learner_state(hardware: Hardware, job: Job) -> dict[str, int]:
    """Bytes of one process that are there whatever the batch."""
    num, trained = num_parameters(job.shape) + (job.num_trained if job.adapted else 0), job.num_trained
    low, spread = hardware.learner_dtype != "float32", hardware.learner == "deepspeed"
    number, stage = BYTES[hardware.learner_dtype] if spread else BYTES["float32"], zero_stage(hardware)
    whole = {
        "weights": (number * num, 3),
        "reference": (number * num if job.needs_reference and not job.adapted else 0, 3),
        "gradients": (4 * trained, 2),
        "optimizer": (0 if hardware.offload else trained * (12 if stage else 8), 1),
    }
    state = {name: share(count, hardware.num_processes, stage >= least) for name, (count, least) in whole.items()}
    return state | {"weight casts": BYTES[hardware.learner_dtype] * num if low and not spread else 0}


def zero_stage(hardware: Hardware) -> int:
    """The one that DeepSpeed runs: bfloat16 below stage 2 runs as stage 2 (rlx/learner/deepspeed.py)."""
    low = hardware.learner == "deepspeed" and hardware.learner_dtype != "float32"
    return max(hardware.zero_stage, 2) if low else hardware.zero_stage


def share(num_bytes: int, processes: int, shared: bool) -> int:
    return -(-num_bytes // processes) if shared else num_bytes


def communication(hardware: Hardware, job: Job) -> Amount:
    """DeepSpeed's buckets, of gradients and once more as they are sent in float32, and from ZeRO 3 on the layer in use
    and the next one, gathered."""
    stage, number = zero_stage(hardware), BYTES[hardware.learner_dtype]
    if not stage:
        return exactly(0)
    shape = job.shape
    largest = max(layer_parameters(shape), shape.vocabulary * shape.width)
    gathered = number * (largest + layer_parameters(shape)) if stage == 3 else 0
    sent = 4 if number < 4 else 0
    bucket = min(BUCKET_ELEMENTS, job.num_trained)
    return Amount(least=number * bucket + gathered, most=(number + sent) * bucket + gathered)


def layer_parameters(shape: Shape) -> int:
    return sum(before * after for before, after in linear_maps(shape).values())


def activations(hardware: Hardware, job: Job) -> Amount:
    """Of one micro-batch: at most full or one longest episode, at least half full if the step has tokens enough."""
    episodes = -(-job.num_episodes // hardware.num_processes)
    most = min(max(hardware.micro_batch_tokens, job.max_context), episodes * job.max_context)
    least = min(hardware.micro_batch_tokens, episodes * min(SHORT, job.max_context)) // 2
    return Amount(least=activation_bytes(hardware, job.shape, least), most=activation_bytes(hardware, job.shape, most))


def activation_bytes(hardware: Hardware, shape: Shape, tokens: int) -> int:
    """Per layer and token, kept for the backward pass: 8 vectors of the residual width, queries to values, 4 of the
    feed-forward. Recomputed, each layer keeps its input and one layer at a time the rest. Then a chunk of logits three
    times, and the gradient of the head, both float32.
    """
    number = BYTES[hardware.learner_dtype]
    heads = (2 * shape.heads + 2 * shape.key_heads) * shape.head_size
    layer = 8 * shape.width + heads + 4 * shape.feed_forward
    kept = shape.layers * shape.width + layer if hardware.recompute else shape.layers * layer
    logits = 3 * 4 * min(tokens * shape.vocabulary, CHUNK_ELEMENTS[hardware.device])
    return tokens * kept * number + logits + 4 * shape.vocabulary * shape.width


def engine_amounts(hardware: Hardware, job: Job, have: int | None) -> dict[str, Amount]:
    """What an engine holds on each of its devices."""
    weights = -(-BYTES[hardware.dtype] * num_parameters(job.shape) // hardware.tensor_parallel)
    context = context_bytes(hardware, job)
    if not (hardware.engine == "vllm" and hardware.device == "cuda"):
        full, short = (context * hardware.num_slots * num // job.max_context for num in (job.max_context, SHORT))
        return {"engine weights": exactly(weights), "KV cache": Amount(least=min(short, full), most=full)}
    room = context if have is None else max(context, int(hardware.engine_memory * have) - weights - VLLM_WORK)
    return {
        "engine weights": exactly(weights),
        "engine work": exactly(VLLM_WORK),
        "KV cache": Amount(least=context, most=room),
    }


def context_bytes(hardware: Hardware, job: Job) -> int:
    """Keys and values of one full context on each device of an engine; no head is split."""
    heads = -(-job.shape.key_heads // hardware.tensor_parallel)
    return 2 * job.shape.layers * heads * job.shape.head_size * BYTES[hardware.dtype] * job.max_context


def cache_notes(hardware: Hardware, job: Job, have: int | None) -> tuple[str, ...]:
    """How many full contexts a vLLM engine's share of the memory holds."""
    if not (hardware.engine == "vllm" and hardware.device == "cuda") or have is None:
        return ()
    cache = engine_amounts(hardware, job, have)["KV cache"].most
    num = cache // context_bytes(hardware, job)
    return (f"the cache holds {num:,} x a full context of {job.max_context:,} tokens for {hardware.num_slots:,} slots",)


def host_amounts(hardware: Hardware, job: Job) -> dict[str, int]:
    """What each machine's own memory holds beside its GPUs'."""
    if hardware.device == "cpu":
        return {}
    processes = hardware.num_processes // hardware.num_nodes
    weights = num_parameters(job.shape)
    num_copies = 2 if job.needs_reference and not job.adapted else 1
    offloaded = share(job.num_trained * 16, hardware.num_processes, shared=True) if hardware.offload else 0
    asleep = BYTES[hardware.dtype] * weights if sleeps(hardware) else 0
    each = {
        "weights while they are loaded, by every process": BYTES[hardware.loaded_dtype] * weights * num_copies,
        "optimizer and gradients, offloaded": offloaded,
        "engines asleep": asleep,
    }
    found = {name: num * processes for name, num in each.items() if num}
    return {**found, "the start's weights at the end, by one process at a time": BYTES[hardware.dtype] * weights}


def num_trained(lora: Lora | None, shape: Shape) -> int:
    """All parameters, or those of the adapters: rank x (in + out) of every map that has one."""
    if lora is None:
        return num_parameters(shape)
    maps = linear_maps(shape)
    return shape.layers * lora.rank * sum(sum(maps[name]) for name in lora.targets if name in maps)
