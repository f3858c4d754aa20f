"""Pages for tests of retrieval."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rlx.tool.retrieval.build import build_index
from rlx.tool.retrieval.memory import MemoryRetriever
from rlx.tool.retrieval.page import Page, Retriever
from rlx.tool.retrieval.server import RetrievalServer

Build = Callable[..., Path]
ANIMALS = (
    Page("a", "Cat", "a cat sleeps on the mat", "http://x/cat"),
    Page("b", "Dog", "a dog and a dog run", "http://x/dog"),
    Page("c", "Fox", "the fox sleeps near the dog", "http://x/index.php?title=Fox"),
    Page("d", "", "birds sing"),
)


def write_pages(path: Path, pages: Sequence[Page]) -> Path:
    rows = [{"id": page.id, "title": page.title, "text": page.text, "url": page.url} for page in pages]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Build an index of some pages below the test's folder."""

    def make(engine: str, pages: Sequence[Page] = ANIMALS, name: str = "index") -> Path:
        source = write_pages(tmp_path / f"{name}.jsonl", pages)
        build_index(source, tmp_path / name, engine=engine, tell=lambda *_: None)
        return tmp_path / name

    return make


class Running:
    """A server in this process, which can be killed as abruptly as a process and started again at its port."""

    def __init__(self, make: Callable[[int], ThreadingHTTPServer]) -> None:
        self.make, self.port = make, 0
        self.start()

    def start(self) -> None:
        self.server = self.make(self.port)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def kill(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        for connection in list(getattr(self.server, "connections", ())):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


Serve = Callable[..., Running]


@pytest.fixture
def run_server() -> Iterator[Callable[[Callable[[int], ThreadingHTTPServer]], Running]]:
    """Start servers that end with the test."""
    running: list[Running] = []

    def start(make: Callable[[int], ThreadingHTTPServer]) -> Running:
        running.append(Running(make))
        return running[-1]

    yield start
    for one in running:
        one.kill()


@pytest.fixture
def serve(run_server: Callable[..., Running]) -> Serve:
    """Serve a retriever, or the animals' pages."""

    def start(retriever: Retriever | None = None, **options: Any) -> Running:
        chosen = retriever or MemoryRetriever(ANIMALS)
        return run_server(lambda port: RetrievalServer(chosen, port=port, **options))

    return start
