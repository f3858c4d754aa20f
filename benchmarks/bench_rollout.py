"""Sampling speed: the torch engine against `transformers` generate with the same model, prompts and lengths.

Both sample at temperature 1 without filters, on one thread, taking turns in one process; the engine also records
log-probs and listens for a stop string. Times are process CPU time, which a busy machine disturbs least; figures are
medians. Run `OMP_NUM_THREADS=1 python benchmarks/bench_rollout.py`: one JSON object a line, with tokens per CPU second
of both and their ratio; `equal` is the share of rows that both decode greedily to the same tokens.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import rlx
from rlx.rollout.torch.engine import TorchEngine
from rlx.types import Completion, Request, Sampling

NANO = Path(rlx.__file__).parent / "model" / "nano"
STOPS = ("\x00 not in any text \x00",)
Sampled = list[list[int]]


def sample_engine(engine: TorchEngine, prompts: Sampled, sampling: Sampling) -> Sampled:
    """One completion for each prompt, in sessions that end with it."""
    for session, prompt in enumerate(prompts):
        engine.add(Request(session=session, stream=session, prompt_ids=tuple(prompt), sampling=sampling, stops=STOPS))
    done: dict[int, Completion] = {}
    while len(done) < len(prompts):
        done.update({request.session: completion for request, completion in engine.step()})
    for session in done:
        engine.release(session)
    return [list(done[session].token_ids) for session in range(len(prompts))]


@torch.inference_mode()
def sample_transformers(model: Any, prompts: Sampled, sampling: Sampling) -> Sampled:
    ids = torch.tensor(prompts)
    how = {"do_sample": True, "top_k": 0, "temperature": 1.0} if sampling.temperature else {"do_sample": False}
    new = sampling.max_new_tokens
    told = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new, **how)
    return told[:, ids.shape[1] :].tolist()


def cpu_seconds(run: Callable[[], Sampled]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def compare(
    model: Any, engine: TorchEngine, batch: int, repeats: int, num_prompt: int, num_new: int, num_ids: int
) -> dict[str, Any]:
    """Medians at one batch size. Every repeat has new prompts, so nothing is found in a cache."""
    generator = torch.Generator().manual_seed(batch)

    def prompts() -> Sampled:
        return torch.randint(0, num_ids, (batch, num_prompt), generator=generator).tolist()

    greedy, sampled = (Sampling(temperature=t, max_new_tokens=num_new, max_context=4096) for t in (0.0, 1.0))
    same = prompts()
    pairs = list(zip(sample_transformers(model, same, greedy), sample_engine(engine, same, greedy), strict=True))
    times: dict[str, list[float]] = {"transformers": [], "engine": []}
    for _ in range(repeats):
        these = prompts()
        times["transformers"].append(cpu_seconds(partial(sample_transformers, model, these, sampled)))
        times["engine"].append(cpu_seconds(partial(sample_engine, engine, these, sampled)))
    median = {name: statistics.median(seconds) for name, seconds in times.items()}
    return {
        "bench": "rollout",
        "batch": batch,
        **{f"{name}_tokens_per_s": round(batch * num_new / seconds) for name, seconds in median.items()},
        "ratio": round(median["transformers"] / median["engine"], 2),
        "equal": sum(theirs == ours for theirs, ours in pairs) / batch,
    }


def main(path: str, batches: list[int], repeats: int, num_prompt: int, num_new: int) -> Iterator[dict[str, Any]]:
    torch.set_num_threads(1)
    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval(),
        AutoTokenizer.from_pretrained(path),
    )
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = None, 0
    engine = TorchEngine(
        config=model.config, weights=model.state_dict(), tokenizer=tokenizer, eos_ids=(), num_slots=max(batches)
    )
    for batch in batches:
        yield compare(model, engine, batch, repeats, num_prompt, num_new, model.config.vocab_size)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(NANO), help="a Qwen2 or Llama folder")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--prompt", type=int, default=32, help="tokens of a prompt")
    parser.add_argument("--new", type=int, default=64, help="tokens sampled")
    parser.add_argument("--out", type=Path, help="also append the lines to this file")
    options = parser.parse_args()
    for line in main(options.model, options.batch, options.repeats, options.prompt, options.new):
        print(json.dumps(line), flush=True)
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            with options.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
