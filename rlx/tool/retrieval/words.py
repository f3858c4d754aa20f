"""Words of pages and queries, equal for all engines of BM25."""

from __future__ import annotations

import re

WORD = re.compile(r"\w+")
LONGEST_QUERY = 1000
"""Characters of a query that are read."""


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def query_words(query: str) -> list[str]:
    return words(query[:LONGEST_QUERY])
