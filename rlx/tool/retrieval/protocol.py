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
from collections.abc import Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from rlx.tool.retrieval.page import MOST_HITS, Hit, Page
from rlx.tool.retrieval.source import encodable, split_contents

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


def read_query(body: Any, default: int = DEFAULT_TOP_K) -> Query:
    if not isinstance(body, dict):
        raise ProtocolError("a call of /retrieve is an object with queries")
    queries = read_texts(body.get("queries"), "queries")
    top_k = body.get("topk")
    if top_k is not None and (type(top_k) is not int or not 0 <= top_k <= MOST_HITS):
        raise ProtocolError(f"topk={top_k!r:.40}: expected an integer from 0 to {MOST_HITS}, or null")
    has_scores = body.get("return_scores", False)
    if not isinstance(has_scores, bool | None):
        raise ProtocolError(f"return_scores={has_scores!r:.40}: expected true or false")
    top_k = top_k or default
    if len(queries) * top_k > MOST_PAGES:
        raise ProtocolError(f"{len(queries)} queries of {top_k} pages each: expected at most {MOST_PAGES} pages a call")
    return Query(queries, top_k, bool(has_scores))


def read_urls(body: Any) -> list[str]:
    """Return the addresses of a call of /access, as they are stored."""
    if not isinstance(body, dict):
        raise ProtocolError("a call of /access is an object with urls")
    return [url.replace("index.php/", "index.php?title=") for url in read_texts(body.get("urls"), "urls")]


def read_texts(texts: Any, name: str) -> list[str]:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ProtocolError(f"{name}: expected a list of texts")
    if len(texts) > MOST_QUERIES:
        raise ProtocolError(f"{name}: {len(texts)} of them, expected at most {MOST_QUERIES}")
    return [encodable(text) for text in texts]


def document(page: Page) -> str:
    """Return a page in the form of both protocols, as JSON."""
    contents = quoted(page.contents)
    return f'{{"id":{quoted(page.id)},"contents":{contents},"url":{quoted(page.url)}}}'


def write_hits(hit_lists: Sequence[Sequence[Hit]], *, has_scores: bool, edition: str) -> bytes:
    """Write the answer of /retrieve piece by piece, in a third of the time that values for json.dumps take."""

    def entry(hit: Hit) -> str:
        return f'{{"document":{document(hit.page)},"score":{hit.score!r}}}' if has_scores else document(hit.page)

    lists = ",".join(f"[{','.join(map(entry, hits))}]" for hits in hit_lists)
    return f'{{"result":[{lists}],"edition":{quoted(edition)}}}'.encode("ascii")


def write_pages(pages: Sequence[Page | None]) -> bytes:
    """Write the answer of /access."""
    documents = ",".join("null" if page is None else document(page) for page in pages)
    return f'{{"result":[{documents}]}}'.encode("ascii")


def dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def read_hits(answer: Any, num: int) -> list[list[Hit]]:
    """Return the hits of `num` queries from a server's answer; documents may come with scores or without."""
    lists = answer.get("result") if isinstance(answer, dict) else None
    if not isinstance(lists, list) or len(lists) != num:
        raise ProtocolError(f"the answer to {num} queries has no result with {num} lists")
    return [[read_hit(entry) for entry in require_list(entries)] for entries in lists]


def require_list(entries: Any) -> list[Any]:
    if not isinstance(entries, list):
        raise ProtocolError("a query's result is no list")
    return entries


def read_hit(entry: Any) -> Hit:
    if not isinstance(entry, dict):
        raise ProtocolError("a document has no contents")
    document = entry.get("document")
    if not isinstance(document, dict):
        return Hit(read_page(entry), 0.0)
    score = entry.get("score")
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    return Hit(read_page(document), float(score or 0) if is_number else 0.0)


def read_page(fields: Any) -> Page:
    """Return the page of a document with contents, or with title and text."""
    if not isinstance(fields, dict):
        raise ProtocolError("a document has no contents")
    title, text, contents = fields.get("title"), fields.get("text"), fields.get("contents")
    if isinstance(contents, str):
        quoted, text = split_contents(contents)
        title = title if isinstance(title, str) else quoted
    if not isinstance(text, str):
        raise ProtocolError("a document has no contents")
    id, url = fields.get("id"), fields.get("url")
    return Page(
        "" if id is None else encodable(str(id)),
        encodable(title) if isinstance(title, str) else "",
        encodable(text),
        encodable(url) if isinstance(url, str) else "",
    )


def read_pages(answer: Any, num: int) -> list[Page | None]:
    """Return the pages of `num` addresses from a server's answer."""
    pages = answer.get("result") if isinstance(answer, dict) else None
    if not isinstance(pages, list) or len(pages) != num:
        raise ProtocolError(f"the answer to {num} addresses has no result with {num} pages")
    return [None if page is None else read_page(page) for page in pages]
