"""Pieces of an episode that a context is made of: all of it, the last turns, the last observation alone, the
observations alone, or the agent's own summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from rlx.base.limits import at_least, refuse
from rlx.environment.dialect import Dialect
from rlx.protocol.instruction import ACTIONS, GOAL, fill, has_places, replace_places, spell
from rlx.protocol.template import NAMED, Around, in_one_message, text_around
from rlx.types import Action, Part, Piece, Stop, Task, Text, Turn, Verb


@dataclass(frozen=True, kw_only=True)
class History(Dialect):
    """The task, the observation before the first remembered turn, and every turn from there with its observation.

    window   context of turn 3.
    null     task opening  turn 0 seen 0  turn 1 seen 1  turn 2 seen 2.
    1        task                                 seen 1  turn 2 seen 2.
    0        task                                                seen 2.

    Without `agent_turns` the agent's turns are left out, and the observations stay. With `summarise_at` a context that
    has come to so many tokens ends with a request for a summary. The summary is a turn of its own, of at most
    `summary_tokens`, whatever text it is. The next context begins with it, and with the last observation:

    task opening  turn 0 seen 0  turn 1 seen 1 ask  ->  task summary seen 1  turn 3 seen 3 ...

    With `sanitise` a remembered turn that was invalid (`Turn.is_invalid`) has a fixed text in place of the agent's own.
    It changes later contexts alone: the turn itself is trained as it was sampled.
    """

    instruction: str | None = None
    """Line before the task's own text, or a system message with {goal} and {actions} (rlx.protocol.instruction)."""
    declared: tuple[Verb, ...] = ()
    """Actions of the environment, set by `bind`."""
    window: int | None = None
    """Earlier turns in the context, each with its observation; 0: only the last observation; null: all turns."""
    agent_turns: bool = True
    """Keep the agent's own text of earlier turns in the context; false: keep only the observations."""
    sanitise: bool = False
    """Show "Generated invalid action" in place of the agent's own text of earlier turns that were invalid."""
    correction: str | None = None
    """Text that answers an invalid turn in place of the environment's observation, {actions} in it: the actions;
    null: the observation."""
    summarise_at: int | None = None
    """Context length in tokens at which the agent writes a summary that replaces the context; null: never."""
    summary_tokens: int = 64
    """Token limit of the summary."""
    prompt_template: str | None = None
    """One user message that holds the whole context: plain, qwen3_general, qwen3_game, code, or a text with
    {episode} in it; null: each turn and observation is a message."""
    reasoning: bool = True
    """Ignore text in <think>, where no stop string ends a turn either. False: <think> is text like any other, or part
    of a protocol's own strict form."""

    ask: ClassVar[str] = (
        "Sum up what you need to go on, and end with </summary>: all else will be forgotten.\n<summary>\n"
    )
    """Request for a summary."""
    label: ClassVar[str] = "<summary>\n"
    """Text before a summary."""
    summary_end: ClassVar[str] = "</summary>"
    """End of a summary."""
    sanitised: ClassVar[str] = "Generated invalid action"
    """Text in place of an invalid turn."""

    def __post_init__(self) -> None:
        at_least(0, window=self.window or 0)
        at_least(1, summarise_at=self.summarise_at, summary_tokens=self.summary_tokens)
        if self.window is not None and self.summarise_at is not None:
            refuse("window", self.window, "null with summarise_at, as a summary takes the place of what is forgotten")
        if self.correction is not None and self.window == 0:
            refuse("window", self.window, "1 or more with correction, which takes the place of an observation")
        if self.prompt_template is not None and text_around(self.prompt_template) is None:
            expected = f"null, {', '.join(NAMED)} or a text with {{episode}} in it once"
            refuse("prompt_template", f"{self.prompt_template!r:.60}", expected)
        if self.prompt_template is not None and self.summarise_at is not None:
            refuse("prompt_template", self.prompt_template, "null with summarise_at, whose question would be within it")

    @property
    def introduction(self) -> str | None:
        """Line before the task's own text, for an instruction without places; None: no line."""
        return self.instruction

    def open(self, task: Task) -> str:
        """Return the first prompt: the instruction and the task's own text."""
        if has_places(self.instruction):
            return text_of(self.beginning(task))
        introduction = self.introduction
        return "\n".join([*([] if introduction is None else [introduction]), *self.task_texts(task), ""])

    def beginning(self, task: Task) -> Iterator[Piece]:
        """Yield the pieces of the first prompt."""
        if self.instruction is None or not has_places(self.instruction):
            yield Piece("user", self.open(task))
            return
        yield Piece("system", f"{fill(self.instruction, task, self.declared)}\n")
        yield Piece("user", "\n".join([*self.task_texts(task), ""]))

    def task_texts(self, task: Task) -> list[str]:
        """Return the task's own text; none of it where the instruction tells the goal."""
        return [] if GOAL in (self.instruction or "") else [part.text for part in task.prompt]

    def begin(self, task: Task, opening: tuple[Part, ...]) -> str:
        """The text of a first turn's context."""
        text = self.open(task) + self.render(opening) if opening else self.open(task)
        return text if self.around is None else text_of(in_one_message([Piece("user", text)], self.around))

    @cached_property
    def around(self) -> Around | None:
        """Texts of the prompt template."""
        return None if self.prompt_template is None else text_around(self.prompt_template)

    def context(
        self, task: Task, opening: tuple[Part, ...], past: Sequence[Turn], legal: Sequence[str] | None = None
    ) -> Iterator[Piece]:
        """Yield the pieces of the next turn's context."""
        pieces = self.pieces(task, opening, past)
        return pieces if self.around is None else in_one_message(pieces, self.around)

    def pieces(self, task: Task, opening: tuple[Part, ...], past: Sequence[Turn]) -> Iterator[Piece]:
        """Yield the same without a prompt template."""
        last = -1 if self.summarise_at is None else last_summary(past)
        first = max(0, len(past) - (len(past) if self.window is None else self.window), last + 1)
        yield from self.beginning(task)
        if last >= 0:
            yield Piece("user", self.label)
            yield Piece("assistant", turn=last)
            yield Piece("user", self.closing(past[last].completion.stop))
        before = turn_before(past, first)
        yield Piece("user", self.say(opening) if before is None else self.answer_to(before))
        for index in range(first, len(past)):
            if self.agent_turns:
                is_hidden = self.sanitise and past[index].is_invalid
                yield Piece("assistant", self.replacement if is_hidden else "", turn=index)
            is_call = self.agent_turns and past[index].action.kind == "call"
            yield Piece("tool" if is_call else "user", self.answer_to(past[index]))
        if self.is_summary_next(past):
            yield Piece("user", self.ask if past[-1].observation else f"\n{self.ask}")

    def say(self, observation: tuple[Part, ...]) -> str:
        return self.render(observation) if observation else ""

    def answer_to(self, turn: Turn) -> str:
        return self.render_answer(turn.observation, turn.is_invalid)

    def render_answer(self, observation: tuple[Part, ...], is_invalid: bool) -> str:
        """Return what a turn was answered: its observation, or the correction of an invalid one."""
        if self.correction is None or not is_invalid:
            return self.render(observation) if observation else ""
        actions = ", ".join(map(spell, self.declared))
        return self.render((Text(replace_places(self.correction, {ACTIONS: actions})),))

    @property
    def replacement(self) -> str:
        """Text in place of an invalid turn, ended as a turn is."""
        return self.sanitised

    def closing(self, stop: Stop) -> str:
        """The end of a summary that has not said it."""
        return "" if stop == "stop" else self.summary_end

    def is_summary_next(self, past: Sequence[Turn]) -> bool:
        """Tell whether the next turn is a summary: the last was none, and has come to that length."""
        if self.summarise_at is None or not past or past[-1].action.kind == "summary":
            return False
        return len(past[-1].prompt_ids) + len(past[-1].completion.token_ids) >= self.summarise_at

    def write_summary(self, past: Sequence[Turn]) -> str:
        """Return an expert's summary on one line: the actions since the last summary, and their results."""
        last = last_summary(past)
        before = [past[last].action.text] if last >= 0 else []
        since = [f"{turn.action.text} {' '.join(part.text for part in turn.observation)}" for turn in past[last + 1 :]]
        return " ".join("; ".join([*before, *since]).replace("</", "< /").split())


def summed_up(text: str, end: str) -> Action:
    """A summary is whatever was said in its place, nothing too."""
    return Action(kind="summary", text=text.removesuffix(end).strip())


def last_summary(past: Sequence[Turn]) -> int:
    """The turn that it is; -1 where there is none."""
    for index in range(len(past) - 1, -1, -1):
        if past[index].action.kind == "summary":
            return index
    return -1


def turn_before(past: Sequence[Turn], first: int) -> Turn | None:
    """Return the last turn before turn `first` that the environment answered; None where there is none."""
    while first > 0 and past[first - 1].action.kind == "summary":
        first -= 1
    return past[first - 1] if first > 0 else None


def first_prompt(dialect: Dialect, task: Task, opening: tuple[Part, ...] = ()) -> str:
    """The text that an episode begins with."""
    return text_of(dialect.context(task, opening, ()))


def text_of(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces)
