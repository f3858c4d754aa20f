from __future__ import annotations

import re
from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from rlx.env.countdown import Countdown
from rlx.model.corpus import (
    VERDICT_WEIGHT,
    Example,
    cut_batches,
    draw_document,
    draw_examples,
    draw_held_out,
    draw_lesson,
    encode,
)
from rlx.model.lessons import SKILLS, is_held_out
from rlx.model.load import SHIPPED
from rlx.model.traces import PRESETS, draw_trace, write_trace
from rlx.protocol.answer import Answer
from rlx.protocol.tags import Tags
from rlx.world import dialect_of

NANO = Tokenizer.from_file(str(SHIPPED / "nano" / "tokenizer.json"))
PROBLEM = re.compile(r"Using the numbers \[([\d, ]+)\], create an equation that equals (\d+)\.")


def problem(text: str) -> tuple[tuple[int, ...], int]:
    found = PROBLEM.search(text)
    assert found is not None
    return tuple(sorted(int(number) for number in found[1].split(","))), int(found[2])


def test_a_step_of_the_corpus_is_its_seeds() -> None:
    first, again, other = (draw_examples(NANO, Random(seed), 2000, 0.2) for seed in ("a", "a", "b"))
    assert first == again
    assert first != other


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


@pytest.mark.parametrize("skill", SKILLS)
def test_lessons_held_out_are_not_those_trained_on(skill: str) -> None:
    assert is_held_out(draw_held_out(Random(0), skill))
    assert not any(is_held_out(draw_lesson(Random(seed), skill)) for seed in range(200))


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


@given(st.lists(st.integers(min_value=1, max_value=300), min_size=1, max_size=80), st.integers(300, 2000))
def test_batches_hold_every_example_once_with_little_padding(lengths: list[int], limit: int) -> None:
    examples = [Example(ids=(i,) * length, weights=(1.0,) * length) for i, length in enumerate(lengths)]
    batches = list(cut_batches(examples, limit))
    assert sorted((e for batch in batches for e in batch), key=lambda e: e.ids[0]) == examples
    for batch in batches:
        longest = max(len(e.ids) for e in batch)
        assert len(batch) * longest <= limit
        assert min(len(e.ids) for e in batch) >= longest * 5 / 6


def test_documents_mix_traces_and_every_skill() -> None:
    texts = ["".join(segment.text for segment in draw_document(Random(seed), 0.2)) for seed in range(400)]
    for sign in ("<python>", "order: ", "swap ", "compare ", "Question: ", "Your goal is", "How many", " = "):
        assert any(sign in text for text in texts)
