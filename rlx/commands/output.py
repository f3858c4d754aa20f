"""Results on standard output, which a pipe may read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rlx.console import ResultConsole, Screen
from rlx.evaluate.summary import without_infinities
from rlx.evaluate.tables import Table, to_rich


def show_tables(tables: Sequence[Table]) -> None:
    screen = Screen(console=ResultConsole())
    for table in tables:
        screen.show(to_rich(table))


def show_json(value: Any) -> None:
    """One document; what may obey a terminal is escaped."""
    print(json.dumps(without_infinities(value), indent=2, allow_nan=False, default=str))
