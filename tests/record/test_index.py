"""The index of a file of episodes: right for files that are whole, grow, are cut back, replaced, damaged or hostile."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.runs import index
from rlx.runs.index import num_lines_of, open_index, places_of
from rlx.runs.rows import LONGEST_NAME, Head, Row, short_name
from rlx.runs.store import growing, save
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


def read(path: Path) -> tuple[Head, list[Row]]:
    with open_index(path) as found:
        return found.head, list(found.rows())


def tasks(path: Path) -> list[str]:
    head, rows = read(path)
    return [head.strings[row.task] for row in rows]


def place_of(path: Path) -> Path:
    """Return the index of a file that nobody is writing."""
    return places_of(path)[0]


def test_a_row_has_the_episode_s_numbers(file: Path) -> None:
    head, rows = read(file)
    row = rows[1]
    assert (row.line, row.group, row.sample, row.turns, row.tokens, row.calls, row.failed) == (2, 1, 7, 2, 7, 4, 2)
    assert (row.reward, row.success, row.parent, head.strings[row.env]) == (1.5, 1, -1, "part")
    assert tasks(file) == ["a", "b", "a"]
    assert file.read_bytes()[row.offset : row.offset + row.size] == file.read_bytes().splitlines(keepends=True)[1]


def test_a_fork_s_own_tokens_and_what_was_trained_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "trajectories" / "step-000001.jsonl"
    turns = (turn(3), replace(turn(4), reply={"reply/only_action": 1.0}), turn(5, kind="invalid"))
    one = replace(episode("a", 2, *turns), fork=Fork(parent=1, turn=1, token=1, forced=(1,)), spare=True)
    notes = [[[{}, {"trained": [1.0, 0.0, None, 1.0]}, {}]]]
    save(path, [Group(task=one.task, trajectories=(one,))], max_rounds=None, notes=notes)
    (row,) = read(path)[1]
    assert (row.parent, row.tokens, row.new_tokens, row.trained) == (1, 12, 7, 2)
    assert (row.only_action, row.invalid, row.spare) == (1, 1, 1)
    assert row.new_tokens == one.num_sampled


def test_a_file_has_its_index_as_soon_as_it_is_saved(file: Path) -> None:
    assert num_lines_of(file) == 3


def test_an_index_stands_in_the_cache_and_is_read_as_it_is(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = read(file)
    assert place_of(file).is_file()
    assert [path.name for path in file.parent.iterdir()] == [file.name], "nothing is written beside the file"
    monkeypatch.setattr(index, "renew", None)
    assert read(file) == made


def test_a_new_index_replaces_the_old_file_and_leaves_no_other(file: Path) -> None:
    read(file)
    before = place_of(file).stat().st_ino
    write(file, episode("z"))
    assert tasks(file) == ["z"]
    assert place_of(file).stat().st_ino != before
    assert list(place_of(file).parent.iterdir()) == [place_of(file)]


def test_only_the_lines_that_follow_are_parsed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = file.read_bytes()
    first = whole.index(b"\n") + 1
    file.write_bytes(whole[:first])
    read(file)
    parsed: list[bytes] = []
    loads = json.loads

    def noted(raw: bytes) -> Any:
        parsed.append(raw)
        return loads(raw)

    file.write_bytes(whole)
    monkeypatch.setattr("rlx.runs.rows.json.loads", noted)
    assert tasks(file) == ["a", "b", "a"]
    assert [raw for raw in parsed if isinstance(raw, bytes)] == whole.splitlines(keepends=True)[1:]


def test_a_line_that_is_half_written_is_read_once_it_is_whole(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:-9])
    head, rows = read(file)
    assert (len(rows), head.num_rows, head.is_torn, head.damage) == (2, 2, True, "")
    file.write_bytes(whole)
    head, rows = read(file)
    assert (len(rows), head.num_rows, head.is_torn) == (3, 3, False)


def test_a_file_that_grows_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "trajectories" / "eval-8.partial"
    for number in range(5):
        with growing(path, max_rounds=8) as add:
            add(episode(str(number)))
        assert tasks(path) == [str(one) for one in range(number + 1)]


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
    read(file)
    change(file)
    assert tasks(file) == after


def test_damaged_lines_are_passed_over_counted_and_named(file: Path) -> None:
    first, *rest = file.read_bytes().splitlines(keepends=True)
    bad = [b"garbage\n", b"[" * 10**5 + b"\n", b"{}\n", b'{"trajectory": {"task": 1}}\n', b"\xff\xfe\n", b"\n"]
    file.write_bytes(b"".join([first, *bad, *rest]))
    head, _ = read(file)
    assert (tasks(file), head.num_damaged, head.damaged) == (["a", "b", "a"], 6, (2, 3, 4, 5, 6, 7))
    with open_index(file) as found:
        assert found.find(3) is None
        row = found.find(8)
    assert row is not None
    assert head.strings[row.task] == "b"


def test_a_line_that_is_too_long_is_damaged(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "LONGEST", 2000)
    file.write_bytes(b"x" * 5000 + b"\n" + file.read_bytes() + b"y" * 5000)
    head, rows = read(file)
    assert (head.damaged, len(rows), head.is_torn) == ((1,), 3, True)


def cut_index(good: bytes) -> bytes:
    return good[: len(good) // 2]


def other_version(good: bytes) -> bytes:
    place = good.index(index.VERSION.to_bytes(4, "big"), 60)
    return good[:place] + (99).to_bytes(4, "big") + good[place + 4 :]


@pytest.mark.parametrize(
    "damage", [lambda _: b"", lambda _: bytes(range(256)) * 100, lambda _: b"[" * 10**5, cut_index, other_version]
)
def test_a_damaged_index_is_made_again(file: Path, damage: Callable[[bytes], bytes]) -> None:
    made = read(file)
    place_of(file).write_bytes(damage(place_of(file).read_bytes()))
    assert read(file) == made
    assert read(file) == made
    assert num_lines_of(file) == 3


def test_an_index_that_is_found_damaged_late_is_removed(file: Path) -> None:
    made = read(file)
    with pytest.raises(OSError, match="try again"), open_index(file) as found:
        raise sqlite3.DatabaseError(str(found.place))
    assert not place_of(file).exists()
    assert read(file) == made


def test_an_index_of_another_file_is_not_believed(file: Path) -> None:
    other = file.with_name("step-000004.jsonl")
    write(other, episode("lie"), episode("lie"), episode("lie"))
    read(other)
    read(file)
    os.replace(place_of(other), place_of(file))
    assert tasks(file) == ["a", "b", "a"]


def test_what_lies_in_a_run_s_folder_is_no_index(file: Path) -> None:
    """A folder that someone else packed may hold any file: none of them is opened as an index."""
    for name in (f".{file.name}.columns", f"{file.name}.sqlite", place_of(file).name):
        os.mkfifo(file.with_name(name))
    assert tasks(file) == ["a", "b", "a"]


def test_a_cache_that_cannot_be_written_does_without(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CACHE", "/proc/rlx-cache")
    assert tasks(file) == ["a", "b", "a"]
    monkeypatch.setattr(index, "complete_lines", None)
    assert tasks(file) == ["a", "b", "a"], "this process keeps it"


def test_a_number_that_is_none_stays_none(tmp_path: Path) -> None:
    path = tmp_path / "trajectories" / "step-000001.jsonl"
    write(path, episode("a"), episode("b", 0, turn(reward=float("inf"))))
    path.write_bytes(path.read_bytes().replace(b'"reward":0.5', b'"reward":NaN'))
    first, second = read(path)[1]
    assert (math.isnan(first.reward), second.reward) == (True, math.inf)


def test_more_metrics_of_replies_than_bits_are_counted_as_others(tmp_path: Path) -> None:
    path = tmp_path / "trajectories" / "step-000001.jsonl"
    write(path, episode("a", 0, replace(turn(), reply={f"reply/n{number}": 1.0 for number in range(70)})))
    head, (row,) = read(path)
    assert (row.replies, len(head.replies)) == (2**63 - 1, 62)


@pytest.mark.parametrize("name", ["a" * LONGEST_NAME, "x" * 10**6, "\ud800" * 500, "\x1b[2J\u202e"])
def test_names_of_any_length_are_told_apart(tmp_path: Path, name: str) -> None:
    path = tmp_path / "trajectories" / "step-000001.jsonl"
    write(path, episode(name), episode(name + "."))
    assert len(set(tasks(path))) == 2
    assert tasks(path)[0] == short_name(name)
    assert max(map(len, read(path)[0].strings)) <= LONGEST_NAME


def test_the_measured_agent_s_outcome_is_that_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "trajectories" / "eval-8.jsonl"
    turns = (turn(2, 1.0, agent="anna", rewards={"bert": 5.0}), turn(2, 2.0, agent="bert", outcomes={"bert": True}))
    write(path, episode("a", 0, *turns))
    (row,) = read(path)[1]
    assert (row.reward, row.several) == (1.0, 1)
    (tmp_path / "summary.json").write_text(json.dumps({"agents": {"part": "bert"}}))
    (row,) = read(path)[1]
    assert (row.reward, row.success) == (7.0, 1)


def test_progress_is_told_in_bytes(file: Path) -> None:
    told: list[tuple[int, int]] = []
    place_of(file).unlink()
    with open_index(file, lambda done, total: told.append((done, total))):
        pass
    assert told[-1] == (file.stat().st_size,) * 2
    assert len(told) == 3
