"""docs/models.md has the table of model families."""

from __future__ import annotations

from scripts.models import PAGE, table


def test_the_table_of_families_is_that_of_the_code() -> None:
    assert f"\n{table()}\n\n" in PAGE.read_text(encoding="utf-8")
