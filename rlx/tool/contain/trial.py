"""A module that returns its requests: a probe for whether a machine can contain processes."""

from __future__ import annotations

from typing import Any


def answer(request: Any) -> Any:
    return request
