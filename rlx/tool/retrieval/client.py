"""A retriever behind HTTP: `rlx serve retriever`, or any server of Search-R1's protocol.

    env.tool.search_url=http://127.0.0.1:8000      or …:8000/retrieve, as other projects write it

Threads that ask at the same time share one call. A server that does not answer is asked again for PATIENCE seconds, so
rollouts wait while it is restarted; then the run stops with one line. No proxy and no redirect is followed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from rlx.base.fault import LostServiceError
from rlx.base.limits import Address, MistakeError
from rlx.tool.retrieval.batch import Batched, Cached
from rlx.tool.retrieval.page import Hit, Page
from rlx.tool.retrieval.protocol import ProtocolError, dump, read_hits, read_pages

PATIENCE = 300.0
"""Seconds for which a server that does not answer is asked again."""
FIRST_PATIENCE = 5.0
"""The same before a run, where nothing is lost yet."""
TIMEOUT = 120.0
"""Seconds of one try."""
PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds between tries; the last of them again and again."""
NUM_CALLS = 2
"""Calls at a time: the server reads one while it searches for the other."""
LARGEST_ANSWER = 64 * 2**20
BUSY = (408, 429)
"""Statuses below 500 after which a call is made again."""
UNREADABLE = (400, 422)
"""Statuses of /access for an address that the server cannot read; a model wrote it."""
START = "start one with `rlx serve retriever INDEX`"


class UnspokenError(LostServiceError):
    """An answer that is none of the protocol, with its status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ServerRetriever:
    """The server at an address, its answers unkept; see Client."""

    def __init__(self, url: str, *, timeout: float = TIMEOUT, patience: float = PATIENCE) -> None:
        self.url, self.timeout, self.patience = url, timeout, patience
        self.is_https, self.host, self.port, self.path = parse_url(url)
        self.served: str | None = None
        """Edition of the server's index, once it is known."""
        self.idle: list[HTTPConnection] = []
        """Open connections that no thread uses."""

    def find(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        if not queries:
            return []
        body = {"queries": list(queries), "topk": top_k, "return_scores": True}
        hits, edition = self.ask(
            "/retrieve", body, lambda answer: (read_hits(answer, len(queries)), edition_in(answer))
        )
        self.meet(edition)
        return [query_hits[:top_k] for query_hits in hits]

    def open(self, url: str, patience: float | None = None) -> Page | None:
        """Return the page at an address; None where the server has none, or cannot read the address."""
        try:
            (page,) = self.ask("/access", {"urls": [url]}, lambda answer: read_pages(answer, 1), patience)
        except UnspokenError as error:
            if error.status in UNREADABLE:
                return None
            raise
        return page

    def check(self, top_k: int = 1) -> None:
        """Search as a run will, so that a server that cannot be used is refused before the run."""
        self.first_hits(top_k)

    def check_access(self) -> None:
        """Open a page as a run will; UnspokenError where the server opens none."""
        hits = self.first_hits(1)
        self.open(hits[0].page.url if hits else "page", self.first_patience)

    def first_hits(self, top_k: int) -> list[Hit]:
        body = {"queries": ["page"], "topk": top_k, "return_scores": True}
        (hits,), edition = self.ask(
            "/retrieve", body, lambda answer: (read_hits(answer, 1), edition_in(answer)), self.first_patience
        )
        self.meet(edition)
        return hits

    @property
    def first_patience(self) -> float:
        return min(self.patience, FIRST_PATIENCE)

    def meet(self, edition: str) -> None:
        """Remember the server's edition; refuse another one than before."""
        if self.served is None:
            self.served = edition
        elif edition != self.served:
            raise LostServiceError(
                f"search_url={self.url}: the server has another index now ({edition:.60}, before {self.served:.60}); "
                "start it with the index that it had"
            )

    def edition(self) -> str:
        """Return the edition of the server's index; its address where the server names none. A server that was never
        there is soon refused."""
        if self.served is None:
            self.check()
        return self.served or self.url

    def ask(self, path: str, body: Any, read: Callable[[Any], Any], patience: float | None = None) -> Any:
        """Return the answer to a call, tried again while the server cannot be reached."""
        patience = self.patience if patience is None else patience
        end, tries = time.monotonic() + patience, 0
        while True:
            try:
                status, raw = self.try_once(path, dump(body))
                if status < 500 and status not in BUSY:
                    return self.understand(status, raw, read)
                why = f"status {status}{reason(raw)}"
            except (OSError, HTTPException) as error:
                why = " ".join(str(error).split())[:200] or type(error).__name__
            pause = PAUSES[min(tries, len(PAUSES) - 1)]
            if time.monotonic() + pause > end:
                raise LostServiceError(
                    f"search_url={self.url}: no search server answered for {patience:g} s ({why}); {START}"
                )
            time.sleep(pause)
            tries += 1

    def understand(self, status: int, raw: bytes, read: Callable[[Any], Any]) -> Any:
        try:
            if status == 200:
                return read(json.loads(raw))
            why = f"it says {status}{reason(raw)}"
        except (ValueError, RecursionError, OverflowError) as error:
            why = str(error) if isinstance(error, ProtocolError) else "its answer is no JSON"
        raise UnspokenError(f"search_url={self.url} does not speak Search-R1's protocol: {why:.200}; {START}", status)

    def try_once(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Make one call over an open connection, or a new one where that was closed meanwhile."""
        with suppress(IndexError):
            connection = self.idle.pop()
            with suppress(OSError, HTTPException):
                return self.send(connection, path, body)
        kind = HTTPSConnection if self.is_https else HTTPConnection
        return self.send(kind(self.host, self.port, timeout=self.timeout), path, body)

    def send(self, connection: HTTPConnection, path: str, body: bytes) -> tuple[int, bytes]:
        is_kept = False
        try:
            connection.request("POST", self.path + path, body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            raw = reply.read(LARGEST_ANSWER + 1)
            is_kept = len(raw) <= LARGEST_ANSWER
        finally:
            if is_kept:
                self.idle.append(connection)
            else:
                connection.close()
        if not is_kept:
            raise LostServiceError(f"search_url={self.url}: an answer of more than {LARGEST_ANSWER >> 20} MB")
        return reply.status, raw


class Client(Cached):
    """Server with a cache, whose calls are shared by threads. Nothing is asked before the first call."""

    def __init__(
        self, url: Address, *, timeout: float = TIMEOUT, patience: float = PATIENCE, cache: int = 20_000
    ) -> None:
        self.server = ServerRetriever(url, timeout=timeout, patience=patience)
        super().__init__(Batched(self.server, shares_errors=True, num_searches=NUM_CALLS), cache)

    def check(self, top_k: int = 1) -> None:
        """Refuse a server that cannot be searched."""
        self.server.check(top_k)

    def check_access(self) -> None:
        """Refuse a server that opens no pages."""
        self.server.check_access()


def parse_url(url: str) -> tuple[bool, str, int | None, str]:
    """Return the parts of an address: https or not, host, port, and the path before /retrieve."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    if not plain or parts.scheme not in ("http", "https") or not host or "@" in parts.netloc or parts.query:
        raise MistakeError(f"search_url={url!r:.100}: expected http://HOST:PORT, such as http://127.0.0.1:8000")
    return parts.scheme == "https", host, port, parts.path.rstrip("/").removesuffix("/retrieve")


def edition_in(answer: Any) -> str:
    edition = answer.get("edition", "")
    return edition[:200] if isinstance(edition, str) else ""


def reason(raw: bytes) -> str:
    """Return the reason in a server's answer; empty if there is none."""
    try:
        answer = json.loads(raw)
        return f": {' '.join(str(answer.get('error') or answer.get('detail') or '').split())[:200]}".rstrip(": ")
    except (ValueError, AttributeError, RecursionError):
        return ""
