"""Text of stored token ids, by the tokenizer that a run's checkpoints or its model have.

A run's folder may come from anyone, and tokenizers run programs: a decoder of thirty rules that each double a letter
does not end. So only the vocabulary and the decoder are read from the file, and only decoders of a few kinds, none of
which makes a text longer, are built.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlx.base.regular import inside, read_bounded
from rlx.runs.folder import CHECKPOINTS, STEP, FolderError, read_config

SHIPPED = Path(__file__).parents[1] / "model"
FILE = "tokenizer.json"
LARGEST = 2**26
"""Bytes of a tokenizer's file; the largest in use, of 260,000 tokens, have 33 MB."""
LONGEST_TOKEN = 1024
"""Characters of a token; a longer one is a blow at the memory of whoever decodes."""
MOST_DECODERS = 16
MOST_IDS = 2**24
Decode = Callable[[Sequence[int]], str]


class DecoderError(ValueError):
    """A tokenizer's file that is not read."""


def find_decoder(folder: Path) -> Decode | None:
    """Token ids to text, special tokens and all, by the tokenizer that the run's checkpoints or its model have."""
    for file in tokenizer_files(folder):
        if file.is_file():
            return load_decoder(file)
    return None


def tokenizer_files(folder: Path) -> Iterator[Path]:
    """Yield the places of a run's tokenizer, its checkpoints first; nothing behind a link inside the run's folder."""
    try:
        checkpoints = inside(folder, CHECKPOINTS)
        yield from [inside(step, FILE) for step in sorted(checkpoints.glob(f"{STEP}*")) if not step.is_symlink()]
    except OSError:
        return
    path = model_path(folder)
    yield from (Path(os.path.realpath(place / FILE)) for place in (SHIPPED / path, Path(path)))


def model_path(folder: Path) -> str:
    """Return the path of the run's model; of the embedded model where the configuration names none."""
    try:
        return str(read_config(folder)["model"]["path"])
    except (FolderError, LookupError, TypeError):
        return "nano"


def load_decoder(file: Path) -> Decode | None:
    """Build the decoder of a tokenizer's file; None for a damaged file, or a decoder of another kind."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    try:
        value = json.loads(read_bounded(file, LARGEST))
        tokenizer = Tokenizer(WordLevel(vocabulary(value), unk_token=""))
        if value["decoder"] is not None:
            tokenizer.decoder = build_decoder(value["decoder"])
    except Exception:  # what a file that is no tokenizer raises has no type of its own
        return None

    def decode(ids: Sequence[int]) -> str:
        return str(tokenizer.decode(list(ids), skip_special_tokens=False))

    return decode


def vocabulary(value: Mapping[str, Any]) -> dict[str, int]:
    """Return the ids of all tokens; DecoderError for a token that is too long, or an id that no model has."""
    words = value["model"]["vocab"]
    pairs = words.items() if isinstance(words, dict) else ((word[0], number) for number, word in enumerate(words))
    by_number = {int(number): str(text) for text, number in pairs}
    by_number |= {int(token["id"]): str(token["content"]) for token in value.get("added_tokens") or ()}
    longest = max(map(len, by_number.values()), default=0)
    if longest > LONGEST_TOKEN or not all(0 <= number < MOST_IDS for number in by_number):
        raise DecoderError("a token is too long, or has no number of a token")
    return {text: number for number, text in by_number.items()}


def build_decoder(value: Mapping[str, Any]) -> Any:
    """Build a decoder of a kind whose text is no longer than its tokens; DecoderError for any other."""
    from tokenizers import decoders

    match value:
        case {"type": "Sequence", "decoders": list(parts)} if len(parts) <= MOST_DECODERS:
            return decoders.Sequence([build_simple(part) for part in parts])
    return build_simple(value)


def build_simple(value: Mapping[str, Any]) -> Any:
    """Build a decoder that holds no other."""
    from tokenizers import decoders

    match value:
        case {"type": "ByteLevel"}:
            return decoders.ByteLevel()
        case {"type": "ByteFallback"}:
            return decoders.ByteFallback()
        case {"type": "Fuse"}:
            return decoders.Fuse()
        case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)} if old and len(new) <= len(old):
            return decoders.Replace(old, new)
        case {"type": "Strip", "content": str(letter), "start": int(start), "stop": int(stop)}:
            return decoders.Strip(content=letter, left=start, right=stop)
        case {"type": "Metaspace", "replacement": str(letter), "prepend_scheme": str(scheme)}:
            return decoders.Metaspace(replacement=letter, prepend_scheme=scheme)
        case {"type": "WordPiece", "prefix": str(prefix), "cleanup": bool(cleanup)}:
            return decoders.WordPiece(prefix=prefix, cleanup=cleanup)
    raise DecoderError("a decoder of a kind that is not built here")
