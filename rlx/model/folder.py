"""Check, without torch and before a run begins, that a folder holds a loadable model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlx.model.problem import ModelError

SETTINGS = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "model.safetensors.index.json",
    "actions.json",
)
"""Optional files that must hold a JSON object."""
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
"""Files of which one must hold the vocabulary."""
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
LONGEST_HEADER = 100_000_000
READ = ("*.json", "*.jinja", "*.txt", "*.model", "*.safetensors", "additional_chat_templates/*")
"""Files read when a model is loaded."""
LARGEST_VOCABULARY, LARGEST_SETTINGS = 2**29, 2**24
"""Largest size in bytes."""


def check_folder(path: str, folder: Path) -> None:
    """Raise ModelError with the file and its fault. `path` is the user's name for the model."""

    def refuse(problem: str) -> None:
        raise ModelError(f"model.path={path}: {problem}; give a Hugging Face model folder")

    if not (folder / "config.json").exists():
        refuse(f"{folder} has no config.json")
    for file in (file for pattern in READ for file in sorted(folder.glob(pattern))):
        if not file.is_file():
            refuse(f"{file} is no regular file")
        if file.suffix != ".safetensors" and file.stat().st_size > most_of(file.name):
            refuse(f"{file} has {file.stat().st_size:,} bytes, more than the {most_of(file.name):,} that are read")
    for name in SETTINGS:
        if (folder / name).exists() and not isinstance(read(folder / name), dict):
            refuse(f"{folder / name} is not a JSON object that can be read")
    if not isinstance(read(folder / "config.json").get("model_type"), str):
        refuse(f"{folder / 'config.json'} names no model_type")
    if not any((folder / name).is_file() for name in TOKENIZERS):
        refuse(f"{folder} has no tokenizer ({', '.join(TOKENIZERS)})")
    for file in weights_of(folder):
        fault = fault_of(file)
        if fault:
            refuse(f"{file} {fault}")
    if not weights_of(folder):
        refuse(f"{folder} has no weights ({WEIGHTS})")


def most_of(name: str) -> int:
    """Return the largest size in bytes of a model's text file: vocabularies may be large, settings may not."""
    return LARGEST_VOCABULARY if name in (*TOKENIZERS, INDEX, "merges.txt", "added_tokens.json") else LARGEST_SETTINGS


def has_chat_template(folder: Path) -> bool:
    """Return True if a model's folder has a chat template at a place where transformers looks."""
    named = ("chat_template.jinja", "chat_template.json", "additional_chat_templates")
    return any((folder / name).exists() for name in named) or bool(
        (read(folder / "tokenizer_config.json") or {}).get("chat_template")
    )


def read(file: Path) -> Any:
    """Return a file's JSON value; None if it is unreadable."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def weights_of(folder: Path) -> list[Path]:
    """Return the files of the weights: the single file, or all files that the index names."""
    if (folder / WEIGHTS).exists() or not (folder / INDEX).exists():
        return [folder / WEIGHTS] if (folder / WEIGHTS).exists() else []
    named = read(folder / INDEX).get("weight_map", {})
    return sorted({folder / os.path.basename(str(name)) for name in named.values()}) if isinstance(named, dict) else []


def fault_of(file: Path) -> str:
    """Return the fault of a safetensors file, found from its header and length; empty without one."""
    try:
        with open(file, "rb") as raw:
            length = int.from_bytes(raw.read(8), "little")
            header = json.loads(raw.read(length)) if 0 < length <= LONGEST_HEADER else None
        ends = [entry["data_offsets"][1] for name, entry in tensors(header).items()]
        needed, size = 8 + length + max(ends, default=0), file.stat().st_size
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError, IndexError):
        return "is not in the safetensors format"
    return "" if size == needed else f"has {size:,} bytes of {needed:,}"


def tensors(header: Any) -> Mapping[str, Any]:
    return {name: entry for name, entry in header.items() if name != "__metadata__"}
