"""Numbers and labelled lines of 80 columns, as plans show them."""

from __future__ import annotations

from rlx.base.console import hang
from rlx.hardware.machine import size
from rlx.hardware.sizing.amounts import Amount
from rlx.plan.timer import Timer

LEFT = 12


def row(label: str, text: str) -> list[str]:
    """Wrap a text beside its label."""
    return hang(f"{label:<{LEFT}}", text)


def between(amount: Amount) -> str:
    """Spell both bounds of an amount: 5.7 GB, 5.7 GB to 6.1 GB, up to 6.1 GB."""
    least, most = size(amount.least), size(amount.most)
    if not amount.least:
        return f"up to {most}"
    return least if least == most else f"{least} to {most}"


def short(num: int) -> str:
    """Spell a count in three digits: 72M."""
    for unit, scale in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if num >= scale:
            return f"{num / scale:.3g}{unit}"
    return str(num)


def clock(seconds: float) -> str:
    """Spell a time in two digits: 0.25 s, 14 s, 3.5 min, 2.1 h, 4 days."""
    for unit, scale, least in (("days", 86400, 48 * 3600), ("h", 3600, 5400), ("min", 60, 99.5)):
        if seconds >= least:
            return f"{seconds / scale:.2g} {unit}" if seconds < 99.5 * scale else f"{seconds / scale:,.0f} {unit}"
    return f"{seconds:.2g} s" if seconds >= 0.01 else "0 s"


def hours(seconds: float) -> str:
    """Spell a number of hours in two digits."""
    num_hours = seconds / 3600
    return f"{num_hours:,.0f}" if num_hours >= 10 else f"{num_hours:.2g}"


def precision(timer: Timer) -> str:
    """Say how far an estimate of time may be off, or why nobody knows."""
    if timer.is_checked and timer.is_dense:
        return "within a factor of two"
    return "checked by no run on such a GPU" if timer.is_dense else "checked by no run of such a model"
