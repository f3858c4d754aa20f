from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from rlx.rollout.stops import listen, token_bytes


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
    with pytest.raises(ValueError, match="need a byte-level or SentencePiece decoder"):
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


def test_nothing_to_listen_for():
    assert listen(()) is None
    with pytest.raises(ValueError, match="empty stop string"):
        listen(("a", ""))
