"""A rollout server: any Engine behind HTTP, for one client at a time.

    POST /claim    this connection's client is the engine's only caller until its connections are closed
    POST /use      the automaton whose states requests name, or null; a load follows
    POST /step     wire.Advance -> wire.Advanced
    POST /load     safetensors, some of a policy's; the last of them say in Rlx-Version which version they make
    GET  /health   {"format", "rlx", "version", "tick"}

A step answers with what the call *before* it finished, starts its own ticks and lets the client go: the engine decodes
while the client parses, runs tools and asks for more, and a round trip costs nothing as long as it is shorter than the
ticks. What runs when is a function of the calls alone, never of the clock: an idle engine does not tick by itself.
Calls are numbered (Rlx-Call), so one that is repeated, because its connection broke, is answered and not done again.

A server runs models on what it is told and takes weights from whoever may call it, so every call needs the secret of
RLX_SERVER_TOKEN, bodies are bounded, nothing is unpickled, and it listens on 127.0.0.1 unless told otherwise. There is
no encryption: on a network, let it be a private one.
"""

from __future__ import annotations

import hmac
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from rlx import __version__
from rlx.record.form import nothing_or, parse
from rlx.rollout.engine import Engine
from rlx.rollout.remote.weights import read_weights
from rlx.rollout.remote.wire import (
    ADVANCE,
    ADVANCED,
    AUTOMATON,
    FORMAT,
    Advance,
    Advanced,
    dump,
)
from rlx.types import Completion

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_MESSAGE = 256 * 2**20
"""Bytes of a step or of its answer."""
LARGEST_WEIGHTS = 2**40
TOKEN_VARIABLE = "RLX_SERVER_TOKEN"
PATIENCE = 30.0
"""Seconds that a connection may take to say who it is."""
QUEUE = 5.0
"""Seconds that a new client waits for the one before it, which may have ended just now."""


class RefusedError(Exception):
    """A call that is not done: the client's mistake, with HTTP's number for it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Service:
    """The engine, whose only caller is one thread, and what is left of the last call."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self._running: Future[list[tuple[int, Completion]]] | None = None
        self._numbers: dict[int, int] = {}
        """Session to the number its request is known by."""
        self._weights: dict[str, Tensor] = {}
        """The first parts of a version."""
        self._call = 0
        self._answer = b""

    def reset(self) -> None:
        """For a new client: nothing of the old one is left but the weights."""
        if self._running is not None:
            self._running.exception()
        self._running = None
        for session in list(self._numbers):
            self._on_thread(lambda session=session: self.engine.release(session))  # type: ignore[misc]
        self._numbers.clear()
        self._weights.clear()
        self._on_thread(lambda: self.engine.use(None))
        self._call, self._answer = 0, b""

    def _settle(self) -> list[tuple[int, Completion]]:
        """Wait for the ticks under way; what they finished."""
        running, self._running = self._running, None
        return [] if running is None else running.result()

    def _on_thread(self, work: Callable[[], None]) -> None:
        self._thread.submit(work).result()

    def once(self, call: int, do: Callable[[], bytes]) -> bytes:
        """The answer to call number `call`, which is done if it is new."""
        if call == self._call + 1:
            self._answer = do()
            self._call = call
        elif call != self._call:
            raise RefusedError(400, f"call {call} follows call {self._call}")
        return self._answer

    def step(self, raw: bytes) -> bytes:
        advance = ADVANCE.read(parse(raw), "step")
        finished = self._settle()
        self._on_thread(lambda: self._change(advance))
        self._running = self._thread.submit(self._run, advance.num_ticks)
        return dump(ADVANCED.write(Advanced(finished=tuple(finished), counts=self.engine.counts)))

    def _change(self, advance: Advance) -> None:
        for session in advance.release:
            self._numbers.pop(session, None)
            self.engine.release(session)
        for number, request in advance.add:
            self.engine.add(request)
            self._numbers[request.session] = number

    def _run(self, num_ticks: int) -> list[tuple[int, Completion]]:
        """So many ticks, or fewer where nothing is left to do."""
        finished: list[tuple[int, Completion]] = []
        for _ in range(num_ticks):
            if not self._numbers:
                break
            finished += [(self._numbers.pop(r.session), completion) for r, completion in self.engine.step()]
        return finished

    def use(self, raw: bytes) -> bytes:
        automaton = nothing_or(AUTOMATON).read(parse(raw), "automaton")
        self._settle()
        self._on_thread(lambda: self.engine.use(automaton))
        return dump({})

    def load(self, some: Mapping[str, Tensor], version: int | None) -> bytes:
        """Put weights by, until those come that complete a version."""
        self._weights.update(some)
        if version is not None:
            self._settle()
            whole, self._weights = self._weights, {}
            self._on_thread(lambda: self.engine.load(whole, version))
        return dump({})


class RolloutServer(ThreadingHTTPServer):
    """`serve_forever` answers until `shutdown`; port 0 takes a free one, see `address`."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self,
        engine: Engine,
        *,
        token: str,
        host: str = "127.0.0.1",
        port: int = 0,
        largest_weights: int = LARGEST_WEIGHTS,
        queue: float = QUEUE,
    ) -> None:
        if not token:
            raise ValueError(f"rollout server: the secret is empty; set {TOKEN_VARIABLE}")
        self.service = Service(engine)
        self.token, self.largest_weights = token.encode(), largest_weights
        self.queue = queue
        self.lock = threading.Condition()
        self.client = ""
        self.holders: set[int] = set()
        """Open connections of the client."""
        self.connections: set[socket.socket] = set()
        super().__init__((host, port), Call)

    @property
    def address(self) -> str:
        host, port = self.server_address[:2]
        return f"{host!s}:{port}"

    def claim(self, client: str, connection: int) -> None:
        """Make `client` the caller, or refuse while another one is connected."""
        if client != self.client:
            if not self.lock.wait_for(lambda: not self.holders, self.queue):
                raise RefusedError(409, "this rollout server is in use by another run; wait for it, or start another")
            self.service.reset()
            self.client = client
        self.holders.add(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is nobody's error here; its client tells its own story."""


class Call(BaseHTTPRequestHandler):
    """One connection and its calls."""

    server: RolloutServer
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE
    disable_nagle_algorithm = True
    wbufsize = 2**16

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with self.server.lock:
            self.server.holders.discard(id(self))
            self.server.lock.notify_all()
        super().finish()

    def version_string(self) -> str:
        return "rlx"

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: what matters is in the client's metrics."""

    def do_GET(self) -> None:
        self.answer({"/health": self.health})

    def do_POST(self) -> None:
        self.answer({"/claim": self.claim, "/use": self.use, "/step": self.step, "/load": self.load})

    def answer(self, doors: dict[str, Callable[[], bytes]]) -> None:
        """Say what a call gives; whatever goes wrong is a status and one line, and ends the connection."""
        try:
            given = self.headers.get("Authorization", "").encode()
            if not hmac.compare_digest(given, b"Bearer " + self.server.token):
                raise RefusedError(401, f"wrong secret; the client's {TOKEN_VARIABLE} must be the server's")
            if self.path not in doors:
                raise RefusedError(404, "no such call")
            with self.server.lock:
                self.reply(200, doors[self.path]())
        except RefusedError as error:
            self.refuse(error.status, str(error))
        except ValueError as error:
            self.refuse(400, str(error))
        except OSError:
            self.close_connection = True
        except Exception as error:
            self.refuse(500, f"{type(error).__name__}: {error}")

    def refuse(self, status: int, message: str) -> None:
        self.close_connection = True
        self.reply(status, dump({"error": message[:1000]}))

    def reply(self, status: int, body: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body_length(self, largest: int) -> int:
        if self.headers.get("Transfer-Encoding"):
            raise RefusedError(411, "a call needs a Content-Length and no other encoding")
        length = self.number("Content-Length")
        if length > largest:
            raise RefusedError(413, f"a body of {length} bytes, more than the {largest} that are taken")
        return length

    def number(self, header: str) -> int:
        text = self.headers.get(header, "")
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            raise RefusedError(400, f"{header} is not a whole number")
        return int(text)

    def call_number(self) -> int:
        if id(self) not in self.server.holders:
            raise RefusedError(409, "claim this rollout server first")
        return self.number("Rlx-Call")

    def health(self) -> bytes:
        engine = self.server.service.engine
        return dump({"format": FORMAT, "rlx": __version__, "version": engine.version, "tick": engine.tick})

    def claim(self) -> bytes:
        client = self.headers.get("Rlx-Client", "")
        if not 0 < len(client) <= 100 or self.body_length(0):
            raise RefusedError(400, "a claim names its client and says no more")
        self.server.claim(client, id(self))
        self.connection.settimeout(None)
        return self.health()

    def use(self) -> bytes:
        service, number = self.server.service, self.call_number()
        raw = self.rfile.read(self.body_length(LARGEST_MESSAGE))
        return service.once(number, lambda: service.use(raw))

    def step(self) -> bytes:
        service, number = self.server.service, self.call_number()
        raw = self.rfile.read(self.body_length(LARGEST_MESSAGE))
        return service.once(number, lambda: service.step(raw))

    def load(self) -> bytes:
        service, number = self.server.service, self.call_number()
        version = self.number("Rlx-Version") if "Rlx-Version" in self.headers else None
        some = read_weights(self.rfile.readinto, self.body_length(self.server.largest_weights))
        return service.once(number, lambda: service.load(some, version))
