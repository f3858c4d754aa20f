"""An engine whose policy is a table: for each context, the probability of each whole completion.

It plays through the same samplers, forks and environments as a model does, and its log-probs are exact:

    pi("up_up\\n") = .2, pi("up\\n") = .3, pi("left\\n") = .5       pi(up) = .5, pi(_up | up) = .4, pi(\\n | up _up) = 1

So values can be enumerated (rlx.env.bifurcation.exact_values), and credit compared with them (rlx.lab.laboratory).
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from rlx.base.stream import stream_of
from rlx.environment.dialect import Dialect
from rlx.rollout.engine import Counts, RequestError
from rlx.rollout.speech import Speech
from rlx.types import Completion, Request, Stop

if TYPE_CHECKING:
    from torch import Tensor

    from rlx.protocol.automaton import Automaton

Table = Callable[[str], Mapping[str, float]]
"""Probability of each completion after a context, by texts; the texts end with a stop string of the protocol."""
PIECES = re.compile(r"_?[A-Za-z0-9]+|.", re.DOTALL)
"""Tokens of a text: words, the parts of a word that `_` joins, and other characters."""
LEAST = -1e4
"""Log-prob of a watched token that the table never gives."""


@dataclass(frozen=True)
class Words:
    """A vocabulary that gives each new word the next number."""

    ids: dict[str, int] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    def encode(self, text: str) -> list[int]:
        return [self.id_of(piece) for piece in PIECES.findall(text)]

    def id_of(self, piece: str) -> int:
        if piece not in self.ids:
            self.ids[piece] = len(self.texts)
            self.texts.append(piece)
        return self.ids[piece]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.texts[token_id] for token_id in ids)

    def speech(self, dialect: Dialect) -> Speech:
        return Speech(dialect=dialect, encode=self.encode, decode=self.decode)


@dataclass
class TableEngine:
    """The engine: `rlx.rollout.engine.Engine` without weights."""

    table: Table
    words: Words
    counts: Counts = field(default_factory=Counts)
    tick: int = 0
    version: int = 0
    queue: deque[Request] = field(default_factory=deque)
    num_turns: int = 0
    """Completions that were sampled."""

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Count the version; a table has no weights."""
        self.version = version

    def use(self, automaton: Automaton | None) -> None:
        if automaton is not None:
            raise RequestError("a table has no actions beyond the vocabulary: choose protocol=direct")

    def add(self, request: Request) -> None:
        if request.sampling.top_k or request.sampling.top_p < 1:
            raise RequestError("a table samples without top_k and top_p")
        self.queue.append(request)

    def step(self) -> list[tuple[Request, Completion]]:
        """Complete all that was asked for."""
        self.tick += 1
        finished = [(request, self.complete(request)) for request in self.queue]
        self.queue.clear()
        return finished

    def release(self, session: int) -> None:
        self.queue = deque(request for request in self.queue if request.session != session)

    def rest(self, keep: bool = True) -> None:
        """Keep everything: a table takes no memory of a device."""

    def close(self) -> None:
        self.queue.clear()

    def complete(self, request: Request) -> Completion:
        """Sample token by token; token i of a request has the uniform number of (stream, i)."""
        chances = self.table(self.words.decode(request.prompt_ids))
        chance_of = {tuple(self.words.encode(text)): p for text, p in chances.items() if p > 0}
        ids, num_prefix = list(request.completion_prefix), len(request.completion_prefix)
        logprobs = [0.0] * num_prefix
        watched: list[tuple[float, ...]] = [()] * num_prefix
        stop: Stop = "stop"
        while tuple(ids) not in chance_of:
            following = next_tokens(chance_of, tuple(ids), request.sampling.temperature)
            if len(ids) >= request.sampling.max_new_tokens:
                stop = "length"
                break
            token = draw(following, stream_of(request.stream, len(ids)) / 2**64)
            ids.append(token)
            logprobs.append(math.log(following[token]))
            watched.append((*map(partial(log_of, following), request.watch), *entropies(following, request.entropy_of)))
        self.num_turns += 1
        self.counts.num_prefilled += len(request.prompt_ids)
        self.counts.num_sampled += len(ids) - num_prefix
        return Completion(
            token_ids=tuple(ids),
            logprobs=tuple(logprobs),
            watched=tuple(watched) if request.watch or request.entropy_of else (),
            stop=stop,
            version=self.version,
        )


def entropies(following: Mapping[int, float], num: int) -> list[float]:
    """Return the sum of -p log p over the `num` likeliest tokens; nothing for no number."""
    likeliest = sorted(following.values(), reverse=True)[:num]
    return [-sum(p * math.log(p) for p in likeliest if p > 0)] if num else []


def next_tokens(
    chance_of: Mapping[tuple[int, ...], float], ids: tuple[int, ...], temperature: float
) -> dict[int, float]:
    """Return the probability of each token after `ids`: p ^ (1 / temperature), normalised; at 0 the likeliest alone."""
    chances: dict[int, float] = {}
    for spelled, p in chance_of.items():
        if len(spelled) > len(ids) and spelled[: len(ids)] == ids:
            chances[spelled[len(ids)]] = chances.get(spelled[len(ids)], 0.0) + p
    if not chances:
        raise RequestError("a table has no completion that begins as it was given")
    if temperature == 0:
        return {max(chances, key=lambda token: chances[token]): 1.0}
    sharp = {token: p ** (1 / temperature) for token, p in chances.items()}
    return {token: p / sum(sharp.values()) for token, p in sharp.items()}


def draw(chances: dict[int, float], uniform: float) -> int:
    """Draw by the inverse of the cumulative distribution."""
    for token, p in chances.items():
        uniform -= p
        if uniform < 0:
            return token
    return next(reversed(chances))  # rounding: the probabilities sum to a little less than 1


def log_of(chances: Mapping[int, float], token: int) -> float:
    return math.log(chances[token]) if chances.get(token) else LEAST
