"""Pages of a jsonl file, one a line: a text, or an object with `contents`, or with a `title` and a `text`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlx.base.fetch import open_text
from rlx.base.limits import MistakeError
from rlx.tool.retrieval.page import Page

Fields = str | Mapping[str, Any]


def encodable(text: str) -> str:
    """Replace halves of letters, which JSON can spell and no encoding has."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def read_fields(where: str, line: str) -> Fields:
    """Return the page of a line: a text, or an object with the fields of a page."""
    try:
        row = json.loads(line)
        if isinstance(row, str):
            return row
        needed = [row["contents"]] if "contents" in row else [row["title"], row["text"]]
        if None not in needed:
            return dict(row)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise MistakeError(f"{where} is no text, and no object with contents, or title and text")


def page_of(fields: Fields, number: int) -> Page:
    """Build the page of a line; its id is the line's number where the line has none."""
    if isinstance(fields, str):
        return Page(str(number), "", encodable(fields))
    id, url = (str(fields[key]) if fields.get(key) is not None else "" for key in ("id", "url"))
    if "contents" in fields:
        title, text = split_contents(str(fields["contents"]))
    else:
        title, text = str(fields["title"]), str(fields["text"])
    return Page(encodable(id) or str(number), encodable(title), encodable(text), encodable(url))


def split_contents(contents: str) -> tuple[str, str]:
    """Return title and text of Search-R1's form; a text of another form has no title."""
    title, _, text = contents.partition('"\n')
    is_quoted = title.startswith('"') and "\n" not in title and len(title) + len(text) < len(contents)
    return (title[1:], text) if is_quoted else ("", contents)


def read_file(path: Path) -> Iterator[Page]:
    """Yield the pages of a file; MistakeError names the line that has none."""
    return (page_of(fields, number) for number, fields in enumerate(read_lines(str(path), str(path))))


def read_lines(path: str, where: str) -> Iterator[Fields]:
    """Yield what each line of a file says of its page; `where` names the file in errors."""
    num = 0
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield read_fields(f"{where}: line {number}", line)
                    num += 1
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise MistakeError(f"{where}: {why}") from error
    if not num:
        raise MistakeError(f"{where}: it has no pages")
