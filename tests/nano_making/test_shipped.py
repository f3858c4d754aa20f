"""The shipped model, measured with the code that trained it."""

from __future__ import annotations

from math import log

from tokenizers import Tokenizer

from rlx.model.load import SHIPPED, Model, load_model, load_tokenizer
from scripts.nano.card import expert_examples, measure_loss, score_verdicts
from scripts.nano.corpus import Corpus, mean_lengths

NANO = Model(path="nano")
TEXTS = Tokenizer.from_file(str(SHIPPED / "nano" / "tokenizer.json"))


def test_nano_knows_its_corpus() -> None:
    """Chance is log(1536) = 7.3 nats a token."""
    corpus = Corpus(tokenizer=TEXTS, lengths=mean_lengths(TEXTS, 20))
    examples = corpus.draw("never a training step", 6000, 0.25)
    loss = measure_loss(load_model(NANO).eval(), examples)
    assert loss < 0.45 < 0.1 * log(len(load_tokenizer(NANO)))


def test_nano_reads_observations_of_test_problems() -> None:
    num, accuracy = score_verdicts(load_model(NANO).eval(), TEXTS, expert_examples(TEXTS, 40))
    assert num > 100
    assert accuracy > 0.99
