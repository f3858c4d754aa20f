"""What an automaton's masks cost at a vocabulary of 150,000: their share of a decoding tick, and of a learner's head.

A tick is a pass of the torch engine's decoder over a batch of rows, then masks and choice; a head is what the learner
makes of as many hidden states, logits, masks and log-softmax. All are timed apart in one process, taking turns, as
process CPU time (medians). `text`: all rows may take any id but the buttons; `inside`: buttons alone; `mixed`: half and
half, of 50 states. `dense` is a table of states x ids, gathered and filled instead, for comparison.
Run `OMP_NUM_THREADS=1 python benchmarks/bench_masks.py`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from rlx.learner.logprob import Head
from rlx.model.masks import Masks
from rlx.protocol.automaton import Actions, Automaton, State
from rlx.rollout.sampling import read_knobs, sample
from rlx.rollout.torch.decoder import build_decoder
from rlx.rollout.torch.runner import Runner
from rlx.types import Sampling

VOCABULARY, NUM_ADDED, NUM_STATES = 150_000, 20, 50
SHAPES = {
    "nano": {"hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 5, "num_attention_heads": 6},
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
    sizes: dict[str, Any] = {
        **SHAPES[shape],
        "num_key_value_heads": 1,
        "tie_word_embeddings": True,
        "vocab_size": VOCABULARY,
    }
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**sizes))
    weights = {**model.state_dict(), "action_rows": torch.randn(NUM_ADDED, sizes["hidden_size"])}
    device = torch.device("cpu")
    return Runner(build_decoder(model.config, weights, device, torch.float32, NUM_ADDED), 64, device, torch.float32)


def head_of(shape: str, masks: Masks) -> Head:
    width = SHAPES[shape]["hidden_size"]
    return Head(weight_VH=torch.randn(VOCABULARY, width), rows_AH=torch.randn(NUM_ADDED, width), masks=masks)


@torch.inference_mode()
def measure(shape: str, kind: str, batch: int, repeats: int, context: int) -> dict[str, float]:
    """Medians, in milliseconds."""
    runner, whole = runner_of(shape), automaton()
    runner.reserve(batch, context)
    masks, table = Masks(whole, VOCABULARY, torch.device("cpu")), dense_table(whole)
    head, hidden = head_of(shape, masks), torch.randn(batch, SHAPES[shape]["hidden_size"])
    knobs = read_knobs([Sampling()] * batch, VOCABULARY + NUM_ADDED, torch.device("cpu"))
    uniform, states = torch.rand(batch, 1), states_of(kind, batch)
    logits = runner.decode([5] * batch, [context - 1] * batch)
    work: dict[str, Callable[[], Any]] = {
        "pass": lambda: logits.copy_(runner.decode([5] * batch, [context - 1] * batch)),
        "dense": lambda: logits.masked_fill(table.index_select(0, states), -torch.inf),
        "masks": lambda: masks.apply(logits, states),
        "choice": lambda: sample(logits, uniform, knobs),
        "head": lambda: head.log_softmax(hidden, states),
    }
    taken = [{name: seconds(run) for name, run in work.items()} for _ in range(repeats)]
    return {name: 1000 * statistics.median(each[name] for each in taken) for name in work}


def row(shape: str, kind: str, found: dict[str, float]) -> str:
    beside = found["pass"] + found["choice"]
    times = "  ".join(f"{found[name]:7.2f}" for name in ("pass", "choice", "head", "masks", "dense"))
    shares = (found["masks"] / (beside + found["masks"]), found["masks"] / found["head"])
    dense = found["dense"] / (beside + found["dense"])
    return f"{shape:5} {kind:7} {times}  {shares[0]:9.2%}  {shares[1]:9.2%}  {dense:9.2%}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES))
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'milliseconds':12}     pass   choice     head    masks    dense  of a tick  of a head  dense, of a tick")
    for shape in given.shapes:
        for kind in ("text", "inside", "mixed"):
            print(row(shape, kind, measure(shape, kind, given.batch, given.repeats, given.context)), flush=True)


if __name__ == "__main__":
    main()
