"""The table of a run's episodes as it grows: what is sent is what the page lacks, and no row is lost or shown twice."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlx.runs.store import growing
from rlx.types import Fork
from rlx.view import episodes
from tests.view.conftest import Page, episode, turn, unpack, write

FOLDER = "trajectories"
Change = Callable[[Path], None]


def ask(page: Page, mark: str = "") -> tuple[dict[str, Any], str]:
    """Return a table, or what came after that of the mark, with the mark of what it is now."""
    reply = page.get("api/episodes", run="run", **({"mark": mark} if mark else {}))
    assert reply.status == 200, reply.body
    return unpack(reply.body), reply.headers["ETag"].strip('"')


def merged(old: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    """Put a table together as the page does."""
    if not added["base"]:
        return added
    first = {file["name"]: file["first"] for file in old["files"]}
    names = [column["name"] for column in added["columns"]]
    whole: dict[str, Any] = {name: [] for name in names}
    at = 0
    for number, file in enumerate(added["files"]):
        new = file["rows"] - file["kept"]
        for name in names:
            whole[name] += old[name][first.get(file["name"], 0) :][: file["kept"]] + added[name][at : at + new]
        whole["file"][file["first"] :] = [number] * file["rows"]
        at += new
    return {**added, **whole, "strings": old["strings"][: added["kept_strings"]] + added["strings"]}


def shown(table: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a table as somebody reads them."""
    words = [[table["strings"][number] for number in table[name]] for name in ("task", "env")]
    files = [table["files"][number]["name"] for number in table["file"]]
    numbers = [table[column["name"]] for column in table["columns"] if column["name"] not in ("task", "env", "file")]
    return list(zip(files, *words, *numbers, strict=True))


def add_step(run: Path) -> None:
    write(run / FOLDER / "step-000003.jsonl", (episode("d", 0, turn("x")), episode("d", 1, turn("y"))))


def add_playing(run: Path) -> None:
    for name in ("e", "e", "f"):
        with growing(run / FOLDER / "start-8.key-0.partial", max_rounds=8) as add:
            add(episode(name, 0, turn("2")))


def add_fork(run: Path) -> None:
    with growing(run / FOLDER / "start-8.key-0.partial", max_rounds=8) as add:
        add(episode("e", 5, turn("2"), turn("3"), fork=Fork(parent=0, turn=1)))


def cut_back(run: Path) -> None:
    (run / FOLDER / "step-000003.jsonl").unlink()


def replace_file(run: Path) -> None:
    write(run / FOLDER / "step-000002.jsonl", (episode("new", 0, turn("9", 2.0)),))


def damage(run: Path) -> None:
    with open(run / FOLDER / "eval-8.jsonl", "ab") as file:
        file.write(b"garbage\n")


def remove_all(run: Path) -> None:
    shutil.rmtree(run / FOLDER)


CHANGES = (add_step, add_playing, add_fork, damage, cut_back, replace_file, add_step, remove_all, add_step)


def test_what_came_since_makes_the_whole_table_whatever_happened(page: Page, run: Path) -> None:
    table, mark = ask(page)
    for change in CHANGES:
        change(run)
        added, mark = ask(page, mark)
        assert added["base"]
        table = merged(table, added)
        assert shown(table) == shown(ask(page)[0]), change.__name__
        assert [file["damage"] for file in table["files"]] == [file["damage"] for file in ask(page)[0]["files"]]


@pytest.mark.parametrize(("change", "num"), [(add_step, 2), (add_playing, 3), (damage, 0), (replace_file, 1)])
def test_only_new_rows_and_strings_are_sent(page: Page, run: Path, change: Change, num: int) -> None:
    table, mark = ask(page)
    change(run)
    added, _ = ask(page, mark)
    assert (added["base"], added["sent"], len(added["line"])) == (mark, num, num)
    assert not set(added["strings"]) & set(table["strings"])


def test_rows_of_a_growing_file_are_sent_once(page: Page, run: Path) -> None:
    add_playing(run)
    _, mark = ask(page)
    with growing(run / FOLDER / "start-8.key-0.partial", max_rounds=8) as add:
        add(episode("g", 0, turn("2")))
    assert ask(page, mark)[0]["sent"] == 1


def test_nothing_is_sent_if_nothing_came(page: Page, run: Path) -> None:
    _, mark = ask(page)
    reply = page.get("api/episodes", run="run", mark=mark)
    assert (reply.status, reply.body) == (204, b"")


@pytest.mark.parametrize("mark", ["x", "0" * 24, "\0", "x" * 5000])
def test_the_whole_table_is_sent_for_a_mark_that_is_unknown(page: Page, run: Path, mark: str) -> None:
    table, _ = ask(page, mark)
    assert (table["base"], table["sent"], table["rows"]) == ("", 5, 5)


def test_the_whole_table_is_sent_for_a_mark_of_long_ago(page: Page, run: Path) -> None:
    _, mark = ask(page)
    for step in range(3, 4 + episodes.MOST_FORMER):
        write(run / FOLDER / f"step-{step:06}.jsonl", (episode("d", step, turn("x")),))
        ask(page)
    assert ask(page, mark)[0]["base"] == ""
