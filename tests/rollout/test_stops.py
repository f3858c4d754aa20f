from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from rlx.env.countdown.countdown import Countdown
from rlx.model.load import Model, load_tokenizer
from rlx.protocol.tags import Tags
from rlx.protocol.thought import up_to_stop
from rlx.rollout.stops import decoder, listen, token_bytes
from tests.errors import raises_naming


def test_token_bytes_concatenate_to_the_decoded_text(tokenizer, kit):
    spelled = token_bytes(tokenizer)
    assert len(spelled) == len(tokenizer) == 256 + len(kit.words)
    assert [spelled[kit.word(text)].decode() for text in kit.words] == list(kit.words)
    ids = tokenizer.encode("naïve — «ok»\n</answer>", add_special_tokens=False)
    assert b"".join(spelled[i] for i in ids).decode() == "naïve — «ok»\n</answer>" == tokenizer.decode(ids)


def test_sentencepiece_pieces_are_spelled():
    vocab = {"<unk>": 0, "\u2581the": 1, "<0x0A>": 2, "<0xC3>": 3, "<0xA9>": 4, "a": 5}
    model = Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True))
    model.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    spelled = token_bytes(PreTrainedTokenizerFast(tokenizer_object=model))
    assert spelled[1:] == (b" the", b"\n", b"\xc3", b"\xa9", b"a")


def test_a_tokenizer_it_cannot_spell_is_refused():
    words = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")))
    with raises_naming(ValueError, "byte-level", "SentencePiece"):
        token_bytes(words)


@given(
    st.lists(st.text("ab</>", min_size=0, max_size=4), max_size=30),
    st.lists(st.text("ab</>", min_size=1, max_size=6), min_size=1, max_size=3),
)
def test_a_stop_is_heard_exactly_when_the_text_first_holds_it(pieces, stops):
    listener = listen(tuple(stops))
    assert listener is not None
    said = ""
    for piece in pieces:
        said += piece
        heard = listener.hear(piece.encode())
        assert heard == any(stop in said for stop in stops)
        if heard:
            return


@given(
    st.lists(
        st.sampled_from(["<think>", "</th", "ink>", "<thi", "nk>", "</think>", "</a", ">", "b", "\n"]), max_size=20
    )
)
def test_in_a_thought_no_stop_is_heard(pieces):
    listener, said = listen(("</a>", "\n"), False), ""
    assert listener is not None
    for piece in pieces:
        said += piece
        heard = listener.hear(piece.encode())
        assert heard == (up_to_stop(f"{said}.", ("</a>", "\n")) != f"{said}.")
        if heard:
            return


def test_a_turn_may_begin_in_a_thought():
    for thinking, heard in ((True, [False, False, True]), (False, [True]), (None, [True])):
        listener = listen(("\n",), thinking)
        assert listener is not None
        assert [listener.hear(piece) for piece in (b"\n", b"</think>", b"7\n")][: len(heard)] == heard


PIECES = ["<answer>", "</ans", "wer>", "<|end|>", "</answer>", "7", "<think>", "</think>", "</py", "thon>", "<python>"]


@pytest.fixture(scope="module")
def nano():
    return load_tokenizer(Model(path="nano"))


@given(pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=9), data=st.data())
def test_what_is_heard_as_an_action_is_what_stopped_the_engine(nano, pieces, data):
    """A completion cut by its length means nothing, wherever, whatever special tokens lie inside a tag."""
    ids = [i for piece in pieces for i in nano.encode(piece, add_special_tokens=False)]
    ids = ids[: data.draw(st.integers(1, len(ids)))]
    spelled, dialect = token_bytes(nano), Tags(reasoning=False).bind(Countdown.tools, ())
    listener = listen(dialect.stops)
    assert listener is not None
    stopped = any(listener.hear(spelled[token]) for token in ids)
    text = decoder(nano)(ids)
    assert stopped == any(stop in text for stop in dialect.stops)
    assert stopped or dialect.parse(text, "stop").kind == "invalid"


def test_a_special_token_within_a_tag_is_seen(nano):
    ids = [*nano.encode("<answer>7</ans"), nano.eos_token_id, *nano.encode("wer>")]
    assert decoder(nano)(ids) == "<answer>7</ans<|end|>wer>"
    assert nano.decode(ids, skip_special_tokens=True) == "<answer>7</answer>"


@given(text=st.text())
def test_text_comes_back_from_its_tokens(nano, text):
    ids = nano.encode(text, add_special_tokens=False, split_special_tokens=True)
    assert decoder(nano)(ids) == text.encode(errors="replace").decode()


def test_nothing_to_listen_for():
    assert listen(()) is None
    with raises_naming(ValueError, "empty stop"):
        listen(("a", ""))
