"""The exact engine: batched decoding in plain torch."""
