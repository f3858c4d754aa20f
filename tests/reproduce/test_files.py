"""A reproduction that is another one with other seeds, or without some of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.lab.reproduce.answers import bands_of
from rlx.lab.reproduce.files import read_reproduction
from rlx.lab.reproduce.papers import register
from rlx.lab.reproduce.reproduction import ReproductionError
from tests.errors import raises_naming

WHOLE: dict[str, Any] = {
    "source": "a paper",
    "runs": {"one": {"per_seed": True}, "two": {}, "three": {"needs": ["two"]}},
    "ks": [1, 2],
    "rows": {"first": "one eval-2", "second": "two eval-2", "third": "three eval-2"},
    "gains": {"first over second": ["one eval-2", "two eval-2"], "second over third": ["two eval-2", "three eval-2"]},
    "curves": {
        "Rewards": {"metric": "reward/mean", "runs": ["one", "three"]},
        "Losses": {"metric": "loss", "runs": ["three"]},
    },
    "bars": {
        "Bars": {"rows": ["first", "third"], "figures": ["pass@1"]},
        "Third": {"rows": ["third"], "figures": ["pass@1"]},
    },
    "frontiers": {
        "Calls": {"rows": ["first", "third"], "line": ["first", "third"], "across": "tool/calls", "up": "pass@1"}
    },
    "comparisons": {"turns": {"operands": ["one batch/turns", "two batch/turns"]}},
    "published": {"first": {"pass@1": 0.5}, "third": {"pass@1": 0.5}},
    "expected": {
        "first": {"pass@1": [0, 1]},
        "third": {"pass@1": [0, 1]},
        "turns": {"ratio": [0, 9]},
        "Rewards": {"one": [0, 1], "three": [0, 1]},
        "Losses": {"three": [0, 1]},
    },
    "claims": {
        "a": {"row": "first over second", "figure": "pass@1", "least": 0},
        "b": {"row": "second over third", "figure": "pass@1", "least": 0},
    },
}
LEFT: dict[str, Any] = {
    **WHOLE,
    "seeds": 5,
    "runs": {"one": {"per_seed": True}, "two": {}},
    "rows": {"first": "one eval-2", "second": "two eval-2"},
    "gains": {"first over second": ["one eval-2", "two eval-2"]},
    "curves": {"Rewards": {"metric": "reward/mean", "runs": ["one"]}},
    "bars": {"Bars": {"rows": ["first"], "figures": ["pass@1"]}},
    "frontiers": {"Calls": {"rows": ["first"], "line": ["first"], "across": "tool/calls", "up": "pass@1"}},
    "published": {"first": {"pass@1": 0.5}},
    "expected": {"first": {"pass@1": [0, 1]}, "turns": {"ratio": [0, 9]}, "Rewards": {"one": [0, 1]}},
    "claims": {"a": {"row": "first over second", "figure": "pass@1", "least": 0}},
}


def write(folder: Path, name: str, tree: Mapping[str, Any]) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(dict(tree)))
    return path


def test_a_variant_is_the_other_file_with_its_seeds_and_without_all_that_names_a_run_left_out(tmp_path: Path) -> None:
    write(tmp_path, "whole", WHOLE)
    variant = write(tmp_path, "variant", {"like": "whole", "seeds": 5, "without": ["three"]})
    assert read_reproduction(variant) == read_reproduction(write(tmp_path, "left", LEFT))


def test_a_variant_without_nothing_has_other_seeds_alone(tmp_path: Path) -> None:
    write(tmp_path, "whole", WHOLE)
    variant = write(tmp_path, "variant", {"like": "whole", "seeds": 7})
    assert read_reproduction(variant) == read_reproduction(write(tmp_path, "seven", {**WHOLE, "seeds": 7}))


@pytest.mark.parametrize(
    ("tree", "named"),
    [
        ({"like": "whole", "seeds": 5, "without": ["thre"]}, ("without", "'thre'", "three")),
        ({"like": "whole", "seeds": 5, "without": ["two"]}, ("three", "'two'")),
        ({"like": "whole", "seeds": 5, "without": ["one", "two", "three"]}, ("runs",)),
        ({"like": "whole", "seeds": 0}, ("seeds",)),
        ({"like": "whole"}, ("seeds",)),
        ({"like": "whole", "seeds": 5, "rows": {}}, ("rows",)),
        ({"like": "../whole", "seeds": 5}, ("like", "'../whole'")),
        ({"like": "gone", "seeds": 5}, ("gone.yaml",)),
        ({"like": "variant", "seeds": 5}, ("variant", "like")),
        ({"like": 3, "seeds": 5}, ("like",)),
    ],
)
def test_what_a_variant_cannot_be_is_one_line_that_names_it(
    tmp_path: Path, tree: Mapping[str, Any], named: tuple[str, ...]
) -> None:
    write(tmp_path, "whole", WHOLE)
    with raises_naming(ReproductionError, "variant.yaml", *named):
        read_reproduction(write(tmp_path, "variant", tree))


def test_a_file_with_a_paper_refers_to_its_tables_and_claims(tmp_path: Path) -> None:
    """Figures and claims are the registry's; bands have marks."""
    tree = {
        "paper": "tool_rloo",
        "source": "s",
        "runs": {"one": {"per_seed": True}},
        "rows": {"ours": "one eval-8"},
        "published": {"ours": ["Table 2: Tool-RLOO", "Table 2: Tool-SFT", "Table 3: Tool-RLOO"]},
        "expected": {"ours": {"pass@1": [0, 1], "reward": [0, 1]}},
        "marks": {"ours": {"reward": "added"}},
    }
    what = read_reproduction(write(tmp_path, "own", tree))
    assert what.published["ours"]["pass@16"] == (0.86, 0.74)
    assert what.published["ours"]["tool/calls"] == (4.63,)
    assert [claim.mark for claim in bands_of(what)] == ["", "added after results"]
    moved = read_reproduction(write(tmp_path, "moved", {**tree, "marks": {"ours": {"pass@1": "[0.5, 1]"}}}))
    assert [claim.mark for claim in bands_of(moved)] == ["changed after results: [0.5, 1]", ""]
    for changes, named in (
        ({"paper": "tool_rlo"}, ("tool_rlo", "tool_rloo")),
        ({"paper": 3}, ("paper",)),
        ({"published": {"ours": ["Table 22: Tool-RLOO"]}}, ("Table 22", "Table 2")),
        ({"published": {"ours": ["Table 2: Tool-RLO"]}}, ("Table 2", "Tool-RLO", "Tool-RLOO")),
        ({"published": {"ours": {"pass@1": 0.5}}}, ("published.ours",)),
        ({"claims": ["Tool-RLOO flies"]}, ("claims", "Tool-RLOO flies")),
        ({"claims": ["Tool-RLOO raises the reward by .037"]}, ("claims", "tool_rloo", "wrong")),
        ({"claims": {"a": {"row": "ours", "figure": "pass@1", "least": 0}}}, ("claims",)),
        ({"marks": {"ours": {"pass@4": "added"}}}, ("marks", "'pass@4'")),
        ({"marks": {"other": {"pass@1": "added"}}}, ("marks", "other")),
    ):
        with raises_naming(ReproductionError, "wrong.yaml", *named):
            read_reproduction(write(tmp_path, "wrong", {**tree, **changes}))


def test_a_table_of_the_registry_has_a_number_for_each_column_and_names_what_is_wrong() -> None:
    table = {"where": "here", "columns": [["A", "pass@1", 0.01], ["B"]], "rows": {"x": [50, 2], "y": [None, 3]}}
    for changes, named in (
        ({"rows": {"x": [50]}}, ("x", "2 columns")),
        ({"columns": [["A", 3]]}, ("title, figure",)),
        ({"columns": [["A", "b", 1, "c", "d"], ["B"]]}, ("title, figure",)),
        ({"rows": {"x": [50, "two"]}}, ("number",)),
        ({"wher": 1}, ("'wher'",)),
    ):
        with raises_naming(ValueError, "paper", *named):
            register("paper", {"tables": {"T": {**table, **changes}}})
    figures = register("paper", {"tables": {"T": table}}).tables["T"].figures
    assert figures == {"x": {"pass@1": 0.5}}, "what is not printed is no figure"
