"""Interface of engines, which sample completions.

An engine holds a policy's weights and the KV caches of sessions. A session is one episode's growing context: its
requests come in sequence. A prompt usually is the previous prompt with its completion and an observation. In the
torch engine a session is a parked row of the cache, in vLLM a hit of its prefix cache. `release` is a hint that the
cache of a session may go. Work happens in `step` alone, a tick at a time; its caller owns the schedule.

To write an engine: `open_row` (row.py) in `add`, `Chooser.choose` (choice.py) for logits, `RequestRow.take` for each
token, `RequestRow.complete` at the end; they fill a completion's `token_ids`, `chosen_ids`, `mask_ids` and `watched`.
Then add its name to `Hardware.engine` and a line to `build_engine` (rlx/run/trainee.py). An engine that can be beside a
learner that plays ahead has `later` too: `load` for another thread.

Two promises make rollouts reproducible. The schedule counts ticks and never reads a clock. The random number for token
i of a request is a function of (request.stream, i) alone: neighbours and time do not change it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rlx.base.limits import MistakeError
from rlx.protocol.automaton import Automaton
from rlx.types import Completion, Failed, Request

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(slots=True, kw_only=True)
class Counts:
    """Tokens that an engine has processed since it was made."""

    num_prefilled: int = 0
    """Prompt tokens that went through the model."""
    num_reused: int = 0
    """Prompt tokens found in their session's own cache."""
    num_shared: int = 0
    """Prompt tokens copied from another request with the same prompt."""
    num_sampled: int = 0


class RequestError(MistakeError):
    """A request that can never be sampled; the message is one line that says why."""


class WeightsError(FloatingPointError):
    """Weights give logits that are not finite; the message is one line."""


class Engine(Protocol):
    """Batched sampling with caches kept per session. Not thread-safe: one caller."""

    @property
    def tick(self) -> int:
        """Number of calls of `step`."""
        ...

    @property
    def counts(self) -> Counts: ...

    @property
    def version(self) -> int:
        """Version of its weights."""
        ...

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Take a policy's weights (Hugging Face names; they are copied) and forget every cache.

        Completions carry `version` from here on. ValueError while a request is being decoded.
        """
        ...

    def use(self, automaton: Automaton | None) -> None:
        """Let requests name states of this automaton from the next `load` on; None: requests name no state."""
        ...

    def add(self, request: Request) -> None:
        """Queue a request; it is admitted by a later `step`, first come, first served.

        ValueError if its session has another request under way; RequestError if it can never be sampled.
        """
        ...

    def step(self) -> Sequence[tuple[Request, Completion | Failed]]:
        """One tick: admit, prefill, one token for every active request. Returns what finished, in order of `add`."""
        ...

    def release(self, session: int) -> None:
        """Forget a session's cache, and its request if one is under way. Unknown sessions are ignored."""
        ...

    def rest(self, keep: bool = True) -> None:
        """Give back memory of the device until the next `add` or `load`.

        Without `keep` an engine may also drop its weights: its `version` is then -1, and `load` must come before `add`.
        """
        ...

    def close(self) -> None:
        """Let go of weights and caches, whoever still holds the engine: it can do nothing any more."""
        ...
