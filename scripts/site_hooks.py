"""Hooks of mkdocs (mkdocs.yml): render the pages as GitHub does.

mkdocs needs a blank line before a list or a table, and knows no `file=` in a code fence. The site has no files outside
docs/.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

FENCE = re.compile(r"^```(\w+) (?:file=(\S+)|view=\S+)$", re.MULTILINE)
BLOCKS = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
LIST = re.compile(r"^(?=\S)(?!- |\||\d+\. )(.+\n)(?=(?:- |\||\d+\. ))", re.MULTILINE)
"""A line of text directly before the first line of a list or a table."""
LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#]*)\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    parts = BLOCKS.split(markdown)
    parts[::2] = [name_outside_links(separate_lists(text), page.file.src_uri) for text in parts[::2]]
    return FENCE.sub(title_fence, "".join(parts))


def separate_lists(text: str) -> str:
    """Put a blank line before lists and tables, and nest inner lists by four spaces."""
    return re.sub(r"^  (?=- )", "    ", LIST.sub(r"\1\n", text), flags=re.MULTILINE)


def title_fence(fence: re.Match[str]) -> str:
    """Return the fence with its file's name as a title."""
    language, name = fence.groups()
    return f'```{language} title="{name}"' if name else f"```{language}"


def name_outside_links(text: str, page: str) -> str:
    """Replace links to files outside docs/ by the paths of these files."""

    def named(link: re.Match[str]) -> str:
        label, target = link.groups()
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
        return link[0] if path.startswith("docs/") else f"{label} (`{path}`)"

    return LINK.sub(named, text)
