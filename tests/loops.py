"""Run a test for many cases in one item; a failure names its case."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def for_each(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run the test for each case, written as `pytest.mark.parametrize` has them, as subtests of one item.

    Choose it where cases take little time: an item costs more than a loop does, and all cases run even if one fails.
    """
    keys, rows = [name.strip() for name in names.split(",")], list(cases)

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        def test(subtests: pytest.Subtests) -> None:
            assert rows, "there is no case"
            for row in rows:
                case = dict(zip(keys, row if len(keys) > 1 else (row,), strict=True))
                with subtests.test(**case):
                    check(**case)

        test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
        test.__module__ = check.__module__
        return test

    return decorate
