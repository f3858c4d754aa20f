from __future__ import annotations

import json
import math
from itertools import islice
from pathlib import Path

import pytest

from rlx.env.countdown.countdown import Countdown, canonical, describe, held_out, sums_to
from rlx.env.countdown.expression import verify
from rlx.env.countdown.solver import solve
from rlx.env.countdown.traces import ROUNDED, random_tries
from rlx.env.hub import DataError
from rlx.protocol.tags import Tags
from rlx.types import Action, Step, Task, Text, ToolUse
from tests.errors import raises_naming
from tests.loops import for_each

ENV = Countdown()
HARD = Countdown(numbers=(4,), high=20, require_product=True)
FOUR_DIGITS = Countdown(numbers=(4,), low=1000, high=9999, target_low=1000, target_high=9999)
TASK = describe([44, 19, 35], 98)
TAGS = Tags().bind(ENV.tools, ())


def call(text: str) -> Action:
    return Action(kind="call", name="python", text=text)


def answer(text: str) -> Action:
    return Action(kind="answer", text=text)


def play(env: Countdown, task: Task, *actions: Action) -> list[Step]:
    episode = env.start(task)
    return [episode.step(action) for action in actions]


def draw(env: Countdown, num: int, seed: int = 0) -> list[Task]:
    return list(islice(env.tasks("train", seed), num))


# Tasks.


@for_each("env", [ENV, HARD, FOUR_DIGITS, Countdown(numbers=(5,), high=9)])
def test_problems_are_solvable_and_in_range(env: Countdown) -> None:
    for task in draw(env, 60):
        numbers, target = task.data["numbers"], task.data["target"]
        assert len(numbers) in env.numbers
        assert all(env.low <= number <= env.high for number in numbers)
        assert env.target_low <= target <= env.target_high
        assert solve(numbers, target) is not None


def test_prompt_is_the_papers() -> None:
    assert TASK.prompt == (
        Text(
            "Using the numbers [44, 19, 35], create an equation that equals 98. "
            "Use each number exactly once and return the final answer in <answer> tags."
        ),
    )


def test_train_problems_follow_the_seed() -> None:
    assert draw(ENV, 20, seed=1) == draw(ENV, 20, seed=1)
    assert draw(ENV, 20, seed=1) != draw(ENV, 20, seed=2)


def test_test_problems_are_finite_distinct_and_the_same_for_every_seed() -> None:
    test = list(ENV.tasks("test", 0))
    assert len(test) == ENV.num_test == len({canonical(task) for task in test})
    assert test == list(ENV.tasks("test", 1))


def test_splits_never_overlap_whatever_the_preset_and_the_order_of_numbers() -> None:
    small = Countdown(numbers=(2, 3), high=6, target_low=1, target_high=12, num_test=30)
    test = {canonical(task) for task in small.tasks("test", 0)}
    train = {canonical(task) for task in draw(small, 2000)}
    assert len(test) == 30
    assert not test & train
    assert not any(held_out(task) for task in draw(Countdown(numbers=(3,), high=6), 500))
    assert held_out(describe([1, 2, 3], 6)) == held_out(describe([3, 1, 2], 6))


def test_about_one_problem_in_eight_is_held_out() -> None:
    share = sum(held_out(task) for task in islice(ENV.problems("share"), 2000)) / 2000
    assert 0.1 < share < 0.15


def test_required_products_leave_no_solution_by_sums() -> None:
    assert any(sums_to(task.data["numbers"], task.data["target"]) for task in draw(ENV, 50))
    assert not any(sums_to(task.data["numbers"], task.data["target"]) for task in draw(HARD, 50))


def test_sums_try_every_sign() -> None:
    assert sums_to([5, 3, 2], 10)
    assert sums_to([5, 3, 2], 4)
    assert sums_to([2, 3, 5], 6)
    assert not sums_to([5, 3, 2], 7)


def test_presets_without_enough_problems_say_so() -> None:
    with raises_naming(ValueError, "target_low..target_high", "draws"):
        draw(Countdown(numbers=(2,), high=2, target_low=90), 1)
    with raises_naming(ValueError, "test split", "ranges"):
        draw(Countdown(numbers=(2,), low=10, high=10, target_low=100), 1)
    with raises_naming(ValueError, "train split", "ranges"):
        list(Countdown(numbers=(2,), low=9, high=9, target_low=81).tasks("test", 0))
    with raises_naming(ValueError, "test problems", "ranges"):
        list(Countdown(numbers=(2,), high=3, target_low=1).tasks("test", 0))


@for_each(
    "keys, place",
    [
        ({"numbers": ()}, "numbers="),
        ({"numbers": (7,)}, "numbers="),
        ({"low": 0}, "low=0"),
        ({"low": 5, "high": 4}, "low=5"),
        ({"high": 10**10}, "high="),
        ({"target_low": 20, "target_high": 10}, "target_low=20"),
        ({"max_rounds": -1}, "max_rounds="),
        ({"num_test": 0}, "num_test="),
        ({"lambda_call": math.nan}, "lambda_call=nan"),
        ({"lambda_mismatch": -0.1}, "lambda_mismatch="),
        ({"source": "hub", "hub": " "}, "hub="),
    ],
)
def test_bad_settings_are_refused(keys: dict, place: str) -> None:
    with raises_naming(ValueError, place):
        Countdown(**keys)


def test_unknown_split_is_refused() -> None:
    with raises_naming(ValueError, "split=validation", "train", "test"):
        ENV.tasks("validation", 0)


# Data sets.


def write_rows(folder: Path, name: str = "nums") -> Path:
    rows = [(task.data["numbers"], task.data["target"]) for task in draw(ENV, 60)] + [([1, 1, 1], 77)]
    rows += [(task.data["numbers"], task.data["target"]) for task in islice(ENV.tasks("test", 0), 10)]
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps({name: numbers, "target": target}) + "\n" for numbers, target in rows))
    return path


@pytest.mark.parametrize("column", ["nums", "numbers"])
def test_data_sets_are_split_by_the_same_hash(tmp_path: Path, column: str) -> None:
    env = Countdown(source="hub", hub=str(write_rows(tmp_path, column)), num_test=10)
    test = list(env.tasks("test", 0))
    train = draw(env, 150)
    assert {canonical(task) for task in test} == {canonical(task) for task in islice(ENV.tasks("test", 0), 10)}
    assert not any(held_out(task) for task in train)
    assert len({task.id for task in train}) == 60  # passes repeat; the row without a solution is left out
    assert train == draw(env, 150)


def test_data_set_may_be_a_folder(tmp_path: Path) -> None:
    write_rows(tmp_path)
    assert len(draw(Countdown(source="hub", hub=str(tmp_path)), 5)) == 5


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('{"question": 1}\n', ("columns",)),
        ('{"nums": ["x"], "target": 3}\n', ("row 0",)),
        ('{"nums": [], "target": 3}\n', ("row 0",)),
        ('{"nums": [1, 1], "target": 3}\n', ("solvable",)),
        ("not json", ("line 1", "JSON")),
        ("", ("no rows",)),
        ('{"nums": [1.5, 2], "target": 3}\n', ("row 0", "integers")),
        ("[1]\n", ("row 0", "object")),
        ('{"nums": [1, 1], "target": 2}\n{"nums": 3}\n', ("row 1",)),
    ],
)
def test_bad_data_sets_are_named(tmp_path: Path, text: str, names: tuple[str, ...]) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    env = Countdown(source="hub", hub=str(path))
    for look in (env.check_inputs, lambda: draw(env, 1)):
        with raises_naming(DataError, path, *names):
            look()


def test_a_data_set_of_one_split_ends_and_does_not_hang(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    task = next(ENV.tasks("test", 0))
    path.write_text(json.dumps({"nums": task.data["numbers"], "target": task.data["target"]}) + "\n")
    with raises_naming(DataError, "test split", "ranges"):
        draw(Countdown(source="hub", hub=str(path)), 1)


# Episodes.


def test_papers_episode() -> None:
    wrong, right, final = play(
        ENV, TASK, call("((44 - 35) * 19)"), call("((19 + 35) + 44)"), answer("((19 + 35) + 44)")
    )
    assert wrong == Step(observation=(Text("171"),), tool=ToolUse(num_calls=1))
    assert right == Step(observation=(Text("98"),), tool=ToolUse(num_calls=1))
    assert final == Step(reward=1.0, done=True, success=True)


def test_mismatch_is_an_answer_against_the_latest_successful_observation() -> None:
    right, wrong, failed = call("19 + 35 + 44"), call("44"), call("1 / 0")
    final = answer("19 + 35 + 44")
    counts = [
        play(ENV, TASK, *actions, final)[-1].tool.num_mismatches
        for actions in [
            (),
            (right,),
            (wrong,),
            (wrong, right),
            (right, wrong),
            (right, failed),
            (wrong, failed),
            (failed,),
        ]
    ]
    assert counts == [0, 0, 1, 0, 1, 0, 1, 0]


@for_each(
    "code, mismatches",
    [("98.0", 0), ("print(98)", 0), ("98 / 3 * 3", 0), ("'98 '", 0), ("'nan'", 1), ("x = 98", 1)],
)
def test_observation_is_compared_as_a_number(code: str, mismatches: int) -> None:
    assert play(ENV, TASK, call(code), answer("1"))[-1].tool.num_mismatches == mismatches


def test_failed_calls_are_counted_and_told() -> None:
    steps = play(ENV, TASK, call("1 / 0"), call(""), Action(kind="call", name="search", text="98"))
    assert [step.tool for step in steps] == [ToolUse(num_calls=1, num_failed=1)] * 3
    assert [step.observation[0].text.split(":")[0] for step in steps] == ["ZeroDivisionError", "EmptyError", "Error"]


def test_an_invalid_action_is_told_why() -> None:
    assert play(ENV, TASK, Action(kind="invalid", text="why")) == [Step(observation=(Text("Error: why"),))]


STRICT = Tags(reasoning=False).bind(ENV.tools, ())
MALFORMED = (
    "<python>\n44 + 35",
    "44 + 35\n</python>",
    "<python>\n44 + <python>\n35\n</python>",
    "<think>\nI try <python>\n44 + 35\n</python>",
    "<observation>\n98\n</observation>\n<python>\n44 + 35\n</python>",
    "<python>\n44 + 35\n<answer>98</answer>",
)


@for_each("text", MALFORMED)
def test_a_malformed_call_is_a_failed_call_and_costs_as_one(text: str) -> None:
    action = STRICT.parse(text, "stop")
    assert (action.kind, action.name) == ("invalid", "python")
    (step,) = play(ENV, TASK, action)
    assert step.tool == ToolUse(num_calls=1, num_failed=1)
    assert ENV.tool_cost(step.tool) == pytest.approx(ENV.lambda_call + ENV.lambda_error)
    assert step.observation == (Text(f"Error: {action.text}"),)
    (before,) = play(Countdown(count_malformed=False), TASK, action)
    assert before == Step(observation=step.observation)


def test_a_call_that_its_length_cut_is_malformed_and_a_turn_without_a_call_is_not() -> None:
    cut = STRICT.parse("<python>\n44 + 35\n</python>", "length")
    assert (cut.kind, cut.name) == ("invalid", "python")
    for text in ("44 + 35", "<think>\n44 + 35", "<answer>44 + 35", "python: 44 + 35", "<search>x</search>"):
        action = STRICT.parse(text, "stop")
        assert (action.kind, action.name) == ("invalid", "")
        assert play(ENV, TASK, action)[0].tool == ToolUse()
    assert Tags().bind((), ()).parse("<python>\n44", "stop").name == ""


def test_a_reasoning_models_thought_is_no_malformed_call() -> None:
    reasoning = Tags(reasoning=True).bind(ENV.tools, ())
    assert reasoning.parse("<think>in <python> I</think> 98", "stop").name == ""
    assert reasoning.parse("<think>so</think> <python>\n44 + 35", "stop").name == "python"


def test_an_episode_is_used_once() -> None:
    with raises_naming(RuntimeError, "over"):
        play(ENV, TASK, answer("1"), answer("1"))


@for_each("text", ["98", "", "19 + 35", "19 + 35 + 44 + 0", "(" * 9999, "\ud800", "19 + 35 + 44 = 98"])
def test_wrong_answers_have_the_verifiers_reward(text: str) -> None:
    assert play(ENV, TASK, answer(text)) == [Step(done=True, success=False)]
    assert play(Countdown(verifier="format"), TASK, answer(text)) == [Step(reward=0.1, done=True, success=False)]


def test_cost_is_equation_1() -> None:
    tool = ToolUse(num_calls=5, num_failed=2, num_mismatches=1, num_tokens=100)
    assert ENV.tool_cost(tool) == pytest.approx(5 * 0.02 + 2 * 0.1 + 0.3)
    assert Countdown(lambda_token=0.001).tool_cost(tool) == pytest.approx(0.7)


def test_replay_gives_the_same_steps() -> None:
    actions = [call("44 / 35"), call("x"), Action(kind="invalid", text="why"), call("import random\nrandom.random()")]
    assert play(ENV, TASK, *actions, answer("44")) == play(ENV, TASK, *actions, answer("44"))


# Demonstrations.


@for_each("env", [ENV, HARD, FOUR_DIGITS, Countdown(numbers=(2,), target_low=1, high=9)])
def test_demonstrations_succeed_and_say_what_the_tool_shows(env: Countdown) -> None:
    for task in draw(env, 60):
        moves = list(env.demonstrate(task, 3, ("python",)))
        steps = play(env, task, *[move.action for move in moves])
        assert steps[-1].success
        assert sum((step.tool for step in steps), ToolUse()) == ToolUse(num_calls=len(moves) - 1)
        for step, move in zip(steps, moves[1:]):
            assert move.thought.startswith(f"The observation is {step.observation[0].text}. ")
        assert [move.thought.count("does not match") for move in moves] == [0] + [1] * (len(moves) - 2) + [0]


def test_demonstration_has_the_papers_words() -> None:
    seed = next(seed for seed in range(100) if len(list(ENV.demonstrate(TASK, seed, ("python",)))) == 3)
    first, second, third = (TAGS.write(move) for move in ENV.demonstrate(TASK, seed, ("python",)))
    wrong, right = (TAGS.parse(text, "stop").text for text in (first, second))
    value = play(ENV, TASK, call(wrong))[0].observation[0].text
    assert first == (
        "<think>\nI will use Python as a tool to verify a candidate arithmetic expression.\n</think>\n"
        f"<python>\n{wrong}\n</python>"
    )
    assert second == (
        f"<think>\nThe observation is {value}. Since {value} != 98, it does not match the target.\n"
        f"I need to try a different expression.\n</think>\n<python>\n{right}\n</python>"
    )
    assert third == (
        "<think>\nThe observation is 98. Since 98 == 98, it exactly equals the target.\n</think>\n"
        f"<answer>{right}</answer>"
    )


def test_demonstrations_mix_lengths_within_the_rounds() -> None:
    lengths = {len(list(ENV.demonstrate(task, 0, ("python",)))) for task in draw(ENV, 300)}
    assert lengths == set(range(2, 10))
    short = Countdown(max_rounds=2)
    assert {len(list(short.demonstrate(task, 0, ("python",)))) for task in draw(short, 50)} == {2, 3}


def test_what_judges_episodes_leaves_tasks_and_demonstrations_as_they_are() -> None:
    changed = {"num_test": 7, "verifier": "format", "lambda_call": 1.0, "lambda_token": 1.0, "lambda_error": 1.0}
    changed |= {"lambda_mismatch": 1.0, "count_malformed": False}
    other = Countdown(**changed)  # type: ignore[arg-type]
    assert set(changed) == set(Countdown.reward_only_keys)
    for mine, its in islice(zip(Countdown().tasks("train", 3), other.tasks("train", 3)), 20):
        assert mine == its
        assert list(Countdown().demonstrate(mine, 5, ("python",))) == list(other.demonstrate(its, 5, ("python",)))


def test_demonstrations_follow_the_seed() -> None:
    assert list(ENV.demonstrate(TASK, 1, ("python",))) == list(ENV.demonstrate(TASK, 1, ("python",)))
    assert len({str(list(ENV.demonstrate(TASK, seed, ("python",)))) for seed in range(10)}) == 10


def test_a_value_that_floats_round_is_called_so() -> None:
    task = describe([3, 3, 8, 8], 24)
    moves = list(ENV.demonstrate(task, 0, ("python",)))
    assert moves[-1].thought == ROUNDED.format(value=23.99999999999999, target=24)
    assert play(ENV, task, *[move.action for move in moves])[-1] == Step(reward=1.0, done=True, success=True)


def test_without_the_tool_the_candidates_are_in_the_thought() -> None:
    for task in draw(ENV, 30):
        (move,) = ENV.demonstrate(task, 0, ())
        *wrong, right = move.thought.split("\n")
        target = task.data["target"]
        assert all(line.endswith(f", which is not {target}.") for line in wrong)
        assert right == f"{move.action.text} = {target}, which equals the target."
        assert play(ENV, task, move.action)[-1].success


def test_a_problem_without_a_solution_has_no_expert() -> None:
    with raises_naming(ValueError, "countdown:", "solution"):
        ENV.demonstrate(describe([1, 1], 50), 0, ("python",))


def test_random_tries_are_distinct_valid_and_seeded() -> None:
    tries = random_tries(TASK, 8, 0)
    assert len(set(tries)) == 8
    assert tries == random_tries(TASK, 8, 0) != random_tries(TASK, 8, 1)
    assert not any(step.tool.num_failed for step in play(ENV, TASK, *map(call, tries)))
    assert any(verify(text, [1, 2], 3) for text in random_tries(describe([1, 2], 3), 8, 0))
