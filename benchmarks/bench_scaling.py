"""The model behind docs/scaling.md beside measured runs on this CPU, one thread.

    OMP_NUM_THREADS=1 python benchmarks/bench_scaling.py [--models nano smollm2_135m] [--repeats 3]

First the CPU's own peaks are measured: FLOP/s of a product of matrices, bytes/s of reading as many as the model's
weights, and of 512 MB, as contexts are read. One more number, what a layer costs in a decoding tick whatever its size,
comes from nano alone at batch 1. The rest is predicted with every efficiency at 1: sampling at other batches, after
other prompts and of other models, and updates. Weights are random: speed does not depend on them. Process CPU time,
the best of a few.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from rlx.algo.credit import leave_one_out
from rlx.algo.losses import policy_gradient, policy_loss
from rlx.algo.parts import Optimizer
from rlx.hardware.profile import Hardware
from rlx.learner.batch import collate
from rlx.learner.rows import rows
from rlx.learner.torch import TorchLearner
from rlx.model.load import SHIPPED
from rlx.model.shape import Shape, find_shape
from rlx.plan.peaks import Machine
from rlx.plan.scaling import estimate_step
from rlx.plan.step import Load
from rlx.plan.timer import MEASURED
from rlx.rollout.torch.engine import TorchEngine
from rlx.settings.folders import read_option
from rlx.types import Action, Completion, Group, Request, Sampling, Task, Trajectory, Turn

PROMPT, LONG, NEW = 32, 480, 32
BATCHES = {"nano": (1, 16, 64), "smollm2_135m": (1, 16)}
GROUPS = {"nano": 16, "smollm2_135m": 2}
"""Groups of an update, of 4 samples each."""
MEMORY = 2**29
"""Bytes of contexts that no cache holds."""
TOKENS = 64
"""Tokens of a prompt, and of a completion, in an update."""


def best(work: Callable[[], Any], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def measure_flops(repeats: int) -> float:
    left, right = torch.randn(1024, 576), torch.randn(576, 1536)
    return 10 * 2 * 1024 * 576 * 1536 / best(lambda: [left @ right for _ in range(10)], repeats + 2)


def measure_bandwidth(num_bytes: int, repeats: int) -> float:
    """Measure the bandwidth of reading as many bytes of matrices as a model has, by products with one vector, as
    decoding does."""
    count = max(1, num_bytes // (4 * 1024 * 1024))
    matrices, vector = [torch.randn(1024, 1024) for _ in range(count)], torch.randn(1024)
    rounds = max(1, 2**28 // num_bytes)
    work = lambda: [m @ vector for _ in range(rounds) for m in matrices]  # noqa: E731
    return rounds * count * 4 * 1024 * 1024 / best(work, repeats + 1)


def build_model(name: str) -> Any:
    torch.manual_seed(0)
    if name == "nano":
        config = AutoConfig.from_pretrained(SHIPPED / "nano")
    else:
        shape = read_option("model", name)["shape"]
        config = AutoConfig.for_model(**shape)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


def sample(model: Any, batch: int, prompt: int, repeats: int) -> float:
    """Seconds of `batch` completions of NEW tokens after prompts of equal length."""
    engine = TorchEngine(
        config=model.config,
        weights=model.state_dict(),
        tokenizer=AutoTokenizer.from_pretrained(SHIPPED / "nano"),
        eos_ids=(),
        num_slots=batch,
    )
    draw = random.Random(0)
    sampling = Sampling(temperature=1.0, max_new_tokens=NEW, max_context=1024)

    def work() -> None:
        for session in range(batch):
            ids = tuple(draw.randrange(1000) for _ in range(prompt))
            engine.add(Request(session=session, stream=session, prompt_ids=ids, sampling=sampling, stops=()))
        done = 0
        while done < batch:
            done += len(engine.step())
        for session in range(batch):
            engine.release(session)

    return best(work, repeats)


def update(model: Any, num_groups: int, repeats: int) -> float:
    learner = TorchLearner(model, optimizer=Optimizer(), num_steps=100, micro_batch_tokens=1024)
    draw, credit, loss = random.Random(0), leave_one_out(), policy_loss(policy_gradient())

    def ids(num: int) -> tuple[int, ...]:
        return tuple(draw.randrange(1000) for _ in range(num))

    def episode(task: Task, index: int, prompt: tuple[int, ...]) -> Trajectory:
        done = Completion(token_ids=ids(TOKENS), logprobs=(-1.0,) * TOKENS, stop="length")
        turn = Turn(prompt_ids=prompt, completion=done, action=Action(kind="answer", text=""), reward=draw.random())
        return Trajectory(task=task, sample=index, turns=(turn,), status="done")

    def group(index: int) -> Group:
        task, prompt = Task(id=str(index), prompt=(), data={}), ids(TOKENS)
        return Group(task=task, trajectories=tuple(episode(task, i, prompt) for i in range(4)))

    groups = [group(index) for index in range(num_groups)]

    def work() -> None:
        batch = collate(groups)
        learner.update(batch.with_credit(credit(rows(groups, batch))), loss)

    work()
    return best(work, repeats)


def shape_of(name: str) -> Shape:
    shape = find_shape({**read_option("model", name), "path": "nano" if name == "nano" else "nobody/nothing"})
    assert shape is not None
    return shape


def predict(shape: Shape, machine: Machine, load: Load, layer: float) -> tuple[float, float]:
    """Seconds of the rollout and of the update, with every efficiency at 1."""
    whole = replace(MEASURED, update=1, prefill=1, decode=1, links=1, layer=layer, http=1)
    hardware = Hardware(num_slots=load.episodes, num_live=load.episodes, micro_batch_tokens=1024)
    step = estimate_step(shape, hardware, machine, load, whole)
    return step.rollout, step.update


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(BATCHES), choices=list(BATCHES))
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    layer, flops = 0.0, measure_flops(arguments.repeats)
    memory = measure_bandwidth(MEMORY, arguments.repeats)
    for name in dict.fromkeys(["nano", *arguments.models]):
        shape, model = shape_of(name), build_model(name)
        bandwidth = measure_bandwidth(4 * shape.num_parameters, arguments.repeats)
        machine = Machine(name="this CPU", flops=flops, bandwidth=bandwidth, contexts=memory)
        peaks = {"gflops": flops, "gb_per_s": bandwidth, "gb_per_s_of_memory": memory}
        told = {"model": name, **{what: round(peak / 1e9, 1) for what, peak in peaks.items()}}
        print(json.dumps(told), flush=True)
        for batch, prompt in [*((batch, PROMPT) for batch in BATCHES[name]), (max(BATCHES[name]), LONG)]:
            load = Load(episodes=batch, samples=1, prompt=prompt, sampled=NEW, observed=0)
            measured = sample(model, batch, prompt, arguments.repeats)
            fitted = not layer
            if fitted:
                layer = max(0.0, measured - predict(shape, machine, load, 0.0)[0]) / NEW / shape.layers
            what = f"sample, batch {batch}, prompt {prompt}"
            report(what, predict(shape, machine, load, layer)[0], measured, fitted=fitted)
        load = Load(episodes=4 * GROUPS[name], samples=4, prompt=TOKENS, sampled=TOKENS, observed=0)
        measured = update(model, GROUPS[name], arguments.repeats)
        report(f"update, {load.tokens:.0f} tokens", predict(shape, machine, load, layer)[1], measured)
    print(json.dumps({"layer_overhead_us": round(layer * 1e6)}))


def report(what: str, predicted: float, measured: float, *, fitted: bool = False) -> None:
    line = {"what": what, "predicted_s": round(predicted, 4), "measured_s": round(measured, 4)}
    print(
        json.dumps({**line, "ratio": round(measured / predicted, 2), **({"fitted": True} if fitted else {})}),
        flush=True,
    )


if __name__ == "__main__":
    main()
