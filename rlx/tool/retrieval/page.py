"""The interface of all search engines: pages, hits and a retriever."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

MOST_HITS = 1000
"""Upper limit of `top_k`."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a corpus. Its text may come from anyone: show it through `printable`."""

    id: str
    title: str
    text: str
    url: str = ""
    """Address for `Retriever.open`; empty where a page has none."""

    @property
    def contents(self) -> str:
        """Search-R1's form of a page: the title in quotes, a line break, the text."""
        return f'"{self.title}"\n{self.text}'


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that a query found, with the engine's score."""

    page: Page
    score: float


class Retriever(Protocol):
    """A search engine. All methods may be called from several threads."""

    def find(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """Return the best pages of each query, best first; no page where no word of a query is on any page."""
        ...

    def open(self, url: str) -> Page | None:
        """Return the page at exactly this address; None where there is none."""
        ...

    def edition(self) -> str:
        """Return a name of the pages and of the engine: equal editions give equal hits."""
        ...


def digest_of(pages: Iterable[Page]) -> str:
    """Return a digest of every field of every page, in order."""
    digest = sha256()
    for page in pages:
        for text in (page.id, page.title, page.text, page.url):
            data = text.encode(errors="surrogatepass")
            digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()[:16]
