"""Costs of actions beyond the vocabulary: decoding beside plain decoding, requests of an expression, a twin's prefill.

decoding   an engine's processor time of a tick (`--engine vllm`: of vLLM, and nothing else then). 64 rows of text that
           may take any route, and 64 that press buttons, over 64 of an engine without an automaton. They take turns,
           tick by tick, in one process. The figure is the median of the ratios of neighbours, because other work on
           the machine is on all sides.

requests   completions asked for while calculator expressions are pressed, button by button.

prefill    tokens that go through the model before a twin goes on alone

Run `OMP_NUM_THREADS=1 python benchmarks/bench_expa.py`, and with .venv-cluster's python `… --engine vllm`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlx.algo.twins import Twins, with_twins
from rlx.hardware.packages import lacks
from rlx.model.load import load_model, load_tokenizer
from rlx.protocol.automaton import Automaton
from rlx.rollout.row import RequestRow
from rlx.rollout.torch.engine import TorchEngine
from rlx.rollout.torch.prefix_store import Saved
from rlx.rollout.vllm.engine import VllmEngine
from rlx.run.trainee import Policy, added_in, speech_in
from rlx.settings.compose import build_run, compose
from rlx.types import Group, Request, Sampling

ROWS, PROMPT, CONTEXT = 64, 40, 1024


class Counting(TorchEngine):
    """Notes what goes through the model where a completion begins with what it was given."""

    num_requests = 0
    prefilled: list[int]

    def add(self, request: Request) -> None:
        self.num_requests += 1
        super().add(request)

    def _compute(self, computed: list[tuple[RequestRow, Saved | None, int]]) -> Tensor:
        self.prefilled += [len(row.ids) - reused for row, _, reused in computed if row.request.completion_prefix]
        return super()._compute(computed)


@dataclass(frozen=True)
class Made:
    """A run, its model with rows for what its protocol adds, and how it speaks."""

    run: Any
    model: Any
    speech: Any
    tokenizer: Any

    def engine(self, automaton: Automaton | None, kind: Callable[..., Any] = TorchEngine) -> Any:
        weights = {name: x for name, x in self.model.state_dict().items() if automaton or name != "action_rows"}
        return kind(
            config=self.model.config,
            weights=weights,
            tokenizer=self.tokenizer,
            eos_ids=(),
            num_slots=ROWS,
            automaton=automaton,
        )


def make(*words: str) -> Made:
    with tempfile.TemporaryDirectory() as folder:
        run = build_run(compose(["algo=earl", "track=disabled", *words]), Path(folder))
    tokenizer = load_tokenizer(run.model)
    model = load_model(run.model, added=added_in(run, tokenizer))
    return Made(run, model, speech_in(run, run.model, model, tokenizer), tokenizer)


def endless(automaton: Automaton) -> Automaton:
    """Return the automaton without ends, so that as many rows are decoded all along."""
    return replace(automaton, states=tuple(replace(state, ends=frozenset()) for state in automaton.states))


def asked(ticks: int, state: int | None, given: tuple[int, ...] = ()) -> Iterator[Request]:
    sampling = Sampling(max_new_tokens=ticks + 1 + len(given), max_context=CONTEXT)
    for row in range(ROWS):
        prompt = tuple(3 + (7 * row + 11 * i) % 100 for i in range(PROMPT))
        yield Request(
            session=row, stream=row, prompt_ids=prompt, completion_prefix=given, sampling=sampling, state=state
        )


def tick(engine: Any) -> float:
    start = time.process_time()
    engine.step()
    return time.process_time() - start


def decoding(made: Made, ticks: int, kind: Callable[..., Any]) -> dict[str, list[float]]:
    """Each way's ratios to plain decoding, tick by tick."""
    drawn = made.speech.drawn
    ways: dict[str, tuple[int, tuple[int, ...]]] = {"text": (0, ())}
    ways["buttons"] = (0, (drawn.actions.first + drawn.actions.names.index("calculate"),))
    engines = {"plain": made.engine(None, kind), **{way: made.engine(endless(drawn.automaton), kind) for way in ways}}
    for way, engine in engines.items():
        state, given = ways.get(way, (None, ()))
        for request in asked(ticks, state, given):
            engine.add(request)
        engine.step()
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ticks):
        took = {way: tick(engine) for way, engine in engines.items()}
        for way in ways:
            found[way].append(took[way] / took["plain"])
    for engine in engines.values():
        engine.close()
    return found


def played(made: Made, num: int) -> tuple[list[Group], Any]:
    """Groups with their twins, where all failed."""
    engine = made.engine(made.speech.drawn.automaton, Counting)
    engine.prefilled = []
    policy = Policy(engine=engine, speech=made.speech, hardware=made.run.hardware)
    rollout = policy.rollout(made.run.env, replace(made.run.sampling, max_new_tokens=80), ("bench",), max_rounds=2)
    return rollout.sample(with_twins(4, Twins()), list(islice(made.run.env.tasks("train", 0), num))), engine


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ticks", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--engine", choices=("torch", "vllm"), default="torch")
    given = parser.parse_args()
    if given.engine == "vllm" and lacks("vllm"):
        print(f"bench_expa: vLLM left out, {lacks('vllm')}; `make setup-cluster` makes an environment that has it")
        sys.exit()
    torch.set_num_threads(1)
    made = make("env=calc/arithmetic_small")
    kind = TorchEngine if given.engine == "torch" else partial(VllmEngine, max_context=CONTEXT)
    rounds = [decoding(made, given.ticks, kind) for _ in range(given.rounds)]
    for way in rounds[0]:
        each = [statistics.median(found[way]) for found in rounds]
        whole = statistics.median(ratio for found in rounds for ratio in found[way])
        print(f"decoding {way:8} {whole:.3f} of plain; rounds {min(each):.3f} to {max(each):.3f}", flush=True)
    if kind is not TorchEngine:
        return

    groups, engine = played(made, given.tasks)
    turns = [turn for group in groups for one in group.trajectories for turn in one.new_turns]
    called = [turn for turn in turns if turn.action.kind == "call"]
    first = made.speech.drawn.actions.first
    pressed = [sum(i >= first for i in turn.completion.chosen_ids) - 1 for turn in called]
    print(f"requests {engine.num_requests} for {len(turns)} turns; of {len(called)} expressions one each,")
    print(f"         with {statistics.mean(pressed):.1f} buttons on average, {max(pressed)} at most")
    show_prefill("calculator", groups, engine)
    show_prefill("sorting", *played(make("env=sorting/sort4"), given.tasks))


def show_prefill(name: str, groups: list[Group], engine: Counting) -> None:
    twins = [(one, one.fork) for group in groups for one in group.trajectories if one.fork is not None]
    forced = sum(len(fork.forced) for _, fork in twins)
    whole = sum(len(one.turns[fork.turn].prompt_ids) + fork.num_prefix for one, fork in twins)
    print(f"prefill  {name}: {len(twins)} twins, {sum(engine.prefilled)} of {whole} tokens, {forced} of them forced")


if __name__ == "__main__":
    main()
