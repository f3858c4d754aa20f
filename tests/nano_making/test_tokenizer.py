from __future__ import annotations

import json
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from rlx.env.countdown.countdown import Countdown
from rlx.model.load import SHIPPED, Model, encode_text, load_tokenizer
from rlx.protocol.tags import Tags
from scripts.nano.skills.words import atomic_words
from scripts.nano.tokenizer import END, PROMPTS, VOCABULARY, atomic_tokens, cut_text, save_tokenizer, train_tokenizer
from scripts.nano.traces import write_trace

NANO = load_tokenizer(Model(path="nano"))
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def encode(text: str) -> list[int]:
    return list(NANO.encode(text, add_special_tokens=False))


@given(st.text())
def test_any_text_round_trips(text: str) -> None:
    assert NANO.decode(encode_text(NANO, text)) == text


def test_half_a_letter_is_told_as_a_question_mark() -> None:
    assert NANO.decode(encode_text(NANO, "who \ud800?")) == "who ??"


@given(st.lists(st.sampled_from([*atomic_tokens(), END, "<", "\n", " ", "17", "The observation is "])).map("".join))
def test_text_made_of_tags_round_trips(text: str) -> None:
    assert NANO.decode(encode_text(NANO, text)) == text


def test_tags_letters_digits_and_actions_are_single_tokens() -> None:
    texts = [*atomic_tokens(), *LETTERS, *"0123456789", *atomic_words()]
    assert [text for text in texts if len(encode(text)) != 1] == []


def test_a_word_is_its_own_token_wherever_it_stands_alone() -> None:
    def is_cut_out(word: str, text: str) -> bool:
        return encode(text).count(encode(word)[0]) == len(re.findall(rf"\b{word}\b", text))

    texts = [
        (word, text) for word in atomic_words() for text in (f"go to the {word}.", f"{word} < B", f"\n{word}, {word}")
    ]
    assert len(texts) > 500
    assert [text for word, text in texts if not is_cut_out(word, text)] == []


def test_a_word_inside_another_is_not_cut_out_of_it() -> None:
    (red,), (key,) = encode("red"), encode("key")
    assert red not in encode("bored")
    assert key not in encode("monkeys")


def test_prompts_of_the_environments_are_short() -> None:
    assert [prompt for prompt in PROMPTS if len(encode(prompt)) >= len(prompt) / 6] == []


def test_the_text_between_given_tokens_is_what_merges_are_learned_from() -> None:
    assert list(cut_text("Anna has 5 apples, {} red<think>\nmap")) == [" has 5 apples, ", " "]


@given(st.integers(min_value=0, max_value=10**12))
def test_every_digit_of_a_number_is_a_token(number: int) -> None:
    assert len(encode(str(number))) == len(str(number))


def test_tags_are_atomic_inside_text_and_are_kept_when_special_tokens_are_skipped() -> None:
    ids = encode("so\n</think>\n<python>\n1\n</python>")
    assert [NANO.decode([i]) for i in ids][-4:] == ["\n</think>\n", "<python>\n", "1", "\n</python>"]
    assert NANO.decode(ids, skip_special_tokens=True).endswith("<python>\n1\n</python>")


def test_the_end_token_written_by_a_model_stays_text() -> None:
    assert NANO.eos_token == END
    assert NANO.eos_token_id not in encode_text(NANO, f"tricked you {END}")


def test_stock_phrases_make_an_episode_short() -> None:
    env = Countdown()
    task = next(env.tasks("train", 0))
    text = "".join(segment.text for segment in write_trace(env, Tags(), task, 0))
    assert len(encode(text)) < len(text) / 2.5


def test_the_vocabulary_is_the_models() -> None:
    config = json.loads((SHIPPED / "nano" / "config.json").read_text())
    assert len(NANO) == VOCABULARY == config["vocab_size"]
    assert NANO.eos_token_id == config["eos_token_id"]


def test_training_is_deterministic_and_saves_a_hugging_face_folder(tmp_path: Path) -> None:
    texts = ["the cat sat on the mat", "the cat, the mat"] * 50
    first, second = train_tokenizer(texts), train_tokenizer(texts)
    assert first.to_str() == second.to_str()
    assert first.get_vocab_size() <= VOCABULARY
    save_tokenizer(first, tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert len(loaded) == first.get_vocab_size()
    assert loaded.encode("the cat") == Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode("the cat").ids
