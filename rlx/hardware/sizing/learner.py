"""Estimate the bytes of one learner process during an update; budgets.py has the formulas."""

from __future__ import annotations

from rlx.hardware.profile import BYTES, Hardware
from rlx.hardware.sizing.amounts import SHORT, Amount, Demand, exactly, program, share
from rlx.hardware.sizing.update_sizes import CHUNK_ELEMENTS, KEYS, bucket_elements
from rlx.model.layer import Layer
from rlx.model.shape import Shape

LIVE_ELEMENTS = 1_050_000_000
"""Limit of gathered weights under ZeRO 3, kept for the next use or fetched early: DeepSpeed's defaults."""

NORMS = {"float32": 24, "bfloat16": 16, "autocast": 26}
"""Bytes of a layer's residual-wide tensors for a token: inputs of two norms, their normalised vectors, their outputs.
Under autocast residuals are float32, and each of five linear maps keeps a bfloat16 cast of its own; a bfloat16 model
has float32 inside its norms."""


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
    halved = 2 * demand.shape.linear_parameters if low and not spread else 0
    base, copied = (halved, 0) if demand.adapted else (0, number * model - halved)
    undivided = {
        "weights": (number * num - base, 3),
        "reference": (copied if demand.needs_reference else 0, 3),
        "gradients": (0 if hardware.offload and stage == 3 else 4 * trained, 2),
        "optimizer": (0 if hardware.offload else trained * (12 if stage else 8), 1),
    }
    state = {name: share(count, hardware.num_processes, stage >= least) for name, (count, least) in undivided.items()}
    cast = num - demand.shape.linear_parameters if demand.adapted else num
    casts = BYTES[hardware.learner_dtype] * cast if low and not spread else 0
    return state | {"gradient bucket": 4 * bucket_elements(trained) if stage == 3 else 0, "weight casts": casts}


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
    near = max(shape.largest_layer, shape.vocabulary * shape.width) + shape.largest_layer
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
    each = [(layer, num, layer_bytes(hardware, shape, layer, keys if gathered else 0)) for layer, num in shape.kinds]
    saved_bytes = tokens * (shape.layers * stream if again else sum(num * size for _, num, size in each))
    logits = 3 * 4 * min(tokens * (shape.vocabulary + shape.added), CHUNK_ELEMENTS[hardware.device])
    critic = 4 * shape.width if demand.num_head and stream < 4 * shape.width else 0
    behind = tokens * (16 * shape.width + critic) + logits + head_bytes(hardware, demand)
    peak = max(size + gradient_bytes(hardware, shape, layer) for layer, _, size in each)
    return saved_bytes + (max(behind, tokens * peak) if again else behind)


def layer_bytes(hardware: Hardware, shape: Shape, layer: Layer, keys: int) -> int:
    """Count the bytes of one token in one layer: around its norms; gate, its activation, up, and their product;
    queries, keys, values and the answer of attention or a mixer. With `keys`, queries are gathered into rectangles, and
    keys and values for each segment that sees them and each head; all of these count, and the answer as it is laid
    back."""
    number = BYTES[hardware.learner_dtype]
    low = number < 4 and hardware.learner == "torch"
    norms = NORMS["autocast" if low else hardware.learner_dtype] * shape.width
    projected = (3 + 2 * keys) * layer.mixed // 2 if keys and layer.mixed else layer.projected
    return norms + number * (projected + 4 * layer.wide)


def gradient_bytes(hardware: Hardware, shape: Shape, layer: Layer) -> int:
    """Count the bytes of one token's gradients in a layer: of the residual, and of gate and up or their product."""
    return BYTES[hardware.learner_dtype] * (2 * shape.width + 2 * layer.wide)


def head_bytes(hardware: Hardware, demand: Demand) -> int:
    """The output matrix's gradient in float32; in bfloat16 also a chunk's share of it, and one copy in that format: of
    the matrix (torch, trained or not) or of the gradient."""
    matrix, low = demand.shape.vocabulary * demand.shape.width, BYTES[hardware.learner_dtype] < 4
    trained = 0 if demand.adapted else 4 * matrix + (2 * matrix if low else 0)
    return trained + (2 * matrix if low and (hardware.learner == "torch" or not demand.adapted) else 0)
