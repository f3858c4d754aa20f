"""Text of stored token ids, by the tokenizer that a run's checkpoints or its model have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rlx.record.folder import CHECKPOINTS, STEP, FolderError, read_config

SHIPPED = Path(__file__).parents[1] / "model"
Decode = Callable[[Sequence[int]], str]


def find_decoder(folder: Path) -> Decode | None:
    """Token ids to text, special tokens and all, by the tokenizer that the run's checkpoints or its model have."""
    path = model_path(folder)
    places = [*sorted(folder.glob(f"{CHECKPOINTS}/{STEP}*")), SHIPPED / path, Path(path)]
    for place in places:
        if (place / "tokenizer.json").is_file():
            return load_decoder(place / "tokenizer.json")
    return None


def model_path(folder: Path) -> str:
    """Return the path of the run's model; of the embedded model where the configuration names none."""
    try:
        return str(read_config(folder)["model"]["path"])
    except (FolderError, LookupError, TypeError):
        return "nano"


def load_decoder(file: Path) -> Decode | None:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception:  # what a file that is no tokenizer raises has no type of its own
        return None

    def decode(ids: Sequence[int]) -> str:
        return str(tokenizer.decode(list(ids), skip_special_tokens=False))

    return decode
