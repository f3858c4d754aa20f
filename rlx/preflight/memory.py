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
slots that are full at most, and short at least. vLLM takes its whole share of a device as it starts.

A vLLM engine beside the learner sleeps during the update, so that the two take turns: sampling and updating are two
budgets. A torch engine stays. Gradients are forgotten after the step, but ZeRO 3 keeps room for its share of them, and
a bucket to collect them in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rlx.hardware.profile import BYTES, Hardware
from rlx.learner.sizes import CHUNK_ELEMENTS, KEYS, bucket_elements
from rlx.model.load import Lora
from rlx.model.shape import Shape

PROGRAM = {"cpu": 500_000_000, "cuda": 1_500_000_000}
"""Bytes of one process before any weight: libraries, the CUDA context, communication."""

VLLM_PROGRAM = 450_000_000
"""Bytes of vLLM on CPU beside its weights and cache: a process grew by 244 MB as it started, by 14 MB as it sampled. A
run of four processes once held 0.1 GB more than with 300 MB here."""

LIVE_ELEMENTS = 1_050_000_000
"""Weights that ZeRO 3 may keep gathered for their next use, with those that it fetches early: DeepSpeed's defaults."""

VLLM_GRAPHS = 1_000_000_000
"""CUDA graphs of a vLLM engine, which stay while it sleeps."""

STEP_TOKENS = 8192
"""Tokens of vLLM's largest pass, as in rlx/rollout/vllm/start.py."""

NORMS = {"float32": 24, "bfloat16": 16, "autocast": 26}
"""Bytes of a layer's residual-wide tensors for a token: what two norms take, their normalised vectors, what they give.
Under autocast residuals are float32, and each of five linear maps keeps a bfloat16 cast of its own; a bfloat16 model
has float32 inside its norms."""

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
    """The policy that plays never changes: its engine keeps its weights while it sleeps."""
    num_opponents: int = 0
    """Policies in engines of their own beside the run's, each counted at the run's size."""


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
        found = [Budget(name="learner", amounts=learner, devices=hardware.num_processes), beside]
    elif sleeps(hardware):
        found = [
            Budget(name="sampling", amounts=resident | engine, devices=hardware.num_processes, notes=notes),
            Budget(name="updating", amounts=learner | asleep(), devices=hardware.num_processes),
        ]
    else:
        found = [Budget(name="learner and engine", amounts=learner | engine, devices=hardware.num_processes)]
    return on_machine(hardware, found)


def sleeps(hardware: Hardware) -> bool:
    """Tell whether the engine leaves the device during the update."""
    return hardware.engine == "vllm" and hardware.device == "cuda" and not hardware.num_servers


def resident_names(hardware: Hardware) -> tuple[str, ...]:
    """Name the amounts that a learner holds between updates."""
    kept = ("weights", "reference", "optimizer", "program")
    return (*kept, "gradients", "gradient bucket") if hardware.effective_zero_stage == 3 else kept


def asleep() -> dict[str, Amount]:
    return {"engine asleep": exactly(VLLM_GRAPHS)}


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
    libraries = VLLM_PROGRAM if hardware.engine == "vllm" and hardware.device == "cpu" else 0
    return {"program": exactly(PROGRAM[hardware.device] + libraries)}


def learner_amounts(hardware: Hardware, demand: Demand) -> dict[str, Amount]:
    """Return the memory of one learner process during an update, without amounts of 0."""
    amounts = {name: exactly(num) for name, num in learner_state(hardware, demand).items()}
    amounts |= {"communication": communication(hardware, demand), "activations": activations(hardware, demand)}
    return {name: amount for name, amount in (amounts | program(hardware)).items() if amount.most}


def learner_state(hardware: Hardware, demand: Demand) -> dict[str, int]:
    """Bytes of one process that are there whatever the batch. The torch learner keeps frozen matrices of linear maps in
    the format of the pass (rlx/learner/torch.py), and need not cast them."""
    model, trained = demand.shape.num_parameters, demand.num_trained
    num = model + (trained if demand.adapted else demand.num_head)
    low, spread = hardware.learner_dtype != "float32", hardware.learner == "deepspeed"
    number, stage = BYTES[hardware.learner_dtype] if spread else BYTES["float32"], hardware.effective_zero_stage
    halved = 2 * demand.shape.layers * demand.shape.layer_parameters if low and not spread else 0
    base, copied = (halved, 0) if demand.adapted else (0, number * model - halved)
    whole = {
        "weights": (number * num - base, 3),
        "reference": (copied if demand.needs_reference else 0, 3),
        "gradients": (0 if hardware.offload and stage == 3 else 4 * trained, 2),
        "optimizer": (0 if hardware.offload else trained * (12 if stage else 8), 1),
    }
    state = {name: share(count, hardware.num_processes, stage >= least) for name, (count, least) in whole.items()}
    cast = num - demand.shape.layers * demand.shape.layer_parameters if demand.adapted else num
    casts = BYTES[hardware.learner_dtype] * cast if low and not spread else 0
    return state | {"gradient bucket": 4 * bucket_elements(trained) if stage == 3 else 0, "weight casts": casts}


def share(num_bytes: int, processes: int, shared: bool) -> int:
    return -(-num_bytes // processes) if shared else num_bytes


def communication(hardware: Hardware, demand: Demand) -> Amount:
    """Return the buffers of what DeepSpeed sends and receives. Stages 1 and 2: a bucket of gradients, and a float32
    copy of it or of one matrix that is larger. Stage 3, whose bucket stays: that copy in the order of ranks, two of a
    matrix that is larger, and weights, gathered: the layer in use and the next at least."""
    stage, number, shape = hardware.effective_zero_stage, BYTES[hardware.learner_dtype], demand.shape
    if not stage:
        return exactly(0)
    bucket, matrix = bucket_elements(demand.num_trained), min(shape.vocabulary * shape.width, demand.num_trained)
    if stage < 3:
        sent = 4 * max(bucket, matrix) if number < 4 else 0
        return Amount(least=number * bucket, most=number * bucket + sent)
    sent = 4 * bucket if matrix <= bucket else 8 * matrix
    near = max(shape.layer_parameters, shape.vocabulary * shape.width) + shape.layer_parameters
    live = max(near, min(shape.num_parameters, LIVE_ELEMENTS))
    return Amount(least=4 * bucket + number * near, most=sent + number * live)


def activations(hardware: Hardware, demand: Demand) -> Amount:
    """Return the activations of one micro-batch: at most full, or one longest episode, recomputed if it is longer; at
    least half full if the step has tokens enough."""
    episodes = -(-demand.num_episodes // hardware.num_processes)
    full = min(hardware.micro_batch_tokens, episodes * demand.max_context)
    least = min(hardware.micro_batch_tokens, episodes * min(SHORT, demand.max_context)) // 2
    most = max(activation_bytes(hardware, demand, tokens, KEYS) for tokens in (full, demand.max_context))
    return Amount(least=activation_bytes(hardware, demand, least), most=most)


def activation_bytes(hardware: Hardware, demand: Demand, tokens: int, keys: int = 1) -> int:
    """Count the bytes kept for the backward pass: the layers, or, where they are recomputed, the start of each. Behind
    the last come four float32 vectors, and one more for a critic where they are in another format. A chunk of logits
    three times in float32 follows, and the head's gradient. Where layers are recomputed, all of one layer comes too, in
    its turn. `keys`: copies of a token's key and value on a CPU."""
    shape, again = demand.shape, hardware.recompute or tokens > hardware.micro_batch_tokens
    stream = BYTES["float32" if hardware.learner == "torch" else hardware.learner_dtype] * shape.width
    gathered = hardware.device == "cpu" and tokens <= hardware.micro_batch_tokens
    layer = layer_bytes(hardware, shape, keys if gathered else 0)
    kept = tokens * shape.layers * (stream if again else layer)
    logits = 3 * 4 * min(tokens * (shape.vocabulary + shape.added), CHUNK_ELEMENTS[hardware.device])
    critic = 4 * shape.width if demand.num_head and stream < 4 * shape.width else 0
    behind = tokens * (16 * shape.width + critic) + logits + head_bytes(hardware, demand)
    return kept + (max(behind, tokens * (layer + gradient_bytes(hardware, shape))) if again else behind)


def layer_bytes(hardware: Hardware, shape: Shape, keys: int) -> int:
    """Count the bytes of one token in one layer: around its norms; gate, its activation, up, and their product;
    queries, keys, values and the attention's answer. With `keys`, queries are gathered into rectangles, and keys and
    values for each segment that sees them and each head; all of these count, and the answer as it is laid back."""
    number = BYTES[hardware.learner_dtype]
    low = number < 4 and hardware.learner == "torch"
    norms = NORMS["autocast" if low else hardware.learner_dtype] * shape.width
    heads = (3 + 2 * keys) * shape.heads if keys else 2 * (shape.heads + shape.key_heads)
    return norms + number * (heads * shape.head_size + 4 * shape.feed_forward)


def gradient_bytes(hardware: Hardware, shape: Shape) -> int:
    """Count the bytes of one token's gradients in a layer: of the residual, and of gate and up or their product."""
    return BYTES[hardware.learner_dtype] * (2 * shape.width + 2 * shape.feed_forward)


def head_bytes(hardware: Hardware, demand: Demand) -> int:
    """The output matrix's gradient in float32; in bfloat16 also a chunk's share of it, and one copy in that format: of
    the matrix (torch, trained or not) or of the gradient."""
    matrix, low = demand.shape.vocabulary * demand.shape.width, BYTES[hardware.learner_dtype] < 4
    trained = 0 if demand.adapted else 4 * matrix + (2 * matrix if low else 0)
    return trained + (2 * matrix if low and (hardware.learner == "torch" or not demand.adapted) else 0)


def engine_amounts(hardware: Hardware, demand: Demand, have: int | None) -> dict[str, Amount]:
    """Return the memory of an engine on each of its devices."""
    weights = -(-BYTES[hardware.dtype] * demand.shape.num_parameters // hardware.tensor_parallel)
    context = context_bytes(hardware, demand)
    if not (hardware.engine == "vllm" and hardware.device == "cuda"):
        one = {"engine weights": exactly(weights), **slots(hardware, context, demand.max_context)}
        beside = sum(one.values(), exactly(0)) * demand.num_opponents
        return one | ({"other policies": beside} if demand.num_opponents else {})
    work = vllm_work(hardware, demand.shape)
    room = context if have is None else max(context, int(hardware.engine_memory * have) - weights - work)
    return {"engine weights": exactly(weights), "engine work": exactly(work), "KV cache": exactly(room)}


def slots(hardware: Hardware, context: int, max_context: int) -> dict[str, Amount]:
    """Return the caches of slots that are decoded at once, `context` bytes each. The torch engine's are one buffer, an
    eighth longer than its longest row at most, and there twice where it is laid out anew; contexts that wait for a
    tool, or have ended and may be left, are copies outside it (rlx/rollout/torch/prefix_store.py)."""
    full = context * hardware.num_slots
    short = min(full, full * SHORT // max_context)
    if hardware.engine == "vllm":
        return {"KV cache": Amount(least=short, most=full)}
    return {"KV cache": Amount(least=short, most=2 * full * 9 // 8), "kept contexts": Amount(least=0, most=full)}


def vllm_work(hardware: Hardware, shape: Shape) -> int:
    """Count the bytes of a vLLM engine on a GPU beside weights and cache: graphs, its largest pass (gate and up, their
    product, four vectors of the residual width), and a float32 logit of every slot and token three times."""
    wide = -(-3 * shape.feed_forward // hardware.tensor_parallel) + 4 * shape.width
    logits = 3 * 4 * hardware.num_slots * (shape.vocabulary + shape.added)
    return VLLM_GRAPHS + STEP_TOKENS * BYTES[hardware.dtype] * wide + logits


def context_bytes(hardware: Hardware, demand: Demand) -> int:
    """Keys and values of one full context on each device of an engine; no head is split."""
    heads = -(-demand.shape.key_heads // hardware.tensor_parallel)
    return 2 * demand.shape.layers * heads * demand.shape.head_size * BYTES[hardware.dtype] * demand.max_context


def cache_notes(hardware: Hardware, demand: Demand, have: int | None) -> tuple[str, ...]:
    """Say how many full contexts a vLLM engine's share of the memory holds."""
    if not (hardware.engine == "vllm" and hardware.device == "cuda") or have is None:
        return ()
    cache = engine_amounts(hardware, demand, have)["KV cache"].most
    num, full = cache // context_bytes(hardware, demand), demand.max_context
    return (f"the cache holds {num:,} x a full context of {full:,} tokens for {hardware.num_slots:,} slots",)


def num_trained(lora: Lora | None, shape: Shape) -> int:
    """All parameters, or those of the adapters, rank x (in + out) of every map that has one, and of added actions."""
    if lora is None:
        return shape.num_parameters
    maps = shape.linear_maps
    adapters = shape.layers * lora.rank * sum(sum(maps[name]) for name in lora.targets if name in maps)
    return adapters + shape.added * shape.width
