"""One part of an environment with its protocol: how text becomes an action there."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from rlx.base.limits import MistakeError
from rlx.environment import Environment
from rlx.environment.dialect import Dialect
from rlx.types import Action, Completion, Part, Task, Turn

EMPTY_COMPLETION = Completion(token_ids=(), logprobs=(), stop="stop")
"""Completion of a turn of which only the text is known."""
BRIEF = 64
"""Length of turns whose parse is cached: a game has few moves, which recur."""
First = Callable[[Task, tuple[Part, ...]], str]
"""Text before the first turn."""


class Cut(str):
    """The text of a completion that was cut by its length: never a valid turn, whatever it says."""

    __slots__ = ()


class SpokenPart:
    """A part of an environment, and its dialect."""

    def __init__(self, env: Environment, dialect: Dialect) -> None:
        if dialect.summarise_at is not None:
            raise MistakeError(
                "protocol.summarise_at: who samples here counts the tokens; give window, or sum up there"
            )
        if len(env.agents) > 1:
            raise MistakeError(f"env: {type(env).__name__} has several agents, and a gym environment has one")
        self.env, self.dialect = env, dialect
        self.is_free, self.max_rounds = not env.has_tool_cost, env.max_rounds
        self.first: First = dialect.begin
        self.render_answer: Callable[[tuple[Part, ...], bool], str] = dialect.render_answer
        self.cached_hear = lru_cache(maxsize=4096)(self.parse)

    def rendered(self, turn: Turn) -> str:
        """Return a turn's observation as text."""
        return self.dialect.render(turn.observation) if turn.observation else ""

    def hear(self, text: str) -> Action:
        return self.parse(text) if len(text) > BRIEF or isinstance(text, Cut) else self.cached_hear(text)

    def parse(self, text: str) -> Action:
        return self.dialect.parse(text, "length" if isinstance(text, Cut) else "stop")
