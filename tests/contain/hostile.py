"""A module for a contained server: it runs whatever it is asked to."""

from __future__ import annotations

import ctypes  # noqa: F401, which attacks then need not import
import traceback
from typing import Any


def answer(asked: str) -> Any:
    space: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(asked, space)
    except BaseException:
        return {"raised": traceback.format_exc(limit=0).strip().splitlines()[-1]}
    return space.get("out")
