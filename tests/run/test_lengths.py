"""Lengths of episodes as experts play them, by hand where that can be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rlx.commands.plan import describe_plan
from rlx.config.compose import build_run, compose
from rlx.env.game.guess_the_number import GuessTheNumber
from rlx.model.load import Model, load_tokenizer
from rlx.rollout.episode import demonstrate_episode, worlds_of
from rlx.rollout.speech import speech_of
from rlx.run.duration import num_tokens, stages_of
from rlx.run.lengths import Lengths, length_of, lengths_of, mean_of
from rlx.run.run import Run
from rlx.types import Action, Completion, Task, Trajectory, Turn

SUDOKU = ("env=game/sudoku", "algo=grpo", "warm_start=none")


def run_of(*words: str) -> Run:
    return build_run(compose(words), Path())


def turn(prompt: tuple[int, ...], *said: int) -> Turn:
    done = Completion(token_ids=said, logprobs=(0.0,) * len(said), stop="stop")
    return Turn(prompt_ids=prompt, completion=done, action=Action(kind="answer", text=""))


def test_what_turns_see_anew_is_counted_by_hand() -> None:
    task = Task(id="t", prompt=(), data={})
    grows = (turn((1, 2, 3), 4), turn((1, 2, 3, 4, 5, 6), 7, 8))
    forgets = (turn((1, 2, 3), 4), turn((1, 9, 9, 9), 7, 8))
    whole, short = (length_of(Trajectory(task=task, sample=0, turns=t, status="done")) for t in (grows, forgets))
    assert whole == Lengths(prompt=3, sampled=3, observed=2, contexts=1, longest=8)
    assert short == Lengths(prompt=3, sampled=3, observed=3, contexts=2, longest=6)
    assert mean_of([whole, short], [1, 3]) == Lengths(prompt=3, sampled=3, observed=2.75, contexts=1.75, longest=8)


@pytest.mark.parametrize("words", [(), ("protocol.window=0",)])
def test_an_episode_is_as_long_as_the_expert_plays_it(words: tuple[str, ...]) -> None:
    run = run_of(*SUDOKU, *words)
    world = worlds_of(run.env, speech_of(run.protocol, load_tokenizer(Model(path="nano"))))[""]
    played = demonstrate_episode(world, next(run.env.tasks("train", 0)), 0)
    (found,) = lengths_of(run).values()
    assert found.longest == pytest.approx(length_of(played).longest, rel=0.1)
    assert found.observed == pytest.approx(length_of(played).observed, rel=0.1)


def test_what_needs_little_or_has_no_expert_is_as_countdown() -> None:
    words = ("env=game/guess_the_number", "algo=rebn", "protocol=tags")
    assert num_tokens(stages_of(run_of(*words))[-1].load) == 64 * 350
    words = ("env=code", "env.source=hub", "env.hub=nobody/nothing", "algo=rloo", "warm_start=none")
    assert lengths_of(run_of(*words)) == {}
    assert num_tokens(stages_of(run_of(*words))[-1].load) == 128 * 350


def test_who_copies_an_expert_says_as_much_and_who_has_copied_one_up_to_four_times_that() -> None:
    words = ("env=calc/count_small", "env.expert=any", "algo=rloo", "protocol=tags", "warm_start=brief")
    run = run_of(*words, "warm_start.steps=21")
    warm = run.before()
    assert warm is not None
    (shown,), (said,) = lengths_of(warm).values(), lengths_of(run).values()
    assert shown.sampled < 40
    assert (said.sampled, said.observed) == (4 * shown.sampled, 4 * shown.observed)
    assert said.prompt == max(100, shown.prompt)
    elsewhere = (*words, "warm_start.steps=21", "+env@warm_start.env=calc/count")
    for others in (words, (*words[:-1], "warm_start=none"), elsewhere):
        (found,) = lengths_of(run_of(*others)).values()
        assert (found.sampled, found.observed) == (200, 50), others


class LiveNumber(GuessTheNumber):
    pace = "live"


def test_no_expert_plays_with_a_live_server_for_a_plan() -> None:
    run = run_of("env=game/guess_the_number", "algo=rebn")
    assert set(lengths_of(run)) == {""}
    assert lengths_of(replace(run, env=LiveNumber(max_turns=20))) == {}


def test_where_a_turn_is_the_act_alone_episodes_are_as_short_as_an_expert_s() -> None:
    run = run_of("env=game/guess_the_number", "algo=rebn", "env.low=1", "env.high=2", "env.max_turns=1")
    encode = load_tokenizer(Model(path="nano")).encode
    begun = "Guess the number that I think of. You have 1 guesses.\nIt is a number from 1 to 2.\n"
    (found,) = lengths_of(run).values()
    assert found == Lengths(prompt=len(encode(begun)), sampled=2, observed=0, longest=len(encode(f"{begun}1\n")))
    assert num_tokens(stages_of(run)[-1].load) == 64 * (len(encode(begun)) + 2)


def test_a_part_that_needs_more_than_the_context_is_named() -> None:
    run = run_of("env=[game/guess_the_number,game/sudoku]", "algo=reinforce", "protocol=tags")
    text = " ".join(describe_plan(run, []).split())
    assert text.count("CUT OFF") == 1
    assert "CUT OFF an expert's episode of game_sudoku takes up to " in text
    assert "CUT OFF" not in describe_plan(run_of(*SUDOKU, "protocol.window=0"), [])
    assert "CUT OFF" not in describe_plan(run_of("env=game/guess_the_number", "algo=rebn"), [])


def test_a_part_that_is_cut_makes_no_other_part_longer() -> None:
    run = run_of("env=[game/guess_the_number,game/sudoku]", "algo=reinforce", "protocol=tags")
    context, stage = run.sampling.max_context, stages_of(run)[-1]
    assert num_tokens(stage.load) / stage.load.episodes == pytest.approx((350 + context) / 2, abs=3)
