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
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rlx import __version__
from rlx.rollout.engine import Engine
from rlx.rollout.remote.service import RefusedError, Service
from rlx.rollout.remote.weights import read_weights
from rlx.rollout.remote.wire import FORMAT, dump

LARGEST_MESSAGE = 256 * 2**20
"""Bytes of a step or of its answer."""
LARGEST_WEIGHTS = 2**40
TOKEN_VARIABLE = "RLX_SERVER_TOKEN"
PATIENCE = 30.0
"""Seconds that a connection may pause before it has said who it is, and within a call."""
QUEUE = 5.0
"""Seconds that a new client waits for the one before it, which may have ended just now."""


Work = Callable[[], bytes]
"""Rest of a call after its body is read; one connection at a time runs it."""


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
        patience: float = PATIENCE,
    ) -> None:
        if not token:
            raise ValueError(f"rollout server: the secret is empty; set {TOKEN_VARIABLE}")
        self.service = Service(engine)
        self.token, self.largest_weights = token.encode(), largest_weights
        self.queue, self.patience = queue, patience
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

    def answer(self, doors: dict[str, Callable[[], Work]]) -> None:
        """Say what a call gives; whatever goes wrong is a status and one line, and ends the connection."""
        try:
            given = self.headers.get("Authorization", "").encode()
            if not hmac.compare_digest(given, b"Bearer " + self.server.token):
                raise RefusedError(401, f"wrong secret; the client's {TOKEN_VARIABLE} must be the server's")
            if self.path not in doors:
                raise RefusedError(404, "no such call")
            self.connection.settimeout(self.server.patience)
            work = doors[self.path]()  # reads the body, which nobody else waits for
            with self.server.lock:
                answer = work()
            self.reply(200, answer)
            self.connection.settimeout(None if id(self) in self.server.holders else self.server.patience)
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

    def health(self) -> Work:
        engine = self.server.service.engine
        told = {"format": FORMAT, "rlx": __version__}
        return lambda: dump({**told, "version": engine.version, "tick": engine.tick})

    def claim(self) -> Work:
        client = self.headers.get("Rlx-Client", "")
        if not 0 < len(client) <= 100 or self.body_length(0):
            raise RefusedError(400, "a claim names its client and says no more")
        health = self.health()

        def work() -> bytes:
            self.server.claim(client, id(self))
            return health()

        return work

    def use(self) -> Work:
        service, number = self.server.service, self.call_number()
        raw = self.rfile.read(self.body_length(LARGEST_MESSAGE))
        return lambda: service.once(number, lambda: service.use(raw))

    def step(self) -> Work:
        service, number = self.server.service, self.call_number()
        raw = self.rfile.read(self.body_length(LARGEST_MESSAGE))
        return lambda: service.once(number, lambda: service.step(raw))

    def load(self) -> Work:
        service, number = self.server.service, self.call_number()
        version = self.number("Rlx-Version") if "Rlx-Version" in self.headers else None
        some = read_weights(self.rfile.readinto, self.body_length(self.server.largest_weights))
        return lambda: service.once(number, lambda: service.load(some, version))
