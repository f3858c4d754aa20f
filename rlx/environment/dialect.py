"""Base class of protocols: how text becomes actions, and how observations become text.

A capability is a member with a default. A protocol adds it by a class attribute, a field, a property or a method of
this name. rlx asks for no member that is not declared here or in `rlx.protocol.drawn.Choosing`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from rlx.base.declared import declared, overrides
from rlx.types import Action, Move, Part, Piece, Stop, Task, Turn, Verb


class Dialect(ABC):
    """A protocol in `rlx/protocol/X.py`, a frozen dataclass."""

    @abstractmethod
    def bind(self, tools: tuple[Verb, ...], actions: tuple[Verb, ...]) -> Dialect:
        """Return the same protocol for an environment that lends these tools and declares these actions."""

    @property
    @abstractmethod
    def stops(self) -> tuple[str, ...]:
        """Strings that end a turn; each is kept in the completion."""

    @property
    @abstractmethod
    def tools(self) -> tuple[str, ...]:
        """Names of the tools that it can call."""

    @abstractmethod
    def open(self, task: Task) -> str:
        """Return the first prompt: the task and how to speak."""

    @abstractmethod
    def parse(self, text: str, stop: Stop) -> Action:
        """Read an action. Any text is one, never an exception. A text that was cut is `invalid`."""

    @abstractmethod
    def write(self, move: Move) -> str:
        """Write a demonstration: the inverse of `parse`."""

    @abstractmethod
    def render(self, observation: tuple[Part, ...]) -> str:
        """Return the text that the agent reads of an observation."""

    @abstractmethod
    def context(
        self, task: Task, opening: tuple[Part, ...], past: Sequence[Turn], legal: Sequence[str] | None = None
    ) -> Iterable[Piece]:
        """Return the text and tokens before the next turn (rlx.protocol.history), in which declared actions `legal`
        may come; None: all."""

    # contexts

    @declared
    def inline(self) -> bool:
        """Observations continue the model's own message, where its template has messages."""
        return False

    @declared
    def stands_alone(self) -> bool:
        """Every turn has a context of its own, which no other continues."""
        return False

    @declared
    def prompt_template(self) -> str | None:
        """Template of one user message that holds the whole context; None: every turn is a message."""
        return None

    @declared
    def reasoning(self) -> bool:
        """Text in <think> is ignored, and no stop string ends a turn there."""
        return False

    def begin(self, task: Task, opening: tuple[Part, ...]) -> str:
        """Return the text of a first turn's context."""
        return self.open(task) + (self.render(opening) if opening else "")

    def render_answer(self, observation: tuple[Part, ...], is_invalid: bool) -> str:
        """Return the text that answers a turn, by what was observed after it and by whether it was invalid."""
        return self.render(observation) if observation else ""

    # summaries

    @declared
    def summarise_at(self) -> int | None:
        """Tokens of a context at which the agent sums it up; None: never."""
        return None

    @declared
    def summary_tokens(self) -> int:
        """Length limit of a summary, in tokens."""
        return 64

    @declared
    def summary_end(self) -> str:
        """End of a summary."""
        return "</summary>"

    def is_summary_next(self, past: Sequence[Turn]) -> bool:
        """Tell whether the next turn is a summary."""
        return False

    def write_summary(self, past: Sequence[Turn]) -> str:
        """Return an expert's summary."""
        return ""

    # turns in which a verb is entered

    @declared
    def entries(self) -> Mapping[str, tuple[str, str]]:
        """Entries of the verbs, by name, for turns that are text until a verb is entered: an added action's name, or
        none for text, and how the context holds it."""
        return {}

    def may_enter(self, name: str, pieces: Sequence[str], opened: str = "") -> Sequence[bool]:
        """Tell for each piece of a turn's text whether an entry of the verb would be read before it; `opened` is the
        text that the chat template wrote."""
        return [True] * len(pieces)

    @property
    def limits_entries(self) -> bool:
        """Entries are read in some places of a turn alone (`may_enter`)."""
        return overrides(self, Dialect, "may_enter")

    # metrics

    def measure(self, text: str, action: Action) -> Mapping[str, float]:
        """Return measures of a turn's text, by the names of their metrics."""
        return {}
