"""A judge behind OpenAI's protocol: what it is asked, what counts as a verdict, and what is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rlx.base.limits import MistakeError
from rlx.commands.verdicts import NOT_JUDGED, judge_answers, judge_files, verdict_table
from rlx.evaluation import verdicts
from rlx.evaluation.verdicts import (
    KEY_VARIABLE,
    Answer,
    Judge,
    as_json,
    new_verdicts,
    read_verdicts,
    share_by_task,
    verdict_in,
)
from rlx.runs.store import save
from rlx.types import Action, Completion, Group, Task, Text, Trajectory, Turn
from tests.errors import raises_naming
from tests.loops import for_each


class Endpoint(ThreadingHTTPServer):
    """Says yes where the answer has the word `meow`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Call)
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.statuses: list[int] = []
        self.wait = ""
        self.thinks = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Call(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(told)
        self.server.keys.append(self.headers.get("Authorization"))
        status = self.server.statuses.pop() if self.server.statuses else 200
        said = told["messages"][0]["content"].partition("Answer:")[2]
        reply = "<think>no, or yes?</think> Yes." if "meow" in said else "No: it is another."
        message = {"content": None, "reasoning_content": reply} if self.server.thinks else {"content": reply}
        body = json.dumps({"choices": [{"message": message}]}).encode()
        self.send_response(status)
        if status == 429 and self.server.wait:
            self.send_header("Retry-After", self.server.wait)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def answer(text: str, task: str = "t") -> Answer:
    return Answer(task=task, question="What says a cat?", golds=("meow", "miaow"), answer=text)


def episode(text: str, task: str, sample: int) -> Trajectory:
    said = Completion(token_ids=(1,), logprobs=(0.0,), stop="stop")
    data = {"key": {"golds": ["meow"]}, "answer": "meow", "worked": ""}
    turn = Turn(prompt_ids=(), completion=said, action=Action(kind="answer", text=text), metrics={"exact_match": 0.0})
    asked = Task(id=task, prompt=(Text("What says a cat?"),), data=data)
    return Trajectory(task=asked, sample=sample, turns=(turn,), status="done")


@for_each(
    "reply, verdict",
    [
        ("Yes", True),
        ("no.", False),
        ("<think>yes</think>\nNo", False),
        ("It is right: yes", True),
        ("know yesterday", None),
        ("", None),
    ],
)
def test_a_verdict_is_the_first_yes_or_no_outside_of_thoughts(reply: str, verdict: bool | None) -> None:
    assert verdict_in(reply) is verdict


def test_equal_answers_are_asked_once_and_empty_ones_never(endpoint: Endpoint) -> None:
    answers = [answer("a loud meow", "a"), answer("a loud meow", "b"), answer(" ", "b"), answer("woof", "c")]
    judge = Judge(url=endpoint.url, model="judge")
    found = dict(new_verdicts(answers, judge.ask, {}, 4))
    assert len(endpoint.asked) == 2
    assert share_by_task(answers, found) == [1.0, 0.5, 0.0]
    assert list(new_verdicts(answers, judge.ask, found, 4)) == []
    assert len(endpoint.asked) == 2
    assert {told["temperature"] for told in endpoint.asked} == {0}
    assert endpoint.keys == [None, None]


def test_the_key_goes_to_the_endpoint_alone(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "secret")
    judge = Judge(url=endpoint.url, model="judge")
    assert judge.ask("Answer: meow").endswith("Yes.")
    assert endpoint.keys == ["Bearer secret"]
    assert "secret" not in as_json(judge, {"d": True})


def test_a_busy_endpoint_is_asked_again_and_a_wrong_one_is_refused(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "PAUSES", (0.0, 0.0))
    endpoint.statuses = [429, 503]
    assert Judge(url=endpoint.url, model="judge").ask("Answer: meow").endswith("Yes.")
    pauses: list[float] = []
    monkeypatch.setattr(verdicts.time, "sleep", pauses.append)
    monkeypatch.setattr(verdicts, "PAUSES", (1.0, 3.0))
    for endpoint.wait in ("7", "100000", "soon", "-1"):
        endpoint.statuses = [429]
        assert Judge(url=endpoint.url, model="judge").ask("Answer: meow").endswith("Yes.")
    assert pauses == [7.0, 60.0, 1.0, 1.0]
    endpoint.thinks = True
    assert Judge(url=endpoint.url, model="judge").ask("Answer: meow") == "", "thoughts alone are no reply"
    endpoint.statuses = [401]
    with raises_naming(MistakeError, "status 401"):
        Judge(url=endpoint.url, model="judge").ask("x")
    with raises_naming(MistakeError, "--url"):
        Judge(url="http://127.0.0.1:9", model="judge").ask("x")
    with raises_naming(MistakeError, "--url"):
        Judge(url="file:///etc/passwd", model="judge")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"model": "judge"}', '{"model": "judge", "prompt": 1, "verdicts": 5}']
)
def test_a_damaged_file_of_verdicts_holds_none(text: str, tmp_path: Path) -> None:
    judge, file = Judge(url="http://127.0.0.1:9", model="judge"), tmp_path / "verdicts.json"
    file.write_text(text)
    assert read_verdicts(file, judge) == {}
    file.write_text(as_json(judge, {"d": True, "e": None}))
    assert read_verdicts(file, judge) == {"d": True, "e": None}
    assert read_verdicts(file, Judge(url=judge.url, model="another")) == {}


def test_an_evaluation_has_verdicts_beside_its_figures(endpoint: Endpoint, tmp_path: Path) -> None:
    file = tmp_path / "trajectories" / "eval-9.jsonl"
    groups = [
        Group(task=episode("", name, 0).task, trajectories=(episode(said, name, 0), episode("woof", name, 1)))
        for name, said in (("a", "it says meow"), ("b", "bark"))
    ]
    file.parent.mkdir()
    save(file, groups, max_rounds=9)
    judge = Judge(url=endpoint.url, model="judge")
    found = judge_files(tmp_path, {"eval-9": file}, judge, 2)
    assert found["eval-9"]["judge"].value == 0.25
    assert found["eval-9"]["env/exact_match"].value == 0.0
    assert verdict_table(found, judge).header[:2] == ("evaluation", "Judge, %")
    num = len(endpoint.asked)
    judge_files(tmp_path, {"eval-9": file}, judge, 2)
    assert len(endpoint.asked) == num
    without = judge_files(tmp_path, {"eval-9": file}, None, 2)
    assert verdict_table(without, None).rows[0][1] == NOT_JUDGED


def test_verdicts_are_kept_where_the_judge_is_lost(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "PAUSES", ())
    judge, file = Judge(url=endpoint.url, model="judge"), tmp_path / "verdicts.json"
    endpoint.statuses = [500, 200]
    with raises_naming(MistakeError, "status 500"):
        judge_answers([answer("meow"), answer("woof"), answer("bark")], judge, file, 1)
    assert len(read_verdicts(file, judge)) == 1
    assert len(judge_answers([answer("meow"), answer("woof"), answer("bark")], judge, file, 1)) == 3
    assert len({told["messages"][0]["content"] for told in endpoint.asked}) == 3
