"""BM25 on disk, for millions of pages, with tantivy.

tantivy has the formula of rlx.tool.retrieval.memory with two differences: a page's length is rounded to one of 256
values, and scores are single floats. Pages are stored beside it, so its own files hold words and page numbers alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlx.base.limits import MistakeError
from rlx.base.regular import make_inside
from rlx.tool.retrieval.page import Hit, Page
from rlx.tool.retrieval.store import PageStore
from rlx.tool.retrieval.words import query_words, words

FOLDER = "tantivy"
WORDS, NUMBER = "words", "number"
DECIMALS = 4
"""Decimals of a score that are compared: the last bits depend on how the index was cut into segments."""
HEAP = 512 * 2**20
"""Bytes that a writer fills before it writes a segment."""


class DiskRetriever:
    """Pages of an index folder, searched with tantivy."""

    def __init__(self, folder: Path, edition: str) -> None:
        self.folder, self.name = folder, edition
        self.pages = PageStore(folder)
        with no_panic(folder):
            self.index = open_tantivy(folder)
            self.searcher = self.index.searcher()

    def find(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        return [self.find_one(query, top_k) for query in queries]

    def find_one(self, query: str, top_k: int) -> list[Hit]:
        terms = query_words(query)
        if not terms or top_k < 1:
            return []
        with no_panic(self.folder):
            best = self.best(either(self.index.schema, terms), top_k)
        return [Hit(self.pages[number], score) for score, number in best]

    def best(self, query: Any, top_k: int) -> list[tuple[float, int]]:
        """Return scores and page numbers. Of equal scores the first page comes first, so all pages that are as good as
        the last are looked at, however tantivy orders them."""
        limit = 2 * top_k + 16
        while True:
            hits = self.searcher.search(query, limit, count=False).hits
            scores = [round(score, DECIMALS) for score, _ in hits]
            if len(hits) < limit or scores[-1] < scores[top_k - 1]:
                break
            limit *= 8
        last = scores[min(top_k, len(scores)) - 1] if scores else 0
        addresses = [address for (_, address), score in zip(hits, scores) if score >= last]
        numbers = self.searcher.fast_field_values(NUMBER, addresses)
        return sorted(zip(scores, numbers), key=lambda pair: (-pair[0], pair[1]))[:top_k]

    def open(self, url: str) -> Page | None:
        return self.pages.open(url)

    def edition(self) -> str:
        return self.name


@contextmanager
def no_panic(folder: Path) -> Iterator[None]:
    """Report a panic of tantivy over damaged files, which Python sees as no Exception."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise MistakeError(f"{folder} is damaged; build the index again") from None


def schema() -> Any:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field(WORDS, stored=False, tokenizer_name="spaces", index_option="freq")
    builder.add_unsigned_field(NUMBER, stored=False, indexed=False, fast=True)
    return builder.build()


def open_tantivy(folder: Path) -> Any:
    """Open the folder's tantivy index, or make it."""
    import tantivy

    path = make_inside(folder, FOLDER)
    index = tantivy.Index(schema(), str(path))
    spaces = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
    index.register_tokenizer("spaces", spaces)  # words are cut by rlx, equally for all engines
    return index


def either(schema: Any, words: Sequence[str]) -> Any:
    """Build a query for any of the words; a word that is there twice counts twice."""
    import tantivy

    terms = [tantivy.Query.term_query(schema, WORDS, word, index_option="freq") for word in words]
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])


def add_pages(folder: Path, pages: PageStore, block: int, tell: Any) -> None:
    """Add the pages that the index lacks, committed block by block, so that a killed build goes on from the last."""
    import tantivy

    index = open_tantivy(folder)
    index.reload()
    done = index.searcher().num_docs
    writer = index.writer(HEAP, 1)
    for begin in range(done, len(pages), block):
        for number in range(begin, min(begin + block, len(pages))):
            page = pages[number]
            document = tantivy.Document()
            document.add_text(WORDS, " ".join(words(f"{page.title} {page.text}")))
            document.add_unsigned(NUMBER, number)
            writer.add_document(document)
        writer.commit()
        tell(min(begin + block, len(pages)))
    writer.garbage_collect_files()
    writer.wait_merging_threads()
