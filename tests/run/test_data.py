"""What a run learned from stays what it goes on with: data that were changed are told from those that were there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlx.base.console import Screen
from rlx.env import hub
from rlx.env.countdown import data_set
from rlx.env.countdown.countdown import Countdown
from rlx.env.mixed.mixture import Mixture, Portion
from rlx.env.questions.qa import QA
from rlx.environment.world import data_version_of
from rlx.run.execution import RunError
from rlx.run.stored_evaluation import evaluation_key
from rlx.run.warm import warm_config
from rlx.tool.lend import Lend
from rlx.tool.search import Search
from rlx.training import train
from tests.errors import raises_naming

Build = Callable[..., Any]
QUIET = Screen(silent=True)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    forget()


def forget() -> None:
    """As another process begins: a data set is read once by each."""
    for kept in (hub.digest_of, hub.load_rows, hub.first_stamp, data_set.load_rows):
        kept.cache_clear()


def write(path: Path, *firsts: int) -> str:
    path.write_text("".join(json.dumps({"nums": [i, i + 1, i + 2], "target": 3 * i + 3}) + "\n" for i in firsts))
    forget()
    return str(path)


def test_a_run_does_not_go_on_with_other_data(tmp_path: Path, small_run: Build) -> None:
    path = tmp_path / "rows.jsonl"
    words = ("env.source=hub", f"env.hub={write(path, *range(1, 90))}")
    before = small_run(tmp_path / "run", *words, "steps=1")
    train(before, QUIET)
    kept, warm = evaluation_key(before, 0), warm_config(before)
    write(path, *range(2, 90))
    changed = small_run(tmp_path / "run", *words, "steps=2")
    with raises_naming(RunError, "step-1", "env", "checkpoint.accept="):
        train(changed, QUIET)
    assert kept != evaluation_key(changed, 0)
    assert warm != warm_config(changed)
    write(path, *range(1, 90))
    train(changed, QUIET)
    assert (kept, warm | {"steps": 2}) == (evaluation_key(changed, 0), warm_config(changed))


def test_data_are_told_by_what_is_in_them(tmp_path: Path) -> None:
    first, other = write(tmp_path / "first.jsonl", 5), write(tmp_path / "other.jsonl", 5)
    env = Countdown(source="hub", hub=first)
    (tmp_path / "folder").mkdir()
    write(tmp_path / "folder" / "train.jsonl", 5)
    told = [data_version_of(one) for one in (env, Countdown(source="hub", hub=str(tmp_path / "folder")))]
    assert data_version_of(env) == data_version_of(Countdown(source="hub", hub=other))
    assert data_version_of(Mixture(parts={"a": Portion(env=env), "b": Portion(env=QA())})) == told[0]
    assert data_version_of(Lend(env=QA(max_rounds=2), tool=Search(pages=["a"]))) != data_version_of(
        Lend(env=QA(max_rounds=2), tool=Search(pages=["b"]))
    )
    write(tmp_path / "first.jsonl", 6)
    write(tmp_path / "folder" / "train.jsonl", 6)
    assert data_version_of(env) != told[0]
    assert data_version_of(Countdown(source="hub", hub=str(tmp_path / "folder"))) != told[1]


def test_what_reads_nothing_here_has_no_data() -> None:
    for env in (
        Countdown(),
        QA(),
        QA(source="hub", hub="owner/name"),
        Lend(env=QA(max_rounds=2), tool=Search(pages=())),
    ):
        assert data_version_of(env) == ""


def other_than_before(path: Path) -> None:
    """Written beside and put in its place, as an editor does."""
    beside = path.with_suffix(".new")
    beside.write_text(path.read_text())
    beside.replace(path)


@pytest.mark.parametrize("where", ["rows.jsonl", "folder/train.jsonl"])
@pytest.mark.parametrize("first", ["edition", "rows"])
def test_an_edition_never_names_other_rows_than_those_that_are_played(tmp_path: Path, where: str, first: str) -> None:
    path = tmp_path / where
    path.parent.mkdir(exist_ok=True)
    write(path, 5)
    name = str(path if path.parent == tmp_path else path.parent)
    steps = [lambda: hub.edition(name), lambda: hub.load_rows(name), lambda: data_set.load_rows(name)]
    before, *after = steps if first == "edition" else reversed(steps)
    before()
    other_than_before(path)
    for step in after:
        with raises_naming(hub.DataError, f"env.hub={name}", "changed"):
            step()
    forget()
    for step in steps:
        step()
