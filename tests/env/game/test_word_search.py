"""Word search: words are marked by their ends, paid once, and stand in one place alone."""

from __future__ import annotations

from itertools import islice

import pytest

from rlx.env.game.crossing import Laid
from rlx.env.game.word_search import WordSearch, describe, is_plain, mark, words_on
from rlx.types import Action, Step

ENV = WordSearch()
TASK = describe(["xhxx", "ionx", "xtxz", "zzzz"], [Laid("hot", 0, 1, "down"), Laid("ion", 1, 0, "across")], 20)


def act(text: str) -> Action:
    return Action(kind="act", name="mark", text=text)


def said(step: Step) -> str:
    return step.observation[0].text.split("\n")[0]


def test_a_game_by_hand() -> None:
    episode = ENV.start(TASK)
    assert episode.opening().observation[0].text == "  0 1 2 3\n0 x h x x\n1 i o n x\n2 x t x z\n3 z z z z"
    step = episode.step(act("2 1 0 1"))
    assert step.observation[0].text == "found hot, 1 word left\n  0 1 2 3\n0 x H x x\n1 i O n x\n2 x T x z\n3 z z z z"
    assert step.reward == 0.5
    assert episode.step(act("1 0 1 2")).success


@pytest.mark.parametrize("env", [ENV, WordSearch(shortest=6, longest=8), WordSearch(num_words=10, longest=3)])
def test_words_stand_where_the_task_says_and_nowhere_else(env: WordSearch) -> None:
    for task in islice(env.tasks("train", 0), 20):
        rows, laid = task.data["rows"], [Laid(*word) for word in task.data["words"]]
        assert len(laid) == env.num_words
        assert is_plain(rows, laid)
        for one in laid:
            row, col, end_row, end_col = one.ends()
            assert "".join(rows[r][c] for r in range(row, end_row + 1) for c in range(col, end_col + 1)) == one.word
            assert env.shortest <= len(one.word) <= env.longest


def test_a_word_that_could_be_read_twice_is_not_plain() -> None:
    laid = [Laid("hot", 0, 1, "down")]
    assert is_plain(["xhxx", "xoxx", "xtxx", "xxxx"], laid)
    assert not is_plain(["xhxx", "xoxx", "xtxx", "xtoh"], laid)
    assert not is_plain(["xhot", "xoxx", "xtxx", "xxxx"], laid)


def test_words_are_read_forwards_in_rows_and_columns() -> None:
    assert {(one.word, one.way) for one in words_on(TASK.data["rows"], 3, 3)} == {("hot", "down"), ("ion", "across")}


def test_the_expert_reads_the_board_and_finds_nearly_all() -> None:
    for env in (ENV, WordSearch(shortest=6, longest=8)):
        earned = 0.0
        for seed, task in enumerate(islice(env.tasks("train", 0), 20)):
            episode = env.start(task)
            earned += sum(episode.step(move.action).reward for move in env.demonstrate(task, seed, ()))
        assert earned >= 19


def test_random_games_have_short_words_or_long_ones() -> None:
    drawn = [sorted(len(word) for word, *_ in task.data["words"]) for task in
             islice(WordSearch(random=True).tasks("train", 0), 20)]  # fmt: skip
    assert all(3 <= lengths[0] <= lengths[-1] <= 5 or 6 <= lengths[0] <= lengths[-1] <= 8 for lengths in drawn)
    assert len({lengths[0] > 5 for lengths in drawn}) == 2


def test_random_tries_are_rows_of_letters_of_the_words_lengths() -> None:
    assert mark(Laid("hot", 0, 1, "down")) in ENV.random_tries(TASK, 99, 0)
