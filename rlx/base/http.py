"""The common part of rlx's HTTP servers: limits of size, time and number, and one line of JSON for every error.

    limit                        answer
    bytes of a body              413
    seconds of a call            408, from its first byte to the end of its body
    seconds of a pause in it     408
    open connections             503
    a call that cannot be read   400, 405, 411, 414, 431, 501, 505

An error ends its connection and no other. The address is 127.0.0.1 unless the user names another.
"""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic
from typing import Any

PAUSE = 30.0
"""Seconds that a connection may pause within a call."""
MOST_CONNECTIONS = 1024
LINGER = 2.0
"""Seconds for which what a refused client still sends is read."""
MOST_UNREAD = 64 * 2**20
"""Bytes of that."""
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is more than JSON with status 200."""

    body: bytes
    status: int = 200
    kind: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


Door = Callable[[], "bytes | Answer"]
"""Answer to a call whose head is read; a door reads the body itself. Bytes alone are JSON."""


class RefusedError(Exception):
    """A call that is not done: the client's mistake, with HTTP's number for it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Server(ThreadingHTTPServer):
    """A thread for each connection. `serve_forever` answers until `shutdown`; port 0 takes a free one (`address`)."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(
        self,
        place: tuple[str, int],
        call: type[Call],
        *,
        pause: float = PAUSE,
        seconds: float | None = None,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        """`seconds` of a whole call; None: only pauses are limited, as a call may bring gigabytes."""
        self.pause, self.seconds, self.most_connections = pause, seconds, most_connections
        self.connections: set[socket.socket] = set()
        self.connecting = threading.Lock()
        super().__init__(place, call)

    @property
    def address(self) -> str:
        host, port = self.server_address[:2]
        return f"{host!s}:{port}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names under which a call may ask for a server of the loopback; empty for a server that others reach."""
        host, port = self.server_address[:2]
        is_near = str(host).startswith("127.")
        return tuple(dict.fromkeys((f"{host!s}:{port}", f"127.0.0.1:{port}", f"localhost:{port}"))) if is_near else ()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.connecting:
            is_full = len(self.connections) >= self.most_connections
            if not is_full:
                self.connections.add(request)
        if not is_full:
            super().process_request(request, client_address)
            return
        body = error_body("too many connections are open; try again")
        with suppress(OSError):
            request.settimeout(1.0)
            head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            request.sendall(head.encode() + body)
        self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        with self.connecting:
            self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent: a connection that breaks is reported by its client."""


class TimedReader(io.RawIOBase):
    """Bytes of a connection until a deadline, and without a pause longer than the socket's timeout."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.deadline: float | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.deadline is None:
            return self.connection.recv_into(buffer)
        left, pause = self.deadline - monotonic(), self.connection.gettimeout()
        if left <= 0:
            raise TimeoutError
        self.connection.settimeout(left if pause is None else min(left, pause))
        try:
            return self.connection.recv_into(buffer)
        finally:
            self.connection.settimeout(pause)


class Call(BaseHTTPRequestHandler):
    """One connection and its calls."""

    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 2**16
    is_refused = False

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.pause)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.rfile.close()
        self.timed = TimedReader(self.connection)
        self.rfile = self.reader = io.BufferedReader(self.timed, 2**16)

    def finish(self) -> None:
        """Let a refused client read why: closing with unread bytes would reset the connection before it can."""
        if self.is_refused:
            with suppress(OSError):
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_WR)
                self.timed.deadline, left = monotonic() + LINGER, MOST_UNREAD
                while left > 0 and (num := len(self.rfile.read1(2**16))):
                    left -= num
        super().finish()

    def version_string(self) -> str:
        return "rlx"

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: clients report what matters."""

    def handle_one_request(self) -> None:
        """Read a call within its time and answer it."""
        self.timed.deadline = None
        self.request_version = self.protocol_version
        self.close_connection = True
        try:
            if not self.reader.peek(1):
                return
            if self.server.seconds is not None:
                self.timed.deadline = monotonic() + self.server.seconds
            self.raw_requestline = self.rfile.readline(65537)
            if len(self.raw_requestline) > 65536:
                self.send_error(414)
            elif self.raw_requestline and self.parse_request():
                method = getattr(self, f"do_{self.command}", None)
                method() if method else self.send_error(501, f"no method {self.command!r:.40}")
            self.wfile.flush()
        except TimeoutError:
            if self.timed.deadline is not None:  # otherwise the connection was waiting for a call
                self.send_error(408)
        except OSError:
            self.close_connection = True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self.request_version = self.protocol_version  # a bad first line would leave out the head
        self.refuse(code, message or self.responses[code][0])

    def answer(self, doors: Mapping[str, Door]) -> None:
        """Reply with the answer of the call's door; any error is a status and one line, and ends the connection."""
        try:
            self.admit()
            if self.command == "GET" and self.headers.get("Content-Length", "0") != "0":
                raise RefusedError(400, "GET takes no body")
            door = doors.get(self.path.partition("?")[0])
            if door is None:
                raise RefusedError(404, "no such call")
            reply = door()
            self.send(reply if isinstance(reply, Answer) else Answer(reply))
            self.rest()
        except RefusedError as error:
            self.refuse(error.status, str(error))
        except ValueError as error:
            self.refuse(400, str(error))
        except TimeoutError:
            self.refuse(408, "the call came too slowly")
        except OSError:
            self.close_connection = True
        except Exception as error:
            self.refuse(500, f"{type(error).__name__}: {error}")

    def admit(self) -> None:
        """Refuse callers who may not call."""

    def require_host(self) -> None:
        """Refuse a call that names another host: another site's name may point at this address, so that a page of that
        site could ask."""
        if self.server.hosts and self.headers.get("Host", "") not in self.server.hosts:
            raise RefusedError(403, "the address is not this server's")

    def rest(self) -> None:
        """Prepare the connection for the time until its next call."""

    def refuse(self, status: int, message: str) -> None:
        self.close_connection = self.is_refused = True
        with suppress(OSError):
            self.reply(status, error_body(message))
            self.wfile.flush()

    def headers_of_all(self) -> Mapping[str, str]:
        """Return the headers that every answer has."""
        return {}

    def reply(self, status: int, body: bytes) -> None:
        self.send(Answer(body, status))

    def send(self, answer: Answer) -> None:
        body = answer.body
        self.send_response_only(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in {**self.headers_of_all(), **answer.headers}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
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

    def body(self, largest: int) -> bytes:
        length = self.body_length(largest)
        raw = self.rfile.read(length)
        if len(raw) < length:
            raise RefusedError(400, "the body was cut short")
        return raw

    def json_body(self, largest: int) -> Any:
        """Return the call's body as a value of JSON."""
        raw = self.body(largest)
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            raise RefusedError(400, "the body is no JSON") from None


def error_body(message: str) -> bytes:
    return json.dumps({"error": " ".join(message.split())[:1000]}).encode()
