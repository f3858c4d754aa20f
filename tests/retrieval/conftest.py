"""Pages for tests of retrieval."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rlx.retrieval.build import build_index
from rlx.retrieval.page import Page

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

    def make(engine: str, pages: Sequence[Page] = ANIMALS, name: str = "index", encoder: str = "") -> Path:
        source = write_pages(tmp_path / f"{name}.jsonl", pages)
        build_index(source, tmp_path / name, engine=engine, encoder=encoder, tell=lambda *_: None)
        return tmp_path / name

    return make
