"""What help says is true, and fits 80 columns."""

from __future__ import annotations

import re
import shlex

from rlx.commands.guide import (
    EXAMPLES,
    columns,
    describe_group,
    describe_groups,
    eval_help,
    families_of,
    listed_groups,
    presets_of,
    train_help,
)
from rlx.settings.arms import arms_of, read_papers
from rlx.settings.check import ConfigError
from rlx.settings.compose import compose, list_groups, list_options
from rlx.settings.folders import every_group
from tests.errors import raises_naming
from tests.loops import for_each

PAGES = {"train": train_help(), "eval": eval_help()}
SHOWN = [line.strip() for line in (EXAMPLES + "".join(PAGES.values())).splitlines() if line.strip().startswith("rlx ")]


@for_each("page", [EXAMPLES, *PAGES.values(), describe_groups()])
def test_a_page_is_at_most_80_columns_wide(page: str) -> None:
    assert max(map(len, page.splitlines())) <= 80


@for_each("line", [line for line in SHOWN if re.match(r"rlx (train|eval|plan) [^[]*$", line)])
def test_what_an_example_says_composes(line: str) -> None:
    words = shlex.split(line.partition("    ")[0])[2:]
    assert compose([word for word in words if not word.startswith("run=")])


def test_the_default_of_every_group_is_marked() -> None:
    for group in set(list_groups()) - {"sweep", "example", "paper", "policy"}:
        option = re.search(rf"^  {group} (.|\n   )*?(\w+)\*", PAGES["train"], re.MULTILINE)
        assert option, group
    assert "quick" in PAGES["eval"]


def test_columns_wrap_what_is_said_beside_its_name() -> None:
    assert columns({"a": "one two", "long": ""}, width=12) == "  a     one\n        two\n  long"


def test_families_stand_together_and_presets_behind_what_they_begin_as() -> None:
    names = ["b", "a_hard", "a", "game/y_easy", "game/x", "game/y", "game/x_y"]
    assert families_of(names) == {"": ["a", "a_hard", "b"], "game": ["game/x", "game/x_y", "game/y", "game/y_easy"]}
    assert presets_of(["a_hard", "b", "a", "ab", "a_very_hard"]) == {"a": ["_hard", "_very_hard"], "ab": [], "b": []}
    page = " ".join(describe_groups().split())
    assert "game/guess_the_number (_easy, _hard, _random)" in page
    assert "countdown* (_4digit" in page
    blocks = describe_group("env").split("\n\n")
    assert "\ncountdown " in f"\n{blocks[0]}"
    assert all(len({line.partition(" ")[0].rpartition("/")[0] for line in block.splitlines()}) == 1 for block in blocks)
    assert len(describe_group("env").replace("\n\n", "\n").splitlines()) == len(list_options("env"))


def test_arms_are_listed_by_preset_with_their_place_in_the_paper() -> None:
    assert set(every_group()) < set(listed_groups())
    page = describe_group("arm")
    arms = [(preset, name) for paper in read_papers().values() for preset, of in paper["arms"].items() for name in of]
    assert len(page.replace("\n\n", "\n").splitlines()) >= len(arms) > 90
    for preset, name in arms:
        assert f"\n{preset}/{name} " in f"\n{page}"
        assert arms_of([preset])[name].title.split()[0] in page
    with raises_naming(ConfigError, "arms", "arm"):
        describe_group("arms")
