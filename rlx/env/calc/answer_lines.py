r"""The lines of an answer as models write them, without the marks around what they say.

    So **The answer is $44 + 19 + 35$.**     So The answer is 44 + 19 + 35.
    98 = \boxed{44 + 19 + 35}                98 = 44 + 19 + 35             marks are removed, the text in them stays
    44 + 19 + 35                             44 + 19 + 35 = 63 + 35        two lines, if = begins the second
    = 63 + 35

Only regular expressions that take linear time see the text.
"""

from __future__ import annotations

import re

ENDS = re.compile(r"</answer>|\\(?:boxed|fbox) *\{[^}]*\}")
"""Marks of a final answer: the lines after the last one are not read."""
FRACTION = re.compile(r"\\[dt]?frac *\{([^{}]*)\} *\{([^{}]*)\}")
MOST_FRACTIONS = 8
"""Levels of nested LaTeX fractions that are read. Each level is one more pass over the text."""
BOLD = re.compile(r"(?<![\d)])\*\*|\*\*(?![\d(])")
"""`**` for bold text. Between two operands it stays, so that a power is no product."""
REPLACED = (
    (re.compile(r"\\(?:times|cdot|ast)(?![A-Za-z])|[×·⋅∗]"), "*"),
    (re.compile(r"\\div(?![A-Za-z])|[÷∕]"), "/"),
    (re.compile(r"[\u2212\u2013]"), "-"),
    (re.compile(r"\\(?:begin|end) *\{[a-z]{1,20}\*?\}|\\\\(?![A-Za-z\[\](){}])"), "\n"),
    (re.compile(r"\\(?:left|right|boxed|fbox|text|mathrm|mathbf)(?![A-Za-z])|\\[\[\]()$]|[{}$`\"\[\]]|&(?= *=)"), ""),
    (re.compile(r"(?<=\d)\\[,;:! ](?=\d{3})", re.ASCII), ""),
    (re.compile(r"\\(?:[,;:! ]|q?quad(?![A-Za-z]))"), " "),
    (re.compile(r"</?[A-Za-z][^<>\n]*>"), " ; "),
    (BOLD, ""),
    (re.compile(r"(?<!\d)(\d{1,3})((?:,\d{3})+)(?!,?\d)", re.ASCII), lambda match: match[0].replace(",", "")),
    (re.compile(r"\b(?:which )?(?:equals(?: to)?|is equal(?: to)?|gives|makes|yields)\b|[→⇒]|:="), "="),
)
HEADING = re.compile(r"[>#* ]+")
"""Marks of Markdown before a line. No calculation begins with one."""


def answer_lines(text: str) -> list[str]:
    """Return the lines up to the last final mark, without marks; a line that begins with `=` is part of the one
    before."""
    end = max((mark.end() for mark in ENDS.finditer(text)), default=len(text))
    stop = text.find("\n", end)
    plain = text if stop < 0 else text[:stop]
    for _ in range(MOST_FRACTIONS):
        plain = FRACTION.sub(r"((\1)/(\2))", plain)
    for pattern, mark in REPLACED:
        plain = pattern.sub(mark, plain)
    lines: list[list[str]] = []
    for line in filter(None, (" ".join(line.split()) for line in plain.splitlines())):
        heading = HEADING.match(line)
        content = line[heading.end() :] if heading else line
        if content.startswith("=") and lines:
            lines[-1].append(content)
        else:
            lines.append([content])
    return [" ".join(parts) for parts in lines]
