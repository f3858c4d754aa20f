"""A damaged or hostile folder: what is intact is shown, what is not is named, and nothing outside of it is read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlx.runs.index import places_of
from rlx.view import runs
from tests.view.conftest import Page, episode, turn, write, write_run

Harm = Callable[[Path], None]
SECRET = "a secret of another folder"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 20)


def other_json(path: Path) -> None:
    path.write_text('[{"a": 1}, null]\n{"step": [1], "x": {}}\n{"trajectory": {"turns": 3}}\n')


def deep(path: Path) -> None:
    path.write_text("[" * 10**5 + "\n")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link_out(path: Path) -> None:
    path.unlink()
    other = path.parents[4] / "other.txt"
    other.write_text(json.dumps({"status": SECRET, "step": 1, "words": [SECRET]}) + "\n")
    path.symlink_to(other)


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def huge(path: Path) -> None:
    """A file of a terabyte that takes no space."""
    os.truncate(path, 2**40)


def gone(path: Path) -> None:
    path.unlink()


HARMS = (cut, empty, binary, other_json, deep, pipe, folder, link_out, loop, gone)
FILES = (
    "config.yaml",
    "metrics.jsonl",
    "summary.json",
    "command.json",
    "results.md",
    ".lock",
    "trajectories/eval-8.jsonl",
    "trajectories/step-000002.jsonl",
)


@pytest.fixture
def bad(tmp_path: Path, page: Page, run: Path) -> Path:
    return write_run(run.parent / "bad" / "a" / "b")


def ask_everything(page: Page, name: str) -> dict[str, Any]:
    """Ask every door of a run; each answers, or says in a line why not."""
    asked = {
        "config": {},
        "metrics": {},
        "episode": {"file": "step-000002.jsonl", "line": 3},
        "group": {"file": "step-000002.jsonl", "group": 0},
        "pictures": {"file": "eval-8.jsonl", "line": 1},
        "search": {"q": "secret"},
    }
    found = {"table": page.table(name)}
    for door, query in asked.items():
        reply = page.get(f"api/{door}", run=name, **query)
        assert reply.status in (200, 404, 422), (door, reply.body)
        assert SECRET not in reply.body.decode(errors="replace"), door
        assert reply.status == 200 or set(reply.value) == {"error"}
        found[door] = reply.value
    return found


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_hides_no_other(page: Page, run: Path, bad: Path, name: str, harm: Harm) -> None:
    if not (bad / name).exists():
        (bad / name).write_text('{"host": "h", "pid": 1, "job": ""}\n')
    harm(bad / name)
    found = ask_everything(page, "bad/a/b")
    told = {one["id"]: one for one in page.api("runs")["runs"]}
    assert told["run"]["damage"] == []
    assert set(told) == {"run", "bad/a/b"}
    assert SECRET not in json.dumps(told)
    others = [file for file in found["table"]["files"] if f"trajectories/{file['name']}" != name]
    assert all(file["rows"] and not file["damage"] for file in others)
    assert len(others) == (1 if name.startswith("trajectories/") else 2)
    if name != "metrics.jsonl":
        assert found["metrics"]["steps"] == [1, 2, 3]


NAMED = [
    ("config.yaml", binary, "config.yaml"),
    ("config.yaml", gone, "config.yaml"),
    ("config.yaml", link_out, "config.yaml"),
    ("summary.json", cut, "summary.json"),
    ("summary.json", pipe, "summary.json"),
    ("metrics.jsonl", other_json, "metrics.jsonl"),
    ("metrics.jsonl", link_out, "metrics.jsonl"),
    ("metrics.jsonl", pipe, "metrics.jsonl"),
    ("trajectories/eval-8.jsonl", link_out, "eval-8.jsonl"),
    ("trajectories/eval-8.jsonl", pipe, "eval-8.jsonl"),
    ("trajectories/eval-8.jsonl", folder, "eval-8.jsonl"),
]


@pytest.mark.parametrize(("name", "harm", "named"), NAMED)
def test_what_is_damaged_is_named(page: Page, bad: Path, name: str, harm: Harm, named: str) -> None:
    harm(bad / name)
    (told,) = (one for one in page.api("runs")["runs"] if one["id"] == "bad/a/b")
    assert any(named in line for line in told["damage"])
    assert all("\n" not in line and len(line) < 400 for line in told["damage"])


def test_damaged_lines_of_episodes_are_counted_and_the_others_shown(page: Page, run: Path) -> None:
    file = run / "trajectories" / "eval-8.jsonl"
    first, *rest = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([first, b"garbage\n", *rest, b'{"torn']))
    table = page.table("run")
    told = table["files"][1]
    assert (told["rows"], table["line"][-2:]) == (2, [1, 3])
    assert "1 of 3 lines" in told["damage"]
    assert "cut short" in told["damage"]
    assert page.get("api/episode", run="run", file="eval-8.jsonl", line=2).status == 404
    assert page.get("api/episode", run="run", file="eval-8.jsonl", line=3).status == 200


def test_a_line_that_has_a_row_and_is_no_episode_is_named(page: Page, run: Path) -> None:
    file = run / "trajectories" / "eval-8.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"stop":"stop"', b'"stop":"never"', 1))
    assert page.table("run")["files"][1]["rows"] == 2
    reply = page.get("api/episode", run="run", file="eval-8.jsonl", line=1)
    assert (reply.status, "stop" in reply.value["error"]) == (422, True)
    (member,) = page.api("group", run="run", file="eval-8.jsonl", group=0)["members"]
    assert (member["turns"], "stop" in member["damage"]) == ([], True)


@pytest.mark.parametrize("harm", [cut, empty, binary], ids=lambda harm: harm.__name__)
def test_an_index_is_made_again(page: Page, run: Path, harm: Harm) -> None:
    file = run / "trajectories" / "eval-8.jsonl"
    assert page.table("run")["rows"] == 5
    harm(places_of(file)[0])
    os.utime(file)
    assert page.table("run")["rows"] == 5
    assert page.api("episode", run="run", file="eval-8.jsonl", line=1)["success"]
    assert page.api("search", run="run", q="solve")["of"] == 5


@pytest.mark.parametrize("name", ["metrics.jsonl", "config.yaml", "summary.json", "results.md"])
def test_a_huge_file_is_not_read_whole(page: Page, run: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_CHECKED", 2**20)
    monkeypatch.setattr("rlx.view.metrics.MOST_METRICS", 2**20)
    huge(run / name)
    (told,) = page.api("runs")["runs"]
    assert told["id"] == "run"
    assert page.get("api/config", run="run").status == 200
    assert page.api("metrics", run="run")["steps"] == [1, 2, 3]


def test_a_huge_file_of_episodes_is_read_up_to_where_no_line_ends(
    page: Page, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlx.runs.index.SKIPPED", 2**20)
    monkeypatch.setattr("rlx.runs.index.LONGEST", 2**19)
    huge(run / "trajectories" / "eval-8.jsonl")
    table = page.table("run")
    assert (table["rows"], "cut short" in table["files"][1]["damage"]) == (5, True)


def test_a_folder_of_episodes_that_leads_out_is_not_read(page: Page, run: Path) -> None:
    other = run.parent.parent / "elsewhere"
    (run / "trajectories").rename(other)
    (run / "trajectories").symlink_to(other)
    assert page.table("run")["rows"] == 0
    assert any("trajectories" in line for line in page.api("runs")["runs"][0]["damage"])


EVIL = (
    "<script>alert(1)</script>",
    "</script><!--",
    "\x1b[2J\x1b]0;title\x07",
    "\u202ereversed\u2066",
    "\ud800 alone \udfff",
    "\u2028\u2029\0",
    '"; DROP TABLE words; --',
    "x" * 1_100_000,
)


@pytest.mark.parametrize("text", EVIL, ids=range(len(EVIL)))
def test_hostile_text_arrives_as_it_is_and_in_ascii(page: Page, run: Path, text: str) -> None:
    file = run / "trajectories" / "eval-8.jsonl"
    write(file, (episode(text, 0, turn(text, 1.0, text, kind="call", metrics={text[:100]: 1.0})),))
    with open(run / "metrics.jsonl", "a") as metrics:
        metrics.write(json.dumps({"step": 4, text: 1.0}) + "\n")
    reply = page.get("api/episode", run="run", file="eval-8.jsonl", line=1)
    assert reply.body.isascii()
    told = reply.value["turns"][0]
    assert (told["action"], told["observation"]) == (text[:1_000_000],) * 2
    assert told.get("cut", {}).get("action", 0) == max(0, len(text) - 1_000_000)
    table = page.table("run")
    assert table["rows"] == 4
    assert max(map(len, table["strings"])) <= 300
    assert page.api("metrics", run="run")["columns"][text] == [None, None, None, 1.0]
    assert page.get("api/search", run="run", q=text[:500]).status in (200, 400)


def test_a_metric_s_value_that_is_no_number_is_null(page: Page, run: Path) -> None:
    (run / "metrics.jsonl").write_text(
        '{"step": 1, "a": "1", "b": true, "c": 1e999, "d": [1], "e": ' + "9" * 400 + "}\n"
    )
    found = page.api("metrics", run="run")
    assert found["damaged"] == 0
    assert found["columns"] == {name: [None] for name in "abcde"}


def test_metrics_with_very_many_names_are_cut(page: Page, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlx.view.metrics.MOST_NAMES", 10)
    (run / "metrics.jsonl").write_text(json.dumps({"step": 1} | {f"n{i}": i for i in range(100)}) + "\n")
    assert len(page.api("metrics", run="run")["columns"]) == 10


def test_a_folder_whose_name_is_no_text_has_an_id_that_can_be_asked_for(page: Page, run: Path) -> None:
    write_run(Path(os.fsdecode(os.fsencode(run.parent) + b"/\xff<b>\n")))
    page.server.view.places._looked = 0.0
    names = [one["id"] for one in page.api("runs")["runs"]]
    (evil,) = set(names) - {"run"}
    assert page.table(evil)["rows"] == 5


def test_values_that_no_run_writes_fit_the_columns(page: Page, run: Path) -> None:
    file = run / "trajectories" / "eval-8.jsonl"
    line = json.loads(file.read_text().splitlines()[0])
    line["group"], line["trajectory"]["sample"] = 10**30, 10**30
    line["trajectory"]["turns"][0]["tool"] = [10**30, 10**30, 0, 0]
    line["trajectory"]["turns"][0]["reward"] = "inf"
    file.write_text(json.dumps(line) + "\n")
    table = page.table("run")
    assert (table["group"][-1], table["sample"][-1], table["calls"][-1]) == (2**32 - 1, 2**31 - 1, 2**32 - 1)
    assert table["reward"][-1] == float("inf")
    assert page.get("api/group", run="run", file="eval-8.jsonl", group=2**32 - 1).status == 200
