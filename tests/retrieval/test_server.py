"""The retrieval server: Search-R1's and ASearcher's clients, batches, the cache, and calls that are none."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from typing import Any
from urllib.request import Request, urlopen

import pytest

from rlx.base import http as rlx_http
from rlx.tool.retrieval.memory import MemoryRetriever
from rlx.tool.retrieval.page import Hit, Page

Serve = Callable[..., Any]


def post(url: str, path: str, body: Any) -> Any:
    """Ask as Search-R1 does with requests: JSON there and back."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with urlopen(Request(url + path, data, {"Content-Type": "application/json"}), timeout=600) as reply:
        return json.load(reply)


def status_of(port: int, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request(method, path, body=body, headers={key.replace("_", "-"): text for key, text in headers.items()})
    reply = connection.getresponse()
    told = reply.read().decode()
    connection.close()
    return reply.status, told


def test_web_pages_are_refused(serve: Serve) -> None:
    port = int(serve().url.rpartition(":")[2])
    body = json.dumps({"queries": ["dog"], "topk": 1}).encode()
    for headers in ({"Host": "evil.example"}, {"Host": f"evil.example:{port}"}, {"Origin": "http://evil.example"}):
        for method, path in (("POST", "/retrieve"), ("POST", "/access"), ("GET", "/health")):
            status, text = status_of(port, method, path, body if method == "POST" else b"", **headers)
            assert (status, "Dog" in text) == (403, False), headers
    for host in (f"localhost:{port}", f"127.0.0.1:{port}"):
        assert status_of(port, "POST", "/retrieve", body, Host=host)[0] == 200


def test_search_r1s_client_reads_titles_and_texts(serve: Serve) -> None:
    """Its `_passages2string`: the first line of contents is the title, with quotes."""
    result = post(serve().url, "/retrieve", {"queries": ["dog", "birds"], "topk": 2, "return_scores": True})["result"]
    shown = []
    for documents in result:
        for number, found in enumerate(documents, 1):
            title, *text = found["document"]["contents"].split("\n")
            shown.append(f"Doc {number}(Title: {title}) {' '.join(text)}")
    assert shown[0] == 'Doc 1(Title: "Dog") a dog and a dog run'
    assert shown[-1] == 'Doc 1(Title: "") birds sing'
    assert [found["score"] for found in result[0]] == sorted((f["score"] for f in result[0]), reverse=True)


def test_asearchers_client_gets_urls_and_whole_pages(serve: Serve) -> None:
    url = serve().url
    (documents,) = post(url, "/retrieve", {"queries": ["fox"], "topk": 1, "return_scores": False})["result"]
    assert documents[0]["url"] == "http://x/index.php?title=Fox"
    asked = ["http://x/dog", "http://x/index.php/Fox", "http://x/none", "HTTP://x/dog", ""]
    pages = post(url, "/access", {"urls": asked})["result"]
    assert [page and page["id"] for page in pages] == ["b", "c", None, None, None]
    assert pages[0]["contents"] == '"Dog"\na dog and a dog run'


@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("num", [0, 1, 2, 3])
def test_every_query_has_its_own_pages_with_scores_and_without(serve: Serve, num: int, scores: bool) -> None:
    """Search-R1's server without scores fails for all but two queries, and gives the first one's pages for two."""
    queries = ["cat", "dog", "birds"][:num]
    result = post(serve().url, "/retrieve", {"queries": queries, "topk": 1, "return_scores": scores})["result"]
    found = [entry["document"] if scores else entry for documents in result for entry in documents]
    assert [document["id"] for document in found] == ["a", "b", "d"][:num]


@pytest.mark.parametrize("top_k", [None, 0])
def test_no_topk_is_the_servers_default(serve: Serve, top_k: int | None) -> None:
    pages = MemoryRetriever([Page(str(i), "", "x") for i in range(9)])
    assert len(post(serve(pages).url, "/retrieve", {"queries": ["x"], "topk": top_k})["result"][0]) == 3
    assert len(post(serve(pages, top_k=5).url, "/retrieve", {"queries": ["x"]})["result"][0]) == 5


def test_a_corpus_smaller_than_topk_and_a_query_without_hits(serve: Serve) -> None:
    result = post(serve().url, "/retrieve", {"queries": ["sleeps", "horse", "", "..."], "topk": 100})["result"]
    assert [len(documents) for documents in result] == [2, 0, 0, 0]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 50_000, "no JSON"),
        (b"[]", "an object with queries"),
        (b'"cat"', "an object with queries"),
        (b"{}", "queries: expected a list of texts"),
        (b'{"queries": "cat"}', "queries: expected a list of texts"),
        (b'{"queries": [1]}', "queries: expected a list of texts"),
        (b'{"queries": ["cat"], "topk": -1}', "topk=-1: expected an integer from 0 to 1000, or null"),
        (b'{"queries": ["cat"], "topk": "3"}', "topk='3'"),
        (b'{"queries": ["cat"], "topk": true}', "topk=True"),
        (b'{"queries": ["cat"], "topk": 1e400}', "topk=inf"),
        (b'{"queries": ["cat"], "return_scores": "no"}', "return_scores='no'"),
        (json.dumps({"queries": ["cat"] * 5000}).encode(), "5000 of them, expected at most 4096"),
        (json.dumps({"queries": ["cat"] * 200, "topk": 1000}).encode(), "at most 100000 pages a call"),
    ],
)
def test_a_call_that_is_none_is_refused_in_one_line(serve: Serve, body: bytes, why: str) -> None:
    running = serve()
    status, told = status_of(running.port, "POST", "/retrieve", body)
    assert status == 400
    assert why in json.loads(told)["error"]
    assert post(running.url, "/retrieve", {"queries": ["cat"]})["result"]


def test_other_calls_are_refused(serve: Serve) -> None:
    port = serve().port
    assert status_of(port, "POST", "/elsewhere", b"{}")[0] == 404
    assert status_of(port, "GET", "/retrieve")[0] == 404
    assert status_of(port, "DELETE", "/retrieve")[0] == 501
    assert status_of(port, "POST", "/access", b"{}")[0] == 400
    assert status_of(port, "POST", "/retrieve", Content_Length="-1")[0] == 400
    assert status_of(port, "POST", "/retrieve", b"5\r\n{}\r\n0\r\n\r\n", Transfer_Encoding="chunked")[0] == 411
    assert status_of(port, "GET", "/" + "x" * 70_000)[0] == 414
    assert status_of(port, "GET", "/health", X="x" * 70_000)[0] == 431
    assert json.loads(status_of(port, "GET", "/health")[1])["rlx"]


def raw_answer(port: int, data: bytes, *, closes: bool = False) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=600) as raw:
        raw.sendall(data)
        if closes:
            raw.shutdown(socket.SHUT_WR)
        found = b""
        while part := raw.recv(4096):
            found += part
    return found


def test_noise_and_cut_calls_get_an_error_status(serve: Serve) -> None:
    port = serve().port
    assert b" 400 " in raw_answer(port, b"\x00\xff" * 100 + b"\r\n\r\n")
    assert b" 505 " in raw_answer(port, b"GET /health HTTP/9.9\r\n\r\n")
    cut = f"POST /retrieve HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 100\r\n\r\n{{}}".encode()
    assert b"the body was cut short" in raw_answer(port, cut, closes=True)


def test_a_huge_call_is_refused_before_it_is_read_and_its_client_learns_why(serve: Serve) -> None:
    port = serve().port
    status, told = status_of(port, "POST", "/retrieve", b" " * (9 * 2**20))
    assert (status, "more than the" in told) == (413, True)
    head = f"POST /retrieve HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: {10**14}\r\n\r\n".encode()
    assert b" 413 " in raw_answer(port, head, closes=True)


def test_a_slow_call_ends_and_holds_up_nobody(serve: Serve) -> None:
    running = serve(seconds=0.3)
    call = f"POST /retrieve HTTP/1.1\r\nHost: localhost:{running.port}\r\nContent-Length: 100\r\n\r\n{{".encode()
    heads = [call, b"POST /retr", b"GET /health HTTP/1.1\r\nX: "]
    slow = [socket.create_connection(("127.0.0.1", running.port), timeout=600) for _ in heads]
    for connection, head in zip(slow, heads):
        connection.sendall(head)
    assert post(running.url, "/retrieve", {"queries": ["cat"]})["result"]
    for connection in slow:
        assert b" 408 " in connection.recv(4096)
        connection.close()


def test_a_client_that_drips_bytes_is_not_served_for_ever(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rlx_http, "LINGER", 0.1)
    running = serve(seconds=0.4)
    with socket.create_connection(("127.0.0.1", running.port), timeout=600) as raw:
        raw.sendall(b"POST /retrieve HTTP/1.1\r\nContent-Length: 1000\r\n\r\n")
        with suppress(OSError):
            while True:
                raw.sendall(b" ")
                time.sleep(0.05)


def test_too_many_connections_are_told_so(serve: Serve) -> None:
    running = serve()
    running.server.most_connections = 3
    kept = [socket.create_connection(("127.0.0.1", running.port), timeout=600) for _ in range(3)]
    while len(running.server.connections) < 3:
        time.sleep(0.01)
    assert b" 503 " in raw_answer(running.port, b"")
    for connection in kept:
        connection.close()
    while running.server.connections:
        time.sleep(0.01)
    assert status_of(running.port, "GET", "/health")[0] == 200


class Counting:
    """A retriever that waits to be let go, and counts its searches."""

    def __init__(self) -> None:
        self.inner = MemoryRetriever([Page("a", "", "cat"), Page("b", "", "dog")])
        self.searches: list[list[str]] = []
        self.go = threading.Event()

    def find(self, queries: list[str], top_k: int) -> list[list[Hit]]:
        self.searches.append(list(queries))
        self.go.wait(20)
        if "poison" in queries:
            raise ValueError("poison")
        return self.inner.find(queries, top_k)

    def open(self, url: str) -> Page | None:
        return None

    def edition(self) -> str:
        return "1"


def test_waiting_calls_are_searched_for_together_and_answers_are_kept(serve: Serve) -> None:
    counting = Counting()
    running = serve(counting)
    with ThreadPoolExecutor(9) as threads:
        first = threads.submit(post, running.url, "/retrieve", {"queries": ["cat"]})
        while not counting.searches:
            time.sleep(0.01)
        asked = [{"queries": [f"dog {i % 4}", "cat"], "topk": 1 + i % 2} for i in range(8)]
        others = [threads.submit(post, running.url, "/retrieve", body) for body in asked]
        while len(running.server.batched.waiting) < 8:
            time.sleep(0.01)
        counting.go.set()
        assert first.result()["result"][0][0]["id"] == "a"
        assert {other.result()["result"][0][0]["id"] for other in others} == {"b"}
    assert counting.searches[0] == ["cat"]
    assert sorted(counting.searches[1]) == ["cat", "dog 0", "dog 1", "dog 2", "dog 3"]
    assert len(counting.searches) == 2
    post(running.url, "/retrieve", {"queries": ["cat"]})
    assert len(counting.searches) == 2
    told = json.loads(status_of(running.port, "GET", "/health")[1])
    assert (told["queries"], told["searches"]) == (18, 2)
    assert told["hit_rate"] == pytest.approx(1 / 18, abs=1e-3)


def test_a_query_that_breaks_the_engine_breaks_no_other_call(serve: Serve) -> None:
    counting = Counting()
    running = serve(counting)
    with ThreadPoolExecutor(4) as threads:
        threads.submit(post, running.url, "/retrieve", {"queries": ["cat"]})
        while not counting.searches:
            time.sleep(0.01)
        bad = threads.submit(status_of, running.port, "POST", "/retrieve", b'{"queries": ["poison"]}')
        good = [threads.submit(post, running.url, "/retrieve", {"queries": [name]}) for name in ("dog", "dog cat")]
        while len(running.server.batched.waiting) < 3:
            time.sleep(0.01)
        counting.go.set()
        assert all(one.result()["result"][0][0]["id"] for one in good)
        status, told = bad.result()
    assert (status, json.loads(told)["error"]) == (400, "poison")


def load(serve: Serve, seconds: float) -> tuple[int, set[int], float]:
    """Let 64 clients ask for some seconds while others misbehave: calls, statuses, hit rate."""
    draw = Random(0)
    names = [f"w{number}" for number in range(2000)]
    pages = [Page(str(i), f"T{i}", " ".join(draw.choices(names, k=40)), f"http://x/{i}") for i in range(2000)]
    running = serve(MemoryRetriever(pages))
    end = time.monotonic() + seconds
    statuses: set[int] = set()

    def ask(seed: int) -> int:
        draw, num = Random(seed), 0
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=600)
        while time.monotonic() < end or not num:
            body = {"queries": [" ".join(draw.choices(names, k=4))], "topk": 3, "return_scores": True}
            connection.request("POST", "/retrieve", json.dumps(body))
            reply = connection.getresponse()
            told = json.loads(reply.read())
            statuses.add(reply.status)
            assert len(told["result"]) == 1
            num += 1
        connection.close()
        return num

    def misbehave() -> None:
        while time.monotonic() < end:
            status_of(running.port, "POST", "/retrieve", b"{")
            raw_answer(running.port, b"\xff\r\n\r\n")
            time.sleep(0.05)

    with ThreadPoolExecutor(65) as threads:
        bad = threads.submit(misbehave)
        num = sum(threads.map(ask, range(64)))
        bad.result()
    return num, statuses, running.server.retriever.hit_rate


def test_64_clients_are_served_without_error_beside_calls_that_are_none(serve: Serve) -> None:
    num, statuses, _ = load(serve, 0.5)
    assert num >= 64
    assert statuses == {200}


@pytest.mark.slow
def test_64_clients_are_served_for_a_minute_without_error(serve: Serve) -> None:
    num, statuses, _ = load(serve, 60)
    print(f"{num} calls in a minute")
    assert statuses == {200}
