"""A search that an environment lends the agent: a query's best pages, as plain text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import ClassVar, Protocol

from rlx.base.limits import Address, above, within
from rlx.tool.python import printable
from rlx.tool.retrieval.client import TIMEOUT, Client, parse_url
from rlx.tool.retrieval.memory import MemoryRetriever
from rlx.tool.retrieval.page import MOST_HITS, Hit, Page, Retriever
from rlx.tool.retrieval.source import Fields, encodable, read_lines
from rlx.tool.retrieval.words import LONGEST_QUERY
from rlx.tool.tool import Result, Tool
from rlx.types import Verb


class Pages(Protocol):
    """Texts, each with its title first."""

    def __iter__(self) -> Iterator[str]: ...


@dataclass(frozen=True, kw_only=True)
class Search(Tool):
    """The tool: a query's best pages, best first. Safe to call from several threads."""

    verb: ClassVar[Verb] = Verb(name="search", description="search pages for words", argument="words")

    pages: Pages
    """Pages to search; your own file: {_target_: rlx.tool.search.read_pages, path: FILE.jsonl}."""
    top_k: int = 3
    """Pages that are shown, at most."""
    max_characters: int = 300
    """Characters of a page that are shown."""
    search_url: Address | None = None
    """Server that is asked instead of the pages, such as http://127.0.0.1:8000: `rlx serve retriever`, or any other
    of Search-R1's protocol; null: none."""
    timeout: float = TIMEOUT
    """Seconds of one try to ask the server."""

    def __post_init__(self) -> None:
        within(1, MOST_HITS, top_k=self.top_k)
        within(1, 10**6, max_characters=self.max_characters)
        if self.search_url is not None:
            parse_url(self.search_url)
        above(0.0, 1e6, timeout=self.timeout)

    @property
    def is_remote(self) -> bool:
        """Tell whether a server is asked, for which a plan does not wait."""
        return self.search_url is not None

    def data_version(self) -> str:
        """Return a digest of a file's pages, or a server's edition; empty for pages that a number defines."""
        if self.search_url is not None:
            return self.retriever.edition()
        return self.digest if isinstance(self.pages, list) else ""

    @cached_property
    def digest(self) -> str:
        """Taken once, a page at a time: a run asks for it at every checkpoint, and there may be gigabytes."""
        checksum = sha256()
        for page in self.texts:
            data = page.encode(errors="surrogatepass")
            checksum.update(b"%d:" % len(data) + data)
        return checksum.hexdigest()[:16]

    @cached_property
    def texts(self) -> list[str]:
        return list(self.pages)

    @cached_property
    def retriever(self) -> Retriever:
        """Index of the pages, built at the first query, or the server."""
        if self.search_url is not None:
            return Client(self.search_url, timeout=self.timeout)
        return MemoryRetriever(Page(str(number), "", text) for number, text in enumerate(self.texts))

    def check_servers(self) -> None:
        """Refuse a server that cannot be used, where the run is."""
        if self.search_url is not None and isinstance(self.retriever, Client):
            self.retriever.check(self.top_k)

    def best(self, query: str) -> list[Hit]:
        """Return pages with their scores; of equal scores the first page comes first."""
        return self.retriever.find([query[:LONGEST_QUERY]], self.top_k)[0]

    def run(self, text: str, /) -> Result:
        hits = self.best(text)
        if not hits:
            return Result(output="Error: no page has any of these words", failed=True)
        texts = (printable(add_title(hit.page))[: self.max_characters] for hit in hits)
        return Result(output="\n".join(texts))


def add_title(page: Page) -> str:
    """Return a page's title, if any, and text."""
    return f"{page.title}: {page.text}" if page.title else page.text


def read_pages(path: str) -> list[str]:
    """Pages of a jsonl file: each line a text, or an object with `contents`, or with a `title` and a `text`."""
    return list(map(as_text, read_lines(path, f"pages.path={path:.200}")))


def as_text(fields: Fields) -> str:
    """Return a page as a single text with the title first."""
    if isinstance(fields, str):
        return encodable(fields)
    contents = fields["contents"] if "contents" in fields else f"{fields['title']}: {fields['text']}"
    return encodable(str(contents))
