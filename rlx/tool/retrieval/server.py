"""A retrieval server: any Retriever behind the protocols of Search-R1 and ASearcher (rlx.tool.retrieval.protocol).

    POST /retrieve, POST /access, and GET /health: {"rlx", "edition", "queries", "hit_rate", "searches"}

Calls that wait are searched for together, and answers are kept. There is no secret: whoever reaches the server may
search, so it listens on 127.0.0.1 unless told otherwise. Web pages are refused.
"""

from __future__ import annotations

from rlx import __version__
from rlx.base.http import Call, RefusedError, Server
from rlx.tool.retrieval.batch import Batched, Cached
from rlx.tool.retrieval.page import Retriever
from rlx.tool.retrieval.protocol import DEFAULT_TOP_K, dump, read_query, read_urls, write_hits, write_pages

LARGEST_CALL = 8 * 2**20
"""Bytes of a call."""
SECONDS = 30.0
"""Time from a call's first byte to its last."""


class RetrievalServer(Server):
    """A retriever for any number of clients."""

    def __init__(
        self,
        retriever: Retriever,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        top_k: int = DEFAULT_TOP_K,
        cache: int = 20_000,
        seconds: float = SECONDS,
    ) -> None:
        """`cache`: answers that are kept."""
        self.batched = Batched(retriever)
        self.retriever = Cached(self.batched, cache)
        self.top_k = top_k
        super().__init__((host, port), RetrievalCall, pause=seconds, seconds=seconds)

    def counts(self) -> dict[str, object]:
        """Return the answer of /health."""
        return {
            "rlx": __version__,
            "edition": self.retriever.edition(),
            "queries": self.retriever.num_asked,
            "hit_rate": round(self.retriever.hit_rate, 4),
            "searches": self.batched.num_searches,
        }


class RetrievalCall(Call):
    """One connection and its calls."""

    server: RetrievalServer

    def admit(self) -> None:
        """Refuse web pages: a page may ask any server that its reader reaches, and no other client names an origin."""
        self.require_host()
        if self.headers.get("Origin") is not None:
            raise RefusedError(403, "the call is a web page's, and none may search here")

    def do_GET(self) -> None:
        self.answer({"/health": lambda: dump(self.server.counts())})

    def do_POST(self) -> None:
        self.answer({"/retrieve": self.retrieve, "/access": self.access})

    def retrieve(self) -> bytes:
        query = read_query(self.json_body(LARGEST_CALL), self.server.top_k)
        hits = self.server.retriever.find(query.queries, query.top_k)
        return write_hits(hits, has_scores=query.has_scores, edition=self.server.retriever.edition())

    def access(self) -> bytes:
        pages = [self.server.retriever.open(url) for url in read_urls(self.json_body(LARGEST_CALL))]
        return write_pages(pages)
