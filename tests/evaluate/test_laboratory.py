"""The laboratory for credit: its figures by hand, estimators whose bias is known, and the command."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from rlx.algo.branpo import branpo
from rlx.algo.carl import carl
from rlx.algo.credit import imitate
from rlx.algo.grpo import grpo
from rlx.algo.parts import Algorithm, Credited, Critic, Growth, Optimizer, PerRow, PerToken, Sampler, SamplerContext
from rlx.algo.ppo import ppo
from rlx.algo.rows import Rows
from rlx.algo.samplers import demonstrations, independent
from rlx.algo.tree import tree_difference
from rlx.algo.tree_grpo import tree_grpo
from rlx.algo.vineppo import vineppo
from rlx.base.limits import MistakeError
from rlx.env.bifurcation.bifurcation import Bifurcation
from rlx.env.bifurcation.exact_values import Outcome, Values, exact_values
from rlx.env.bifurcation.rules import INVALID, State
from rlx.environment.world import dialect_of
from rlx.lab.credit_command import STATS
from rlx.lab.credit_figures import credit_figures
from rlx.lab.gradients import CELLS, chunks_of, estimated_gradients, gradient_cosines
from rlx.lab.laboratory import LaboratoryError, Measured, Policy, Turn, measure
from rlx.lab.reproduce.arm import Arm
from rlx.lab.reproduce.measurements import check_study, named_figures, study_reports
from rlx.lab.reproduce.reproduction import Reproduction
from rlx.lab.reproduce.studies import Study
from rlx.protocol.direct import Direct
from rlx.types import Group, Start
from tests.errors import check_message, raises_naming

ENV = Bifurcation()
TASKS = list(islice(ENV.tasks("train", 0), 6))
POLICY = Policy(env=ENV, dialect=dialect_of(ENV, Direct()))
OPTIMIZER = Optimizer()


def measured(algo: Algorithm, tokens: int = 4000) -> Measured:
    return measure(algo, POLICY, TASKS, tokens=tokens, seed=0)


def figures(found: Measured, weigh: Any = "turn") -> dict[str, Any]:
    return credit_figures(found, weigh, num_resamples=500, seed=0)


def turn(action: str, estimate: float, truth: float, number: int = 0, **keys: Any) -> Turn:
    told = {"task": 0, "state": State(), "is_critical": True, "num_trained": 1, "num_zero": 0, "num_tokens": 1} | keys
    return Turn(action=action, estimate=estimate, truth=truth, round=number, **told)


def by_hand(turns: Sequence[Turn], tokens: int | None = None, num_turns: int | None = None) -> Measured:
    spent = [sum(one.num_tokens for one in turns) if tokens is None else tokens]
    values: Any = [None] * (1 + max(one.task for one in turns))
    num = len(turns) if num_turns is None else num_turns
    return Measured(turns=turns, values=values, policies=[], tokens=spent, num_turns=num)


class Tree:
    """s0 -a-> s1, s0 -b-> s2; s1 -c-> 1, s1 -d-> 0; s2 -e-> s3; s3 -f-> 1, -g-> 1, -h-> 0."""

    start = "s0"
    edges = (
        *(("s0", "a", "s1", 0.0), ("s0", "b", "s2", 0.0), ("s1", "c", None, 1.0), ("s1", "d", None, 0.0)),
        *(("s2", "e", "s3", 0.0), ("s3", "f", None, 1.0), ("s3", "g", None, 1.0), ("s3", "h", None, 0.0)),
    )

    def outcomes(self, state: str, action: str) -> list[Outcome[str]]:
        return [Outcome(1.0, r, after) for before, name, after, r in self.edges if (before, name) == (state, action)]

    def even(self, state: str) -> dict[str, float]:
        names = [name for before, name, *_ in self.edges if before == state]
        return dict.fromkeys(names, 1 / len(names))


ROWS = Rows(
    group=(0,) * 8,
    trajectory=(0, 0, 1, 2, 2, 2, 3, 4),
    turn=(0, 1, 1, 0, 1, 2, 2, 2),
    parent=(-1, 0, 0, -1, 3, 4, 4, 4),
    reward=(0, 1, 0, 0, 0, 1, 1, 0),
    num_tokens=(1,) * 8,
    success=(True,) * 8,
)


def on_the_tree(estimates: Sequence[float], kept: Sequence[bool]) -> Measured:
    """Estimates of the edges a c d b e f g h beside their exact advantages."""
    exact = exact_values(Tree(), Tree().even)
    truth = {action: exact.advantage(state, action) for state, action in exact.q}
    turns = [
        turn(edge, estimate, truth[edge], num_trained=int(keep))
        for edge, estimate, keep in zip("acdbefgh", estimates, kept, strict=True)
    ]
    return by_hand(turns)


def test_the_credit_of_a_whole_tree_is_exact_and_grpo_s_is_not() -> None:
    credited = tree_difference("critical")(ROWS)
    found = figures(on_the_tree(list(credited.advantage.values), list(credited.keep.values)))  # type: ignore[union-attr]
    assert found["correlation"].value == pytest.approx(1)
    assert found["slope"].value == pytest.approx(1)
    assert found["error"].value == pytest.approx(0, abs=1e-7)
    assert found["zero"].value == pytest.approx(1 / 8)
    assert found["sign"].value == 1
    # each leaf's normalised return, for the edges that its trajectory samples itself
    returns = [0.7303, 0.7303, -1.0954, 0.7303, 0.7303, 0.7303, 0.7303, -1.0954]
    found = figures(on_the_tree(returns, [True] * 8))
    exact = (-1 / 12, 1 / 2, -1 / 2, 1 / 12, 0, 1 / 3, 1 / 3, -2 / 3)
    assert found["error"].value == pytest.approx((sum((x - a) ** 2 for x, a in zip(returns, exact)) / 8) ** 0.5)
    assert found["slope"].value == pytest.approx(sum(x * a for x, a in zip(returns, exact)) / sum(a * a for a in exact))
    assert found["sign"].value == pytest.approx(6 / 7)  # e has no sign, and a has the wrong one


def test_bias_and_variance_are_of_states_and_actions_and_noise_is_no_bias() -> None:
    turns = [
        turn(action, truth + bias + noise, truth, number)
        for action, truth, bias in (("a", 0.5, 0.3), ("b", -0.5, -0.4))
        for number, noise in enumerate((-0.1, 0.1) * 50)
    ]
    found = figures(by_hand(turns))
    assert found["bias"].value == pytest.approx((0.5 * (0.09 + 0.16)) ** 0.5, abs=1e-3)
    assert found["variance"].value == pytest.approx(0.01, rel=0.02)
    assert found["mean error"].value == pytest.approx(-0.05)
    doubled = [replace(one, estimate=2 * one.truth + (0.1 if one.round % 2 else -0.1)) for one in turns]
    assert figures(by_hand(doubled))["bias"].value == pytest.approx(0.5, abs=1e-3)
    assert figures(by_hand(doubled))["scaled bias"].value == pytest.approx(0, abs=1e-6)
    noise = [turn("a", 0.5 + (-1) ** number, 0.5, number) for number in range(200)]
    assert figures(by_hand(noise))["bias"].value == pytest.approx(0, abs=0.05)
    together = [turn("a", 0.5 + (-1) ** number, 0.5, number) for number in range(200) for _ in range(5)]
    assert figures(by_hand(together))["bias"].value == 0  # turns of one round share their noise


def test_tokens_weigh_turns_and_those_that_learn_nothing_count() -> None:
    turns = [
        turn("a", 1.0, 0.5, num_tokens=4, num_trained=4),
        turn("b", 0.0, 0.5, num_tokens=1, num_zero=1),
        turn("c", 0.0, 0.5, num_tokens=1, num_trained=0),
    ]
    found = by_hand(turns, tokens=12, num_turns=6)
    assert figures(found)["mean error"].value == pytest.approx(0.0)
    assert figures(found, "token")["mean error"].value == pytest.approx((4 * 0.5 - 0.5) / 5)
    assert figures(found)["zero"].value == pytest.approx(1 - 1 / 6)
    assert figures(found, "token")["zero"].value == pytest.approx(1 - 4 / 12)


def test_a_perfect_critic_gives_estimates_without_bias() -> None:
    algo = ppo(optimizer=OPTIMIZER, critic=Critic(lr=1e-3), num_samples=8, gamma=1.0, lam=1.0)
    found = measured(algo)
    for weigh in ("turn", "token"):
        shown = figures(found, weigh)
        assert shown["bias"].low == 0
        assert shown["scaled bias"].low == 0
        assert shown["slope"].low < 1 < shown["slope"].high
        assert shown["mean error"].low < 0 < shown["mean error"].high
    one_step = replace(algo, credit=ppo(optimizer=OPTIMIZER, critic=Critic(lr=1e-3), gamma=1.0, lam=0.0).credit)
    close = measured(one_step, tokens=2000)
    assert figures(close)["correlation"].value > figures(found)["correlation"].value
    assert figures(close)["error"].value < 0.5 * figures(found)["error"].value


def test_grpo_is_biased_by_what_came_before_a_turn() -> None:
    found = figures(measured(grpo(optimizer=OPTIMIZER, num_samples=8, scale="none")))
    assert found["bias"].low > 0.05
    divided = figures(measured(grpo(optimizer=OPTIMIZER, num_samples=8)))
    assert divided["slope"].low > 1.5
    assert divided["scaled bias"].low > 0.05


def test_monte_carlo_values_have_no_bias_and_most_tokens_measure() -> None:
    found = measured(vineppo(optimizer=OPTIMIZER, num_samples=3, num_rollouts=4, whiten=False), tokens=4000)
    shown = figures(found, "token")
    assert shown["bias"].low == 0
    assert shown["slope"].low < 1 < shown["slope"].high
    assert shown["zero"].low > 0.7


def test_branches_that_are_kept_for_their_contrast_bias_the_credit() -> None:
    found = figures(measured(branpo(optimizer=OPTIMIZER), tokens=4000))
    assert found["scaled bias"].low > 0.05


def test_a_tree_halves_the_gain_of_a_turn_with_one_sibling() -> None:
    found = measured(carl(optimizer=OPTIMIZER, num_fresh=1, num_forks=8))
    shown = figures(found)
    assert shown["slope"].high < 1
    assert shown["zero"].low > 0.3


def test_rollouts_outside_the_group_are_paid_for() -> None:
    def grow(context: SamplerContext) -> Growth:
        played = yield [Start(task=context.task, sample=number) for number in range(8)]
        return Group(task=context.task, trajectories=tuple(played[:2]))

    plain = grpo(optimizer=OPTIMIZER, num_samples=2, scale="none")
    found = measured(replace(plain, sample=Sampler(num_episodes=8, grow=grow)), tokens=1)
    assert len(found.tokens) == 2
    in_groups = sum(one.num_tokens for one in found.turns)
    assert sum(found.tokens) > 3 * in_groups
    assert figures(found, "token")["zero"].value > 0.7
    assert found.num_turns > 3 * len(found.turns)


def test_credit_of_tokens_is_read_token_by_token() -> None:
    def last_only(rows: Rows) -> Credited:
        keep = [[0.0] * (num - 1) + [1.0] for num in rows.num_tokens]
        return Credited(advantage=PerToken([[1.0] * num for num in rows.num_tokens]), keep=PerToken(keep))

    plain = grpo(optimizer=OPTIMIZER, num_samples=2)
    found = measured(replace(plain, credit=last_only), tokens=1)
    assert {one.num_trained for one in found.turns} == {1}
    assert {one.estimate for one in found.turns} == {1.0}
    assert {one.num_tokens for one in found.turns} == {2, 4}  # up_up_up has three words
    assert figures(found, "token")["zero"].value > 0.5


@pytest.fixture(scope="module")
def played() -> Measured:
    return measured(grpo(optimizer=OPTIMIZER, num_samples=16), tokens=10_000)


def test_estimates_along_the_exact_advantages_point_along_the_gradient(played: Measured) -> None:
    exact = played
    perfect = replace(exact, turns=[replace(one, estimate=one.truth) for one in exact.turns])
    opposite = replace(exact, turns=[replace(one, estimate=-one.truth) for one in exact.turns])
    ask: Callable[[Measured], Any] = lambda found: gradient_cosines(found, 1500, num_resamples=200, seed=0)["state"]  # noqa: E731
    assert ask(perfect).value > 0.93
    assert ask(opposite).value < -0.93
    assert 0.3 < ask(exact).value < ask(perfect).value


def test_figures_of_all_count_what_is_not_trained_as_an_estimate_of_zero() -> None:
    """Of four turns two are trained, exactly; the other two have true advantages of 1 and -1."""
    truths = (0.5, -0.5, 1.0, -1.0)
    turns = [
        turn(action, truth if place < 2 else 0.0, truth, num_tokens=2, num_trained=2 * (place < 2))
        for place, (action, truth) in enumerate(zip("abcd", truths, strict=True))
    ]
    for weigh in ("turn", "token"):
        found = figures(by_hand(turns), weigh)
        assert (found["correlation"].value, found["error"].value) == pytest.approx((1, 0))
        assert found["correlation of all"].value == pytest.approx((2 * 0.5**2) / (0.5 * 2.5) ** 0.5)
        assert found["error of all"].value == pytest.approx((2 / 4) ** 0.5)
    half = [replace(one, num_trained=1, estimate=one.truth) for one in turns]
    assert figures(by_hand(half))["error of all"].value == pytest.approx(0), "a turn is trained if a token is"
    assert figures(by_hand(half), "token")["error of all"].value == pytest.approx((2.5 / 8) ** 0.5)


def test_logits_that_states_share_average_their_errors_out() -> None:
    """Two tasks of a state each; estimates err by +1 and -1 along the truth."""
    state = State()
    turns = [turn("a", 1.0 + error, 1.0, task=task) for task, error in enumerate((1.0, -1.0))]
    values: Any = [Values(v={state: 0.0}, q={(state, "a"): 1.0, (state, "b"): -1.0}, reach={state: 1.0})] * 2
    found = Measured(
        turns=turns,
        values=values,
        policies=[{state: {"a": 0.5, "b": 0.5}}] * 2,
        texts=[{state: "door"}] * 2,
        tokens=[2],
    )
    cosines = gradient_cosines(found, 1, num_resamples=50, seed=0)
    assert {cells: one.value for cells, one in cosines.items()} == pytest.approx(
        {"state": 0.5**0.5, "text": 0.5**0.5, "shared": 1.0}
    )


def test_true_states_of_one_text_share_its_logits(played: Measured) -> None:
    cosines = gradient_cosines(played, 1500, num_resamples=50, seed=0)
    assert tuple(cosines) == CELLS
    assert len(chunks_of(played, 1500)) > 1
    assert cosines["state"].value < cosines["text"].value < cosines["shared"].value
    assert {len(set(text.values())) < len(text) for text in played.texts} == {True}


def test_a_turn_trained_twice_pulls_twice_in_the_gradient(played: Measured) -> None:
    once = played.turns[0]
    twice = replace(played, turns=[replace(once, copies=2.0)])
    plain = replace(played, turns=[once, once])
    assert estimated_gradients(twice, {once.round}) == estimated_gradients(plain, {once.round})


def test_a_shared_turn_of_tree_grpo_counts_once_for_each_leaf_below() -> None:
    found = measured(tree_grpo(optimizer=OPTIMIZER))
    assert {one.copies for one in found.turns} >= {1.0, 2.0}


def test_the_table_is_the_policy_of_the_true_states() -> None:
    rules = ENV.rules(TASKS[0])
    for state in exact_values(rules, lambda state: POLICY.at(rules, state)).v:
        context = f"Pass 6 doors\ndoor 1, A, left?\nleft\nError: say a move\n{rules.text(state)}\n"
        table = POLICY.table(context)
        at = POLICY.at(rules, state)
        assert table == {POLICY.say(name): p for name, p in at.items()}
        assert sum(at.values()) == pytest.approx(1)
    assert POLICY.dialect.parse(POLICY.say(INVALID), "stop").kind == "invalid"


def test_every_state_s_share_of_actions_is_the_table_s(played: Measured) -> None:
    found = played
    start = [one for one in found.turns if one.state == State() and one.task == 0]
    for action, p in found.policies[0][State()].items():
        share = sum(one.action == action for one in start) / len(start)
        assert share == pytest.approx(p, abs=4 * (p * (1 - p) / len(start)) ** 0.5)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"sample": demonstrations()}, "demonstrations"),
        ({"credit": imitate, "imitates": True}, "demonstrations"),
        ({"sample": replace(independent(2), forces=True)}, "tags"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(change: dict[str, Any], name: str) -> None:
    with raises_naming(LaboratoryError, "algo:", name):
        measured(replace(grpo(optimizer=OPTIMIZER), **change))


def test_a_policy_needs_a_share_of_invalid_turns_that_is_one() -> None:
    with raises_naming(ValueError, "invalid=1.0", 0.9):
        replace(POLICY, invalid=1.0)


SHORT = ("analyze", "credit", "--tokens", "300", "--tasks", "2")


def test_a_seed_repeats_itself_and_another_does_not() -> None:
    algo = carl(optimizer=OPTIMIZER, num_fresh=2, num_forks=3)
    first, again, other = (measure(algo, POLICY, TASKS, tokens=1, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.turns != other.turns


def test_the_command_shows_tables_or_json(rlx_here: Any) -> None:
    done = rlx_here(*SHORT, "algo=grpo,carl", "algo.num_prompts=2", "env.slip=0.2", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found["algorithms"]) == ["grpo", "carl"]
    assert (found["seed"], found["num_tasks"], found["tokens"]) == (0, 2, 300)
    one = found["algorithms"]["carl"]
    assert one["token"]["zero"]["low"] <= one["token"]["zero"]["value"] <= one["token"]["zero"]["high"]
    assert one["cost"]["trained"] < one["cost"]["tokens"]
    table = rlx_here(*SHORT, "algo=grpo").stdout
    assert "Per sampled turn" in table
    assert "Per generated token" in table
    assert "seed 0" in table


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), ["algo=…", "algo=grpo,carl"]),
        (("algo=grpo,",), ["algo=…", "algo=grpo,carl"]),
        (("algo=grpo,carlo",), ["algo=carlo", "carl"]),
        (("algo=grpo", "env=countdown"), ["env:", "env=bifurcation"]),
        (("algo=sft",), ["algo:", "demonstrations"]),
        (("algo=grpo", "env.slip=2"), ["env.slip=2"]),
    ],
)
def test_wrong_words_are_one_line(rlx_here: Any, words: tuple[str, ...], names: list[str]) -> None:
    done = rlx_here(*SHORT, *words)
    assert done.stdout == ""
    *_, last = done.stderr.splitlines()
    assert done.returncode == 2
    assert last.startswith("rlx: ")
    check_message(last.removeprefix("rlx: "), tuple(names))
    assert "Traceback" not in done.stderr


def test_a_reproduction_measures_its_runs_and_refuses_figures_that_there_will_not_be(
    small_run: Any, tmp_path: Any
) -> None:
    words = ("algo=grpo", "algo.num_prompts=2", "warm_start=none")
    run = small_run(tmp_path / "run", "env=bifurcation", *words, without=("env", "algo", "warm_start"))
    study = Study(runs=("own",), tokens=500, tasks=2, budget=100)
    what = Reproduction(source="x", runs={"own": Arm()}, rows={}, credit=study)
    check_study(what, {"own": run})
    told: list[str] = []
    reports = study_reports(study, {"own": run}, tmp_path / "credit", told.append)
    figures = named_figures(reports)
    assert study_reports(study, {"own": run}, tmp_path / "credit", told.append) == reports
    assert len(told) == 1, "the second time the report is read"
    study_reports(replace(study, tokens=600), {"own": run}, tmp_path / "credit", told.append)
    (tmp_path / "credit" / "own.json").write_text('{"key": 1, "report": {"figures": 3}}')
    assert study_reports(study, {"own": run}, tmp_path / "credit", told.append) == reports
    assert len(told) == 3, "other settings and a damaged file are measured again"
    assert set(figures["credit of own"]) == {f"eval/{stat}" for stat in STATS}
    for wrong, names in (
        (
            replace(what, expected={"credit of own": {"turn/bios": (0, 1)}}),
            ("'turn/bios'", "turn/bias"),
        ),
        (what, ("exact values",)),
    ):
        bad = small_run(tmp_path / "other") if wrong is what else run
        with raises_naming(MistakeError, *names):
            check_study(wrong, {"own": bad})


def test_rows_left_out_of_a_turn_weigh_nothing() -> None:
    def none_kept(rows: Rows) -> Credited:
        return Credited(advantage=PerRow([1.0] * len(rows.reward)), keep=PerRow([0.0] * len(rows.reward)))

    found = measured(replace(grpo(optimizer=OPTIMIZER, num_samples=2), credit=none_kept), tokens=1)
    shown = figures(found)
    assert shown["zero"].value == 1
    assert shown["correlation"].value == 0
