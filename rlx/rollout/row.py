"""State of one request in an engine: the tokens that it has sampled, and the reason why it ends."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from rlx.protocol.automaton import Automaton
from rlx.rollout.automaton import Walk, walk
from rlx.rollout.engine import RequestError
from rlx.rollout.sampling import uniforms
from rlx.rollout.stops import Listener, listen
from rlx.types import Completion, Request, Stop

DRAWN = 64
"""Random numbers are computed this many at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Ids of an engine."""

    num_ids: int
    """The model's own; ids of added actions follow them."""
    eos_ids: frozenset[int]
    spelled: Sequence[bytes]
    """Bytes of each id; empty beyond its end."""

    def check(self, subject: str, ids: Collection[int], num_added: int = 0) -> None:
        """RequestError for ids that are not of it, nor of so many added actions."""
        last = self.num_ids + num_added - 1
        if ids and not (min(ids) >= 0 and max(ids) <= last):
            raise RequestError(f"{subject} outside the model's vocabulary, 0 to {last}")


@dataclass(slots=True, kw_only=True)
class RequestRow:
    """A request that is being decoded. Its cache row is its place in the engine's list."""

    request: Request
    vocabulary: Vocabulary
    order: int
    """Its place in the order of `add`."""
    ids: list[int]
    """Prompt and completion. All but the last are cached."""
    limit: int
    """Number of ids, prompt included, at which the request ends."""
    limit_stop: Stop
    """Reason of the end at that length."""
    listener: Listener | None
    walk: Walk | None
    logprobs: list[float] = field(default_factory=list)
    mask_ids: list[int] = field(default_factory=list)
    chosen_ids: list[int] = field(default_factory=list)
    watching: tuple[float, ...] = ()
    """The log-probs of watched ids where the next token is chosen, and the entropy of the likeliest."""
    watched: list[tuple[float, ...]] = field(default_factory=list)
    drawn: list[float] = field(default_factory=list)
    over: bool = False
    """Finished or released: its cache row is settled at the next tick."""
    reusable: bool = True
    """False once its session is released: its cache is then dropped."""
    stop: Stop | None = None
    """Why it ends without a token of its own, if it does."""

    def uniform(self) -> float:
        """The random number of the next token."""
        position = len(self.logprobs)
        while position >= len(self.drawn):
            self.drawn += uniforms(self.request.stream, len(self.drawn), DRAWN)
        return self.drawn[position]

    def take(self, token: int, logprob: float) -> Stop | None:
        """Append a sampled token; return the reason if the completion ends with it."""
        self.logprobs.append(logprob)
        if self.request.watch or self.request.entropy_of:
            self.watched.append(self.watching)
            self.watching = ()
        ends = self.walk is not None and self._walk(self.walk, token)
        read = self.read(token)
        self.ids.append(read)
        spelled = self.vocabulary.spelled
        has_stop_string = self.listener is not None and self.listener.hear(
            spelled[read] if read < len(spelled) else b""
        )
        if token in self.vocabulary.eos_ids:
            return "eos"
        if has_stop_string or ends:
            return "stop"
        return self.limit_stop if len(self.ids) >= self.limit else None

    def read(self, token: int) -> int:
        """Return the id that the context holds for a sampled one."""
        return token if self.walk is None else self.walk.read(token)

    def _walk(self, walk: Walk, token: int) -> bool:
        """Move by a sampled id; whether the automaton ends with it."""
        self.mask_ids.append(walk.state)
        self.chosen_ids.append(token)
        return walk.take(token, self.request.session)

    def take_prefix(self) -> None:
        """Take the completion's given prefix; RequestError if an id ends the turn too early or is forbidden."""
        for token in self.request.completion_prefix:
            if self.stop in ("stop", "eos"):
                num_forced = len(self.request.completion_prefix)
                raise RequestError(
                    f"the {num_forced} ids given end the turn after {len(self.logprobs)}; force no more than one turn"
                )
            if self.walk is not None and not self.walk.allows(token):
                raise RequestError(f"id {token} is given where state {self.walk.state} forbids it")
            self.stop = self.take(token, 0.0)

    def complete(self, stop: Stop, version: int) -> Completion:
        """Return the completion of all sampled tokens."""
        token_ids = tuple(self.ids[len(self.request.prompt_ids) :])
        return Completion(
            token_ids=token_ids,
            logprobs=tuple(self.logprobs),
            mask_ids=tuple(self.mask_ids),
            chosen_ids=() if token_ids == tuple(self.chosen_ids) else tuple(self.chosen_ids),
            watched=tuple(self.watched),
            stop=stop,
            version=version,
        )


def open_row(order: int, request: Request, automaton: Automaton | None, vocabulary: Vocabulary) -> RequestRow:
    """Open a row for a request, with the given beginning of its completion. RequestError if that is impossible."""
    try:
        return begin_row(order, request, automaton, vocabulary)
    except RequestError as error:
        raise RequestError(f"session {request.session}: {error}") from None


def begin_row(order: int, request: Request, automaton: Automaton | None, vocabulary: Vocabulary) -> RequestRow:
    if not request.prompt_ids:
        raise RequestError("the prompt is empty; give it at least one token")
    num_added = 0 if automaton is None else automaton.num_added
    vocabulary.check("the prompt has ids", request.prompt_ids)
    vocabulary.check("an id that is given is", request.completion_prefix, 0 if request.state is None else num_added)
    vocabulary.check("an id to watch is", request.watch, num_added)
    start = len(request.prompt_ids)
    room = request.sampling.max_context - start
    row = RequestRow(
        request=request,
        vocabulary=vocabulary,
        order=order,
        ids=list(request.prompt_ids),
        limit=start + min(request.sampling.max_new_tokens, room),
        limit_stop="length" if request.sampling.max_new_tokens < room else "context",
        listener=listen(request.stops, request.thinking),
        walk=walk(automaton, request),
        stop="context" if room <= 0 else None,
    )
    row.take_prefix()
    return row
