"""BM25 in memory: the published score and its order."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from math import log
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.tool.retrieval.memory import MemoryRetriever
from rlx.tool.retrieval.page import Page
from rlx.tool.retrieval.words import words

TEXTS = st.lists(st.text(alphabet="ab c.Ä", max_size=12), max_size=8)


def pages_of(texts: list[str]) -> list[Page]:
    return [Page(str(number), "", text, f"http://x/{number}") for number, text in enumerate(texts)]


def score_by_hand(query: str, texts: list[str]) -> list[float]:
    """The formula of Robertson and Zaragoza, a sum per page."""
    split = [words(text) for text in texts]
    mean = sum(map(len, split)) / len(split) if split else 1
    scores = []
    for page in split:
        score = 0.0
        for word in words(query):
            num = sum(word in other for other in split)
            tf = page.count(word)
            idf = log(1 + (len(split) - num + 0.5) / (num + 0.5))
            score += idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * len(page) / mean)) if tf else 0
        scores.append(score)
    return scores


def test_a_title_counts_as_words_of_its_page() -> None:
    found = MemoryRetriever([Page("a", "Red Door", "a book"), Page("b", "", "a red lamp")]).find(["door", "red"], 3)
    assert [[hit.page.id for hit in hits] for hits in found] == [["a"], ["b", "a"]]


@given(TEXTS, st.text(alphabet="abc Ä", max_size=8), st.integers(1, 9))
def test_the_best_pages_are_those_of_the_formula(texts: list[str], query: str, top_k: int) -> None:
    (hits,) = MemoryRetriever(pages_of(texts)).find([query], top_k)
    scores = score_by_hand(query, texts)
    found = {int(hit.page.id): hit.score for hit in hits}
    assert len(found) == min(top_k, sum(score > 0 for score in scores))
    assert found == pytest.approx({place: scores[place] for place in found})
    rest = [score for place, score in enumerate(scores) if place not in found]
    assert all(score <= hit.score + 1e-9 for score in rest for hit in hits)


@given(st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=9), st.integers(1, 9))
def test_equal_pages_keep_their_order(texts: list[str], top_k: int) -> None:
    (hits,) = MemoryRetriever(pages_of(texts)).find(["x"], top_k)
    assert [int(hit.page.id) for hit in hits] == [i for i, text in enumerate(texts) if text == "x"][:top_k]


@pytest.mark.parametrize("top_k", [1, 3, 50])
def test_the_best_of_many_pages_are_the_first_of_all(top_k: int) -> None:
    draw = Random(3)
    names = [f"w{number}" for number in range(9)]
    retriever = MemoryRetriever(pages_of([" ".join(draw.choices(names, k=draw.randint(1, 9))) for _ in range(5000)]))
    queries = [" ".join(draw.choices(names, k=2)) for _ in range(20)]
    everything = retriever.find(queries, 5000)
    assert retriever.find(queries, top_k) == [hits[:top_k] for hits in everything]
    for hits in everything:
        assert hits == sorted(hits, key=lambda hit: (-hit.score, int(hit.page.id)))


def test_no_page_no_word_and_no_query_find_nothing() -> None:
    assert MemoryRetriever([]).find(["x"], 3) == [[]]
    assert MemoryRetriever(pages_of(["", "..."])).find(["x", ""], 3) == [[], []]
    assert MemoryRetriever(pages_of(["x"])).find([], 3) == []
    assert MemoryRetriever(pages_of(["x"])).find(["x"], 0) == [[]]


def test_a_page_is_opened_at_exactly_its_address() -> None:
    retriever = MemoryRetriever([*pages_of(["x", "y"]), Page("no", "", "address")])
    assert retriever.open("http://x/1") == retriever.pages[1]
    assert retriever.open("http://x/1/") is None
    assert retriever.open("") is None


def test_editions_differ_where_a_field_differs() -> None:
    page = Page("1", "a", "b", "c")
    others = [Page("2", "a", "b", "c"), Page("1", "ab", "", "c"), Page("1", "a", "b", "d"), Page("1", "a", "bc", "")]
    assert len({MemoryRetriever([other]).edition() for other in (page, *others)}) == 5
    assert MemoryRetriever([page]).edition() == MemoryRetriever([page]).edition()


def test_threads_get_what_one_gets() -> None:
    draw = Random(0)
    names = [f"w{number}" for number in range(50)]
    retriever = MemoryRetriever(pages_of([" ".join(draw.choices(names, k=20)) for _ in range(300)]))
    queries = [" ".join(draw.choices(names, k=3)) for _ in range(100)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda query: retriever.find([query], 5)[0], queries)) == retriever.find(queries, 5)


@pytest.mark.parametrize("imported", [False, True])
def test_an_index_starts_no_jax_which_would_take_a_gpu(tmp_path, imported):
    package = tmp_path / "jax"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "lax.py").write_text("def top_k(values, k):\n    raise SystemExit('jax was started')\n")
    lines = [
        *(["import jax"] if imported else []),
        "from rlx.tool.retrieval.memory import build_engine",
        "print(build_engine(['a b', 'b']).vocab_dict)",
        "import jax.lax",
        "print(jax.lax.top_k.__name__)",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("{'a': 0, 'b': 1}\ntop_k\n", 0), done.stderr
