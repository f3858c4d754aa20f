r"""GEM's rules for answers of mathematics that are spelled differently, as text alone; nothing is evaluated.

    trimmed     50\%  90^\circ  18 \text{ dollars}  .5  x=3  1/2   ->  50  90  18  \frac{1}{2}  3  \frac{1}{2}
    simplified  1e3  1 1/2  2\sqrt{3}  5 miles  TRUE  1,000        ->  1000  1+1/2  2sqrt(3)  5  true  1000

An answer is right if either form equals the key's, or if the simplified forms are equal as formulas
(rlx.env.questions.formula).
GEM's parser writes \frac{x+1}{2} as x+1/2, and takes 1e-10 for 0; these forms do not.
"""

from __future__ import annotations

import re

TEXT = re.compile(r"\\text\{(.+?)\}")
LAST_TEXT = re.compile(r"\\text\{.*?\}$")
FIELD = re.compile(r"^[^=]{0,2}=([^=]*)$")
RATIO = re.compile(r"(-?(?:0|[1-9]\d*))/(-?(?:0|[1-9]\d*))", re.ASCII)
SYNONYMS = (
    *(("\n", ""), ("\\!", ""), ("\\\\", "\\"), ("bmatrix", "pmatrix"), ("tfrac", "frac"), ("dfrac", "frac")),
    *(("\\neq", "\\ne"), ("\\leq", "\\le"), ("\\geq", "\\ge"), ("\\left", ""), ("\\right", "")),
)
ARRAY = (
    (re.compile(r"\\begin\{array\}\{.*?\}"), r"\\begin{pmatrix}"),
    (re.compile(r"\\end\{array\}"), r"\\end{pmatrix}"),
)
UNITS = re.compile(
    r"(?<!\w)(?:a|ab|acre|am|apple|are|bc|by|c|cc|cm|coin|cu|cube|cubic|d|day|decrease|deg|degree|dm|east|excess|feet|ft"
    r"|g|gain|gal|gallon|gm|h|hectare|hour|hr|inch|inches|increase|kg|km|kmh|kmph|l|lb|less|liter|litre|loss|lt|m|man"
    r"|mark|men|meter|metre|mile|min|minute|minw|mm|monkey|month|more|mp|mph|mt|mtr|noon|number|o|ohm|per|percent|pie"
    r"|pm|prime|profit|pure|ratio|rd|rise|rounds|rs|rupee|s|sec|second|soldier|sq|square|st|surface|t|th|tile|toy|unit"
    r"|way|west|woman|women|yard|year|yr)s?(?!\w)",
    re.IGNORECASE,
)
"""Units and other words that may stand beside a number."""
SCALES = (("million", "*10^6"), ("billion", "*10^9"), ("trillion", "*10^12"))
LONG_UNITS = re.compile(
    r"(?:degree|centimeter|cm|meter|mile|second|minute|hour|day|week|month|year|foot|feet|inch|yard)"
    r"(?:es)?s? *(?:\^\d+)?"
)
SIGNS = (("√", "sqrt"), ("π", "pi"), ("∞", "inf"), ("∪", "U"), ("·", "*"), ("×", "*"))
COMMANDS = (
    *(
        ("sqrt", "√"),
        ("pi", "π"),
        ("infty", "∞"),
        ("cup", "∪"),
        ("cdot", "·"),
        ("times", "×"),
        ("le", "≤"),
        ("ge", "≥"),
    ),
    *(("ne", "≠"), ("in", "∈"), ("pm", "±"), ("div", "/"), ("left", ""), ("right", "")),
)
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?:\D|$))", re.ASCII)
FRACTION = re.compile(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}")
ROOT = re.compile(r"\\sqrt\{([^{}]*)\}")
DIGITS = re.compile(r"-?\d+(?:\.\d*)?(?:e[+-]?\d{1,3})?|-?\.\d+(?:e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)


def trim(answer: str) -> str:
    """Return an answer without units, signs of percent, degree and money, with fractions and roots in braces."""
    text = answer.strip()
    if text_match := TEXT.fullmatch(text):
        text = text_match[1].strip()
    for before, after in SYNONYMS:
        text = text.replace(before, after)
    for pattern, name in ARRAY:
        text = pattern.sub(name, text)
    text = LAST_TEXT.sub("", text).strip() or text
    text = UNITS.sub("", text) if UNITS.sub("", text).strip() else text
    for sign in ("^{\\circ}", "^\\circ", "\\$", "\\%"):
        text = text.replace(sign, "")
    text = text.split("\\text{ ")[0].replace(" .", " 0.").replace("{.", "{0.")
    text = f"0{text}" if text.startswith(".") else text
    if field := FIELD.match(text):
        text = field[1]
    text = brace(text.replace(" ", ""))
    if text == "0.5":
        return "\\frac{1}{2}"
    ratio = RATIO.fullmatch(text)
    return f"\\frac{{{ratio[1]}}}{{{ratio[2]}}}" if ratio else text


def brace(text: str) -> str:
    r"""Return \frac12 as \frac{1}{2}, and \sqrt3 as \sqrt{3}."""
    text = re.sub(r"\\sqrt([^{])", r"\\sqrt{\1}", text)
    text = re.sub(r"\\frac([^{])([^{])", r"\\frac{\1}{\2}", text)
    return re.sub(r"\\frac([^{])\{", r"\\frac{\1}{", text)


def simplify(answer: str) -> str:
    """Return an answer as a formula without LaTeX, or as a text in small letters."""
    text = answer
    if text_match := TEXT.fullmatch(text):
        text = text_match[1]
    for before, after in (("\\%", ""), ("\\$", ""), ("$", ""), ("%", ""), (" or ", " , "), (" and ", " , "), *SCALES):
        text = text.replace(before, after)
    text = re.sub(r"\^ *\{? *\\circ *\}?", "", LONG_UNITS.sub("", text))
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    text = as_digits(re.sub(r",\\! *", "", text))
    text = without_latex(text) if "\\" in text else text
    text = re.sub(r"- *", "-", text)
    text = re.sub(r"(\d) +(\d)", r"\1+\2", text)  # a mixed number
    text = re.sub(r"[ {}]", "", text).lower()
    return as_digits(THOUSANDS.sub("", text) if DIGITS.fullmatch(THOUSANDS.sub("", text)) else text)


def as_digits(text: str) -> str:
    """Return a whole number as its digits: 1e3 and 1000.0 as 1000; any other text as it is."""
    if not DIGITS.fullmatch(text.strip()):
        return text
    mantissa, _, exponent = text.strip().lower().partition("e")
    head, _, tail = mantissa.partition(".")
    power = int(exponent or 0)
    digits = f"{head}{tail.rstrip('0')}"
    places = power - len(tail.rstrip("0"))
    if places < 0:
        return text
    return str(int(f"{digits}{'0' * places}")) if len(digits) + places < 4000 else text


def without_latex(text: str) -> str:
    r"""Return a formula without LaTeX: \frac{a}{b} as a/b, \sqrt{a} as sqrt(a)."""
    text = brace(re.sub(r"\\[][()]", "", text).replace("\\tfrac", "\\frac").replace("\\dfrac", "\\frac"))
    for _ in range(20):  # from the innermost braces on
        new_text = FRACTION.sub(lambda part: f" {wrap(part[1])}/{wrap(part[2])}", text)
        new_text = ROOT.sub(r"sqrt(\1)", new_text)
        if new_text == text:
            break
        text = new_text
    for name, sign in COMMANDS:
        text = re.sub(rf"\\{name}(?![A-Za-z])", sign, text)
    text = re.sub(r"\\(?:text|mathrm|mbox|textbf|mathbf)\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\\([A-Za-z]+)", r"\1", re.sub(r"\\[,;!: ]", " ", text))
    for sign, name in SIGNS:
        text = text.replace(sign, name)
    return text.strip()


def wrap(text: str) -> str:
    """Return a numerator or a denominator, in parentheses unless it is one number or letter."""
    return text if re.fullmatch(r"\s*-?(?:\d+(?:\.\d+)?|[A-Za-z])\s*", text) else f"({text})"


def elements(text: str) -> list[str]:
    """Return the elements of a tuple or an interval; of anything else the text itself."""
    is_tuple = len(text) > 2 and text[0] in "([" and text[-1] in ")]" and not set("()[]") & set(text[1:-1])
    return [part.strip() for part in text[1:-1].split(",")] if is_tuple else [text]
