"""A test that loops over cases runs all of them and names those that fail."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

LOOP = """
from tests.loops import for_each

@for_each("left, right", [(1, 1), (1, 2), (2, 2), (3, 4)])
def test_equal(left, right):
    assert left == right

@for_each("number", [])
def test_empty(number):
    pass
"""


def test_every_case_runs_and_a_failure_names_its_case(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(LOOP)
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist")
    text = done.stdout.str()
    assert "(left=1, right=2)" in text
    assert "(left=3, right=4)" in text
    assert text.count("SUBFAILED") == 2
    assert "there is no case" in text
