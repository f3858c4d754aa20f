"""`rlx data build-index` and `rlx serve retriever`, as a user types them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from rlx.tool.retrieval.client import Client
from tests.errors import assert_mistake

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "pages.jsonl"
    path.write_text("".join(json.dumps({"contents": f'"T{i}"\nword{i} word'}) + "\n" for i in range(9)))
    return path


def test_an_index_is_built_once_and_named(rlx_here: Command, source: Path, tmp_path: Path) -> None:
    words = ("data", "build-index", str(source), str(tmp_path / "index"))
    done = rlx_here(*words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"9 pages in {tmp_path / 'index'}, edition bm25s-2-")
    again = rlx_here(*words)
    assert again.stdout == ""
    assert_mistake(again, tmp_path / "index", "already")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("data", "build-index", "none.jsonl", "index"), ["none.jsonl:", "No such"]),
        (("data", "build-index", "pages.jsonl", "index", "--engine", "lucene"), ["--engine", "'lucene'"]),
        (("serve", "retriever", "none"), ["none", "index folder"]),
        (("serve", "retriever", "."), ["index folder", "index.json"]),
        (("serve", "retriever", "empty.jsonl"), ["empty.jsonl:", "no pages"]),
        (("serve", "retriever", "pages.jsonl", "--host", "256.0.0.1", "--port", "0"), ["--host 256.0.0.1 --port 0:"]),
    ],
)
def test_a_mistake_is_one_line(rlx_here: Command, source: Path, tmp_path: Path, words: tuple, names: list[str]) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    done = rlx_here(*words, cwd=tmp_path)
    assert_mistake(done, *names)


def test_the_old_commands_keep_their_words(rlx_here: Command) -> None:
    assert rlx_here("data", "env=countdown", "--num", "1").stdout.startswith("--- ")
    assert rlx_here("data", "--num", "1", "env=countdown").stdout.startswith("--- ")
    assert "RLX_SERVER_TOKEN" in rlx_here("serve", "--help").stdout
    assert rlx_here("data", "build-indx").returncode == 2


@contextmanager
def serving(place: Path, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    words = [sys.executable, "-m", "rlx", "serve", "retriever", str(place), "--port", str(port)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_process_that_is_killed_and_started_again_is_waited_for(source: Path) -> None:
    with serving(source) as (_, url):
        client = Client(url, patience=60)
        assert client.find(["word3"], 1)[0][0].page.title == "T3"
        with urlopen(url + "/health", timeout=600) as reply:
            assert json.load(reply)["queries"] == 2, "the first asks for the edition"
    with serving(source, int(url.rpartition(":")[2])) as (process, _):
        assert client.find(["word4"], 1)[0][0].page.title == "T4"
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=600)
        assert process.returncode == 0
        assert "answered 1 query, 0% of them from the cache" in said


def test_a_terminated_server_says_how_much_it_answered(source: Path) -> None:
    with serving(source) as (process, url):
        assert Client(url).find(["word3", "word3"], 1)[1][0].page.title == "T3"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=600)
    assert process.returncode == 0
    assert said.startswith("answered ")
