"""BM25 by hand, any query; pages of a file."""

from __future__ import annotations

import json
import tracemalloc
from math import log
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.base.limits import MistakeError
from rlx.tool.retrieval.memory import build_engine
from rlx.tool.search import Search, read_pages
from tests.errors import raises_naming
from tests.loops import for_each

NAMES = [f"w{number}" for number in range(200)]
PAGES = ["Cat: a cat sleeps", "Dog: a dog and a dog", "Fox: the fox sleeps near the dog"]


def test_scores_are_those_of_the_formula() -> None:
    """Lengths are 4, 6 and 7 words, 17 / 3 on average."""
    idf = {"dog": log(1 + 1.5 / 2.5), "sleeps": log(1 + 1.5 / 2.5)}

    def weight(tf: int, length: int) -> float:
        return tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / (17 / 3)))

    found = {int(hit.page.id): hit.score for hit in Search(pages=PAGES).best("Dog sleeps?")}
    expected = {
        0: idf["sleeps"] * weight(1, 4),
        1: idf["dog"] * weight(3, 6),
        2: idf["dog"] * weight(1, 7) + idf["sleeps"] * weight(1, 7),
    }
    assert found == pytest.approx(expected)
    assert list(found) == sorted(expected, key=lambda page: -expected[page])


def test_pages_are_shown_best_first_and_cut() -> None:
    tool = Search(pages=PAGES, top_k=2, max_characters=12)
    assert tool.run("dog").output == "Dog: a dog a\nFox: the fox"
    assert tool.run("cat fish").output == "Cat: a cat s"


def test_an_index_takes_few_bytes_for_each_word_of_a_page() -> None:
    draw = Random(0)
    pages = [" ".join(draw.sample(NAMES, 50)) for _ in range(1000)]
    build_engine(["warm"])  # imports are no part of an index
    tracemalloc.start()
    engine = build_engine(pages)
    now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(engine.scores["data"]) == 50_000
    assert now < 50_000 * 20
    assert most < 50_000 * 64, "bm25s sorts all words of all pages at once"


def test_of_equal_pages_the_first_comes_first() -> None:
    assert [hit.page.id for hit in Search(pages=["x y", "y x", "x y"], top_k=2).best("x")] == ["0", "1"]


@for_each("query", ["", "...", "horse", "\x00", "x" * 100_000])
def test_a_query_that_finds_nothing_fails(query: str) -> None:
    result = Search(pages=PAGES).run(query)
    assert result.failed
    assert result.output == "Error: no page has any of these words"


@given(st.text(max_size=50), st.lists(st.text(max_size=20), max_size=5))
def test_any_query_over_any_pages_has_an_answer(query: str, pages: list[str]) -> None:
    result = Search(pages=pages).run(query)
    assert result.failed == (not Search(pages=pages).best(query))


def test_a_check_builds_no_index() -> None:
    tool = Search(pages=PAGES)
    tool.check_servers()
    assert "retriever" not in vars(tool)


def test_control_characters_of_a_page_are_not_shown() -> None:
    assert Search(pages=["a\x1b[2J b"]).run("b").output == "a[2J b"


def test_pages_may_be_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    lines: list[object] = ["Cat: it sleeps", {"title": "Dog", "text": "it barks"}, {"contents": "Fox\nit hides"}]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert read_pages(str(path)) == ["Cat: it sleeps", "Dog: it barks", "Fox\nit hides"]
    path.write_text('"one\u2028page"\n', encoding="utf-8-sig")
    assert read_pages(str(path)) == ["one\u2028page"]


def test_other_pages_of_a_file_are_another_edition() -> None:
    several = [["ab", "c"], ["a", "bc"], ["abc"], ["c", "ab"], ["ab", "c", ""], ["\ud800"], []]
    assert len({Search(pages=pages).data_version() for pages in several}) == len(several)
    assert Search(pages=["ab", "c"], top_k=1).data_version() == Search(pages=["ab", "c"]).data_version()


@pytest.mark.parametrize("line", ["{}", "5", "null", "{", '{"title": "Cat", "text": null}', "[" * 100_000])
def test_a_file_whose_pages_cannot_be_read_is_told_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_text(f'"a page"\n\n{line}\n')
    with raises_naming(MistakeError, f"pages.path={path}", "line 3"):
        read_pages(str(path))


def test_a_file_without_pages_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"\xff")
    for name, why in {"empty": "no pages", "binary": "not text", "nowhere": "No such"}.items():
        with raises_naming(MistakeError, f"pages.path={tmp_path / name}", why):
            read_pages(str(tmp_path / name))
