"""Stop strings, found in what tokens spell: bytes, so that one may span tokens or begin inside one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rlx.protocol.thought import CLOSES, OPENS


def byte_alphabet() -> dict[str, int]:
    """The printable character by which byte-level BPE writes each byte (GPT-2's table, inverted)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in set(plain)]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}


def token_bytes(tokenizer: Any) -> tuple[bytes, ...]:
    """What each id of a fast Hugging Face tokenizer decodes to, added tokens included. Concatenated, they are the text.

    Byte-level tokenizers (Qwen, Llama 3, SmolLM, nano) and SentencePiece ones with byte fallback (Llama 2).
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
    """Token ids to text, as the engines hear it. Special tokens are spelled out: left out, they could leave a tag where
    no stop string was heard."""
    spelled = token_bytes(tokenizer)

    def decode(ids: Sequence[int]) -> str:
        return b"".join(spelled[token] for token in ids if token < len(spelled)).decode(errors="replace")

    return decode


def kinds_in(decoder: dict) -> set[str]:
    return {decoder.get("type", "")}.union(*(kinds_in(part) for part in decoder.get("decoders", ())))


def spell_byte_level(piece: str, alphabet: dict[str, int]) -> bytes:
    """A piece outside the alphabet is an added token, spelled as it is."""
    codes = [alphabet.get(character) for character in piece]
    return piece.encode() if None in codes else bytes(code for code in codes if code is not None)


def spell_sentencepiece(piece: str) -> bytes:
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes([int(piece[3:5], 16)])
    return piece.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").encode()


THOUGHT = {OPENS.encode(): True, CLOSES.encode(): False}
"""Tags that open and close a thought."""


@dataclass(slots=True)
class Listener:
    """Watches one completion for its stop strings, remembering only as much text as one could still begin in."""

    stops: re.Pattern[bytes]
    reach: int
    """Bytes to remember: one less than the longest stop string has."""
    thinking: bool | None = None
    """True while a thought is open, where no stop string counts; None: thoughts are text like any other."""
    tail: bytes = b""

    def hear(self, piece: bytes) -> bool:
        """Tell whether this piece completes a stop string; more text may follow it inside the piece."""
        window, read = self.tail + piece, 0
        for match in self.stops.finditer(window):
            if self.thinking is None or (match[0] not in THOUGHT and not self.thinking):
                return True
            self.thinking = THOUGHT.get(match[0], self.thinking)
            read = match.end()
        self.tail = window[max(read, len(window) - self.reach) :]
        return False


def listen(stops: tuple[str, ...], thinking: bool | None = None) -> Listener | None:
    """Return a listener for these stop strings, `thinking` or not; None where there is nothing to listen for."""
    if "" in stops:
        raise ValueError("stops: an empty stop string would end every completion; leave it out")
    heard = stops if thinking is None else (OPENS, CLOSES, *stops)
    return Listener(pattern_of(heard), max(len(one.encode()) for one in heard) - 1, thinking) if stops else None


@lru_cache
def pattern_of(stops: tuple[str, ...]) -> re.Pattern[bytes]:
    """Any of them, literally."""
    return re.compile(b"|".join(re.escape(stop.encode()) for stop in stops))
