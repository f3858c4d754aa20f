"""Token ids become text by a stranger's tokenizer, which can neither stop nor fill the reader's machine."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from string import ascii_lowercase
from typing import Any

from tokenizers import Tokenizer

from rlx.runs.decode import LONGEST_TOKEN, load_decoder

SHIPPED = Path(__file__).resolve().parents[2] / "rlx" / "model" / "nano" / "tokenizer.json"
SPECIAL = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
LLAMA = [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
]


def tokenizer(model: dict[str, Any], decoder: Any, **parts: Any) -> dict[str, Any]:
    added = [{"id": len(model["vocab"]), "content": "<|end|>", **SPECIAL}]
    base = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": None}
    return {**base, "post_processor": None, "model": model, "decoder": decoder, "added_tokens": added, **parts}


def bpe(*words: str) -> dict[str, Any]:
    vocab = {word: number for number, word in enumerate(words)}
    return {"type": "BPE", "vocab": vocab, "merges": [], "byte_fallback": True, "fuse_unk": False, "dropout": None}


def write(place: Path, value: dict[str, Any]) -> Path:
    path = place / "tokenizer.json"
    path.write_text(json.dumps(value))
    return path


def test_text_is_that_of_the_whole_tokenizer(tmp_path: Path) -> None:
    words = [*ascii_lowercase, *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "▁the", "▁a", "Ġthe", "##ing", "é"]
    unigram = {"type": "Unigram", "vocab": [[word, -1.0] for word in words], "unk_id": 0, "byte_fallback": True}
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    pieces = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    values = [
        json.loads(SHIPPED.read_text()),
        *(tokenizer(bpe(*words), decoder) for decoder in ({"type": "Sequence", "decoders": LLAMA}, byte_level, None)),
        *(tokenizer(unigram, decoder) for decoder in (metaspace, pieces)),
    ]
    random = Random(0)
    for value in values:
        path = write(tmp_path, value)
        whole, decode = Tokenizer.from_file(str(path)), load_decoder(path)
        assert decode is not None, value["decoder"]
        for _ in range(200):
            ids = [random.randrange(whole.get_vocab_size() + 2) for _ in range(random.randrange(30))]
            assert decode(ids) == whole.decode(ids, skip_special_tokens=False)


def test_a_decoder_that_makes_texts_longer_is_not_run(tmp_path: Path) -> None:
    double = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    regex = {"type": "Replace", "pattern": {"Regex": "(a+)+b"}, "content": ""}
    nested = {"type": "Sequence", "decoders": [{"type": "Sequence", "decoders": LLAMA}]}
    many = {"type": "Sequence", "decoders": [{"type": "Fuse"}] * 1000}
    for decoder in ({"type": "Sequence", "decoders": [double] * 32}, double, regex, nested, many, {"type": "CTC"}, 3):
        assert load_decoder(write(tmp_path, tokenizer(bpe("a"), decoder))) is None


def test_parts_of_a_tokenizer_that_no_text_needs_are_not_run(tmp_path: Path) -> None:
    double = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    path = write(
        tmp_path, tokenizer(bpe("a"), {"type": "Fuse"}, normalizer={"type": "Sequence", "normalizers": [double] * 40})
    )
    decode = load_decoder(path)
    assert decode is not None
    assert decode([0, 0, 1, 7]) == "aa<|end|>"


def test_a_tokenizer_that_would_fill_the_memory_is_not_read(tmp_path: Path) -> None:
    assert load_decoder(write(tmp_path, tokenizer(bpe("a" * LONGEST_TOKEN), {"type": "Fuse"}))) is not None
    assert load_decoder(write(tmp_path, tokenizer(bpe("a" * (LONGEST_TOKEN + 1)), {"type": "Fuse"}))) is None
    assert load_decoder(write(tmp_path, tokenizer({"type": "BPE", "vocab": {"a": 2**31}}, None))) is None
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate(2**34)
    assert load_decoder(tmp_path / "tokenizer.json") is None
