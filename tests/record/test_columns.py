"""Columns of a file of episodes: right for files that are whole, grow, are cut back, replaced, damaged or hostile."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.runs.columns import (
    Columns,
    columns_path,
    load_columns,
    pack_columns,
    read_columns,
    write_columns,
)
from rlx.runs.rows import LONGEST_NAME, short_name
from rlx.runs.store import growing, save, stored_files
from rlx.types import Action, Completion, Fork, Group, Task, Text, ToolUse, Trajectory, Turn


def turn(num: int = 2, reward: float = 0.5, kind: str = "call", **other: Any) -> Turn:
    return Turn(
        prompt_ids=(5,),
        completion=Completion(token_ids=tuple(range(num)), logprobs=(0.0,) * num, stop="stop"),
        action=Action(kind=kind, text="1", name="python" if kind == "call" else ""),  # type: ignore[arg-type]
        observation=(Text("seen"),),
        reward=reward,
        tool=ToolUse(num_calls=2, num_failed=1),
        **other,
    )


def episode(task: str, sample: int = 0, *turns: Turn, success: bool = False) -> Trajectory:
    told = Task(id=task, prompt=(Text("Solve."),), data={}, env="part")
    return Trajectory(task=told, sample=sample, turns=turns or (turn(),), status="done", success=success)


def write(path: Path, *episodes: Trajectory) -> None:
    save(path, [Group(task=one.task, trajectories=(one,)) for one in episodes], max_rounds=8)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trajectories" / "step-000003.jsonl"
    write(path, episode("a"), episode("b", 7, turn(3), turn(4, 1.0, "answer"), success=True), episode("a", 1))
    return path


def tasks(columns: Columns) -> list[str]:
    return [columns.name(row.task) for row in columns.rows()]


def test_a_row_has_the_episode_s_numbers(file: Path) -> None:
    columns = read_columns(file)
    row = columns.row(1)
    assert (row.line, row.group, row.sample, row.turns, row.tokens, row.calls, row.failed) == (2, 1, 7, 2, 7, 4, 2)
    assert (row.reward, row.success, row.parent, columns.name(row.env)) == (1.5, 1, -1, "part")
    assert tasks(columns) == ["a", "b", "a"]
    assert file.read_bytes()[row.at : row.at + row.size] == file.read_bytes().splitlines(keepends=True)[1]


def test_a_fork_s_own_tokens_and_what_was_trained_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "trajectories" / "step-000001.jsonl"
    turns = (turn(3), replace(turn(4), reply={"reply/only_action": 1.0}), turn(5, kind="invalid"))
    one = replace(episode("a", 2, *turns), fork=Fork(parent=1, turn=1, token=1, forced=(1,)), spare=True)
    notes = [[[{}, {"trained": [1.0, 0.0, None, 1.0]}, {}]]]
    save(path, [Group(task=one.task, trajectories=(one,))], max_rounds=None, notes=notes)
    row = read_columns(path).row(0)
    assert (row.parent, row.tokens, row.own_tokens, row.trained) == (1, 12, 7, 2)
    assert (row.only_action, row.invalid, row.spare) == (1, 1, 1)
    assert row.own_tokens == one.num_sampled


def test_columns_that_were_saved_are_those_that_are_read_of_the_file(file: Path) -> None:
    saved = load_columns(file)
    columns_path(file).unlink()
    assert saved == read_columns(file) == load_columns(file)


def test_only_the_lines_that_follow_are_parsed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = file.read_bytes()
    first = whole.index(b"\n") + 1
    file.write_bytes(whole[:first])
    read_columns(file)
    parsed: list[bytes] = []
    loads = json.loads

    def noted(raw: bytes) -> Any:
        parsed.append(raw)
        return loads(raw)

    file.write_bytes(whole)
    monkeypatch.setattr("rlx.runs.columns.json.loads", noted)
    assert tasks(read_columns(file)) == ["a", "b", "a"]
    assert [raw for raw in parsed if raw.startswith(b'{"format"')] == whole.splitlines(keepends=True)[1:]


def test_a_line_that_is_half_written_is_read_once_it_is_whole(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:-9])
    columns = read_columns(file)
    assert (columns.num_rows, columns.is_torn, columns.damage) == (2, True, "")
    file.write_bytes(whole)
    columns = read_columns(file)
    assert (columns.num_rows, columns.is_torn) == (3, False)


def test_a_file_that_grows_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "trajectories" / "eval-8.partial"
    for number in range(5):
        with growing(path, max_rounds=8) as add:
            add(episode(str(number)))
        assert tasks(read_columns(path)) == [str(one) for one in range(number + 1)]


def cut_back(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.read_bytes().index(b"\n") + 1])


def replaced(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"a"', b'"z"'))


def other_beginning(path: Path) -> None:
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first.replace(b'"a"', b'"y"'), *rest]))


@pytest.mark.parametrize(
    ("change", "after"), [(cut_back, ["a"]), (replaced, ["z", "b", "z"]), (other_beginning, ["y", "b", "a"])]
)
def test_a_file_that_was_cut_back_or_replaced_is_read_again(
    file: Path, change: Callable[[Path], None], after: list[str]
) -> None:
    known = read_columns(file)
    change(file)
    assert tasks(read_columns(file, known=known)) == after
    assert tasks(read_columns(file)) == after


def test_damaged_lines_are_passed_over_counted_and_named(file: Path) -> None:
    first, *rest = file.read_bytes().splitlines(keepends=True)
    bad = [b"garbage\n", b"[" * 10**5 + b"\n", b"{}\n", b'{"trajectory": {"task": 1}}\n', b"\xff\xfe\n", b"\n"]
    file.write_bytes(b"".join([first, *bad, *rest]))
    columns = read_columns(file)
    assert (tasks(columns), columns.num_damaged, columns.damaged) == (["a", "b", "a"], 6, (2, 3, 4, 5, 6, 7))
    assert columns.find(3) is None
    found = columns.find(8)
    assert found is not None
    assert columns.name(found.task) == "b"


def test_a_line_that_is_too_long_is_damaged(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlx.runs.columns.LONGEST", 2000)
    file.write_bytes(b"x" * 5000 + b"\n" + file.read_bytes() + b"y" * 5000)
    columns = read_columns(file)
    assert (columns.damaged, columns.num_rows, columns.is_torn) == ((1,), 3, True)


@pytest.mark.parametrize("found", [b"", b"rlxcols1", b"rlxcols1\xff\xff\xff\x7f{}", b"[" * 10**5, bytes(range(256))])
def test_damaged_columns_are_made_again(file: Path, found: bytes) -> None:
    good = columns_path(file).read_bytes()
    columns_path(file).write_bytes(found)
    assert tasks(read_columns(file)) == ["a", "b", "a"]
    assert columns_path(file).read_bytes() == good


def test_columns_that_are_no_regular_file_are_not_waited_for(file: Path) -> None:
    columns_path(file).unlink()
    os.mkfifo(columns_path(file))
    assert read_columns(file).num_rows == 3


def test_columns_of_another_file_are_not_believed(file: Path) -> None:
    lying = replace(read_columns(file), check="0" * 32, state=(0, 0), strings=("lie", "lie", "lie"))
    write_columns(file, lying)
    assert tasks(read_columns(file)) == ["a", "b", "a"]


def test_a_folder_that_cannot_be_written_is_read_all_the_same(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns_path(file).unlink()

    def refuse(*_: Any) -> None:
        raise PermissionError

    monkeypatch.setattr("rlx.runs.columns.os.replace", refuse)
    assert read_columns(file).num_rows == 3
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name]


def test_a_run_s_files_of_episodes_are_without_columns(file: Path) -> None:
    assert stored_files(file.parent.parent) == [file]


@pytest.mark.parametrize("name", ["a" * LONGEST_NAME, "x" * 10**6, "\ud800" * 500, "\x1b[2J\u202e"])
def test_names_of_any_length_are_told_apart(tmp_path: Path, name: str) -> None:
    path = tmp_path / "trajectories" / "step-000001.jsonl"
    write(path, episode(name), episode(name + "."))
    columns = read_columns(path)
    assert len(set(tasks(columns))) == 2
    assert tasks(columns)[0] == short_name(name)
    assert max(map(len, columns.strings)) <= LONGEST_NAME
    stored = load_columns(path)
    assert stored is not None
    assert pack_columns(stored) == pack_columns(columns)


def test_the_measured_agent_s_outcome_is_that_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "trajectories" / "eval-8.jsonl"
    turns = (turn(2, 1.0, agent="anna", rewards={"bert": 5.0}), turn(2, 2.0, agent="bert", outcomes={"bert": True}))
    write(path, episode("a", 0, *turns))
    assert (read_columns(path).row(0).reward, read_columns(path).row(0).several) == (1.0, 1)
    (tmp_path / "summary.json").write_text(json.dumps({"agents": {"part": "bert"}}))
    row = read_columns(path).row(0)
    assert (row.reward, row.success) == (7.0, 1)


def test_progress_is_told_in_bytes(file: Path) -> None:
    columns_path(file).unlink()
    told: list[tuple[int, int]] = []
    read_columns(file, lambda done, total: told.append((done, total)))
    assert told[-1] == (file.stat().st_size,) * 2
    assert len(told) == 3
