"""The server of `rlx view`: loopback alone, a secret in every address, and answers to GET alone.

    GET /SECRET/                     the page
    GET /SECRET/api/DOOR?run=ID&…    data, one module for each door

The secret keeps other users of the machine out. The check of Host keeps out pages of other sites, as a site's name may
be pointed at this address. Every answer forbids scripts and connections other than the page's own.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs

from rlx.base.http import Answer, Call, RefusedError, Server
from rlx.runs.decode import Decode, find_decoder
from rlx.runs.folder import CHECKPOINTS, CONFIG
from rlx.runs.mark import Mark, size_and_time
from rlx.view.episode import episode_answer
from rlx.view.episodes import EpisodeTables
from rlx.view.group import group_answer
from rlx.view.metrics import metrics_answer
from rlx.view.pictures import pictures_answer
from rlx.view.places import Places
from rlx.view.runs import Runs, config_answer
from rlx.view.search import Searches

PAGE = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
}
"""Files of the page by their paths below the secret."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
MOST_FIELDS = 16
"""Parameters of a query."""
SECONDS = 30.0
"""Seconds for which a call may be read."""

Query = Mapping[str, str]


@dataclass
class View:
    """Answers on the runs below some folders."""

    places: Places
    runs: Runs = field(init=False)
    tables: EpisodeTables = field(default_factory=EpisodeTables)
    searches: Searches = field(init=False)
    _decoders: dict[Path, tuple[Mark, Decode | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runs, self.searches = Runs(self.places), Searches(self.tables, self.decoder)

    def doors(self) -> Mapping[str, Callable[[Query, str], bytes | Answer]]:
        """Return the doors by name: each a function of the query and of the caller's ETag."""
        return {
            "runs": lambda query, caller_etag: self.runs.answer(),
            "config": lambda query, caller_etag: config_answer(self.run(query)),
            "metrics": lambda query, caller_etag: metrics_answer(
                self.run(query), natural(query, "from", 0), query.get("mark", "")
            ),
            "episodes": lambda query, caller_etag: self.tables.answer(
                self.run(query), caller_etag, query.get("mark", "")
            ),
            "episode": self.episode,
            "group": self.group,
            "pictures": self.pictures,
            "search": lambda query, caller_etag: self.searches.answer(self.run(query), word(query, "q")),
        }

    def run(self, query: Query) -> Path:
        return self.places.find(word(query, "run"))

    def episode(self, query: Query, caller_etag: str = "") -> bytes:
        folder = self.run(query)
        file_rows = self.tables.file(folder, word(query, "file"))
        return episode_answer(file_rows, natural(query, "line"), self.decoder(folder))

    def group(self, query: Query, caller_etag: str = "") -> bytes:
        folder = self.run(query)
        file_rows = self.tables.file(folder, word(query, "file"))
        return group_answer(file_rows, natural(query, "group"), self.decoder(folder))

    def pictures(self, query: Query, caller_etag: str = "") -> bytes:
        folder = self.run(query)
        return pictures_answer(folder, self.tables.file(folder, word(query, "file")), natural(query, "line"))

    def decoder(self, folder: Path) -> Decode | None:
        """Return what decodes a run's tokens; looked for again when its configuration or checkpoints change."""
        mark = tuple(size_and_time(folder / name) for name in (CONFIG, CHECKPOINTS))
        entry = self._decoders.get(folder)
        if entry is None or entry[0] != mark:
            entry = self._decoders[folder] = (mark, find_decoder(folder))
        return entry[1]

    def answer(self, path: str, query: str, caller_etag: str = "") -> bytes | Answer:
        """Answer a call by its path below the secret."""
        if path in PAGE:
            return page_answer(path)
        door = self.doors().get(path.removeprefix("api/")) if path.startswith("api/") else None
        if door is None:
            raise RefusedError(404, "there is no such page")
        return door(parse_query(query), caller_etag)


def page_answer(path: str) -> Answer:
    """Return a file of the page, with an ETag."""
    name, kind = PAGE[path]
    return Answer((Path(__file__).parent / name).read_bytes(), kind=kind)


def parse_query(text: str) -> Query:
    """Return the parameters, each at most once."""
    try:
        is_asked = bool(text)
        parameters = parse_qs(
            text, keep_blank_values=True, strict_parsing=is_asked, max_num_fields=MOST_FIELDS, errors="strict"
        )
    except ValueError:
        raise RefusedError(400, "the query cannot be read") from None
    if any(len(values) > 1 for values in parameters.values()):
        raise RefusedError(400, "a parameter is given twice")
    return {name: values[0] for name, values in parameters.items()}


def word(query: Query, name: str) -> str:
    if name not in query:
        raise RefusedError(400, f"{name} is missing")
    return query[name]


def natural(query: Query, name: str, default: int | None = None) -> int:
    """Return a parameter that is a whole number from 0 on."""
    text = query.get(name, "" if default is None else str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise RefusedError(400, f"{name} is not a whole number")
    return int(text)


class ViewServer(Server):
    """A view behind HTTP, at `url`."""

    def __init__(self, view: View, port: int = 0) -> None:
        self.view, self.secret = view, secrets.token_urlsafe(24)
        super().__init__(("127.0.0.1", port), ViewCall, seconds=SECONDS)

    @property
    def url(self) -> str:
        return f"http://{self.address}/{self.secret}/"


class ViewCall(Call):
    """One connection of a browser."""

    server: ViewServer

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self.answer({path: partial(self.look, path, query)})

    def look(self, path: str, query: str) -> bytes | Answer:
        first, secret, below = [*path.split("/", 2), "", ""][:3]
        if first or not hmac.compare_digest(secret.encode(), self.server.secret.encode()) or path.count("/") < 2:
            raise RefusedError(404, "there is no such page")
        return self.server.view.answer(below, query, self.headers.get("If-None-Match", ""))

    def admit(self) -> None:
        self.require_host()

    def headers_of_all(self) -> Mapping[str, str]:
        return HEADERS


def open_view(folders: Sequence[Path], port: int = 0) -> ViewServer:
    """Return a server of the runs below folders, which answers once `serve_forever` is called."""
    return ViewServer(View(Places(folders)), port)
