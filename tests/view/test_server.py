"""Who may ask the server of `rlx view`, and for what."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlx.view.server import HEADERS, open_view
from tests.view.conftest import Page


def test_the_page_and_its_files_are_served(page: Page) -> None:
    kinds = {path: page.get(path).headers["Content-Type"].partition(";")[0] for path in ("", "page.js", "page.css")}
    assert kinds == {"": "text/html", "page.js": "text/javascript", "page.css": "text/css"}
    assert page.server.address.startswith("127.0.0.1:")


@pytest.mark.parametrize("path", ["/", "/api/runs", "/wrong/api/runs", "//api/runs", "*", "/%00/"])
def test_without_the_secret_nothing_is_there(page: Page, path: str) -> None:
    reply = page.raw(path)
    assert (reply.status, set(reply.value)) == (404, {"error"})


def test_a_secret_that_is_nearly_right_is_wrong(page: Page) -> None:
    secret = page.server.secret
    for wrong in (secret[:-1], secret + "x", secret.swapcase(), f"{secret}%20", f"x/../{secret}"):
        assert page.raw(f"/{wrong}/api/runs").status == 404
    assert page.raw(f"/{secret}").status == 404
    assert page.raw(f"/{secret}/api/runs").status == 200


def test_every_server_has_a_secret_of_its_own(run: Path) -> None:
    servers = [open_view([run]) for _ in range(2)]
    for server in servers:
        server.server_close()
    assert len(servers[0].secret) >= 32
    assert servers[0].secret != servers[1].secret


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "[::1]:80", "", "127.0.0.1.evil"]
)
def test_another_host_is_refused(page: Page, host: str) -> None:
    assert page.get("api/runs", {"Host": host}).status == 403


def test_localhost_is_this_machine(page: Page) -> None:
    assert page.get("api/runs", {"Host": f"localhost:{page.server.server_address[1]}"}).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "X"])
def test_nothing_but_get_is_answered(page: Page, method: str) -> None:
    assert page.get("api/runs", method=method).status == 501


def test_every_answer_forbids_what_is_not_the_page_s_own(page: Page) -> None:
    for reply in (page.get(""), page.get("api/runs"), page.get("no"), page.raw("/"), page.get("", {"Host": "x"})):
        assert reply.headers.items() >= HEADERS.items()
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'")
    assert "unsafe" not in policy
    table = page.get("api/episodes", run="run").headers
    assert (table["Cache-Control"], table["Content-Security-Policy"]) == ("no-cache", policy)


PATHS = ["api", "api/", "api/none", "api/runs/x", "../api/runs", "page.html", "page.py", "server.py"]


@pytest.mark.parametrize("path", [*PATHS, "..%2f..%2fetc/passwd", "%2e%2e/"])
def test_a_path_that_is_no_door_is_not_there(page: Page, path: str) -> None:
    assert page.get(path).status == 404


TRAVERSALS = ["..", "../run", "/etc", "run/..", "run/", "./run", "run\0", "RUN", "", "run/trajectories"]


@pytest.mark.parametrize("run_id", TRAVERSALS)
@pytest.mark.parametrize("door", ["config", "metrics", "episodes", "episode", "group", "pictures", "search"])
def test_a_run_that_was_not_found_is_not_there(page: Page, door: str, run_id: str) -> None:
    assert page.get(f"api/{door}", run=run_id, file="eval-8.jsonl", line=1, group=0, q="x").status == 404


@pytest.mark.parametrize(
    "name", ["../summary.json", "/etc/passwd", ".eval-8.jsonl", "eval-8", "eval-8.jsonl/", "\ud800"]
)
def test_a_file_that_was_not_found_is_not_there(page: Page, name: str) -> None:
    for door in ("episode", "group", "pictures"):
        assert page.get(f"api/{door}", run="run", file=name, line=1, group=0).status in (400, 404)


WRONG = ["", "-1", "1.5", "x", "1e3", "9" * 16, "9" * 10**4, "٣", " 1", "0x1", "1\n"]


@pytest.mark.parametrize("value", WRONG, ids=range(len(WRONG)))
def test_a_number_that_is_none_is_refused(page: Page, value: str) -> None:
    assert page.get("api/episode", run="run", file="eval-8.jsonl", line=value).status == 400
    assert page.get("api/group", run="run", file="eval-8.jsonl", group=value).status == 400
    assert page.get("api/metrics", run="run", **{"from": value}).status == 400


def test_numbers_beyond_what_is_there(page: Page) -> None:
    for value in (0, 3, 10**14):
        assert page.get("api/episode", run="run", file="eval-8.jsonl", line=value).status == 404
    found = page.api("metrics", run="run", **{"from": 10**14, "mark": "x" * 1000})
    assert (found["reset"], found["steps"]) == (True, [1, 2, 3])


QUERIES = ["run", "run=run&run=run", "&", "a=1&" * 20, "run=%ff", "run=%ed%a0%80", ";", "=", "run=run;file=x"]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_that_cannot_be_read_is_refused(page: Page, query: str) -> None:
    assert page.raw(f"/{page.server.secret}/api/metrics?{query}").status in (400, 404)


def test_a_missing_parameter_is_named(page: Page) -> None:
    reply = page.get("api/episode", run="run")
    assert (reply.status, "file" in reply.value["error"]) == (400, True)


def test_very_many_connections_are_answered_at_once(page: Page) -> None:
    doors = [("runs", {}), ("episodes", {"run": "run"}), ("metrics", {"run": "run"}), ("config", {"run": "run"})]
    connections = [socket.create_connection(page.server.server_address[:2]) for _ in range(100)]  # type: ignore[arg-type]
    try:
        with ThreadPoolExecutor(100) as pool:
            asked = [pool.submit(page.get, f"api/{door}", **query) for door, query in doors * 25]  # type: ignore[arg-type]
            assert {one.result(60).status for one in asked} == {200}
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.parametrize(
    "raw", [b"GET\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"G" * 70_000 + b"\r\n"]
)
def test_a_call_that_is_no_http_ends_its_own_connection(page: Page, raw: bytes) -> None:
    with socket.create_connection(page.server.server_address[:2], timeout=600) as connection:  # type: ignore[arg-type]
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        assert b" 200 " not in connection.recv(100)
    assert page.get("api/runs").status == 200
