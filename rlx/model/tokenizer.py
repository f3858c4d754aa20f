"""nano's tokenizer: byte-level BPE of 1,280 tokens, in which any text round-trips.

Digits stand alone, so numbers are read place by place. Other text is not split at spaces, so the stock phrases of the
environments ("The observation is ") become one token each, which halves an episode. Tags are atomic, in the forms the
protocols write them; they are ordinary text, not special tokens, so decoding never drops them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

END = "<|end|>"
"""Ends a document; also the padding."""
TAGS = ("think", "python", "observation", "answer", "search", "access", "information", "calculator", "result", "tool")
FRAMED = (
    "<think>\n",
    "\n</think>\n",
    "<python>\n",
    "\n</python>",
    "\n<observation>\n",
    "\n</observation>\n",
)
"""Tags with the newlines that the protocols write beside them."""
WHOLE = ("compare", "swap", "calculate", "search", "access", "answer", "left", "right", "forward")
"""Words that are one token, alone and after a space: actions of the environments."""
VOCABULARY = 1280
LONGEST = 48
"""Bytes of a token."""
CLASS = {"tokenizer_class": "PreTrainedTokenizerFast", "auto_map": {"AutoTokenizer": [None, None]}}


def atomic_tokens() -> list[str]:
    return [*FRAMED, *(form for tag in TAGS for form in (f"<{tag}>", f"</{tag}>"))]


def emphasised_words() -> Iterator[str]:
    """Whole words often enough that BPE merges them first."""
    for word in WHOLE:
        for form in (word, f" {word}"):
            yield from [form] * 20_000


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """BPE over `texts`, each a piece of its own; the order of equal merges is fixed, so the result is too."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    atoms = [AddedToken(text, special=False, normalized=False) for text in atomic_tokens()]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(atoms),
        special_tokens=[AddedToken(END, special=True)],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        max_token_length=LONGEST,
        show_progress=False,
    )
    tokenizer.train_from_iterator((text for part in (emphasised_words(), texts) for text in part), trainer)
    tokenizer.add_tokens(atoms)
    return tokenizer


def end_id(tokenizer: Tokenizer) -> int:
    found = tokenizer.token_to_id(END)
    assert found is not None
    return found


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """As a Hugging Face tokenizer folder that AutoTokenizer loads as it is.

    For model type qwen2, AutoTokenizer distrusts the class named here and takes Qwen2's own, which would split text in
    its own way; it does not where an `auto_map` is present. The map is empty, so no code is loaded.
    """
    from transformers import PreTrainedTokenizerFast

    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=END,
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )
    wrapped.save_pretrained(str(folder))
    file = folder / "tokenizer_config.json"
    config = json.loads(file.read_text(encoding="utf-8")) | CLASS
    file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
