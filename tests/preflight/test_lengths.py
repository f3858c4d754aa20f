"""Lengths of episodes as experts play them, by hand where that can be."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlx.commands.plan import describe_plan, published_lengths
from rlx.commands.plan_work import describe_episode, describe_stage
from rlx.config.compose import build_run, compose
from rlx.env.game.guess_the_number import GuessTheNumber
from rlx.model.load import Model, load_tokenizer
from rlx.preflight.expected import AFTER_COPYING, LOW, USUAL_TURNS, expect_lengths
from rlx.preflight.lengths import LengthError, LengthHints, Lengths, Published, in_turns, mean_of
from rlx.preflight.played import (
    PATIENCE,
    Played,
    demonstrations,
    encoder,
    length_of,
    length_of_agents,
    play_experts,
    split_roughly,
    worlds_in,
)
from rlx.preflight.prospect import Prospect
from rlx.preflight.stage import load_of, num_tokens
from rlx.rollout.episode import demonstrate_episode, worlds_of
from rlx.rollout.speech import speech_of
from rlx.run.policies import Frozen
from rlx.run.run import Run
from rlx.types import Action, Completion, Task, Trajectory, Turn
from tests.errors import raises_naming
from tests.test_agents import Mirrored

SUDOKU = ("env=game/sudoku", "algo=grpo", "warm_start=none")


def run_of(*words: str) -> Run:
    return build_run(compose(words), Path())


def experts_of(run: Run) -> dict[str, Played]:
    return play_experts(worlds_in(run), run.seed, run.trained_agents)


def test_a_plan_plays_few_episodes_of_an_environment_that_takes_long_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    world = worlds_in(run_of("env=countdown", "algo=tool_rloo"))[""]
    clock = iter(range(0, 10**6, 4))
    monkeypatch.setattr("rlx.preflight.played.time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert len(list(demonstrations(world, 0))) == math.floor(PATIENCE / 4) + 1 == 3


def turn(prompt: tuple[int, ...], *said: int) -> Turn:
    done = Completion(token_ids=said, logprobs=(0.0,) * len(said), stop="stop")
    return Turn(prompt_ids=prompt, completion=done, action=Action(kind="answer", text=""))


def test_what_turns_see_anew_is_counted_by_hand() -> None:
    grows = (turn((1, 2, 3), 4), turn((1, 2, 3, 4, 5, 6), 7, 8))
    forgets = (turn((1, 2, 3), 4), turn((1, 9, 9, 9), 7, 8))
    whole, short = length_of(grows), length_of(forgets)
    assert whole == Lengths(prompt=3, sampled=3, observed=2, contexts=1, turns=2, longest=8)
    assert short == Lengths(prompt=3, sampled=3, observed=3, contexts=2, turns=2, longest=6)
    assert mean_of([whole, short], [1, 3]) == Lengths(
        prompt=3, sampled=3, observed=2.75, contexts=1.75, turns=2, longest=8
    )


@pytest.mark.parametrize("words", [(), ("protocol.window=0",)])
def test_an_episode_is_as_long_as_the_expert_plays_it(words: tuple[str, ...]) -> None:
    run = run_of(*SUDOKU, *words)
    world = worlds_of(run.env, speech_of(run.protocol, load_tokenizer(Model(path="nano"))))[""]
    played = demonstrate_episode(world, next(run.env.tasks("train", 0)), 0)
    found = experts_of(run)[""].lengths
    assert found.prompt == pytest.approx(length_of(played.turns).prompt, rel=0.1)
    assert found.observed == pytest.approx(length_of(played.turns).observed, rel=0.1)


def test_each_of_several_agents_has_a_context_of_its_own() -> None:
    turns = (turn((1, 2, 3), 4), turn((5, 6), 7, 8), turn((1, 2, 3, 4, 9), 1))
    turns = tuple(replace(one, agent=agent) for one, agent in zip(turns, "ABA"))
    task = Task(id="t", prompt=(), data={})
    episode = Trajectory(task=task, sample=0, turns=turns, status="done")
    own = Lengths(prompt=2.5, sampled=2, observed=0.5, contexts=1, turns=1.5, longest=6, agents=2, learners=2)
    assert length_of_agents(episode, ("A", "B")) == own
    assert length_of_agents(episode, ("A",)) == replace(own, learners=6 / 5), "A has 6 tokens of 5 on average"
    alone = replace(episode, turns=turns[::2])
    assert length_of_agents(alone, ("A",)) == length_of(alone.turns)


def test_a_plan_learns_from_the_tokens_of_trained_agents_alone() -> None:
    run = replace(run_of("env=countdown", "algo=grpo", "protocol=direct", "warm_start=none"), env=Mirrored())
    both, one = (Prospect(run=replace(run, policies=others)) for others in ({}, {"blue": Frozen()}))
    assert num_tokens(one.main.load) == num_tokens(both.main.load)
    assert one.main.load.tokens == pytest.approx(both.main.load.tokens / 2, rel=0.05)
    assert both.main.expected.experts[""].turns == 2, "each agent has half of the episode's turns"
    assert "100% of them" in describe_stage(both.main)
    assert "for each of 2 agents" in describe_episode(both.main)


def test_an_expert_tells_nothing_of_a_model_that_may_think() -> None:
    words = ("env=game/guess_the_number", "algo=rebn", "protocol=tags", "warm_start=none")
    found = expect_lengths(run_of(*words))
    assert not found.is_certain
    usual = experts_of(run_of(*words))[""].lengths.turns * 70
    assert [lengths.sampled for lengths in found.lengths] == pytest.approx([LOW * usual, usual, found.most])
    assert found.usual_source == "model.recipe.usual_turn"
    terse = expect_lengths(run_of(*words[:2], "model=qwen2_5_7b", "warm_start=none", "protocol=direct"))
    assert not terse.is_certain, "nor of one that has copied none of it"


def test_without_an_expert_the_prompt_is_measured_and_the_rest_is_unknown() -> None:
    short, long = (
        expect_lengths(run_of("env=calc/count_small", f"protocol.instruction={text}", "algo=rloo", "warm_start=none"))
        for text in ("Count.", "'Count what is there, and think of nothing else while counting.'")
    )
    assert not short.is_certain
    assert long.usual.prompt > short.usual.prompt
    hub = ("env=code", "env.source=hub", "env.hub=nobody/nothing", "algo=rloo", "warm_start=none")
    assert expect_lengths(run_of(*hub)).usual.prompt == Lengths().prompt


def test_who_copies_an_expert_says_as_much_and_who_has_copied_one_somewhat_more() -> None:
    words = ("env=calc/count_small", "env.expert=any", "algo=rloo", "protocol=tags", "warm_start=brief")
    run = run_of(*words, "warm_start.steps=21")
    warm = run.before()
    assert warm is not None
    shown, said = expect_lengths(warm), expect_lengths(run)
    assert shown.usual.sampled == experts_of(run)[""].lengths.sampled
    assert said.usual.sampled == pytest.approx(AFTER_COPYING * shown.usual.sampled)
    elsewhere = (*words, "warm_start.steps=21", "+env@warm_start.env=calc/count")
    for others in (words, (*words[:-1], "warm_start=none"), elsewhere):
        assert not expect_lengths(run_of(*others)).is_certain, others


def test_nano_after_its_demonstrations_of_countdown_is_as_long_as_was_measured() -> None:
    """Its episodes had 194 to 220 sampled tokens."""
    found = expect_lengths(run_of("env=countdown", "algo=tool_rloo"))
    assert found.source == "demonstrations"
    assert 160 < found.usual.sampled < 250


def test_what_the_user_gives_wins_and_must_be_possible() -> None:
    run = run_of("env=countdown", "algo=tool_rloo")
    given = expect_lengths(run, LengthHints(tokens=600, turns=3))
    assert (given.usual.sampled, given.usual.turns, given.source) == (600, 3, "--tokens")
    assert given.usual.observed < expect_lengths(run).usual.observed, "two of four further turns see half"
    with raises_naming(LengthError, "--tokens"):
        expect_lengths(run, LengthHints(tokens=given.most + 1))
    for bad in (float("nan"), float("inf"), -1.0):
        with raises_naming(LengthError, "--turns"):
            LengthHints(turns=bad)
    measured = expect_lengths(run, LengthHints(tokens=1e6, source="a run"))
    assert measured.usual.sampled == measured.most, "figures of a folder are bounded, not refused"


ROOM = ("env=babyai/go_to", "algo=nested_ppo", "model=qwen3_4b_instruct", "protocol=babyai_reasoning")


def test_an_episode_has_the_turns_that_its_tokens_need_and_no_more_tokens_than_its_turns_hold() -> None:
    """GoTo has 64 valid turns, and its expert takes about 5 of them."""
    pytest.importorskip("minigrid")
    run = run_of(*ROOM, "sampling.max_new_tokens=64")
    expert, found = experts_of(run)[""].lengths, expect_lengths(run)
    assert found.most == 64 * 64
    expected = [(LOW * 2048, LOW * 32), (2048, 32), (4096, 64)]  # turns of 500 tokens do not fit: half of what does
    assert [(one.sampled, one.turns) for one in found.lengths] == [pytest.approx(pair) for pair in expected]
    for one in found.lengths:
        assert one.observed / (one.turns - 1) == pytest.approx(expert.observed / (expert.turns - 1))
    assert found.lengths[-1].contexts > 10 > expert.contexts, "the window forgets again and again"
    told, few = (expect_lengths(run, LengthHints(tokens=tokens)).usual for tokens in (640, 64))
    assert (told.turns, few.turns) == (10, expert.turns)
    assert expect_lengths(run, LengthHints(tokens=640, turns=3)).usual.turns == 3, "what the user gives wins"


def test_turns_that_are_fixed_for_a_step_bound_its_tokens() -> None:
    pytest.importorskip("minigrid")
    run = run_of(*ROOM, "sampling.max_new_tokens=64", "algo.num_turns=128", "algo.num_prompts=128")
    (stage,) = Prospect(run=run).stages
    assert [load.episodes for load in stage.loads] == [math.ceil(128 / load.turns) for load in stage.loads]
    assert [load.turns for load in stage.loads] == [11, 32, 64]
    assert [load.episodes * load.sampled for load in stage.loads[1:]] == [128 * 64] * 2


@pytest.mark.parametrize(
    ("shown", "is_alike"),
    [("noise=0.3", True), ("num_noisy=2", True), ("num_distractors=5", False), ("level=PickUp", False)],
)
def test_demonstrations_of_another_expert_of_the_same_rooms_tell_the_length(shown: str, *, is_alike: bool) -> None:
    pytest.importorskip("minigrid")
    warm = ("warm_start=sft", "warm_start.steps=60", "+env@warm_start.env=babyai/go_to", f"warm_start.env.{shown}")
    found = expect_lengths(run_of("env=babyai/go_to", "algo=nested_ppo", "protocol=direct_goal", *warm))
    assert (found.source == "demonstrations") == is_alike


def test_text_for_a_model_that_is_not_here_is_counted_as_a_large_vocabulary_counts_it() -> None:
    """SmolLM2's tokenizer makes 107 tokens of the paper's prompt and 48 of the view."""
    pytest.importorskip("minigrid")
    run = run_of("env=babyai/go_to", "algo=nested_ppo", "model=qwen3_4b_instruct", "protocol=babyai_reasoning")
    prompt = encoder("nobody/nothing")(run.protocol.instruction.replace("{goal}", "go to the yellow key"))
    assert len(prompt) == pytest.approx(107 - 15, rel=0.1), "without the actions"
    view = "You see a wall 2 steps forward\nYou see a wall 3 steps left\nYou see a yellow key 2 steps left and 1 step "
    assert len(split_roughly(f"{view}forward\nYou see a red box 1 step left and 1 step forward\n")) == 48
    assert len(split_roughly("请转向左边，\ud800")) == 6
    assert split_roughly("") == []


class LiveNumber(GuessTheNumber):
    pace = "live"


def test_no_expert_plays_with_a_live_server_for_a_plan() -> None:
    run = run_of("env=game/guess_the_number", "algo=rebn")
    assert set(experts_of(run)) == {""}
    assert experts_of(replace(run, env=LiveNumber(max_turns=20))) == {}


def test_where_a_turn_is_the_act_alone_a_few_demonstrations_tell_the_length() -> None:
    run = run_of("env=game/guess_the_number", "algo=rebn", "env.low=1", "env.high=2", "env.max_turns=1")
    encode = load_tokenizer(Model(path="nano")).encode
    begun = "Guess the number that I think of. You have 1 guesses.\nIt is a number from 1 to 2.\n"
    lengths = experts_of(run)[""].lengths
    assert lengths == Lengths(prompt=len(encode(begun)), sampled=2, observed=0, longest=len(encode(f"{begun}1\n")))
    assert expect_lengths(run).usual.sampled == pytest.approx(2 * AFTER_COPYING)


def test_a_part_that_needs_more_than_the_context_is_named() -> None:
    run = run_of("env=[game/guess_the_number,game/sudoku]", "algo=reinforce", "protocol=tags")
    text = " ".join(describe_plan(Prospect(run=run), []).split())
    assert text.count("CUT OFF") == 1
    assert "CUT OFF an expert's episode of game_sudoku takes up to " in text
    assert "CUT OFF" not in describe_plan(Prospect(run=run_of(*SUDOKU, "protocol.window=0")), [])
    assert "CUT OFF" not in describe_plan(Prospect(run=run_of("env=game/guess_the_number", "algo=rebn")), [])


def test_what_tools_say_counts_as_given_whatever_the_number_of_turns() -> None:
    one = Lengths(prompt=100, sampled=8000, observed=0, turns=1)
    assert in_turns(one, 1000) == Lengths(prompt=100, sampled=8000, observed=0, turns=8)
    assert in_turns(one, 1000, 5000) == Lengths(prompt=100, sampled=8000, observed=5000, turns=8)
    run = run_of("+paper=carl_3b")
    plain, told = (expect_lengths(run, LengthHints(observed=observed)) for observed in (None, 15000.0))
    assert [one.observed for one in plain.lengths] == [0, 0, 0]
    assert [one.observed for one in told.lengths] == [15000] * 3
    assert (plain.unknown, told.unknown) == (("--prompt", "--observed"), ("--prompt",))
    assert expect_lengths(run_of("env=countdown", "algo=grpo")).unknown == ()


@pytest.mark.parametrize(("name", "value"), [("prompt", 32000.0), ("observed", 500000.0)])
def test_a_hint_that_no_context_holds_is_refused(name: str, value: float) -> None:
    with raises_naming(LengthError, f"--{name} {value:,.0f}", "sampling.max_context=32,000"):
        expect_lengths(run_of("+paper=carl_3b"), LengthHints(**{name: value}))


def test_an_unknown_length_is_bracketed_by_the_usual_one_of_models_like_it() -> None:
    """An answer of a model that thinks is long, a turn of several is shorter, and a paper's own length comes first."""
    thinks = expect_lengths(run_of("model=qwen3_4b_instruct", "env=math", "algo=grpo"))
    assert [round(one.sampled) for one in thinks.lengths] == [1667, 5000, 12288]
    assert thinks.usual_source == "model.recipe.usual_answer"
    plain = expect_lengths(run_of("model=qwen2_5_7b_instruct", "env=math", "algo=grpo"))
    assert plain.usual.sampled == 500
    paper = Published(tokens=1543.1, turns=4.9, source="Table 4")
    found = expect_lengths(run_of("+paper=carl_4b_reasoning"), LengthHints(published=paper))
    assert (found.usual.sampled, found.usual.turns, found.usual_source) == (1543.1, 4.9, "Table 4")
    assert found.lengths[-1].sampled == found.most == 310_000
    turns = Published(turns=5.6, source="Figure 5")
    found = expect_lengths(run_of("+paper=carl_4b_reasoning"), LengthHints(published=turns))
    assert (found.usual.sampled, found.usual.turns) == (5.6 * 500, 5.6), "published turns, of as many tokens as usual"
    assert found.usual_source == "model.recipe.usual_turn, 5.6 turns: Figure 5"
    unplayed = expect_lengths(run_of("+paper=carl_4b_reasoning"))
    assert (unplayed.usual.turns, unplayed.usual.sampled) == (USUAL_TURNS, USUAL_TURNS * 500)


def test_the_presets_lengths_are_those_of_the_registry() -> None:
    assert published_lengths(["+paper=carl_4b_reasoning", "seed=1"]) == Published(
        tokens=770.5, turns=4.56, source="Table 4, of the trained agent; GRPO: 1,543.1 and 4.90"
    )
    assert published_lengths(["+paper=tool_rloo"]) == Published(turns=5.63, source="Table 3: 4.63 calls and the answer")
    assert published_lengths(["+paper=earl_calc"]) is None
    assert published_lengths(["env=math"]) is None


def test_longer_episodes_are_no_cheaper_where_a_step_counts_turns() -> None:
    forecast = Prospect(run=run_of("+paper=gem_game")).forecast
    assert forecast is not None
    seconds = [total for _, total in forecast.totals]
    assert seconds == sorted(seconds)
    assert seconds[-1] > 3 * seconds[0]


def test_every_turn_of_a_standalone_protocol_has_a_context_of_its_own() -> None:
    run = run_of("+paper=carl_4b_reasoning")
    found = expect_lengths(run, LengthHints(tokens=60000.0, turns=10.0))
    assert found.most == 310_000, "ten turns of 31,000"
    assert (found.usual.contexts, found.usual.turns) == (10, 10)
    load = load_of(run.algo, found.usual, found.most, None)
    assert load.context_end == 150 + 60000 / 10
    assert load.context == 150 + 60000 / 10 / 2
