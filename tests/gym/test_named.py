"""Names and keywords: GEM's ids by a rule, and one line with near names where there is nothing of the name."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlx.gym
from rlx.config.check import ConfigError
from rlx.env.game.guess_the_number import GuessTheNumber
from rlx.gym.named import find_option, find_task
from rlx.tool.lend import Lend
from rlx.tool.python import Python


@pytest.mark.parametrize(
    ("name", "option"),
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


@pytest.mark.parametrize(
    ("name", "option", "own"),
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


@pytest.mark.parametrize(
    ("name", "keywords", "message"),
    [
        (
            "game:GuesTheNumber-v0",
            {},
            r"^there is no environment 'game:GuesTheNumber-v0'; did you mean .*guess_the_num",
        ),
        ("\x1b[2J", {}, r"^there is no environment '\\x1b\[2J'; there is "),
        ("countdown", {"max_round": 3}, r"^unknown key 'env.max_round'; did you mean max_rounds"),
        ("countdown", {"max_rounds": "x"}, r"^env.max_rounds=x: expected an integer"),
        ("countdown", {"max_rounds": -1}, r"^env.max_rounds=-1: expected "),
        ("countdown", {"protocol": "boxd"}, r"^protocol has no option 'boxd'; did you mean boxed"),
        ("countdown", {"window": -1}, r"^protocol.window=-1: expected "),
    ],
)
def test_what_is_not_there_is_one_line(name: str, keywords: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        rlx.gym.make(name, **keywords)
    assert "\n" not in str(error.value)


def test_a_view_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^observation='lats': expected last, observations, history, chat$"):
        rlx.gym.make("countdown", observation="lats")


def test_all_names_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    rlx.gym.print_envs()
    assert "game/guess_the_number_hard " in capsys.readouterr().out


def test_without_a_model_tools_have_the_limits_of_a_real_model() -> None:
    lend = rlx.gym.make("lend", protocol="tags").world
    assert isinstance(lend, Lend)
    assert isinstance(lend.tool, Python)
    assert lend.tool.max_characters >= 10_000
