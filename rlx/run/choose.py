"""Choose the protocol, the sampling and the warm start of a run that does not name them.

The choice follows from three things: the environment (tools, actions, expert, answer form, number of turns), the
algorithm (`Algorithm.space`, `Algorithm.start`) and the model (`recipe.reasoning`, `chat`). `rlx plan` shows the reason
for each choice. The names below are options of conf/protocol, conf/sampling and
conf/warm_start.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlx.algo.parts import Algorithm
from rlx.environment import Environment
from rlx.environment.dialect import Dialect
from rlx.environment.world import dialect_of, parts_of, trained_parts
from rlx.types import Verb

BRIEF = frozenset({"direct", "whole"})
"""Protocols without room for a thought: a short warm start shows all there is to show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Facts that the choices follow from."""

    env: Environment
    algo: Algorithm
    reasoning: bool
    """The model's turns have room for reasoning (`model.recipe.reasoning`)."""
    chat: bool
    """The model follows instructions (`model.chat`)."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An option of a config group, and the reason for it."""

    key: str
    option: str
    reason: str

    @property
    def word(self) -> str:
        """The override that makes this choice."""
        return f"{self.key}={self.option}"


def choose_protocols(case: Case) -> list[Choice]:
    """Return the run's protocol, and one for each part of a mixture that needs another."""
    chosen = {name: protocol_for(case, env) for name, env in open_parts(case.env).items()}
    if not chosen:
        return []
    first = next((chosen[name] for name in trained_parts(case.env) if name in chosen), next(iter(chosen.values())))
    others = {name: choice for name, choice in chosen.items() if choice[0] != first[0]}
    return [
        Choice("protocol", *first),
        *(Choice(f"+protocol@env.parts.{name}.protocol", *choice) for name, choice in others.items()),
    ]


def open_parts(env: Environment) -> dict[str, Environment]:
    """Return the parts that do not name a protocol of their own."""
    portions = env.components
    return {
        name: part for name, part in parts_of(env).items() if name not in portions or portions[name].protocol is None
    }


def protocol_for(case: Case, env: Environment) -> tuple[str, str]:
    """Return the protocol for one environment, and the reason; the first rule that holds decides."""
    space, form, tools, actions = case.algo.space, env.answer_form, env.tools, env.actions
    if space == "expanded" and (tools or actions):
        return "expa", "the algorithm's actions are beyond the vocabulary"
    if form == "turn":
        return "whole", "the environment parses whole turns itself"
    if space == "text" and not actions:
        return "answer", "the algorithm answers in text, without tools"
    if tools:
        return "tags", f"the environment lends {names(tools)}"
    if space == "entered" and actions:
        return "tags", "the algorithm enters actions by their tags"
    if form == "program":
        return (
            ("fenced", "answers are programs") if case.reasoning else ("tags", "answers are programs of several lines")
        )
    if case.reasoning:
        return "boxed", "the model reasons before it answers"
    return "direct", "a model of this size answers in one line"


def names(verbs: tuple[Verb, ...]) -> str:
    return ", ".join(verb.name for verb in verbs)


def choose_sampling(case: Case, protocol: str) -> Choice:
    """Return the lengths: room for one long turn where an episode is one answer with reasoning."""
    if protocol == "answer":
        return Choice("sampling", "long", "the answer is one long turn")
    if case.reasoning and all(is_one_turn(env) for env in parts_of(case.env).values()):
        return Choice("sampling", "long", "an episode is one turn of reasoning")
    return Choice("sampling", "default", "an episode has several turns, or short ones")


def is_one_turn(env: Environment) -> bool:
    """Tell whether an answer is all that an episode takes."""
    return env.max_rounds == 0 and not env.actions


def choose_warm_start(case: Case, protocol: str, dialect: Dialect) -> Choice:
    """Return the stage before the run's own; the first rule that holds decides."""
    return Choice("warm_start", *warm_start_for(case, protocol, lends_tools(case.env, dialect)))


def warm_start_for(case: Case, protocol: str, tools: bool) -> tuple[str, str]:
    """Return the option and the reason, where the dialect lends `tools` or not."""
    if case.algo.imitates:
        return "none", "the algorithm imitates the expert itself"
    if case.algo.start == "pretrained":
        return "none", "the algorithm starts from the pretrained model"
    if not all(part.has_expert for part in trained_parts(case.env).values()):
        return "none", "the environment has no expert"
    if case.chat:
        return "none", "the model follows instructions"
    if case.reasoning and not (tools and case.algo.start == "demonstrations"):
        return "none", "the expert's short answers would unlearn the model's reasoning"
    if tools:
        return "tool_sft", "the expert shows how to use the tools"
    if protocol in BRIEF:
        return "brief", "the expert shows the form of a turn"
    return "sft", "the expert shows thoughts and answers"


def lends_tools(env: Environment, dialect: Dialect) -> bool:
    return any(dialect_of(env, dialect, name).tools for name in trained_parts(env))
