"""What can be wrong with a model."""

from __future__ import annotations

from rlx.limits import MistakeError


class ModelError(MistakeError):
    """A model that cannot be loaded or spoken to: one line that says what, where and what to do."""
