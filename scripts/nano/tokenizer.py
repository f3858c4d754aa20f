"""nano's tokenizer: byte-level BPE of 1,536 tokens, in which any text round-trips.

Digits stand alone, so numbers are read place by place. The lessons' words, names and capital letters are one token
wherever they stand, so what varies is read and copied whole. Other text is not split at spaces, so the stock phrases
of the environments ("The observation is ") become one token each, which halves an episode. Tags are atomic, in the
forms the protocols write them; they are ordinary text, not special tokens, so decoding never drops them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from scripts.nano.skills.words import atomic_words

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
PROMPTS = (
    "Using the numbers [{}], create an equation that equals {}. ",
    "Use each number exactly once and return the final answer in <answer> tags.",
    "Think in <think>, run Python in <python>, read its <observation>, and finish with <answer>.",
    "You are an intelligent agent. Your goal is to **{}**. ",
    "You are navigating in a grid and can only see what is ahead.",
    "Before outputting your final answer, think step-by-step (in at most {} words) about which action best advances "
    "your goal. ",
    'Your response should end with "final answer: [answer]", where [answer] is a chosen valid action (up to two words '
    "and nothing else) from below:\n\n- turn left\n- turn right\n- go forward\n- pick up\n- drop\n- toggle\n- done\n\n",
    "Note: Only output a valid action (up to two words) and nothing else. PLAY!",
    "Invalid format. Generated invalid action. You see a wall {} steps forward\n",
    "You are playing Guess The Number. You have to guess the number between {} and {} (inclusive) within {} turns. ",
    "As you play, the history of your guesses will be appended below. Use the information to complete the game before "
    "you run out of guesses.\n",
    "The target number is higher than {}. The target number is lower than {}. At turn {}, you guessed {}, and the ",
    "You may provide your response in any manner. Only the content wrapped inside \\boxed{{}} will be considered as "
    "your final answer.\n",
    "Enter your first guess to start the game. You have {} guesses left. Please reason step by step. Let me ",
    "Please sort the items from smallest to largest. The result is {}. So the answer is \\boxed{{}}.",
    "Answer the question. You can search for pages and access a page by its title. Question: {}\n",
)
"""Text of environments and protocols around their tasks, to be shortened; {} stands for a task's text."""
VOCABULARY = 1536
LONGEST = 48
"""Bytes of a token."""
EMPHASIS = 400
"""Number of times that each prompt counts beside the corpus."""
CLASS = {"tokenizer_class": "PreTrainedTokenizerFast", "auto_map": {"AutoTokenizer": [None, None]}}


def atomic_tokens() -> list[str]:
    return [*FRAMED, *(form for tag in TAGS for form in (f"<{tag}>", f"</{tag}>"))]


ATOMS = "|".join(map(re.escape, [*sorted(atomic_tokens(), key=len, reverse=True), END]))
CUTS = re.compile(rf"{ATOMS}|\b(?:{'|'.join(atomic_words())})\b|\{{\}}")


def cut_text(text: str) -> Iterator[str]:
    """Yield the text between the given tokens, from which BPE learns its merges."""
    yield from filter(None, CUTS.split(text))


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """BPE over `texts` and the prompts; the order of equal merges is fixed, so the result is too.

    A word that BPE also met inside other words is one token, not two: as many merges more fill the vocabulary, if
    there are so many.
    """
    pieces = [piece for text in (*([*PROMPTS] * EMPHASIS), *texts) for piece in cut_text(text)]
    size = VOCABULARY - len(atomic_tokens()) - len(atomic_words())
    tokenizer, before = merge_pieces(pieces, size), 0
    while before < tokenizer.get_vocab_size() < VOCABULARY:
        before = tokenizer.get_vocab_size()
        size += VOCABULARY - before
        tokenizer = merge_pieces(pieces, size)
    return tokenizer


def merge_pieces(pieces: Sequence[str], size: int) -> Tokenizer:
    """BPE of `size` tokens, and the tags and words beside them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[AddedToken(END, special=True)],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        max_token_length=LONGEST,
        show_progress=False,
    )
    tokenizer.train_from_iterator(pieces, trainer)
    atoms = [AddedToken(text, special=False, normalized=False) for text in atomic_tokens()]
    words = [AddedToken(word, special=False, normalized=False, single_word=True) for word in atomic_words()]
    tokenizer.add_tokens([*atoms, *words])
    return tokenizer


def end_id(tokenizer: Tokenizer) -> int:
    token_id = tokenizer.token_to_id(END)
    assert token_id is not None
    return token_id


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Save a Hugging Face tokenizer folder that AutoTokenizer loads unchanged.

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
