"""A snippet of Python whose last expression is to be printed: where it is, told from what the text looks like.

The host's own parser is not asked: it reads another version of the language, and warns on the way. Nothing can go
wrong silently: where the look deceives, the interpreter finds a SyntaxError in what is made here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

TOKENS = re.compile(
    r"""\#[^\n]*|\\\n|("{3}|'{3})(?:\\.|(?!\1).)*(?:\1|\Z)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|\w+|[^\S\n]+|.""",
    re.DOTALL,
)
"""Comments, continued lines, strings, names, spaces and single characters: enough to see where statements begin. A
string that nothing closes is one too, or each of its quotes would be looked behind to the end."""
COMPOUND = re.compile(r"(?:async|class|def|elif|else|except|finally|for|if|try|while|with)\b")
SHOW = "__show__ = lambda value, write=print: None if value is None else write(value)"
"""A name of its own, since a snippet may give `print` another meaning."""


def printing(code: str) -> Iterator[str]:
    """`code` printing what it ends with, if that is an expression with a value: the last line, or its last part."""
    for start, end in ends(code):
        yield f"{SHOW}\n{code[:start]}__show__(({code[start:end]}\n)){code[end:]}"


def ends(code: str) -> list[tuple[int, int]]:
    """Where the last line of statements begins and ends, and where the last one in it does.

    None where brackets do not match, and none of what is part of another statement.
    """
    depth, line, start, end, after = 0, 0, 0, 0, "\n"
    for token in TOKENS.finditer(code):
        text = token[0]
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        if depth < 0:
            return []
        if depth == 0 and text in ("\n", ";"):
            end, after = end if after else token.start(), text
        elif after and not (text.isspace() or text.startswith(("#", "\\\n"))):
            line = token.start() if after == "\n" else line
            start, end, after = token.start(), len(code), ""
    if start == end or (line > 0 and code[line - 1] != "\n"):
        return []
    return [(line, end)] if line == start or COMPOUND.match(code, line) else [(line, end), (start, end)]
