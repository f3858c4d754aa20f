from __future__ import annotations

import re
from itertools import islice
from random import Random

import pytest
from tokenizers import Tokenizer

from rlx.env.countdown.countdown import Countdown
from rlx.environment.world import dialect_of
from rlx.model.load import SHIPPED
from rlx.protocol.answer import Answer
from rlx.protocol.tags import Tags
from scripts.nano.corpus import (
    TRACE,
    VERDICT_WEIGHT,
    Corpus,
    draw_kind,
    encode,
    kinds,
    mean_lengths,
    token_shares,
)
from scripts.nano.skills.lesson import is_held_out
from scripts.nano.traces import PRESETS, draw_trace, write_trace

NANO = Tokenizer.from_file(str(SHIPPED / "nano" / "tokenizer.json"))
PROBLEM = re.compile(r"Using the numbers \[([\d, ]+)\], create an equation that equals (\d+)\.")


def problem(text: str) -> tuple[tuple[int, ...], int]:
    found = PROBLEM.search(text)
    assert found is not None
    return tuple(sorted(int(number) for number in found[1].split(","))), int(found[2])


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(tokenizer=NANO, lengths=mean_lengths(NANO, 30))


def test_a_step_of_the_corpus_is_its_seed(corpus: Corpus) -> None:
    first, again, other = (corpus.draw(seed, 2000, 0.25) for seed in ("a", "a", "b"))
    assert first == again
    assert first != other
    assert 2000 <= sum(len(e.ids) for e in first) < 2512


def test_kinds_have_their_shares_of_the_tokens(corpus: Corpus) -> None:
    drawn = corpus.draw("shares", 60_000, 0.4)
    traces = sum(len(e.ids) for e in drawn if "Using the numbers" in NANO.decode(e.ids))
    assert traces / sum(len(e.ids) for e in drawn) == pytest.approx(0.4, abs=0.06)


def test_shares_are_a_whole_and_follow_the_weights() -> None:
    shares = token_shares(0.25)
    assert sum(shares.values()) == pytest.approx(1)
    assert shares[TRACE] == 0.25
    assert shares["name order"] == pytest.approx(4 * shares["compare numbers"])


def test_no_test_problem_of_any_preset_is_in_the_corpus() -> None:
    trained = {problem(draw_trace(Random(f"held out {i}"))[0].text) for i in range(1500)}
    kept = {problem(task.prompt[0].text) for _, env in PRESETS for task in islice(env.tasks("test", 0), 300)}
    assert len(kept) > 1000
    assert not trained & kept


def test_train_and_test_streams_would_meet_without_the_split() -> None:
    """So the test above can fail: among two-number problems, training repeats what it has seen."""
    env = next(env for _, env in PRESETS if env.numbers == (2,))
    first, second = ({problem(t.prompt[0].text) for t in islice(env.tasks("train", s), 3000)} for s in (1, 2))
    assert first & second


def test_what_is_held_out_is_never_drawn() -> None:
    lessons = {name: lesson for name, lesson in kinds().items() if name != TRACE}
    drawn = ((name, draw_kind(Random(seed), lesson)) for name, lesson in lessons.items() for seed in range(100))
    assert [name for name, document in drawn if is_held_out(document)] == []


def test_segments_are_encoded_one_by_one_as_at_run_time() -> None:
    document = draw_trace(Random(3))
    ids = [i for segment in document for i in NANO.encode(segment.text).ids]
    assert encode(NANO, document).ids == (*ids, NANO.token_to_id("<|end|>"))


def test_moves_count_fully_verdicts_threefold_and_what_is_given_a_tenth() -> None:
    env = Countdown()
    task = next(env.tasks("train", 5))
    example = encode(NANO, write_trace(env, Tags(), task, 5))
    weights = dict(zip((NANO.id_to_token(i) for i in example.ids), example.weights, strict=True))
    assert weights["Ġ==Ġ"] == VERDICT_WEIGHT
    assert weights["<python>\n"] == weights["<|end|>"] == 1.0
    assert example.weights[0] == weights["\n<observation>\n"] == pytest.approx(0.1)


@pytest.mark.parametrize("dialect", [Tags(), Answer()])
def test_traces_parse_back_and_end_in_success(dialect: Tags | Answer) -> None:
    env = Countdown()
    for seed, task in enumerate(islice(env.tasks("train", 9), 20)):
        moves = [segment.text for segment in write_trace(env, dialect, task, seed)[1::2]]
        episode = env.start(task)
        steps = [episode.step(dialect_of(env, dialect).parse(move, "stop")) for move in moves]
        assert steps[-1].success
        assert [step.done for step in steps] == [False] * (len(steps) - 1) + [True]


def test_a_document_is_as_long_as_its_kind_is_measured(corpus: Corpus) -> None:
    assert set(corpus.lengths) == set(token_shares(0.5))
    assert corpus.lengths[TRACE] > 100 > corpus.lengths["add numbers"]
