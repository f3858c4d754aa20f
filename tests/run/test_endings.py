"""A policy that copied an expert ends its turns by itself, under every protocol, as text and in a chat."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from rlx.env.mixed.mixture import Mixture, Portion
from rlx.environment import Environment, Episode
from rlx.gym.named import build_protocol
from rlx.learner.batch import collate
from rlx.learner.rows import rows
from rlx.model.load import SHIPPED, Model
from rlx.run.trainee import Trainee, build_trainee
from rlx.settings.folders import config_folders, list_options
from rlx.types import Action, Move, Sampling, Start, Step, Task, Text, ToolUse, Verb

CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PYTHON = Verb(name="python", description="run Python", argument="code")
UPDATES = 60

torch.set_num_threads(1)  # a second thread waits, spinning, on models this small


@dataclass(frozen=True, kw_only=True)
class Sums(Environment):
    """Two sums, whose expert calls a tool where it may and then answers in two lines, or in one."""

    name: str
    """What its questions begin with, so that every protocol has contexts of its own."""
    lines: str = "\n"
    tools: tuple[Verb, ...] = (PYTHON,)

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        for text, right in (("2 + 3", "5"), ("4 + 1", "5")):
            asked = f"{self.name}: what is {text}?"
            yield Task(id=text, prompt=(Text(asked),), data={"right": right, "goal": asked})

    def start(self, task: Task) -> Answering:
        return Answering(f"sum = {task.data['right']}{self.lines}print(sum)")

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        if "python" in tools:
            yield Move(thought="I try.", action=Action(kind="call", name="python", text="print(2 + 3)"))
        yield Move(thought="", action=Action(kind="answer", text=self.start(task).right))


@dataclass
class Answering(Episode):
    """An episode that an answer ends."""

    right: str

    def step(self, action: Action) -> Step:
        if action.kind == "call":
            return Step(observation=(Text("so it is"),), tool=ToolUse(num_calls=1))
        return Step(done=True, success=action == Action(kind="answer", text=self.right))


def write_model(folder: Path, chat: bool) -> Model:
    """A small model that knows nothing; with a chat template, whose end of turn its own settings do not name."""
    texts = Tokenizer.from_file(str(SHIPPED / "nano" / "tokenizer.json"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=texts, eos_token="<|end|>", pad_token="<|end|>")
    if chat:
        tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
        tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(str(folder))
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, eos_token_id=tokenizer.eos_token_id, pad_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        Qwen2ForCausalLM(config).save_pretrained(str(folder))
    return Model(path=str(folder), chat=chat)


def spoken_in(name: str) -> Portion:
    """The sums, in a protocol; those of one line have answers of one."""
    protocol: Any = build_protocol(name, {})
    told = getattr(protocol, "instruction", None) or ""
    if "{actions}" in told:  # of which the sums have none
        protocol = replace(protocol, instruction=told.replace("{actions}", "a number"), correction=None)
    return Portion(env=Sums(name=name, lines="; " if "\n" in protocol.stops else "\n"), protocol=protocol)


def imitating(run: Any, model: Model) -> Trainee:
    """An agent that copied the expert so many times that nothing else is left to say."""
    agent, tasks = build_trainee(run, model), list(run.env.tasks("train", 0))
    groups = agent.policy.rollout(run.env, run.sampling, ("copy",)).sample(run.algo.sample, tasks)
    batch = agent.learner.annotate(collate(groups), run.algo.needs)
    for _ in range(run.steps):
        agent.learner.update(batch.with_credit(run.algo.credit(rows(groups, batch))), run.algo.loss)
    return agent


@pytest.mark.parametrize("chat", [False, True], ids=["text", "chat"])
def test_a_policy_that_copied_an_expert_ends_its_turns_itself_in_every_protocol(
    chat: bool, small_run: Callable[..., Any], tmp_path: Path
) -> None:
    model = write_model(tmp_path / "model", chat)
    names = list_options("protocol", config_folders())
    words = ("algo=sft", f"algo.num_prompts={2 * len(names)}", "algo.optimizer.lr=0.01")
    base = small_run(tmp_path / "run", *words, without=("algo", "env"))
    env = Mixture(parts={name: spoken_in(name) for name in names})
    run = replace(base, env=env, model=model, steps=UPDATES)
    agent = imitating(run, model)
    player = agent.policy.rollout(env, Sampling(temperature=0.0, max_new_tokens=60), ("act",), prepare=agent.sync)
    tasks = list(env.tasks("train", 0))
    for mine, shown in zip(player.play([Start(task=task, sample=0) for task in tasks]), player.demonstrate(tasks)):
        told = [(turn.action, turn.completion.token_ids, turn.completion.stop) for turn in mine.turns]
        assert told == [(turn.action, turn.completion.token_ids, turn.completion.stop) for turn in shown.turns]
        assert mine.success, mine.task.env
        stops, last = player.worlds[mine.task.env].speech.dialect.stops, mine.turns[-1].completion
        assert last.stop == ("stop" if "\n" in stops or "</answer>" in stops else "eos")
