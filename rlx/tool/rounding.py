"""Python's `round` for monty, whose own scales by a power of ten: round(2.675, 2) is 2.68 there, and 2.67 in Python.

    round(x, n)  n >= 0  the decimal text of x with n places, which monty rounds exactly, as a number
                 n < 0   whole numbers: the parts of x before and behind its digit n, half to even

All of it is written in the language of the sandbox: it gives code nothing that code could not define itself.
"""

from __future__ import annotations

from pydantic_monty import MontySession

ROUND = """
def _make_round(builtin, type, float, int, bool, abs, divmod, OverflowError):
    def rounded(number, places):
        if places > 323:
            return number
        if places < -308:
            return 0.0 * number
        if places >= 0:
            return float(f"{number:.{places}f}")
        size = abs(number)
        whole = int(size)
        power = 10 ** -places
        count, rest = divmod(whole, power)
        if 2 * rest > power or 2 * rest == power and (size != whole or count % 2):
            count += 1
        whole = count * power
        if whole > LARGEST:
            raise OverflowError("rounded value too large to represent")
        return -float(whole) if f"{number}"[0] == "-" else float(whole)
    def round(number, ndigits=None):
        if ndigits is None:
            return builtin(number)
        if type(ndigits) is bool:
            ndigits = int(ndigits)
        if type(number) is not float or type(ndigits) is not int or number - number != 0:
            return builtin(number, ndigits)
        return rounded(number, ndigits)
    LARGEST = int(1.7976931348623157e308)
    return round
round = _make_round(round, type, float, int, bool, abs, divmod, OverflowError)
"""


def mend_round(session: MontySession, code: str) -> None:
    """Define `round` in a fresh sandbox if the code mentions it."""
    if "round" in code:
        session.feed_run(ROUND)
