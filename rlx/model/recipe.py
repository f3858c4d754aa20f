"""Settings that follow from the size of a model: learning rates, lengths, sizes of a step. conf/model/recipe has one
for each size; conf/algo, conf/sampling and conf/warm_start refer to it, so that a key given by itself still wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlx.base.limits import above, at_least, within
from rlx.env.questions.invented_world import Names
from rlx.protocol.drawn import Initial

MOST_DOUBLINGS = 10
"""Limit of the doublings of a warm start: a thousand times its steps."""


USUAL_TURN, USUAL_ANSWER = 100, 200
"""Tokens that are taken to be usual where no recipe says so."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings that suit models of about one size."""

    num_parameters: int
    """Parameters of the model that the recipe suits; a model four times as large is refused."""
    steps: int
    """Updates of a run."""
    checkpoint_interval: int
    """Steps between checkpoints: they take three times the model's float32 weights each."""
    max_context: int
    """Tokens of an episode: prompt, completions and observations of all turns together."""
    turn_tokens: int
    """Tokens a turn where an episode has several turns."""
    answer_tokens: int
    """Tokens of a turn that is the whole episode."""
    usual_turn: int = USUAL_TURN
    """Tokens that a turn usually samples where an episode has several turns, for `rlx plan` without another source."""
    usual_answer: int = USUAL_ANSWER
    """Tokens that an answer in one turn usually samples, for `rlx plan` without another source."""
    num_prompts: int
    """Tasks a step of reinforcement."""
    reinforce_lr: float
    """Learning rate of reinforcement."""
    kl: float
    """Weight of KL(policy || start policy), for algorithms that have one by default."""
    entropy: float
    """Weight of the entropy bonus, for algorithms that have one by default."""
    prefer_lr: float
    """Learning rate on pairs of right and wrong answers."""
    imitate_prompts: int
    """Demonstrations a step of supervision."""
    imitate_lr: float
    """Learning rate of supervision."""
    sft_steps: int
    """Updates of a warm start on answers in text alone."""
    tool_sft_steps: int
    """Updates of a warm start on demonstrations with tools."""
    brief_steps: int
    """Updates of a short warm start that shows the form of a turn."""
    warm_doublings: int
    """Doublings of a warm start's length while its policy does not speak or earns nothing."""
    lora_factor: float
    """Factor of every learning rate where only adapters are trained."""
    reasoning: bool = True
    """The model reasons in free text: its turns have room for it, and text in <think> is no answer."""
    action_rows: Initial = "word"
    """Initial rows of added actions whose description has several tokens: description (fitted), word or first."""
    interpreter: Literal["monty", "cpython"]
    """Interpreter of the Python tool and of the judge of programs: monty (fast, a part of Python) or cpython (all of
    it)."""
    code_characters: int
    """Length limit of the code of one tool call, in characters."""
    output_characters: int
    """Length limit of the output of one tool call, in characters."""
    page_characters: int
    """Characters of a page that a search shows."""
    critic_lr: float = 1e-5
    """Learning rate of a critic's head."""
    result_characters: int = 0
    """Characters of each page in the results of a search that can open pages too; 0: only titles."""
    world_names: Names = "invented"
    """Names of an invented world: invented, or known (words of the embedded model)."""
    tool_seconds: float
    """Processor time of one tool call, in seconds."""
    tool_memory_mb: int
    """Memory limit of one tool call, in MB."""
    judge_seconds: float
    """Processor time of one test of a program, in seconds."""

    def __post_init__(self) -> None:
        at_least(1, num_parameters=self.num_parameters, checkpoint_interval=self.checkpoint_interval)
        at_least(1, max_context=self.max_context, turn_tokens=self.turn_tokens)
        at_least(
            1, answer_tokens=self.answer_tokens, num_prompts=self.num_prompts, imitate_prompts=self.imitate_prompts
        )
        at_least(1, code_characters=self.code_characters, output_characters=self.output_characters)
        at_least(1, page_characters=self.page_characters, tool_memory_mb=self.tool_memory_mb)
        at_least(0, result_characters=self.result_characters)
        at_least(0, steps=self.steps, sft_steps=self.sft_steps)
        at_least(0, tool_sft_steps=self.tool_sft_steps, brief_steps=self.brief_steps)
        within(0, MOST_DOUBLINGS, warm_doublings=self.warm_doublings)
        at_least(0.0, kl=self.kl, entropy=self.entropy)
        above(0, 1, reinforce_lr=self.reinforce_lr, prefer_lr=self.prefer_lr, imitate_lr=self.imitate_lr)
        above(0, 1, critic_lr=self.critic_lr)
        above(0.0, lora_factor=self.lora_factor, judge_seconds=self.judge_seconds)
        above(0, 3600, tool_seconds=self.tool_seconds)
