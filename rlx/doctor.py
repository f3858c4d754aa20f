"""What is installed, what this machine can run, and what to do about the rest. Imports nothing heavy."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import yaml

from rlx.config_folders import config_folders, shipped_folder
from rlx.plan import machine_memory, size

EXTRA = re.compile(r"""^([\w.-]+)[^;]*;.*extra == ['"]([\w-]+)['"]""")
NAME = re.compile(r"^([\w.-]+)")


def examine() -> str:
    """All sections of `rlx doctor`."""
    return "\n".join([*examine_machine(), "", *examine_packages(), "", *examine_extras(), "", *examine_profiles()])


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def needed() -> tuple[list[str], dict[str, list[str]]]:
    """The packages rlx needs, and those of each extra, by its own metadata."""
    core: list[str] = []
    extras: dict[str, list[str]] = {}
    for line in requires("rlx") or [] if installed("rlx") else []:
        extra, name = EXTRA.match(line), NAME.match(line)
        if extra:
            extras.setdefault(extra[2], []).append(extra[1])
        elif name:
            core.append(name[1])
    return core, extras


def examine_machine() -> list[str]:
    memory, disk = machine_memory(), shutil.disk_usage(Path.cwd()).free
    return [
        f"python   {platform.python_version()} in {sys.prefix}",
        f"machine  {num_cores()} cores, {size(memory) if memory else 'unknown'} memory, {size(disk)} free disk here",
        f"gpu      {describe_gpus()}",
        f"slurm    {'found' if shutil.which('sbatch') else 'none (no sbatch on PATH)'}",
        f"config   {', '.join(str(folder) for folder in config_folders())}",
    ]


def num_cores() -> int:
    """Cores this process may use, which a container may have cut."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus() -> list[str]:
    """Names of NVIDIA GPUs, as the driver lists them."""
    files = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    lines = [line for file in files for line in file.read_text().splitlines() if line.startswith("Model:")]
    return [line.removeprefix("Model:").strip() for line in lines]


def describe_gpus() -> str:
    found, torch = gpus(), installed("torch") or ""
    if found and "+cpu" in torch:
        return f"{', '.join(found)}, but torch {torch} is without CUDA: pip install --force-reinstall torch"
    return ", ".join(found) or "none"


def examine_packages() -> list[str]:
    core, _ = needed()
    if not core:
        return ["rlx      is not installed, only found: pip install -e . (or `make setup`)"]
    missing = [name for name in core if installed(name) is None]
    have = ", ".join(f"{name} {installed(name)}" for name in core if name not in missing)
    lines = [f"rlx      {installed('rlx')}", f"have     {have}"]
    return lines + ([f"MISSING  {', '.join(missing)}: pip install {' '.join(missing)}"] if missing else [])


def examine_extras() -> list[str]:
    lines = []
    for extra, names in needed()[1].items():
        missing = [name for name in names if installed(name) is None]
        state = f"missing {', '.join(missing)}: pip install 'rlx[{extra}]'" if missing else "installed"
        lines.append(f"extra    {extra:<10} {state}")
    return lines


def examine_profiles() -> list[str]:
    """Which hardware profiles fit this machine."""
    lines = []
    for file in sorted((shipped_folder("conf") / "hardware").glob("*.yaml")):
        lacks = lacking(yaml.safe_load(file.read_text(encoding="utf-8")))
        lines.append(f"profile  hardware={file.stem:<10} {'can run here' if not lacks else f'cannot: {lacks}'}")
    return lines


def lacking(profile: dict) -> str:
    """What a profile wants that is not here; empty if nothing."""
    if profile.get("device") == "cuda" and not gpus():
        return "no NVIDIA GPU"
    if profile.get("device") == "cuda" and "+cpu" in (installed("torch") or ""):
        return "this torch is without CUDA"
    if profile.get("num_threads", 1) * profile.get("num_processes", 1) > num_cores():
        return f"{num_cores()} cores"
    return ""
