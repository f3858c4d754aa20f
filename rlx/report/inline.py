"""Pictures inside a page: an SVG that matplotlib wrote, rebuilt from the elements and attributes named here.

Styles become attributes, as the page's policy allows none. Black becomes the colour of the page's text, and white
nothing, so that a picture is readable on any ground. Ids get the picture's name: those of two pictures are often equal.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from rlx.report.html import Child, Html, element

TAGS = frozenset({"svg", "g", "defs", "path", "use", "clipPath", "rect", "text", "tspan", "pattern"})
PLAIN = frozenset({"x", "y", "width", "height", "d", "transform", "viewBox", "patternUnits", "patternTransform"})
STYLES = frozenset(
    {
        *("fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray", "stroke-dashoffset"),
        *("stroke-linecap", "stroke-linejoin", "opacity", "font-size", "font-weight", "text-anchor", "clip-path"),
    }
)
"""Properties of a style that are attributes too."""
LINK = re.compile(r"(?<=^#).+|(?<=^url\(#).+(?=\)$)")
"""Name in a link to an id of the same picture."""
DARK = re.compile(r"#([0-5][0-9a-f])\1\1", re.ASCII)
"""Black and dark greys, which are the colour of text and lines."""
COLOURED = frozenset({"fill", "stroke"})


def inline(svg: str, name: str, label: str) -> Html:
    """Return a picture as an element of a page; `name` begins its ids, `label` says what it shows."""
    root = ElementTree.fromstring(svg)
    return rebuilt(root, name, {"role": "img", "aria-label": label, "class": "picture"})


def rebuilt(node: ElementTree.Element, name: str, more: dict[str, str]) -> Html:
    """Return an element with what is allowed in it."""
    tag = local(node.tag)
    children: list[Child] = [node.text or ""] if tag in ("text", "tspan") else []
    children += [rebuilt(child, name, {}) for child in node if local(child.tag) in TAGS]
    return element(tag, *children, attributes={**attributes_of(node, name), **more})


def local(tag: object) -> str:
    """Return a name without its namespace; nothing for a comment."""
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attributes_of(node: ElementTree.Element, name: str) -> dict[str, str]:
    """Return the allowed attributes, those of the style included."""
    told = {local(key): value for key, value in node.attrib.items()}
    found = {key: value for key, value in told.items() if key in PLAIN or key in STYLES}
    found |= {key: value for key, value in properties(told.get("style", "")) if key in STYLES}
    found |= {"id": f"{name}-{told['id']}"} if "id" in told else {}
    found |= {"href": f"#{name}-{told['href'][1:]}"} if told.get("href", "").startswith("#") else {}
    return {key: themed(key, linked(value, name)) for key, value in found.items()}


def properties(style: str) -> list[tuple[str, str]]:
    """Return the properties of a style."""
    pairs = (one.partition(":") for one in style.split(";"))
    return [(key.strip(), value.strip()) for key, _, value in pairs if value.strip()]


def linked(value: str, name: str) -> str:
    """Return a value whose `url(#id)` has the picture's name; another link becomes none."""
    if not value.startswith("url("):
        return value
    match = LINK.search(value)
    return f"url(#{name}-{match[0]})" if match else "none"


def themed(key: str, value: str) -> str:
    """Return a colour that fits any ground."""
    if key not in COLOURED:
        return value
    return "currentColor" if DARK.fullmatch(value) else "none" if value == "#ffffff" else value
