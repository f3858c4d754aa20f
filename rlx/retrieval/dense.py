"""Dense retrieval: FAISS over the rows of an encoder, exact inner products.

FAISS fills up with the id -1 where a corpus has fewer pages than are asked for; such hits are left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

import numpy as np

from rlx.limits import MistakeError
from rlx.regular import open_to_append, require_regular
from rlx.retrieval.encoder import Encoder
from rlx.retrieval.page import Hit, Page
from rlx.retrieval.store import PageStore, map_file
from rlx.retrieval.words import LONGEST_QUERY

ROWS, INDEX = "rows.data", "rows.faiss"
BATCH = 256
"""Texts that are encoded at a time."""


class DenseRetriever:
    """Pages of an index folder, found by the meaning that an encoder gives texts."""

    def __init__(self, folder: Path, edition: str, encoder: Encoder) -> None:
        import faiss

        self.pages = PageStore(folder)
        self.index = faiss.read_index(str(folder / INDEX), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        size = encoder.encode(["a"], is_query=True).shape[1]
        if (self.index.ntotal, self.index.d) != (len(self.pages), size):
            raise MistakeError(f"{folder}: its rows belong to other pages or another encoder; build the index again")
        self.encoder = encoder
        self.lock = Lock()
        """Encoders use all their threads for one batch."""
        self.name = edition

    def find(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """Return the nearest pages of all queries, which are encoded together; an empty query finds nothing."""
        hits: list[list[Hit]] = [[] for _ in queries]
        asked = [place for place, query in enumerate(queries) if query.strip()]
        if not asked or top_k < 1:
            return hits
        with self.lock:
            rows = self.encoder.encode([queries[place][:LONGEST_QUERY] for place in asked], is_query=True)
            scores, numbers = self.index.search(np.ascontiguousarray(rows), min(top_k, len(self.pages)))
        for place, found, near in zip(asked, scores.tolist(), numbers.tolist()):
            order = sorted((-score, number) for score, number in zip(found, near) if 0 <= number < len(self.pages))
            hits[place] = [Hit(self.pages[number], -score) for score, number in order]
        return hits

    def open(self, url: str) -> Page | None:
        return self.pages.open(url)

    def edition(self) -> str:
        return self.name


def write_rows(folder: Path, pages: PageStore, encoder: Encoder, tell: Callable[[int], None]) -> None:
    """Encode the pages that have no row yet, batch by batch, and write the FAISS index of all."""
    import faiss

    size = encoder.encode(["a"], is_query=False).shape[1]
    path = folder / ROWS
    with open_to_append(path) as file:
        done = os.fstat(file.fileno()).st_size // (4 * size)
        file.truncate(done * 4 * size)
        for begin in range(done, len(pages), BATCH):
            some = [pages[number] for number in range(begin, min(begin + BATCH, len(pages)))]
            rows = encoder.encode([f"{page.title}\n{page.text}".lstrip("\n") for page in some], is_query=False)
            file.write(rows.astype(np.float32).tobytes())
            tell(begin + len(some))
        file.flush()
        os.fsync(file.fileno())
    index = faiss.IndexFlatIP(size)
    if len(pages):
        rows = map_file(path, np.float32).reshape(len(pages), size)
        for begin in range(0, len(pages), 2**14):
            index.add(np.ascontiguousarray(rows[begin : begin + 2**14]))
    require_regular(folder / INDEX)
    faiss.write_index(index, str(folder / INDEX))
    path.unlink()
