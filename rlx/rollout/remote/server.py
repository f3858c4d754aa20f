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

A server runs models on what it is told and takes weights from whoever may call it. So every call needs the secret of
RLX_SERVER_TOKEN, bodies are bounded, and nothing is unpickled. It listens on 127.0.0.1 unless told otherwise
(rlx/base/http.py). There is no encryption: on a network, let it be a private one.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable

from rlx import __version__
from rlx.base.http import Call, RefusedError, Server
from rlx.rollout.engine import Engine
from rlx.rollout.remote.service import Service
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


class RolloutServer(Server):
    """An engine for one client at a time."""

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
        self.token, self.largest_weights, self.queue = token.encode(), largest_weights, queue
        self.lock = threading.Condition()
        self.client = ""
        self.holders: set[int] = set()
        """Open connections of the client."""
        super().__init__((host, port), RolloutCall, pause=patience)

    def claim(self, client: str, connection: int) -> None:
        """Make `client` the caller, or refuse while another one is connected."""
        if client != self.client:
            if not self.lock.wait_for(lambda: not self.holders, self.queue):
                raise RefusedError(409, "this rollout server is in use by another run; wait for it, or start another")
            self.service.reset()
            self.client = client
        self.holders.add(connection)


class RolloutCall(Call):
    """One connection and its calls, each with the secret."""

    server: RolloutServer

    def finish(self) -> None:
        with self.server.lock:
            self.server.holders.discard(id(self))
            self.server.lock.notify_all()
        super().finish()

    def do_GET(self) -> None:
        self.answer({"/health": lambda: self.work(self.health())})

    def do_POST(self) -> None:
        doors = {"/claim": self.claim, "/use": self.use, "/step": self.step, "/load": self.load}
        self.answer({path: lambda door=door: self.work(door()) for path, door in doors.items()})  # type: ignore[misc]

    def admit(self) -> None:
        authorization = self.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(authorization, b"Bearer " + self.server.token):
            raise RefusedError(401, f"wrong secret; the client's {TOKEN_VARIABLE} must be the server's")
        self.connection.settimeout(self.server.pause)

    def work(self, rest: Work) -> bytes:
        """Do a call whose body is read; nobody else waits for the reading."""
        with self.server.lock:
            return rest()

    def rest(self) -> None:
        """Set the timeout between calls: none for a client with a claim, which may compute for long, else `pause`."""
        self.connection.settimeout(None if id(self) in self.server.holders else self.server.pause)

    def call_number(self) -> int:
        if id(self) not in self.server.holders:
            raise RefusedError(409, "claim this rollout server first")
        return self.number("Rlx-Call")

    def health(self) -> Work:
        engine = self.server.service.engine
        fields = {"format": FORMAT, "rlx": __version__}
        return lambda: dump({**fields, "version": engine.version, "tick": engine.tick})

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
