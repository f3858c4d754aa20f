"""Names and keywords: GEM's ids by a rule, and one line with near names where there is nothing of the name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rlx.gym
from rlx.base.limits import MistakeError
from rlx.env.game.guess_the_number import GuessTheNumber
from rlx.gym.keywords import NAMES
from rlx.gym.named import find_option, find_task
from rlx.settings.check import ConfigError
from rlx.settings.folders import list_options, shipped_folder
from rlx.tool.lend import Lend
from rlx.tool.python import Python
from tests.errors import raises_naming
from tests.loops import for_each


@for_each(
    "name, option",
    [
        ("game/guess_the_number_hard", "game/guess_the_number_hard"),
        ("game:GuessTheNumber-v0-hard", "game/guess_the_number_hard"),
        ("game:GuessTheNumber-v0", "game/guess_the_number"),
        ("game:guess_the_number", "game/guess_the_number"),
        ("Countdown", "countdown"),
        ("countdown-v0-hard", "countdown_hard"),
    ],
)
def test_an_id_is_an_option_but_for_case_and_version(name: str, option: str) -> None:
    assert find_option(name) == option


def test_an_option_of_ones_own_is_found_by_the_same_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "env" / "rg").mkdir(parents=True)
    (tmp_path / "env" / "rg" / "letter_count.yaml").write_text("defaults: [game/guess_the_number@_here_]\nhigh: 9\n")
    monkeypatch.setenv("RLX_CONF_DIR", str(tmp_path))
    world = rlx.gym.make("rg:LetterCount").world
    assert isinstance(world, GuessTheNumber)
    assert world.high == 9


@for_each(
    "name, option, own",
    [
        ("rg:leg_counting", "rg", {"task": "leg_counting"}),
        ("rg", "rg", {}),
        ("logic:RuleTaker-d1", "logic/ruletaker_d1", {}),
        ("math:Math8K-3to5", "math/math_8k_3to5", {}),
        ("code:Taco8k", "code/taco_8k", {}),
        ("qa:HotpotQA", "qa/hotpot_qa", {}),
        ("eval:TriviaQA", "eval/trivia_qa", {}),
    ],
)
def test_ids_of_question_sets_are_options_or_tasks_of_one(name: str, option: str, own: dict[str, str]) -> None:
    assert find_task(name) == (option, own)


@for_each(
    "name, keywords, names",
    [
        (
            "game:GuesTheNumber-v0",
            {},
            ("'game:GuesTheNumber-v0'", "game/guess_the_number"),
        ),
        ("\x1b[2J", {}, (r"'\x1b[2J'", "babyai/go_to")),
        ("countdown", {"max_round": 3}, ("'env.max_round'", "max_rounds")),
        ("countdown", {"max_rounds": "x"}, ("env.max_rounds=x", "integer")),
        ("countdown", {"max_rounds": -1}, ("env.max_rounds=-1",)),
        ("countdown", {"protocol": "boxd"}, ("protocol", "'boxd'", "boxed")),
        ("countdown", {"window": -1}, ("protocol.window=-1",)),
    ],
)
def test_what_is_not_there_is_one_line(name: str, keywords: dict, names: tuple[str, ...]) -> None:
    with raises_naming(ConfigError, *names) as error:
        rlx.gym.make(name, **keywords)
    assert "\n" not in str(error.value)


@for_each(
    "name, gem, ours",
    [
        ("game:GuessTheNumber-v0", {"min_number": 2, "max_number": 9}, {"low": 2, "high": 9}),
        ("game:Mastermind-v0", {"code_length": 3, "num_numbers": 7}, {"length": 3, "highest": 7}),
        ("game:Mastermind-v0", {"duplicate_numbers": True}, {"repeats": True}),
        ("game:Game2048-v0", {"target_tile": 64, "board_size": 5}, {"target": 64, "size": 5}),
        ("game:Sokoban-v0", {"dim_room": (6, 8)}, {"num_rows": 6, "num_columns": 8}),
        ("game:Sudoku-v0", {"scale": 4, "clues": 7}, {"size": 4, "clues": 7}),
        ("game:Wordle-v0", {"word_length": 4, "only_real_words": True}, {"length": 4}),
        ("game:Hangman-v0", {"word_length": 4, "hardcore": False}, {"length": 4}),
        ("game:WordSearch-v0", {"hardcore": True, "num_words": 3}, {"shortest": 6, "longest": 8, "num_words": 3}),
        ("game:Crosswords-v0", {"hardcore": False}, {"shortest": 3, "longest": 5}),
        ("math", {"dataset_name": "a/b", "use_mp": False, "verbose": True}, {"source": "hub", "hub": "a/b"}),
        ("code", {"dataset_name": "a/b", "test_key": "x"}, {"source": "hub", "hub": "a/b", "answer_key": "x"}),
        ("rg", {"name": "chain_sum", "size": 9}, {"task": "chain_sum", "size": 9}),
    ],
)
def test_gems_names_of_keywords_are_understood(name: str, gem: dict, ours: dict) -> None:
    env: Any = rlx.gym.make(name, **gem)
    assert env.world == rlx.gym.make(name, **ours).world
    for key in set(gem) & set(NAMES) - {"name"}:
        assert getattr(env, key) == gem[key]


def rows_in(folder: Path, **columns: Any) -> str:
    file = folder / "rows.jsonl"
    file.write_text(json.dumps(columns) + "\n")
    return str(file)


@pytest.mark.parametrize("name", ["code:Taco8k", "eval:CodeContest"])
def test_programs_are_read_from_the_last_block(name: str, tmp_path: Path) -> None:
    tests = {"inputs": ["3"], "outputs": ["6"]}
    file = rows_in(tmp_path, problem="Double it.", tests=tests)
    env: Any = rlx.gym.make(name, hub=file, test_split="train", split="test")
    assert type(env.protocol).__name__ == "Fenced"
    right, wrong = "print(2 * int(input()))", "print(0)"
    for text, reward in [
        (f"First\n```python\n{wrong}\n```\nno:\n```python\n{right}\n```\nDone.", 1.0),
        (f"```\n{right}\n```", 1.0),
        (f"```python\n{right}\n```\n```python\n{wrong}\n```", 0.0),
        (right, 0.0),
        (rf"\boxed{{{right}}}", 0.0),
    ]:
        env.reset()
        assert env.step(text)[1] == reward, text


@pytest.mark.parametrize("name", ["qa:HotpotQA", "qa:NaturalQuestions", "eval:Musique", "eval:QaOpen"])
def test_answers_in_words_are_read_from_the_last_tag(name: str, tmp_path: Path) -> None:
    file = rows_in(tmp_path, problem="Capital of France?", question="Capital of France?", answer=["Paris", "Paname"])
    env: Any = rlx.gym.make(name, hub=file, test_split="train", split="test")
    for text, reward in [
        ("<think>hm</think> <answer>Rome</answer>, no, <answer>the paris!</answer>.", 1.0),
        ("<answer>Paris</answer> <answer>Rome</answer>", 0.0),
        ("<answer>Rome</answer> <answer>\n Paname\n</answer>", 1.0),
        (r"\boxed{Paris}", 0.0),
        ("Paris", 0.0),
    ]:
        env.reset()
        assert env.step(text)[1] == reward, text


EVALUATIONS = [name for name in list_options("env", [shipped_folder("conf")]) if name.startswith("eval/")]


@pytest.mark.parametrize("name", EVALUATIONS)
def test_evaluations_begin_with_their_first_question_and_play_all(name: str, tmp_path: Path) -> None:
    tests = {"inputs": ["3"], "outputs": ["6"]}
    row = {"problem": "Q", "question": "Q", "answer": "6", "tests": tests}
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row | {"problem": f"Q{i}.", "question": f"Q{i}."}) + "\n" for i in range(600)))
    env: Any = rlx.gym.make("eval:" + name.removeprefix("eval/"), hub=str(file))
    try:
        seen = [env.reset()[0] for _ in range(3)]
    except MistakeError as error:
        if "is not installed" in str(error):
            pytest.skip(str(error))
        raise
    assert all(f"Q{i}." in text for i, text in enumerate(seen))
    assert len(env.dataset) == 600
    assert "Q599." in env.reset(idx=599)[0]


def test_mathematics_and_logic_are_read_from_the_last_box(tmp_path: Path) -> None:
    for name in ("math:GSM8K", "eval:AMC", "logic:RuleTaker-d2", "rg:chain_sum", "game:Wordle-v0"):
        assert type(rlx.gym.make(name).protocol).__name__ == "Boxed"


def test_attributes_that_gems_trainers_read_are_there() -> None:
    env: Any = rlx.gym.make("game:GuessTheNumber-v0-easy", seed=5)
    assert (env.max_turns, env.seed, env.max_number) == (4, 5, 10)
    assert not hasattr(env, "min_numbers")
    with raises_naming(ConfigError, "'env.hardcore'", "unknown"):
        rlx.gym.make("game:Hangman-v0", hardcore=True)


def test_a_data_set_in_memory_is_played() -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"problem": ["1 + 1", "2 + 2"], "answer": ["2", "4"]})
    env: Any = rlx.gym.make("math", dataset=rows, question_key="problem", test_split="train", split="test")
    assert [env.reset(idx=i)[0].splitlines()[1] for i in range(2)] == ["1 + 1", "2 + 2"]
    with raises_naming(MistakeError, "dataset:", "datasets.Dataset"):
        rlx.gym.make("math", dataset=datasets.DatasetDict({"train": rows}))


def test_a_view_that_is_none_is_refused() -> None:
    views = "last, observations, history, chat, chat_on_reset"
    with raises_naming(ValueError, "observation='lats'", views):
        rlx.gym.make("countdown", observation="lats")


def test_all_names_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    rlx.gym.print_envs()
    assert "game/guess_the_number_hard " in capsys.readouterr().out


def test_without_a_model_tools_have_the_limits_of_a_real_model() -> None:
    lend = rlx.gym.make("lend", protocol="tags").world
    assert isinstance(lend, Lend)
    assert isinstance(lend.tool, Python)
    assert lend.tool.max_characters >= 10_000
