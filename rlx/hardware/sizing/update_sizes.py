"""Sizes of the learner's work that estimates of memory and time count with; nothing heavy is imported."""

from __future__ import annotations

CHUNK_ELEMENTS = {"cpu": 2**22, "cuda": 2**26}
"""Limit of the logits that exist at the same time: small, but with enough rows for an efficient product of matrices."""

KEYS = 4
"""Limit of the copies of a token's key and value that attention in rectangles makes on a CPU, on average."""

BUCKET_ELEMENTS = 500_000_000
"""Gradients or weights that DeepSpeed moves at once."""


def bucket_elements(num_trained: int) -> int:
    """Return the number of gradients that DeepSpeed collects before a send."""
    return min(BUCKET_ELEMENTS, num_trained)
