"""The error of a model that cannot be used."""

from __future__ import annotations

from rlx.base.limits import MistakeError


class ModelError(MistakeError):
    """Failure to load or use a model: one line that says what, where and what to do."""
