"""A module that answers as it is asked: it shows whether a machine can contain processes."""

from __future__ import annotations

from typing import Any


def answer(request: Any) -> Any:
    return request
