"""A client's connection to one rollout server: it holds the claim, and each call takes effect once."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any

from rlx.protocol.automaton import Automaton
from rlx.rollout.engine import Counts
from rlx.rollout.remote.server import LARGEST_MESSAGE, TOKEN_VARIABLE
from rlx.rollout.remote.weights import write_weights
from rlx.rollout.remote.wire import (
    ADVANCE,
    ADVANCED,
    AUTOMATON,
    FORMAT,
    Advance,
    Advanced,
    dump,
)
from rlx.runs.form import CodecError, nothing_or, parse, record, string
from rlx.types import Request

if TYPE_CHECKING:
    from torch import Tensor

PATIENCE = 3600.0
"""Seconds after which a silent server counts as dead."""
TRIES = 2
"""Attempts at a call whose connection broke. Calls are numbered, so the server executes none twice."""


class ServerError(RuntimeError):
    """Failure of the rollout servers; the message is one line with the reason and the remedy."""


class GoneError(Exception):
    """Failure of one server: no answer, or an unreadable one."""


@dataclass(slots=True, kw_only=True)
class Link:
    """One server, and the requests not yet sent to it."""

    address: str
    token: str = field(repr=False)
    client: str
    patience: float = PATIENCE
    last_words: Callable[[], str] = lambda: ""
    """Function that returns the end of the server's log; empty without a readable log."""
    fate: str = ""
    """Reason of the server's death; empty while it is alive."""
    sessions: set[int] = field(default_factory=set)
    adds: dict[int, Request] = field(default_factory=dict)
    releases: list[int] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    _call: int = 0
    _http: HTTPConnection | None = None

    def step(self, num_ticks: int) -> Advanced:
        """Send the waiting requests and releases, start the ticks, and return the results of the ticks before."""
        advance = Advance(num_ticks=num_ticks, release=tuple(self.releases), add=tuple(self.adds.items()))
        raw = dump(ADVANCE.write(advance))
        answer = ADVANCED.read(self.ask("/step", lambda: raw, len(raw)), "answer")
        self.adds.clear()
        self.releases.clear()
        self.counts = answer.counts
        return answer

    def use(self, automaton: Automaton | None) -> None:
        raw = dump(nothing_or(AUTOMATON).write(automaton))
        self.ask("/use", lambda: raw, len(raw))

    def load(self, some: Mapping[str, Tensor], version: int | None) -> None:
        """Send a part of a policy's weights. With the last part comes `version`, else None."""
        length, _ = write_weights(some)
        headers = {} if version is None else {"Rlx-Version": str(version)}
        self.ask("/load", lambda: write_weights(some)[1], length, headers)

    def connect(self) -> HTTPConnection:
        """Open a connection that holds the claim."""
        host, _, port = self.address.rpartition(":")
        self._http = HTTPConnection(host, int(port), timeout=self.patience, blocksize=2**20)
        response = self.send(self._http, "/claim", b"", 0, {"Rlx-Client": self.client})
        theirs = response.get("format") if isinstance(response, dict) else None
        if theirs != FORMAT:
            raise ServerError(
                f"rollout server {self.address} speaks format {theirs}, not {FORMAT}: start it with this rlx"
            )
        return self._http

    def ask(self, path: str, body: Callable[[], Any], length: int, headers: Mapping[str, str] | None = None) -> Any:
        """Return the answer to a call. After a broken connection the call is repeated once, under the same number."""
        self._call += 1
        headers = {"Rlx-Call": str(self._call), **(headers or {})}
        for tries_left in reversed(range(TRIES)):
            try:
                return self.send(self._http or self.connect(), path, body(), length, headers)
            except TimeoutError:
                self.close()
                raise GoneError(f"did not answer for {self.patience:.0f} s") from None
            except (OSError, HTTPException) as error:
                self.close()
                if not tries_left or isinstance(error, ConnectionRefusedError):
                    raise GoneError(f"{type(error).__name__}: {error}") from None
            except CodecError as error:
                self.close()
                raise GoneError(f"said what cannot be read: {error}") from None
        raise AssertionError("unreachable")

    def send(self, http: HTTPConnection, path: str, body: Any, length: int, headers: Mapping[str, str]) -> Any:
        request_headers = {"Authorization": f"Bearer {self.token}", "Content-Length": str(length), **headers}
        http.request("POST", path, body=body, headers=request_headers)
        reply = http.getresponse()
        raw = reply.read(LARGEST_MESSAGE)
        if reply.status == 200:
            return parse(raw)
        reason = string(record(parse(raw), "refusal", ("error",))["error"], "refusal")
        if reply.status >= 500:
            raise GoneError(reason)
        raise ServerError(f"rollout server {self.address}: {reason}")

    def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            with suppress(OSError):
                http.close()

    def obituary(self) -> str:
        words = self.last_words()
        return f"{self.address} {self.fate}" + (f"; its log ends: {words}" if words else "")


def link_all(
    addresses: Sequence[str],
    token: str,
    *,
    last_words: Callable[[str], str] = lambda address: "",
    patience: float = PATIENCE,
) -> list[Link]:
    """Return links to `host:port` addresses, for one client."""
    client = secrets.token_hex(8)
    return [
        Link(address=a, token=token, client=client, patience=patience, last_words=partial(last_words, a))
        for a in addresses
    ]


def token_here() -> str:
    """Return the secret of this machine's rollout servers, from the environment."""
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        raise ServerError(f"rollout servers need a secret: set {TOKEN_VARIABLE} to the same words on both sides")
    return token
