"""Detection of stop strings in the bytes of tokens: a string may span tokens or begin inside one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rlx.protocol.thought import CLOSES, OPENS


def byte_alphabet() -> dict[str, int]:
    """Return the byte of each printable character in byte-level BPE (GPT-2's table, inverted)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in set(plain)]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}


def token_bytes(tokenizer: Any) -> tuple[bytes, ...]:
    """Return the bytes of every id of a fast Hugging Face tokenizer, added tokens included. Concatenated, they are the
    text.

    Supported are byte-level tokenizers (Qwen, Llama 3, SmolLM, nano) and SentencePiece with byte fallback (Llama 2).
    """
    pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    decoder = tokenizer.backend_tokenizer.decoder
    kinds = kinds_in(json.loads(decoder.__getstate__()) if decoder is not None else {})
    if "ByteLevel" in kinds:
        alphabet = byte_alphabet()
        return tuple(spell_byte_level(piece or "", alphabet) for piece in pieces)
    if kinds & {"Metaspace", "ByteFallback"}:
        return tuple(spell_sentencepiece(piece or "") for piece in pieces)
    raise ValueError(f"tokenizer {type(tokenizer).__name__}: stop strings need a byte-level or SentencePiece decoder")


def decoder(tokenizer: Any) -> Callable[[Sequence[int]], str]:
    """Return a function from token ids to text, equal to the text that engines check for stop strings. Special tokens
    are spelled out: without them a tag could appear where no stop string was found."""
    spelled = token_bytes(tokenizer)

    def decode(ids: Sequence[int]) -> str:
        return b"".join(spelled[token] for token in ids if token < len(spelled)).decode(errors="replace")

    return decode


def kinds_in(decoder: dict) -> set[str]:
    return {decoder.get("type", "")}.union(*(kinds_in(part) for part in decoder.get("decoders", ())))


def spell_byte_level(piece: str, alphabet: dict[str, int]) -> bytes:
    """Return a piece's bytes. A piece outside the alphabet is an added token, spelled literally."""
    codes = [alphabet.get(character) for character in piece]
    return piece.encode() if None in codes else bytes(code for code in codes if code is not None)


def spell_sentencepiece(piece: str) -> bytes:
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes([int(piece[3:5], 16)])
    return piece.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").encode()


THOUGHT = {OPENS.encode(): True, CLOSES.encode(): False}
"""Tags that open (True) and close (False) a thought."""


@dataclass(slots=True)
class Listener:
    """Search for stop strings in one completion. It stores only as much text as a stop string could still begin in."""

    stops: re.Pattern[bytes]
    reach: int
    """Bytes to store: one less than the longest stop string has."""
    thinking: bool | None = None
    """True within a thought, where no stop string counts; False outside; None: thoughts count as text."""
    tail: bytes = b""

    def hear(self, piece: bytes) -> bool:
        """Return True if this piece completes a stop string. More text may follow in the piece."""
        window, read = self.tail + piece, 0
        for match in self.stops.finditer(window):
            if self.thinking is None or (match[0] not in THOUGHT and not self.thinking):
                return True
            self.thinking = THOUGHT.get(match[0], self.thinking)
            read = match.end()
        self.tail = window[max(read, len(window) - self.reach) :]
        return False


def listen(stops: tuple[str, ...], thinking: bool | None = None) -> Listener | None:
    """Return a listener for these stop strings; None if there are none. `thinking`: see Listener."""
    if "" in stops:
        raise ValueError("stops: an empty stop string would end every completion; leave it out")
    patterns = stops if thinking is None else (OPENS, CLOSES, *stops)
    return (
        Listener(pattern_of(patterns), max(len(pattern.encode()) for pattern in patterns) - 1, thinking)
        if stops
        else None
    )


@lru_cache
def pattern_of(stops: tuple[str, ...]) -> re.Pattern[bytes]:
    """Compile a pattern that matches any of the strings literally."""
    return re.compile(b"|".join(re.escape(stop.encode()) for stop in stops))
