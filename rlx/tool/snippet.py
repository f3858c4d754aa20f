"""Python snippets that print their last expression. The expression is located lexically, without a parser.

The host's parser may be of another version of the language, and it prints warnings. No error stays silent: where the
lexical guess is wrong, the interpreter reports a SyntaxError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

TOKENS = re.compile(
    r"""\#[^\n]*|\\\n|("{3}|'{3})(?:\\.|(?!\1).)*(?:\1|\Z)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|\w+|[^\S\n]+|.""",
    re.DOTALL,
)
"""Pattern of comments, continued lines, strings, names, spaces and single characters: enough to find statements. An
unclosed string counts as a string; else each of its quotes would cause a search to the end."""
COMPOUND = re.compile(r"(?:async|class|def|elif|else|except|finally|for|if|try|while|with)\b")
SHOW = "__show__ = lambda value, write=print: None if value is None else write(value)"
"""Definition of the printing function. It saves `print`, which a snippet may redefine."""


def printing(code: str) -> Iterator[str]:
    """Yield variants of `code` that print its last expression, if it has a value: the last line, then its last
    statement."""
    for start, end in ends(code):
        yield f"{SHOW}\n{code[:start]}__show__(({code[start:end]}\n)){code[end:]}"


def ends(code: str) -> list[tuple[int, int]]:
    """Return the span of the last line of statements, and that of its last statement.

    The list is empty if brackets do not match. The second span is omitted if it equals the first or belongs to a
    compound statement.
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
