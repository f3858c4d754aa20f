"""`rlx keys` as text, on 80 columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.commands.keys import describe_keys
from rlx.settings.compose import ConfigError
from tests.errors import raises_naming


def test_one_key_is_told_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    told = describe_keys(["algo=grpo", "algo.eps=1e-4", "algo.eps"]).splitlines()
    assert told[:2] == ["algo.eps=0.0001", "  Constant added to the divisor."]
    assert told[2:4] == ["  type     a number", "  default  1e-06"]
    assert told[4] == "  defined  by its target's own default"
    told = describe_keys(["algo=grpo", "algo.num_prompts"]).splitlines()
    assert told[-1].startswith("  defined  conf/algo/grpo.yaml:")


def test_a_group_is_told_with_its_option_and_all_its_keys() -> None:
    told = describe_keys(["algo=grpo"])
    assert told.startswith("algo=grpo\n  Group-relative policy optimisation")
    assert "  algo.optimizer:\n" in told
    assert told == describe_keys(["algo=grpo", "algo"])
    assert describe_keys(["seed", "steps"]).count("type     an integer") == 2


def test_everything_fits_80_columns() -> None:
    told = describe_keys([])
    assert "warm_start.algo.optimizer.lr=" in told
    assert max(map(len, told.splitlines())) <= 80


def test_an_argument_whose_default_is_no_plain_value_is_named(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "mine.yaml").write_text("# Mine\n_target_: rlx.env.countdown.countdown.Countdown\n")
    told = describe_keys(["env=mine", "env"], tmp_path)
    assert "It also takes +env.python." in told
    assert "env.lambda_call=0.02\n      Cost of a tool call." in told
    with raises_naming(ConfigError, "-cd /nowhere:", "folder"):
        describe_keys([], Path("/nowhere"))
