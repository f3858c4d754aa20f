"""A whole multi-turn step, Countdown with the Python tool: rlx beside the same episodes through TRL's GRPOTrainer.

    OMP_NUM_THREADS=1 python benchmarks/bench_multiturn.py [--lengths equal] [--samples 4] [--repeats 2]

Equal on both sides: weights of nano's shape; 16 Countdown problems with --samples episodes each; GRPO's advantages
and clipped loss over sampled tokens alone; AdamW, float32, one thread. Each episode has a script. The script says how
many tokens each turn samples, and what follows: a real call of the Python tool or a checked answer. So sampled and
observed tokens are equal in number, episode by episode (asserted).

`--lengths demonstrated` scripts the environment's own demonstrations: up to 8 calls and an answer (5.6 turns of 27
tokens on average, observations of 6). `--lengths equal` makes every episode 6 turns of 24 tokens: nobody waits
for anybody and nothing is padded, which no real batch of episodes is like and which favours TRL.

TRL's side is its experimental `rollout_func` around the trainer's own `_generate_single_turn`, as its tool loop does
it: turns are batch-synchronous, each sends the whole context through `generate` again, tools run sample by sample,
episodes that are over take no further part. Its `tools=` path needs completions that parse as tool calls, which random
weights do not write. A turn's length is forced by a stopping criterion there, and by `max_new_tokens` here.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle, islice
from typing import Any

import torch
from beside_trl import Free, build_model, build_tokenizer, interleave, our_step, report, scratch, trl_arguments
from datasets import Dataset
from transformers import StoppingCriteriaList
from trl import GRPOConfig, GRPOTrainer

from rlx.algo.grpo import grpo
from rlx.algo.parts import Optimizer
from rlx.env.countdown.countdown import Countdown
from rlx.environment import Environment, Episode
from rlx.model.load import encode_text
from rlx.protocol.tags import Tags
from rlx.rollout.torch.engine import TorchEngine
from rlx.types import Action, Request, Sampling, Step, Task, ToolUse

NUM_PROMPTS = 16
TAGS = Tags().bind(Countdown.tools, ())
NUM_TURNS, NUM_NEW = 6, 24
"""Turns per episode and tokens per turn with --lengths equal."""

Script = tuple[tuple[int, Action], ...]
"""For each turn how many tokens are sampled, and what is then done."""


def demonstrated(env: Countdown, tokenizer: Any, task: Task, sample: int) -> Script:
    moves = env.demonstrate(task, sample, TAGS.tools)
    return tuple((len(encode_text(tokenizer, TAGS.write(move))), move.action) for move in moves)


def equal(env: Countdown, tokenizer: Any, task: Task, sample: int) -> Script:
    call = Action(kind="call", name="python", text=" + ".join(map(str, task.data["numbers"])))
    answers = (action for _, action in demonstrated(env, tokenizer, task, sample) if action.kind == "answer")
    right, wrong = next(answers), Action(kind="answer", text="1")
    return ((NUM_NEW, call),) * (NUM_TURNS - 1) + ((NUM_NEW, wrong if sample % 2 else right),)


@dataclass
class Scripted(Environment):
    """Countdown whose episodes, started in the order of their scripts, do what those say, whatever was sampled."""

    scripts: Sequence[Script]
    countdown: Countdown = field(default_factory=Countdown)

    def __post_init__(self) -> None:
        self.next: Iterator[Script] = cycle(self.scripts)

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return self.countdown.tasks(split, seed)

    def start(self, task: Task) -> ScriptedEpisode:
        return ScriptedEpisode(iter(next(self.next)), self.countdown.start(task))

    def tool_cost(self, tool: ToolUse) -> float:
        return self.countdown.tool_cost(tool)


@dataclass
class ScriptedEpisode(Episode):
    script: Any
    episode: Episode

    def step(self, _: Action) -> Step:
        return self.episode.step(next(self.script)[1])


class ScriptedEngine:
    """The engine, told how long each turn of each session is; an episode's session is its place in the batch."""

    def __init__(self, scripts: Sequence[Script], engine: TorchEngine) -> None:
        self.engine, self.scripts = engine, scripts
        self.turns = [0] * len(scripts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def add(self, request: Request) -> None:
        num_new, _ = self.scripts[request.session][self.turns[request.session]]
        self.turns[request.session] += 1
        self.engine.add(replace(request, sampling=replace(request.sampling, max_new_tokens=num_new)))

    def release(self, session: int) -> None:
        self.turns[session] = 0
        self.engine.release(session)


@dataclass
class TurnEnds:
    """A stopping criterion of `transformers`: row by row, after so many new tokens."""

    num_prompt: int = 0
    lengths: torch.Tensor = field(default_factory=lambda: torch.zeros(0))

    def __call__(self, ids_BT: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        return ids_BT.shape[1] - self.num_prompt >= self.lengths


@dataclass
class Episodes:
    """TRL's `rollout_func`: every turn of all episodes together."""

    env: Scripted
    tasks: dict[str, Task]
    scripts: dict[str, list[Script]]
    tokenizer: Any
    ends: TurnEnds
    num_tokens: int = 0
    """Tokens of all contexts at their ends."""

    def __call__(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
        scripts = [self.scripts[prompt][index % len(self.scripts[prompt])] for index, prompt in enumerate(prompts)]
        self.env.next = iter(scripts)
        episodes = [self.env.start(self.tasks[prompt]) for prompt in prompts]
        opened = self.tokenizer(prompts, add_special_tokens=False)["input_ids"]
        contexts, rewards = [list(ids) for ids in opened], [0.0] * len(prompts)
        masks: list[list[int]] = [[] for _ in prompts]
        for turn in range(max(map(len, scripts))):
            alive = [index for index, script in enumerate(scripts) if turn < len(script)]
            lengths = [scripts[index][turn][0] for index in alive]
            self.ends.num_prompt = max(len(contexts[index]) for index in alive)
            self.ends.lengths = torch.tensor(lengths)
            sampled, _ = trainer._generate_single_turn([contexts[i] for i in alive], None, {}, num_generations=1)
            for index, num_new, ids in zip(alive, lengths, sampled, strict=True):
                step = episodes[index].step(Action(kind="call", name="python", text=self.tokenizer.decode(ids)))
                told = encode_text(self.tokenizer, TAGS.render(step.observation))
                contexts[index] = contexts[index] + ids[:num_new] + told
                masks[index] += [1] * num_new + [0] * len(told)
                rewards[index] += step.reward - self.env.tool_cost(step.tool)
        self.num_tokens = sum(map(len, contexts))
        completed = [context[len(ids) :] for context, ids in zip(contexts, opened, strict=True)]
        done = {"prompt_ids": opened, "completion_ids": completed, "logprobs": None}
        return {**done, "env_mask": masks, "episode_reward": rewards}


def trl_trainer(model: Any, episodes: Episodes, options: argparse.Namespace, folder: str) -> Any:
    num_new = max(num for scripts in episodes.scripts.values() for script in scripts for num, _ in script)
    keywords = trl_arguments(
        folder, NUM_PROMPTS, options.samples, num_new, options.trl_micro_batch, options.repeats + 1
    )
    model.generate = partial(model.generate, stopping_criteria=StoppingCriteriaList([episodes.ends]))
    return GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, episode_reward, **_: episode_reward,
        args=GRPOConfig(**keywords),
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in episodes.tasks]),
        processing_class=build_tokenizer(),
        rollout_func=episodes,
    )


def write_scripts(how: Any, tasks: list[Task], num_samples: int) -> list[list[Script]]:
    tokenizer, env = build_tokenizer(), Countdown()
    return [[how(env, tokenizer, task, sample) for sample in range(num_samples)] for task in tasks]


def main(options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(1)
    model, tokenizer = build_model(), build_tokenizer()
    tasks = list(islice(Countdown().tasks("train", 0), NUM_PROMPTS))
    how = {"demonstrated": demonstrated, "equal": equal}[options.lengths]
    groups = write_scripts(how, tasks, options.samples)
    scripts = [script for group in groups for script in group]
    algo = grpo(optimizer=Optimizer(), num_prompts=NUM_PROMPTS, num_samples=options.samples)
    dialect = Free(prompt=TAGS.open, reply=TAGS.render)
    ours, step = our_step(
        model, algo, Scripted(scripts), dialect, tasks, Sampling(), engine_as=partial(ScriptedEngine, scripts)
    )
    num_tokens: list[int] = []

    def counted() -> None:
        played = [trajectory for group in step() for trajectory in group.trajectories]
        assert [[len(t.completion.token_ids) for t in p.turns] for p in played] == [[n for n, _ in s] for s in scripts]
        assert {p.status for p in played} == {"done"}
        num_tokens.append(sum(len(p.turns[-1].prompt_ids) + len(p.turns[-1].completion.token_ids) for p in played))

    prompts = [TAGS.open(task) for task in tasks]
    episodes = Episodes(Scripted(scripts), dict(zip(prompts, tasks)), dict(zip(prompts, groups)), tokenizer, TurnEnds())
    with scratch() as folder:
        theirs = interleave(trl_trainer(model, episodes, options, folder), counted)
    assert set(num_tokens) == {episodes.num_tokens}
    sampled = sum(num_new for script in scripts for num_new, _ in script)
    return {
        "lengths": options.lengths,
        **report("multiturn", ours, theirs, sampled_tokens=sampled, context_tokens=num_tokens[0]),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", choices=("demonstrated", "equal"), default="demonstrated")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--samples", type=int, default=4, help="episodes a problem")
    parser.add_argument("--trl-micro-batch", type=int, default=64, help="TRL's per_device_train_batch_size")
    print(json.dumps(main(parser.parse_args())))
