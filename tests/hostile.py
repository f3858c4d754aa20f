"""Texts as a stranger may write them: markup, terminal escapes, bidi characters, surrogates and formulas."""

from __future__ import annotations

import unicodedata

from hypothesis import strategies as st

PIECES = (
    *("<script>x()</script>", "</style>", "<img src=http://x/>", "&lt;", "&#106;", '"', "'", "`", "|", "\\", "$x$"),
    *("\x1b[2J", "\x1b]0;x\x07", "\x9b31m", "\r", "\n", "\t", "\x00", "\u2028", "\ud800", "\udfff", "\uffff"),
    *("\u202e", "\u2066", "\u061c", "\u200b", "\u00ad", "\ufeff", "\U000e0041", "\u05d0"),
    *("=1+1", "+1", "-1", "@x", "\uff1d1", "# x", "- x", "1. x", "---", "> x", "[a]: b", "[a](http://x)", "![a](b)"),
    *("http://x.y", "www.x.y", "*b*", "_b_", "~~b~~", "```", "[red]b[/red]", "warning: ", "began: ", "nan", "a b"),
)
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=6).map("".join)


def dangers(text: str) -> set[str]:
    """Return the characters of a line that end, hide or reorder it, or that nothing can encode."""
    return {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
