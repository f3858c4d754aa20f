"""`rlx view --export`: the page with chosen episodes inside one file, which needs no server.

Data stand in a block of JSON that no browser runs. Every `<` in it is escaped, so that no text of an episode ends the
block. The file's policy allows the page's script and style by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlx.base.http import RefusedError
from rlx.base.limits import MistakeError
from rlx.view.places import Places
from rlx.view.server import View

HERE = Path(__file__).parent
STYLE = '<link rel="stylesheet" href="page.css">'
SCRIPT = '<script src="page.js" defer></script>'
CHARSET = '<meta charset="utf-8">'
DATA = "rlx-data"
"""Id of the block of data, in which the page looks first."""


class ExportError(MistakeError):
    """Episodes that cannot be exported; the message is one line."""


def export_page(folder: Path, file: str, lines: Sequence[int]) -> str:
    """Return the page with these lines of a run's file of episodes, and with their groups and pictures."""
    view = View(Places([folder]))
    run = view.places.id_of(folder)
    if run is None:
        raise ExportError(f"{folder} is no run")
    try:
        answers = dict(answers_of(view, run, file, lines))
    except RefusedError as error:
        raise ExportError(f"{folder}: {error}") from None
    return build_page(answers)


def answers_of(view: View, run: str, file: str, lines: Sequence[int]) -> Iterator[tuple[str, bytes]]:
    """Yield the names of doors' answers, as the page asks for them, and the answers."""
    groups: dict[int, None] = {}
    for line in lines:
        query = {"run": run, "file": file, "line": str(line)}
        answer = view.episode(query)
        yield name_of("episode", query), answer
        yield name_of("pictures", query), view.pictures(query)
        groups[json.loads(answer)["group"]] = None
    for group in groups:
        query = {"run": run, "file": file, "group": str(group)}
        yield name_of("group", query), view.group(query)


def name_of(door: str, query: dict[str, str]) -> str:
    return f"api/{door}?" + "&".join(f"{key}={value}" for key, value in query.items())


def build_page(answers: dict[str, bytes]) -> str:
    html, style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js"))
    policy = (
        f"default-src 'none'; script-src '{hash_of(script)}'; style-src '{hash_of(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    meta = f'{CHARSET}\n<meta http-equiv="Content-Security-Policy" content="{policy}">'
    data = f'<script type="application/json" id="{DATA}">{data_of(answers)}</script>'
    end = f"{data}\n<script>{script}</script>\n</body>"
    return put(put(put(put(html, CHARSET, meta), STYLE, f"<style>{style}</style>"), SCRIPT, ""), "</body>", end)


def data_of(answers: dict[str, bytes]) -> str:
    """Return the answers as one object of JSON in which no `<` stands."""
    values = (f"{json.dumps(name)}:{answer.decode('ascii')}" for name, answer in answers.items())
    return ("{" + ",".join(values) + "}").replace("<", "\\u003c")


def hash_of(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def put(html: str, place: str, text: str) -> str:
    """Replace a place that the page must have once."""
    before, match, after = html.partition(place)
    if not match or place in after:
        raise ExportError(f"the built page lacks {place}: build it again (make page)")
    return before + text + after
