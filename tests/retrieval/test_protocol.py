"""The protocols: what is written is read again, and any JSON is a message or an error of one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rlx.tool.retrieval.page import Hit, Page
from rlx.tool.retrieval.protocol import (
    ProtocolError,
    read_hits,
    read_pages,
    read_query,
    read_urls,
    write_hits,
    write_pages,
)
from tests.loops import for_each

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PAGES = st.builds(Page, TEXT, TEXT.filter(lambda title: "\n" not in title), TEXT, TEXT)
HITS = st.lists(
    st.lists(st.builds(Hit, PAGES, st.floats(allow_nan=False, allow_infinity=False)), max_size=3), max_size=3
)
NAMES = st.sampled_from(
    ["queries", "topk", "return_scores", "urls", "result", "document", "contents", "title", "text", "score", "id"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
)


@given(HITS)
def test_hits_are_read_as_they_were_written(hits: list[list[Hit]]) -> None:
    assert read_hits(json.loads(write_hits(hits, has_scores=True, edition="1")), len(hits)) == hits
    plain = read_hits(json.loads(write_hits(hits, has_scores=False, edition="1")), len(hits))
    assert [[hit.page for hit in found] for found in plain] == [[hit.page for hit in found] for found in hits]


@given(st.lists(st.none() | PAGES, max_size=3))
def test_pages_are_read_as_they_were_written(pages: list[Page | None]) -> None:
    assert read_pages(json.loads(write_pages(pages)), len(pages)) == pages


def error_of(read: Callable[[Any], object], told: Any) -> str:
    try:
        read(told)
    except ProtocolError as error:
        return str(error)
    return ""


@given(JSON)
def test_any_json_is_a_message_or_an_error_of_one_line(told: Any) -> None:
    for read in (read_query, read_urls, lambda told: read_hits(told, 1), lambda told: read_pages(told, 1)):
        assert "\n" not in error_of(read, told)


def test_halves_of_letters_of_a_page_can_be_sent() -> None:
    hits = [[Hit(Page("1", "\ud800", "a\udfff"), 1.0)]]
    ((hit,),) = read_hits(json.loads(write_hits(hits, has_scores=True, edition="")), 1)
    assert (hit.page.title, hit.page.text) == ("?", "a?")


@for_each("score", [True, "2", None, [1]])
def test_a_score_that_is_no_number_is_0(score: Any) -> None:
    ((hit,),) = read_hits({"result": [[{"document": {"contents": "x"}, "score": score}]]}, 1)
    assert hit.score == 0.0
