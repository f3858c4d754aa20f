"""Pages on disk, read by number: `pages.jsonl`, and `pages.begins`, eight bytes a page, where each begins.

`urls.hashes` and `urls.pages` are sorted by hash, so a page is found at its address by binary search.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlx.base.limits import MistakeError
from rlx.base.regular import open_regular, write_aside
from rlx.tool.retrieval.page import Page

PAGES, BEGINS, HASHES, PLACES = "pages.jsonl", "pages.begins", "urls.hashes", "urls.pages"


class PageStore:
    """Pages of an index folder; safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / PAGES
        self.file = open_regular(self.path)
        self.size = os.fstat(self.file.fileno()).st_size
        self.begins = map_file(folder / BEGINS, np.int64)
        self.hashes = map_file(folder / HASHES, np.uint64)
        self.places = map_file(folder / PLACES, np.int64)

    def __len__(self) -> int:
        return max(0, len(self.begins) - 1)

    def __getitem__(self, number: int) -> Page:
        begin, end = self.begins[number : number + 2].tolist()
        try:
            if not 0 <= begin <= end <= self.size:
                raise ValueError("it lies outside the file")
            id, title, text, url = json.loads(os.pread(self.file.fileno(), end - begin, begin))
            return Page(str(id), str(title), str(text), str(url))
        except (ValueError, TypeError, RecursionError) as error:
            raise MistakeError(f"{self.path}: page {number} is damaged; build the index again") from error

    def __iter__(self) -> Iterator[Page]:
        return (self[number] for number in range(len(self)))

    def open(self, url: str) -> Page | None:
        """Return the first page with this address."""
        wanted = hash_of(url)
        place = int(np.searchsorted(self.hashes, wanted)) if url else len(self.hashes)
        while place < len(self.hashes) and self.hashes[place] == wanted:
            page = self[int(self.places[place])]
            if page.url == url:
                return page
            place += 1
        return None

    def close(self) -> None:
        self.file.close()


def line_of(page: Page) -> bytes:
    fields = [page.id, page.title, page.text, page.url]
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def hash_of(url: str) -> np.uint64:
    digest = blake2b(url.encode(errors="surrogatepass"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def write_urls(folder: Path) -> None:
    """Write the table of addresses, from the stored pages."""
    write_aside(folder / HASHES, b"")
    write_aside(folder / PLACES, b"")
    pages = PageStore(folder)
    url_hashes, places = array("Q"), array("q")
    for number, page in enumerate(pages):
        if page.url:
            url_hashes.append(int(hash_of(page.url)))
            places.append(number)
    pages.close()
    hashes = np.array(url_hashes, np.uint64)
    order = np.argsort(hashes, kind="stable")
    write_aside(folder / HASHES, hashes[order].tobytes())
    write_aside(folder / PLACES, np.array(places, np.int64)[order].tobytes())


def map_file(path: Path, kind: type) -> NDArray:
    """Map a file of numbers into memory; an empty file cannot be mapped."""
    with open_regular(path) as file:
        return np.asarray(np.memmap(file, kind, "r")) if os.fstat(file.fileno()).st_size else np.zeros(0, kind)
