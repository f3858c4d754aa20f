"""HTML from functions that escape: a `str` becomes text, and only these functions make `Html`.

No template engine: a template escapes where its author remembers to, and these types escape where nobody does.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rlx.evaluate.picture import label_of

LONGEST = 2000
"""Largest number of characters of a text."""
NONE: Mapping[str, str] = MappingProxyType({})
VOID = frozenset({"meta"})
"""Elements without content and end."""


@dataclass(frozen=True, slots=True)
class Html:
    """Markup, which needs no more escaping."""

    text: str


Child = Html | str


def escaped(text: str, limit: int = LONGEST) -> str:
    """Return a text as one line that HTML and XML show as it is, without characters that hide or reorder text."""
    return html.escape(label_of(text, limit), quote=True)


def markup(child: Child) -> str:
    """Return a child as markup: a text is escaped."""
    return child.text if isinstance(child, Html) else escaped(child)


def element(tag: str, *children: Child, attributes: Mapping[str, str] = NONE) -> Html:
    """Build an element; `tag` and the names of attributes are the program's own words."""
    words = "".join(f' {name}="{escaped(value, 10**7)}"' for name, value in attributes.items())
    head = f"<{tag}{words}>"
    return Html(head if tag in VOID else f"{head}{''.join(map(markup, children))}</{tag}>")


def joined(children: Iterable[Child]) -> Html:
    """Build what follows one another, a line each."""
    return Html("\n".join(map(markup, children)))


def styled(css: str) -> Html:
    """Build the style element of a page; the CSS is the program's own."""
    return Html(f"<style>{css}</style>")


def policy_of(css: str) -> str:
    """Return a content security policy that allows this style and nothing else: no script, no request, no form."""
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def page(title: str, css: str, *body: Child) -> str:
    """Return a whole page."""
    policy = {"http-equiv": "Content-Security-Policy", "content": policy_of(css)}
    head = [
        element("meta", attributes={"charset": "utf-8"}),
        element("meta", attributes=policy),
        element("meta", attributes={"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", attributes={"name": "color-scheme", "content": "light dark"}),
        element("title", title),
        styled(css),
    ]
    whole = element("html", joined([element("head", joined(head)), element("body", joined(body))]), attributes=ENGLISH)
    return f"<!doctype html>\n{whole.text}\n"


ENGLISH = {"lang": "en"}
