"""The error of a model that cannot be used."""

from __future__ import annotations

from rlx.base.limits import MistakeError


class ModelError(MistakeError):
    """Failure to load or use a model: a message of one line with the cause, the place and the remedy."""
