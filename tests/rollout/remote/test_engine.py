"""An engine behind HTTP is the engine: same tokens, same promises, also when a server dies on the way."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
import torch

from rlx.protocol.automaton import Automaton, State
from rlx.rollout.remote.engine import RemoteEngine, in_parts
from rlx.rollout.remote.link import ServerError, link_all
from rlx.rollout.remote.server import RolloutServer
from rlx.rollout.remote.wire import FORMAT
from tests.errors import raises_naming

TOKEN = "open sesame"
Serve = Callable[..., RolloutServer]


@contextmanager
def running(engine: Any, **options: Any) -> Iterator[RolloutServer]:
    server = RolloutServer(engine, token=TOKEN, **options)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        kill(server)
        thread.join()


def kill(server: RolloutServer) -> None:
    """As abruptly as a process: the port closes, and so does every connection."""
    server.shutdown()
    server.server_close()
    cut(server)


def cut(server: RolloutServer) -> None:
    for connection in list(server.connections):
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def serve(kit: Any, qwen2: Any, tokenizer: Any) -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda engine=None, **options: stack.enter_context(
            running(engine or kit.engine(qwen2, tokenizer), **options)
        )


@contextmanager
def remote(*servers: RolloutServer, token: str = TOKEN, **options: Any) -> Iterator[RemoteEngine]:
    engine = RemoteEngine(link_all([server.address for server in servers], token), **options)
    try:
        yield engine
    finally:
        engine.close()


def requests(kit: Any, num: int = 7) -> list[Any]:
    """More than a server has slots, of different lengths."""
    return [kit.ask(i, kit.ids(i, 5 + i), stream=2**63 + i, max_new_tokens=4 + 3 * (i % 3)) for i in range(num)]


def tokens(done: dict[int, Any]) -> dict[int, Any]:
    return {session: (completion.token_ids, completion.stop) for session, completion in done.items()}


def close_to(a: dict[int, Any], b: dict[int, Any]) -> None:
    assert tokens(a) == tokens(b)
    for session in a:
        assert a[session].logprobs == pytest.approx(b[session].logprobs, abs=1e-4)


@pytest.mark.parametrize("num_ticks", [1, 3])
def test_a_server_says_what_its_engine_says(kit: Any, qwen2: Any, tokenizer: Any, serve: Serve, num_ticks: int) -> None:
    local = kit.finish(kit.engine(qwen2, tokenizer), *requests(kit))
    with remote(serve(), num_ticks=num_ticks) as engine:
        assert kit.finish(engine, *requests(kit)) == local
        assert engine.counts.num_sampled == sum(len(completion.token_ids) for completion in local.values())


def test_two_servers_say_it_together_and_repeatedly(kit: Any, qwen2: Any, tokenizer: Any, serve: Serve) -> None:
    local = kit.finish(kit.engine(qwen2, tokenizer), *requests(kit))
    runs = []
    for _ in range(2):
        with remote(serve(), serve()) as engine:
            runs.append(kit.finish(engine, *requests(kit)))
            assert all(link.counts.num_sampled for link in engine.links)
    close_to(runs[0], local)
    assert runs[0] == runs[1]


def test_a_fork_goes_where_its_group_is_and_finds_its_beginning_there(kit: Any, serve: Serve) -> None:
    with remote(serve(), serve()) as engine:
        prompts = {group: kit.ids(group, 20) for group in range(4)}
        first = kit.finish(engine, *(kit.ask(group, prompt, group=group) for group, prompt in prompts.items()))
        engine.step()
        before = engine.counts.num_prefilled
        given = {group: (*first[group].token_ids[:4], 60, 61) for group in prompts}
        asked = [
            kit.ask(10 + g, prompts[g], completion_prefix=given[g], group=g, watch=(7,)) for g in reversed(prompts)
        ]
        done = kit.finish(engine, *asked)
        engine.step()
        assert engine.counts.num_prefilled - before == 2 * len(prompts)
        assert all(done[10 + group].token_ids[:6] == given[group] for group in prompts)
        assert {len(values) for completion in done.values() for values in completion.watched[6:]} == {1}


def test_a_session_stays_where_its_cache_is(kit: Any, serve: Serve) -> None:
    with remote(serve(), serve()) as engine:
        prompts = {session: kit.ids(session, 9) for session in range(4)}
        first = kit.finish(engine, *(kit.ask(session, prompt) for session, prompt in prompts.items()))
        longer = [kit.ask(s, [*prompts[s], *first[s].token_ids, 3, 4], stream=50 + s) for s in prompts]
        kit.finish(engine, *reversed(longer))
        engine.step()
        assert engine.counts.num_reused == sum(len(prompts[s]) + len(first[s].token_ids) - 1 for s in prompts)


def test_new_weights_are_what_acts(kit: Any, qwen2: Any, tokenizer: Any, serve: Serve) -> None:
    other = kit.small_qwen2()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.1)
    with remote(serve(), serve()) as engine:
        for version, model in ((3, other), (4, qwen2), (5, other)):
            engine.load(model.state_dict(), version)
            done = kit.finish(engine, *requests(kit))
            for request in requests(kit):
                completion = done[request.session]
                assert completion.version == version == engine.version
                expected = kit.logprobs(model, request.prompt_ids, completion)
                assert torch.tensor(completion.logprobs) == pytest.approx(expected, abs=1e-4)
            for request in requests(kit):
                engine.release(request.session)


def test_weights_wait_for_what_is_being_decoded(kit: Any, qwen2: Any, serve: Serve) -> None:
    with remote(serve()) as engine:
        engine.add(kit.ask(0, kit.ids(0, 5)))
        engine.step()
        with raises_naming(ValueError, "being decoded"):
            engine.load(qwen2.state_dict(), 1)
        engine.release(0)
        engine.load(qwen2.state_dict(), 1)


def test_weights_may_come_in_parts(kit: Any, qwen2: Any, tokenizer: Any, serve: Serve) -> None:
    weights = dict(qwen2.state_dict())
    cut = list(in_parts(weights, 20_000))
    assert [is_last for _, is_last in cut] == [False] * (len(cut) - 1) + [True]
    assert [name for some, _ in cut for name in some] == list(weights)
    local = kit.finish(kit.engine(qwen2, tokenizer), *requests(kit))
    with remote(serve(kit.engine(kit.small_qwen2(num_hidden_layers=3), tokenizer))) as engine:
        (link,) = engine.links
        for some, is_last in cut:
            link.load(some, 0 if is_last else None)
        assert kit.finish(engine, *requests(kit)) == local


def test_a_process_without_servers_looks_on(kit: Any, qwen2: Any) -> None:
    engine = RemoteEngine([])
    engine.load(qwen2.state_dict(), 3)
    assert (engine.version, engine.step(), engine.counts.num_sampled) == (3, [], 0)
    with raises_naming(ValueError, "rollout server"):
        engine.add(kit.ask(0, [1]))


def test_weights_that_do_not_fit_are_refused(serve: Serve, qwen2: Any) -> None:
    with remote(serve()) as engine, raises_naming(ServerError, "weights lack"):
        engine.load({"x": torch.zeros(1)}, 1)
    with remote(serve(largest_weights=1000)) as engine, pytest.raises(ServerError, match=r"1000 that are taken|left"):
        engine.load(qwen2.state_dict(), 1)


def test_a_released_request_is_never_answered(kit: Any, serve: Serve) -> None:
    with remote(serve()) as engine:
        for _ in range(3):
            engine.add(kit.ask(0, kit.ids(0, 5), max_new_tokens=1))
            engine.step()
            engine.release(0)
        kept = kit.ask(0, kit.ids(1, 5), max_new_tokens=2)
        done = kit.finish(engine, kept)
        assert len(done[0].token_ids) == 2
        assert engine.step() == engine.step() == []


def test_a_masked_request_obeys_its_automaton(kit: Any, qwen2: Any, serve: Serve) -> None:
    first = State(allowed=frozenset({1, 2}), moves={1: 1, 2: 1})
    automaton = Automaton(states=(first, State(allowed=frozenset({3}), moves={3: 0})))
    with remote(serve(), serve()) as engine:
        engine.use(automaton)
        engine.load(qwen2.state_dict(), 1)
        done = kit.finish(engine, *(kit.ask(s, kit.ids(s, 4), state=0) for s in range(6)))
    for completion in done.values():
        assert completion.mask_ids == (0, 1) * 4
        assert set(completion.token_ids[1::2]) == {3}


@pytest.mark.parametrize(
    "change", [{"session": 0}, {"prompt_ids": ()}, {"prompt_ids": (10**6,)}], ids=["busy", "empty", "unknown id"]
)
def test_a_request_that_cannot_be_is_refused(kit: Any, serve: Serve, change: dict[str, Any]) -> None:
    with remote(serve()) as engine:
        engine.add(kit.ask(0, kit.ids(0, 5)))
        with raises_naming((ValueError, ServerError), f"session {change.get('session', 1)}"):
            kit.finish(engine, replace(kit.ask(1, kit.ids(0, 5)), **change))


@pytest.mark.parametrize("num_steps", [0, 1, 4])
def test_what_a_dead_server_owed_comes_from_another_once(
    kit: Any, qwen2: Any, tokenizer: Any, serve: Serve, num_steps: int
) -> None:
    local = kit.finish(kit.engine(qwen2, tokenizer), *requests(kit))
    doomed, other = serve(), serve()
    done: dict[int, Any] = {}
    with remote(doomed, other) as engine:
        for request in requests(kit):
            engine.add(request)
        for _ in range(num_steps):
            done.update({request.session: completion for request, completion in engine.step()})
        owed = [s for s in range(7) if s % 2 == 0 and s not in done]
        kill(doomed)
        while len(done) < 7:
            for request, completion in engine.step():
                assert request.session not in done
                done[request.session] = completion
        assert (engine.num_moved, engine.num_living) == (len(owed), 1)
        later = kit.ask(0, [*kit.ids(0, 5), *done[0].token_ids, 1])
        assert kit.finish(engine, later)[0].token_ids
    close_to(done, local)


def test_when_the_last_server_dies_its_last_words_are_told(kit: Any, serve: Serve) -> None:
    server = serve()
    engine = RemoteEngine(link_all([server.address], TOKEN, last_words=lambda address: "out of memory"))
    engine.add(kit.ask(0, kit.ids(0, 5)))
    kill(server)
    with raises_naming(ServerError, "rollout server", "127.0.0.1", "of memory"):
        engine.step()
    engine.close()


def test_an_engine_that_breaks_is_a_dead_server_with_its_reason(kit: Any, serve: Serve, qwen2: Any) -> None:
    weights = {name: tensor * float("nan") for name, tensor in qwen2.state_dict().items()}
    with remote(serve()) as engine:
        engine.load(weights, 1)
        with raises_naming(ServerError, "logits", "not finite"):
            kit.finish(engine, *requests(kit))


def test_a_broken_connection_is_made_anew_and_nothing_done_twice(
    kit: Any, qwen2: Any, tokenizer: Any, serve: Serve
) -> None:
    local = kit.finish(kit.engine(qwen2, tokenizer), *requests(kit))
    server = serve()
    done: dict[int, Any] = {}
    with remote(server) as engine:
        for request in requests(kit):
            engine.add(request)
        while len(done) < 7:
            done.update({request.session: completion for request, completion in engine.step()})
            cut(server)
    assert done == local


def test_a_repeated_call_gets_the_same_answer(kit: Any, serve: Serve) -> None:
    with remote(serve()) as engine:
        (link,) = engine.links
        engine.add(kit.ask(0, kit.ids(0, 5), max_new_tokens=1))
        engine.step()
        answer = link.step(1)
        link._call -= 1
        assert link.step(1) == answer
        assert len(answer.finished) == 1


def test_another_client_waits_its_turn(serve: Serve, kit: Any) -> None:
    server = serve(queue=0.2)
    with remote(server) as engine:
        with raises_naming(ServerError, "in use"):
            RemoteEngine(link_all([server.address], TOKEN))
        engine.add(kit.ask(0, kit.ids(0, 5)))
        engine.step()
    with remote(server) as engine:
        assert kit.finish(engine, kit.ask(0, kit.ids(0, 5)))[0].token_ids


@pytest.mark.parametrize("token", ["", "open sesam", "open sesame ", "\xe9"])
def test_a_wrong_secret_is_refused(serve: Serve, token: str) -> None:
    server = serve()
    with raises_naming(ServerError, "wrong secret"), remote(server, token=token):
        pass
    assert server.service.engine.tick == 0


def call(server: RolloutServer, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=600)
    named = {"Authorization": f"Bearer {TOKEN}", **{name.replace("_", "-"): text for name, text in headers.items()}}
    connection.request(method, path, body=body, headers=named)
    reply = connection.getresponse()
    told = reply.read().decode()
    connection.close()
    return reply.status, told


def test_every_call_needs_the_secret(serve: Serve) -> None:
    server = serve()
    for method, path in (
        ("GET", "/health"),
        ("POST", "/claim"),
        ("POST", "/use"),
        ("POST", "/step"),
        ("POST", "/load"),
        ("POST", "/x"),
    ):
        assert call(server, method, path, Authorization="Bearer x")[0] == 401
    status, told = call(server, "GET", "/health")
    assert (status, json.loads(told)["format"]) == (200, FORMAT)


def test_calls_that_are_none_are_refused_and_the_server_lives(serve: Serve, kit: Any) -> None:
    server = serve()
    assert call(server, "POST", "/elsewhere")[0] == 404
    assert call(server, "POST", "/step", b"{}", Rlx_Call="1")[0] == 409
    assert call(server, "POST", "/claim", Rlx_Client="x" * 101)[0] == 400
    assert call(server, "POST", "/claim", b"body", Rlx_Client="me")[0] == 413
    assert call(server, "DELETE", "/step")[0] == 501
    with socket.create_connection(server.server_address[:2]) as raw:
        raw.sendall(b"\x00\xff" * 1000 + b"\r\n\r\n")
        raw.recv(100)
    with remote(server) as engine:
        assert kit.finish(engine, kit.ask(0, kit.ids(0, 5)))[0].token_ids


def test_a_hostile_step_is_refused_in_one_line(serve: Serve) -> None:
    server = serve()
    for body in (b"{}", b"\xff", b"[" * 100_000):
        with remote(server) as engine:
            (link,) = engine.links
            with pytest.raises(ServerError) as caught:
                link.ask("/step", lambda body=body: body, len(body))
            assert len(str(caught.value).splitlines()) == 1


def test_a_server_without_a_secret_does_not_start(kit: Any, qwen2: Any, tokenizer: Any) -> None:
    with raises_naming(ValueError, "RLX_SERVER_TOKEN"):
        RolloutServer(kit.engine(qwen2, tokenizer), token="")


def test_a_client_that_stalls_within_a_call_holds_up_nobody(serve: Serve) -> None:
    server = serve(queue=20.0, patience=0.5)
    address = server.server_address[:2]
    head = f"Authorization: Bearer {TOKEN}\r\nRlx-Client: slow\r\nRlx-Call: 1\r\n"
    with socket.create_connection(address, timeout=600) as stalled:
        stalled.sendall(f"POST /claim HTTP/1.1\r\n{head}Content-Length: 0\r\n\r\n".encode())
        assert b"200" in stalled.recv(1000)
        stalled.sendall(f"POST /step HTTP/1.1\r\n{head}Content-Length: 1000\r\n\r\nabc".encode())
        assert call(server, "GET", "/health")[0] == 200
        with remote(server) as engine:  # the stalled connection was closed, which frees the server
            assert engine.links
