"""Base class of tools, and the result of a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from rlx.base.declared import declared
from rlx.types import ToolUse, Verb


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Printed text and last value of a snippet; if it failed, the reason in one line."""

    output: str
    failed: bool = False
    stopped: bool = False
    """The clock ended the call, the last resort, and not a limit of its work: on another machine it may end well."""


def use_of(result: Result) -> ToolUse:
    """Return the counts of one call."""
    return ToolUse(num_calls=1, num_failed=int(result.failed), num_stopped=int(result.stopped))


class Tool(ABC):
    """A tool that can be lent to the agent of any environment: a name, and text for text, whatever the text is."""

    @property
    @abstractmethod
    def verb(self) -> Verb:
        """Name, description and argument of a call."""

    @abstractmethod
    def run(self, text: str, /) -> Result:
        """Answer a call; whatever the text is, the answer is a Result and never an exception."""

    @declared
    def is_remote(self) -> bool:
        """Results come from a server: a plan does not wait for them."""
        return False

    def data_version(self) -> str:
        """Return a name for what its results depend on beside its configuration; empty for nothing."""
        return ""

    def check_inputs(self) -> None:  # noqa: B027
        """Refuse files and programs that are here and cannot be used."""

    def check_servers(self) -> None:  # noqa: B027
        """Refuse servers that it asks and that cannot be used from here."""
