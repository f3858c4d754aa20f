"""The two protocols of a retrieval server, as JSON. What comes from the other side is checked, whoever it is.

    POST /retrieve  {"queries": ["…"], "topk": 3, "return_scores": false}   Search-R1
                    {"result": [[document, …] per query]}; with scores, each is {"document": document, "score": 1.5}
    POST /access    {"urls": ["…"]}                                         ASearcher
                    {"result": [document or null per address]}
    document        {"id": "7", "contents": "\\"Title\\"\\ntext", "url": "…"}

`topk` null or 0 is the server's default. In an address, `index.php/` stands for `index.php?title=`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlx.retrieval.page import MOST_HITS, Hit, Page
from rlx.retrieval.source import encodable, page_of

DEFAULT_TOP_K = 3
MOST_QUERIES = 4096
MOST_PAGES = 100_000
"""Queries times `topk` of one call."""


class ProtocolError(ValueError):
    """A message that is not of the protocol; one line."""


@dataclass(frozen=True, slots=True)
class Query:
    """Contents of a call of /retrieve."""

    queries: Sequence[str]
    top_k: int
    has_scores: bool


def read_query(told: Any, default: int = DEFAULT_TOP_K) -> Query:
    if not isinstance(told, dict):
        raise ProtocolError("a call of /retrieve is an object with queries")
    queries = read_texts(told.get("queries"), "queries")
    top_k = told.get("topk")
    if top_k is not None and (type(top_k) is not int or not 0 <= top_k <= MOST_HITS):
        raise ProtocolError(f"topk={top_k!r:.40}: expected an integer from 0 to {MOST_HITS}, or null")
    has_scores = told.get("return_scores", False)
    if not isinstance(has_scores, bool | None):
        raise ProtocolError(f"return_scores={has_scores!r:.40}: expected true or false")
    top_k = top_k or default
    if len(queries) * top_k > MOST_PAGES:
        raise ProtocolError(f"{len(queries)} queries of {top_k} pages each: expected at most {MOST_PAGES} pages a call")
    return Query(queries, top_k, bool(has_scores))


def read_urls(told: Any) -> list[str]:
    """Return the addresses of a call of /access, as they are stored."""
    if not isinstance(told, dict):
        raise ProtocolError("a call of /access is an object with urls")
    return [url.replace("index.php/", "index.php?title=") for url in read_texts(told.get("urls"), "urls")]


def read_texts(told: Any, name: str) -> list[str]:
    if not isinstance(told, list) or not all(isinstance(text, str) for text in told):
        raise ProtocolError(f"{name}: expected a list of texts")
    if len(told) > MOST_QUERIES:
        raise ProtocolError(f"{name}: {len(told)} of them, expected at most {MOST_QUERIES}")
    return [encodable(text) for text in told]


def document(page: Page) -> dict[str, str]:
    """Return a page in the form of both protocols, with the title and text that pyserini's clients read."""
    return {"id": page.id, "contents": page.contents, "title": page.title, "text": page.text, "url": page.url}


def write_hits(found: Sequence[Sequence[Hit]], *, has_scores: bool, **more: Any) -> bytes:
    def entry(hit: Hit) -> Any:
        return {"document": document(hit.page), "score": hit.score} if has_scores else document(hit.page)

    return dump({"result": [[entry(hit) for hit in hits] for hits in found], **more})


def dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def read_hits(told: Any, num: int) -> list[list[Hit]]:
    """Return the hits of `num` queries from a server's answer; documents may come with scores or without."""
    lists = told.get("result") if isinstance(told, dict) else None
    if not isinstance(lists, list) or len(lists) != num:
        raise ProtocolError(f"the answer to {num} queries has no result with {num} lists")
    return [[read_hit(entry) for entry in listed(entries)] for entries in lists]


def listed(told: Any) -> list[Any]:
    if not isinstance(told, list):
        raise ProtocolError("a query's result is no list")
    return told


def read_hit(told: Any) -> Hit:
    is_scored = isinstance(told, dict) and isinstance(told.get("document"), dict)
    score = told.get("score") if is_scored else 0.0
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    return Hit(read_page(told["document"] if is_scored else told), float(score) if is_number else 0.0)


def read_page(told: Any) -> Page:
    """Return the page of a document with contents, or with title and text."""
    if isinstance(told, Mapping):
        has_contents = isinstance(told.get("contents"), str)
        if has_contents or isinstance(told.get("text"), str):
            page = page_of({"title": "", **told}, 0)
            title = str(told["title"]) if isinstance(told.get("title"), str) else page.title
            return Page(page.id, encodable(title), page.text, page.url)
    raise ProtocolError("a document has no contents")


def read_pages(told: Any, num: int) -> list[Page | None]:
    """Return the pages of `num` addresses from a server's answer."""
    pages = told.get("result") if isinstance(told, dict) else None
    if not isinstance(pages, list) or len(pages) != num:
        raise ProtocolError(f"the answer to {num} addresses has no result with {num} pages")
    return [None if page is None else read_page(page) for page in pages]
