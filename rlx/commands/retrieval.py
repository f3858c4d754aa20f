"""Commands of retrieval: build an index of pages, and serve it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.commands.parts import show

if TYPE_CHECKING:
    from rlx.tool.retrieval.page import Retriever

EVERY = 2.0
"""Seconds between lines of progress."""


def build_index(
    pages: Annotated[Path, typer.Argument(help="A jsonl file: lines with contents, or title and text.")],
    folder: Annotated[Path, typer.Argument(help="A new folder for the index.")],
    engine: Annotated[str, typer.Option(help="bm25s (in memory) or tantivy (on disk).")] = "bm25s",
) -> None:
    """Build an index of pages, for `rlx serve retriever`.

    `rlx data build-index pages.jsonl wiki --engine tantivy`; the same command continues a build that was stopped. No
    folder that is there already is overwritten.
    """
    from rlx.base.console import format_count
    from rlx.tool.retrieval.build import build_index as build

    last = 0.0

    def tell(stage: str, done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > EVERY:
            last = time.monotonic()
            print(f"{stage}: {done / max(1, total):.0%}", file=sys.stderr, flush=True)

    about = build(pages, folder, engine=engine, tell=tell)
    show(f"{format_count(about.num_pages, 'page')} in {folder}, edition {about.edition}")


def serve_retriever(
    place: Annotated[Path, typer.Argument(metavar="INDEX", help="A folder of build-index, or a jsonl file of pages.")],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    top_k: Annotated[int, typer.Option(min=1, max=1000, help="Pages of a query that names no number.")] = 3,
    cache: Annotated[int, typer.Option(min=0, max=10**7, help="Answers that are kept.")] = 20_000,
) -> None:
    """A search server, for env.tool.search_url and for other trainers.

    It speaks the protocols of Search-R1 (POST /retrieve) and ASearcher (POST /access); GET /health has its hit rate.
    """
    import signal
    import threading

    from rlx.base.limits import MistakeError
    from rlx.tool.retrieval.server import RetrievalServer

    retriever = retriever_of(place)
    try:
        server = RetrievalServer(retriever, host=host, port=port, top_k=top_k, cache=cache)
    except OSError as error:
        raise MistakeError(f"--host {host} --port {port}: {error.strerror or error}; choose others") from None
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: threading.Thread(target=server.shutdown, daemon=True).start())
    show(f"http://{server.address}")
    sys.stdout.flush()
    if not host.startswith("127."):
        print(f"whoever reaches {host} may search these pages: there is no secret", file=sys.stderr, flush=True)
    server.serve_forever(poll_interval=0.1)
    server.server_close()
    rate, num = server.retriever.hit_rate, server.retriever.num_asked
    print(f"answered {counted_queries(num)}, {rate:.0%} of them from the cache", file=sys.stderr, flush=True)


def counted_queries(num: int) -> str:
    return "1 query" if num == 1 else f"{num:,} queries"


def retriever_of(place: Path) -> Retriever:
    """Open an index, or read the pages of a file into memory."""
    from rlx.tool.retrieval.build import open_index

    if place.is_dir() or not place.exists():
        return open_index(place)
    from rlx.tool.retrieval.memory import MemoryRetriever
    from rlx.tool.retrieval.source import read_file

    return MemoryRetriever(read_file(place))
