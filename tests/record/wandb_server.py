"""A local server that speaks as much of W&B's protocol as an upload needs, and keeps the history that it gets."""

from __future__ import annotations

import gzip
import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HISTORY = "wandb-history.jsonl"


@dataclass
class WandbServer:
    """Runs that were uploaded. A write at an offset replaces the lines from there on, as in W&B."""

    key: str
    url: str = ""
    history: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """Paths that were asked for, with a wrong key too."""

    def answer(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        """Answer a query of GraphQL."""
        project = {"id": "p", "name": "rlx", "entity": {"id": "e", "name": "me"}}
        bucket = {"id": "b", "name": variables.get("name"), "displayName": "d", "config": "{}", "project": project}
        artifact = {"id": "a", "state": "COMMITTED", "artifactSequence": {"latestArtifact": {"id": "a"}}}
        answers: dict[str, Any] = {
            "viewer": {"id": "u", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}},
            "serverInfo": {"features": []},
            "model": self.resumed(variables.get("name", ""), project),
            "upsertBucket": {"bucket": bucket | {"historyLineCount": 0}, "inserted": True},
            "createArtifact": {"artifact": artifact},
            "createRunFiles": {"runID": "b", "uploadHeaders": [], "files": self.places(variables.get("files") or [])},
        }
        return {name: answer for name, answer in answers.items() if name in query}

    def resumed(self, name: str, project: dict[str, Any]) -> dict[str, Any]:
        """Return what W&B knows of a run that is resumed."""
        lines = self.history.get(name)
        if lines is None:
            return project | {"bucket": None}
        bucket = {"id": "b", "name": name, "summaryMetrics": "{}", "config": "{}", "historyLineCount": len(lines)}
        tail = json.dumps([json.dumps(line) for line in lines[-1:]])
        return project | {"bucket": bucket | {"historyTail": tail, "eventsTail": "[]", "eventsLineCount": 0}}

    def places(self, files: list[str]) -> list[dict[str, str]]:
        return [{"name": name, "uploadUrl": f"{self.url}/put"} for name in files]

    def stream(self, name: str, files: dict[str, Any]) -> None:
        """Take lines of a run's files."""
        if HISTORY in files:
            lines = self.history.setdefault(name, [])
            lines[files[HISTORY]["offset"] :] = map(json.loads, files[HISTORY]["content"])


@contextmanager
def serving(key: str) -> Iterator[WandbServer]:
    """Serve on a free port of this machine."""
    wandb = WandbServer(key)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None: ...

        def body(self) -> bytes:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return gzip.decompress(raw) if self.headers.get("Content-Encoding") == "gzip" else raw

        def reply(self, answer: dict[str, Any], code: int = 200) -> None:
            raw = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def do_PUT(self) -> None:
            self.body()
            self.reply({})

        def do_POST(self) -> None:
            body = self.body()
            wandb.asked.append(self.path)
            if self.headers.get("Authorization") != f"Basic {encoded(key)}":
                return self.reply({"errors": [{"message": "user is not logged in"}]}, 401)
            if self.path.endswith("/graphql"):
                asked = json.loads(body)
                return self.reply({"data": wandb.answer(asked["query"], asked.get("variables") or {})})
            if self.path.endswith("/file_stream"):
                wandb.stream(self.path.split("/")[-2], json.loads(body).get("files") or {})
            return self.reply({})

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    wandb.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield wandb
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def encoded(key: str) -> str:
    """Return a key as W&B's client sends it."""
    return b64encode(f"api:{key}".encode()).decode()
