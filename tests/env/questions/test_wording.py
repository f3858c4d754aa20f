"""Token F1 and exact match, by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.questions.wording import exact_match, f1, f1_asearcher, f1_hotpot, normal
from tests.loops import for_each


@for_each(
    "text, same",
    [
        ("The Silent River", "silent river"),
        ("  an  apple,\na day! ", "apple day"),
        ("U.S.A.", "usa"),
        ("a-b", "ab"),
        ("theatre", "theatre"),
        ("The", ""),
        ("Zoë’s", "zoë’s"),
    ],
)
def test_articles_case_punctuation_and_blanks_do_not_count(text: str, same: str) -> None:
    assert normal(text) == same


@for_each(
    "answer, golds, score, match",
    [
        ("Paris", ["paris"], 1.0, True),
        ("the city of Paris", ["Paris"], 2 * (1 / 3) * 1 / (1 / 3 + 1), False),  # city of paris
        ("12 May 1873", ["May 12, 1873"], 1.0, False),  # the same words in another order
        ("red red blue", ["red blue blue"], 2 / 3, False),  # one red and one blue: P = R = 2/3
        ("Ada Lom", ["Lom", "Ada B. Lom", "Ada Lom"], 1.0, True),
        ("Ada", ["Bo Lom", "Ada Bo Lom"], 2 * 1 * (1 / 3) / (1 + 1 / 3), False),
        ("", ["Paris"], 0.0, False),
        ("the", ["a"], 1.0, True),  # nothing is left of both
        ("Paris", [], 0.0, False),
        ("Rome", ["Paris"], 0.0, False),
    ],
)
def test_the_best_of_several_right_answers_counts(answer: str, golds: list[str], score: float, match: bool) -> None:
    assert f1(answer, golds) == pytest.approx(score)
    assert exact_match(answer, golds) == match


@given(st.text(max_size=30), st.lists(st.text(max_size=30), max_size=3))
def test_a_score_is_a_share_and_a_match_has_all_of_it(answer: str, golds: list[str]) -> None:
    assert 0.0 <= f1(answer, golds) <= 1.0
    if exact_match(answer, golds):
        assert f1(answer, golds) == 1.0


@for_each(
    "said, gold, hotpot, asearcher",
    [
        ("the cat", "cat", 1.0, 2 / 3),
        ("cat cat dog", "cat dog dog", 2 / 3, 1.0),
        ("twenty-one", "twenty one", 0.0, 1.0),
        ("New York, New York", "New York", 2 / 3, 1.0),
        ("yes it is", "yes", 0.0, 0.5),
        ("True", "yes", 0.0, 1.0),
        ("\u5317\u4eac\u5e02", "\u5317\u4eac", 0.0, 0.8),
        ("", "", 0.0, 1.0),
        ("", "A", 0.0, 0.0),
        ("the", "A", 0.0, 0.0),
        ("A", "A", 0.0, 1.0),
        ("", "cat", 0.0, 0.0),
    ],
)
def test_f1_has_two_forms(said: str, gold: str, hotpot: float, asearcher: float) -> None:
    assert f1_hotpot(said, [gold]) == pytest.approx(hotpot)
    assert f1_asearcher(said, [gold]) == pytest.approx(asearcher)
    assert f1_asearcher(said, ["nothing like it", gold]) == pytest.approx(asearcher)
