"""What an automaton's masks cost at a vocabulary of 150,000: their share of a decoding tick, and of a learner's head.

A tick is a pass of the torch engine's decoder over a batch of rows, then masks and choice; the three are timed apart in
one process, taking turns, as process CPU time (medians). `text`: all rows may take any id but the buttons; `inside`:
buttons alone; `mixed`: half and half, of 50 states. `dense` is a table of states x ids, gathered and filled, for
comparison. Run `OMP_NUM_THREADS=1 python benchmarks/bench_masks.py`: one JSON object a line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from rlx.model.masks import Masks
from rlx.protocol.automaton import Actions, Automaton, State
from rlx.rollout.sampling import read_knobs, sample
from rlx.rollout.torch.decoder import build_decoder
from rlx.rollout.torch.runner import Runner
from rlx.types import Sampling

VOCABULARY, NUM_ADDED, NUM_STATES = 150_000, 20, 50
SHAPES = {
    "nano": {"hidden_size": 160, "intermediate_size": 432, "num_hidden_layers": 4, "num_attention_heads": 5},
    "135M": {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9},
}
"""Bodies under a head of 150,000 ids."""


def automaton() -> Automaton:
    """Text that may enter a tool, and a tool's buttons; 25 times."""
    buttons = frozenset(range(VOCABULARY + 1, VOCABULARY + NUM_ADDED))
    names = tuple(f"action {i}" for i in range(NUM_ADDED))
    actions = Actions(first=VOCABULARY, names=names, descriptions=((1,),) * NUM_ADDED)
    return Automaton(states=(State(forbidden=buttons), State(allowed=buttons)) * (NUM_STATES // 2), actions=actions)


def states_of(kind: str, batch: int) -> torch.Tensor:
    index = torch.arange(batch)
    return {"text": index * 0, "inside": index * 0 + 1, "mixed": index % NUM_STATES}[kind]


def dense_table(whole: Automaton) -> torch.Tensor:
    rows = [[not state.allows(i) for i in range(VOCABULARY + NUM_ADDED)] for state in whole.states[:2]]
    return torch.tensor(rows).repeat(NUM_STATES // 2, 1)


def seconds(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def runner_of(shape: str) -> Runner:
    sizes = {**SHAPES[shape], "num_key_value_heads": 1, "tie_word_embeddings": True, "vocab_size": VOCABULARY}
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**sizes))
    weights = {**model.state_dict(), "action_rows": torch.randn(NUM_ADDED, sizes["hidden_size"])}
    device = torch.device("cpu")
    return Runner(build_decoder(model.config, weights, device, torch.float32, NUM_ADDED), 64, device, torch.float32)


@torch.inference_mode()
def measure(shape: str, kind: str, batch: int, repeats: int, context: int) -> dict[str, Any]:
    runner, whole = runner_of(shape), automaton()
    runner.reserve(batch, context)
    masks, table = Masks(whole, VOCABULARY, torch.device("cpu")), dense_table(whole)
    knobs = read_knobs([Sampling()] * batch, VOCABULARY + NUM_ADDED, torch.device("cpu"))
    uniform, states = torch.rand(batch, 1), states_of(kind, batch)
    logits = runner.decode([5] * batch, [context - 1] * batch)
    work: dict[str, Callable[[], Any]] = {
        "pass": lambda: logits.copy_(runner.decode([5] * batch, [context - 1] * batch)),
        "dense": lambda: logits.masked_fill(table.index_select(0, states), -torch.inf),
        "masks": lambda: masks.apply(logits, states),
        "choice": lambda: sample(logits, uniform, knobs),
    }
    taken = [{name: seconds(run) for name, run in work.items()} for _ in range(repeats)]
    times = {name: [each[name] for each in taken] for name in work}
    median = {name: statistics.median(found) for name, found in times.items()}
    tick = median["pass"] + median["masks"] + median["choice"]
    told = {f"{name}_ms": round(1000 * value, 2) for name, value in median.items()}
    share, dense = median["masks"] / tick, median["dense"] / (tick - median["masks"] + median["dense"])
    found = {"share": round(share, 4), "share_dense": round(dense, 4), "bytes": size_of(masks)}
    return {"bench": "masks", "shape": shape, "kind": kind, "batch": batch, **told, **found}


def size_of(masks: Masks) -> int:
    return masks.allowed.ids_SK.nbytes + masks.forbidden.ids_SK.nbytes


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES))
    given = parser.parse_args()
    torch.set_num_threads(1)
    for shape in given.shapes:
        for kind in ("text", "inside", "mixed"):
            print(json.dumps(measure(shape, kind, given.batch, given.repeats, given.context)), flush=True)


if __name__ == "__main__":
    main()
