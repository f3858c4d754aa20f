"""Measure one row of bench_gpu.py in this process: `python gpu_rows.py '{"kind": "update", …}'`, answered in JSON.

Models are random: speed does not depend on weights, and nothing is downloaded. A row that does not fit says so.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rlx.hardware.sizing.amounts import num_trained
from rlx.model.load import SHIPPED, Lora, adapt
from rlx.model.shape import Shape, read_shape
from rlx.plan.scaling import head_parameters

TINY = {
    "model_type": "qwen3",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 64,
    "vocab_size": 1536,
    "tie_word_embeddings": True,
}
ADAPTERS = Lora(rank=16, alpha=16)
Row = dict[str, Any]
MISSING = "skipped: no CUDA"


def on_gpu() -> bool:
    return torch.cuda.is_available()


def model_flops(shape: Shape, length: int, *, adapted: bool) -> float:
    """Count the FLOPs of one token in an update, as MFU counts them: 6 N + 6 L h d T.

    N counts the parameters of all matrices that a token passes, the head among them. L layers have h heads of size d. A
    token of a causal sequence of T tokens sees T / 2 of them on average (12 L h d T would be all). Adapters alone
    need no gradient of N: 4 N. Recomputed activations do not count, so MFU is below what the device really does.
    """
    num = shape.active_parameters + head_parameters(shape)
    return (4 if adapted else 6) * num + 6 * shape.layers * shape.heads * shape.head_size * length


def read_model(name: str) -> dict[str, Any]:
    """Return a model's config: `tiny`, `nano` or an option of conf/model."""
    from rlx.settings.folders import read_option

    if name == "tiny":
        return dict(TINY)
    if name == "nano":
        return dict(json.loads((SHIPPED / "nano" / "config.json").read_text()))
    return dict(read_option("model", name)["shape"])


def build(name: str, longest: int, dtype: torch.dtype) -> Any:
    """Build a random model on the device."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(**read_model(name) | {"max_position_embeddings": longest})
    with torch.device("cuda" if on_gpu() else "cpu"):
        return AutoModelForCausalLM.from_config(config, dtype=dtype)


def timed(work: Callable[[], object], repeats: int) -> float:
    """Return the median seconds of a call, after one that does not count."""
    seconds = []
    for _ in range(repeats + 1):
        settle()
        began = now()
        work()
        settle()
        seconds.append(now() - began)
    return sorted(seconds[1:])[(repeats - 1) // 2]


def now() -> float:
    """Return the wall time; on a CPU that others may use too, the time of this process."""
    return time.perf_counter() if on_gpu() else time.process_time()


def settle() -> None:
    """Wait for the GPU's work."""
    if on_gpu():
        torch.cuda.synchronize()


def peak_memory() -> int:
    """Return the most bytes that torch has held on the GPU; on a CPU, those of the process."""
    return torch.cuda.max_memory_allocated() if on_gpu() else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure_update(row: Row) -> Row:
    """Time the learner's update of two sequences, one a micro-batch, as the profiles of one device set it."""
    from rlx.algo.losses import policy_gradient, policy_loss
    from rlx.algo.parts import Credited, Optimizer, PerRow
    from rlx.learner.batch import collate
    from rlx.learner.torch import TorchLearner
    from rlx.types import Action, Completion, Group, Task, Trajectory, Turn

    length, draw = row["length"], random.Random(0)
    shape = read_shape(read_model(row["model"]))
    model = build(row["model"], length, torch.float32)
    if row.get("adapted"):
        model = adapt(ADAPTERS, model, seed=0)
    learner = TorchLearner(
        model,
        optimizer=Optimizer(),
        num_steps=100,
        micro_batch_tokens=length,
        device="cuda" if on_gpu() else "cpu",
        dtype=torch.bfloat16 if on_gpu() else torch.float32,
        recompute=on_gpu(),
    )
    task, loss = Task(id="t", prompt=(), data={}), policy_loss(policy_gradient())

    def episode(sample: int) -> Trajectory:
        ids = tuple(draw.randrange(1, 1000) for _ in range(length - 1))
        done = Completion(token_ids=ids, logprobs=(-1.0,) * len(ids), stop="length")
        turn = Turn(prompt_ids=(sample + 1,), completion=done, action=Action(kind="answer", text=""))
        return Trajectory(task=task, sample=sample, turns=(turn,), status="done")

    batch = collate([Group(task=task, trajectories=(episode(0), episode(1)))])
    ready = batch.with_credit(Credited(advantage=PerRow([1.0, -1.0])))
    seconds = timed(lambda: learner.update(ready, loss), row.get("repeats", 3))
    flops = model_flops(shape, length, adapted=bool(row.get("adapted")))
    rate = 2 * length / seconds
    found = {"seconds": seconds, "tokens_per_s": rate, "flops": rate * flops, "peak_bytes": peak_memory()}
    return found | {"trained": num_trained(ADAPTERS if row.get("adapted") else None, shape)}


def measure_rollout(row: Row) -> Row:
    """Time an engine that samples as many tokens in every row, after prompts that are all different."""
    from transformers import AutoTokenizer

    from rlx.rollout.torch.engine import TorchEngine
    from rlx.types import Request, Sampling

    num, prompt, new = row["rows"], row["prompt"], row["new"]
    dtype = torch.bfloat16 if on_gpu() else torch.float32
    model = build(row["model"], max(prompt + new + 1, 1024), dtype)
    common: dict[str, Any] = {
        "config": model.config,
        "weights": dict(model.state_dict()),
        "tokenizer": AutoTokenizer.from_pretrained(SHIPPED / "nano"),
        "eos_ids": (),
        "num_slots": num,
        "device": "cuda" if on_gpu() else "cpu",
        "dtype": dtype,
    }
    if row["engine"] == "vllm":
        from rlx.rollout.vllm.engine import VllmEngine

        engine: Any = VllmEngine(**common, max_context=prompt + new + 1, memory=0.6)
    else:
        engine = TorchEngine(**common)
    draw, session = random.Random(0), iter(range(10**9))
    sampling = Sampling(temperature=1.0, max_new_tokens=new, max_context=prompt + new + 1)

    def work() -> None:
        sessions = [next(session) for _ in range(num)]
        for one in sessions:
            ids = tuple(draw.randrange(1, 1000) for _ in range(prompt))
            engine.add(Request(session=one, stream=one, prompt_ids=ids, sampling=sampling, stops=()))
        done = 0
        while done < num:
            done += len(engine.step())
        for one in sessions:
            engine.release(one)

    seconds = timed(work, row.get("repeats", 3))
    return {"tokens_per_s": num * new / seconds, "tick_ms": 1e3 * seconds / new, "peak_bytes": peak_memory()}


def measure_attention(row: Row) -> Row:
    """Compare packed attention's kernels with torch's causal attention, forward and backward, and time both ways."""
    from torch.nn.functional import scaled_dot_product_attention

    from rlx.learner.attention import Rule, attend_sight, block_mask
    from rlx.learner.layout import Sight, blocks

    length, size, heads, keys = row["length"], row["head_size"], row["heads"], row["key_heads"]
    dtype = getattr(torch, row["dtype"])
    until = torch.full((length,), length, dtype=torch.int32)
    parts = {name: part.cuda() for name, part in blocks(until).items()}
    position = torch.arange(length, dtype=torch.int32)
    mask = block_mask(Sight(end_T=until.cuda(), position_T=position.cuda(), **parts), None)
    rule = Rule(scaling=size**-0.5)
    torch.manual_seed(0)

    def tensor(num: int) -> Tensor:
        return torch.randn(1, num, length, size, device="cuda", dtype=dtype, requires_grad=True)

    q, k, v = tensor(heads), tensor(keys), tensor(keys)

    def ours() -> Tensor:
        return attend_sight(lambda window: mask, q, k, v, rule)

    def theirs() -> Tensor:
        keys_h, values_h = (part.repeat_interleave(heads // keys, dim=1) for part in (k, v))
        return scaled_dot_product_attention(q, keys_h, values_h, is_causal=True).transpose(1, 2)

    def gradients(out: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(out.float().square().mean(), (q, k, v)))

    errors = [apart(a, b) for a, b in zip([ours(), *gradients(ours())], [theirs(), *gradients(theirs())], strict=True)]
    forward, both = timed(ours, 5), timed(lambda: gradients(ours()), 5)
    return {"error": max(errors), "forward_ms": 1e3 * forward, "both_ms": 1e3 * both, "peak_bytes": peak_memory()}


def apart(ours: Tensor, theirs: Tensor) -> float:
    """Return the largest difference, as a share of the largest value."""
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def measure_sleep(row: Row) -> Row:
    """Let a vLLM engine sleep and wake, and read the GPU's free memory after each time."""
    from transformers import AutoTokenizer

    from rlx.rollout.vllm.engine import VllmEngine

    model = build(row["model"], 4096, torch.bfloat16)
    weights = {name: weight.cpu() for name, weight in model.state_dict().items()}
    config = model.config
    del model
    torch.cuda.empty_cache()
    engine = VllmEngine(
        config=config,
        weights=weights,
        tokenizer=AutoTokenizer.from_pretrained(SHIPPED / "nano"),
        eos_ids=(),
        num_slots=64,
        device="cuda",
        dtype=torch.bfloat16,
        max_context=4096,
        memory=0.5,
        sleeps=True,
    )
    free, seconds = [], []
    for version in range(row["times"]):
        began = time.perf_counter()
        engine.rest(keep=False)
        settle()
        free.append(torch.cuda.mem_get_info()[0])
        engine.load(weights, version + 1)
        settle()
        seconds.append(time.perf_counter() - began)
    return {"free_bytes": free, "seconds": sorted(seconds)[len(seconds) // 2]}


MEASURES: dict[str, Callable[[Row], Row]] = {
    "update": measure_update,
    "rollout": measure_rollout,
    "attention": measure_attention,
    "sleep": measure_sleep,
}


def needs(row: Row) -> str:
    """Return why a row cannot be measured here; empty where it can."""
    from rlx.hardware.packages import lacks

    if row["kind"] in ("attention", "sleep") and not on_gpu():
        return MISSING
    uses_vllm = row["kind"] == "sleep" or row.get("engine") == "vllm"
    return f"skipped: vLLM is not here ({lacks('vllm')})" if uses_vllm and lacks("vllm") else ""


def measure(row: Row) -> Row:
    """Measure a row, or say in a word why there is no figure."""
    why = needs(row)
    if why:
        return {"failed": why}
    try:
        return MEASURES[row["kind"]](row)
    except (torch.cuda.OutOfMemoryError, MemoryError):
        return {"failed": "out of memory"}


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
