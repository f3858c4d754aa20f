"""What can be wrong with a model."""

from __future__ import annotations


class ModelError(ValueError):
    """A model that cannot be loaded or spoken to: one line that says what, where and what to do."""

    exit_code = 2
