"""Questions of a data set: passes over its rows, splits apart, and one line for what cannot be asked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from rlx.env.hub import DataError
from rlx.env.questions.qa import QA
from rlx.types import Action
from tests.errors import raises_naming
from tests.loops import for_each

ROWS = [
    {"question": f"Who is number {i}?", "answer": [f"Person {i}", str(i)], "told": f"{i} is it."} for i in range(60)
]


def write(path: Path, rows: Iterable[Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def open_set(path: Path, rows: Iterable[Any] = ROWS, **keys: Any) -> QA:
    return QA(**{"source": "hub", "hub": write(path / "rows.jsonl", rows), **keys})


def test_rows_are_asked_in_new_orders_and_a_hash_holds_some_out(tmp_path: Path) -> None:
    env = open_set(tmp_path)
    env.check_inputs()
    test = [task.id for task in env.tasks("test", 0)]
    assert 5 < len(set(test)) == len(test) < 30
    assert test == [task.id for task in env.tasks("test", 1)]
    one_pass = 60 - len(test)
    train = [task.id for task in islice(env.tasks("train", 0), 2 * one_pass)]
    assert set(train).isdisjoint(test)
    assert set(train[:one_pass]) == set(train[one_pass:])
    assert train[:one_pass] != train[one_pass:]
    assert len(list(open_set(tmp_path, num_test=3).tasks("test", 0))) == 3


def test_a_row_is_asked_and_judged_by_its_answers(tmp_path: Path) -> None:
    env = open_set(tmp_path, context_key="told")
    task = next(env.tasks("train", 0))
    number = task.data["key"]["golds"][1]
    assert task.prompt[0].text == f"{number} is it.\nQuestion: Who is number {number}?"
    assert env.start(task).step(Action(kind="answer", text=number)).success
    bare = next(open_set(tmp_path, context_key="told", context="none").tasks("train", 0))
    assert (bare.id, bare.prompt[0].text) == (task.id, f"Question: Who is number {number}?")


def test_a_data_set_may_have_a_split_for_the_test(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", ROWS[:40])
    write(tmp_path / "test.jsonl", ROWS[35:])
    env = QA(source="hub", hub=str(tmp_path), test_split="test")
    test = [task.data["answer"] for task in env.tasks("test", 0)]
    assert test == [f"Person {i}" for i in range(35, 60)]
    train = {task.data["answer"] for task in islice(env.tasks("train", 0), 100)}
    assert train == {f"Person {i}" for i in range(35)}


def test_all_questions_are_for_training_where_none_is_for_the_test(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", ROWS)
    env = QA(source="hub", hub=str(tmp_path), test_split="")
    one_pass = [task.id for task in islice(env.tasks("train", 0), len(ROWS))]
    assert len({*one_pass}) == len(ROWS)
    assert list(env.tasks("test", 0)) == []


def test_what_is_all_held_out_trains_nobody(tmp_path: Path) -> None:
    write(tmp_path / "test.jsonl", ROWS)
    env = QA(source="hub", hub=str(tmp_path), split="test", test_split="test")
    assert len(list(env.tasks("test", 0))) == 60
    with raises_naming(DataError, "env.hub=", "'test'"):
        next(env.tasks("train", 0))


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (
            [{"Question": "?", "answers": "x"}],
            ("env.question_key=question", "row 0", "Question"),
        ),
        ([{"question": "?", "answers": "x"}], ("env.answer_key=answer", "row 0", "answers")),
        ([*ROWS, {"question": "?", "answer": []}], ("row 60", "answer")),
        ([{"question": "?", "answer": float("nan")}], ("row 0", "answer")),
        *(
            ([{"question": what, "answer": "x"}], ("row 0", "answer"))
            for what in (None, float("nan"), [], [{"role": "user", "content": "?"}], {}, "", " ")
        ),
        ([[1]], ("row 0", "object")),
        ([], ("no rows",)),
    ],
)
def test_a_data_set_that_cannot_be_asked_is_told_in_one_line(
    tmp_path: Path, rows: list[Any], names: tuple[str, ...]
) -> None:
    env = open_set(tmp_path, rows)
    for look in (env.check_inputs, lambda: list(islice(env.tasks("train", 0), 100))):
        with raises_naming(DataError, *names, tmp_path):
            look()


@for_each("name", ["nowhere", "./no/where", "/no/where", "a/b/c"])
def test_what_is_neither_here_nor_a_hubs_name_is_refused(name: str) -> None:
    with raises_naming(DataError, f"env.hub={name}", "file"):
        QA(source="hub", hub=name).check_inputs()


def test_a_json_file_may_be_a_list(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps(ROWS, indent=1))
    env = QA(source="hub", hub=str(tmp_path / "rows.json"))
    env.check_inputs()
    assert next(env.tasks("train", 0)).data["key"]["golds"][0].startswith("Person ")


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        (b"[]", ("no rows",)),
        (b'{"data": [\n{"question": "?"}]}', ("env.question_key=question", "row 0", "data")),
        (b'[{"question": "?", "answer"', ("line 1", "JSON")),
        (b'{"question": "?", "answer": ' + 5000 * b"9" + b"}", ("line 1", "digits")),
        (b"\n" + 100_000 * b"[", ("line 2", "nested")),
        (b"\0\0", ("line 1", "JSON")),
        ('{"question": "?"}'.encode("utf-16"), ("UTF-8",)),
    ],
)
def test_a_damaged_file_is_told_in_one_line(tmp_path: Path, raw: bytes, names: tuple[str, ...]) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(raw)
    with raises_naming(DataError, *names):
        QA(source="hub", hub=str(path)).check_inputs()


def test_what_is_no_file_is_neither_waited_for_nor_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    names = [str(tmp_path / f"{name}.jsonl") for name in ("pipe", "zero", "loop", "folder", 500 * "x", "a\0b")]
    for name in (*names, "~nobody-is-called-so/x.jsonl", "~nobody-is-called-so", 500 * "x"):
        with pytest.raises(DataError) as caught:
            QA(source="hub", hub=name).check_inputs()
        assert len(str(caught.value)) < 400


def test_a_mark_of_byte_order_and_a_null_context_are_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"question": "Who is \\ud800?", "answer": "x", "told": null}\n')
    task = next(QA(source="hub", hub=str(path), test_split="train", context_key="told").tasks("test", 0))
    assert task.prompt[0].text == "Question: Who is ??"
