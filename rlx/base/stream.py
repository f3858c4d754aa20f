"""Names of random streams: every stream is keyed by its purpose, never by what was drawn before it."""

from __future__ import annotations

import hashlib


def stream_of(*key: object) -> int:
    """Return a 64-bit number for a key such as (seed, step, task, sample, turn): equal keys, equal streams."""
    text = "\x1f".join(str(part) for part in key)
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "big")
