"""Report what is installed, what this machine can run, and what to do about the rest. Imports nothing heavy."""

from __future__ import annotations

import platform
import shutil
import sys
import sysconfig
from pathlib import Path

from rlx.base.console import format_count, hang
from rlx.hardware.machine import Gpu, gpus, machine_memory, num_cores, size
from rlx.hardware.packages import core, extras, find_version, how_to_get, lacks
from rlx.hardware.profile import Hardware
from rlx.hardware.sizing.fit import FitError
from rlx.plan.devices import check_devices, check_packages
from rlx.settings.build import build_value
from rlx.settings.folders import config_folders, shipped_options
from rlx.tool.contain.box import contained_by
from rlx.tool.contain.process import RefusedError, StartError

EXTRAS = ("deepspeed", "vllm", "slurm")
"""Told of even where rlx's metadata is older than its code."""
WHERE = {"vllm": " on a machine with CUDA; on CPU, in a checkout, `make setup-cluster`"}


def examine() -> str:
    """Return all sections of `rlx check` without words."""
    lines = [*examine_machine(), "", *examine_packages(), "", *examine_extras(), "", *examine_profiles()]
    return "\n".join(row for line in lines for row in hang(line[:9], line[9:]))


def examine_machine() -> list[str]:
    memory, disk = machine_memory(), shutil.disk_usage(Path.cwd()).free
    cores = format_count(num_cores(), "core")
    return [
        f"python   {platform.python_version()} in {sys.prefix}",
        f"machine  {cores}, {size(memory) if memory else 'unknown'} memory, {size(disk)} free disk here",
        f"gpu      {describe_gpus(gpus(), find_version('torch') or '')}",
        f"build    {describe_build()}",
        f"slurm    {describe_slurm()}",
        f"contain  {describe_containment()}",
        f"config   {', '.join(str(folder) for folder in config_folders())}",
    ]


def describe_gpus(devices: list[Gpu], torch: str) -> str:
    names = ", ".join(gpu.name if gpu.memory is None else f"{gpu.name} ({size(gpu.memory)})" for gpu in devices)
    if devices and "+cpu" in torch:
        return f"{names}, but torch {torch} is without CUDA: pip install --force-reinstall torch"
    return names or "none"


def describe_build(include: str | None = None) -> str:
    """Say whether Triton could compile a GPU's kernels here: FlexAttention's and vLLM's."""
    header = Path(include or sysconfig.get_path("include")) / "Python.h"
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    missing = [name for name, is_here in (("a C compiler", compiler), (str(header), header.is_file())) if not is_here]
    if not missing:
        return f"{compiler} and Python.h: a GPU's kernels can be compiled"
    remedy = "apt-get install gcc python3-dev, or module load gcc and a Python with headers"
    return f"MISSING {' and '.join(missing)}, which FlexAttention and vLLM need on a GPU: {remedy}"


def describe_containment() -> str:
    """Start a contained process, and say what it is made of, or why there is none."""
    try:
        return f"text of models runs contained, by {contained_by()}"
    except (RefusedError, StartError) as error:
        return f"CANNOT: {error}"


def describe_slurm() -> str:
    if shutil.which("sbatch"):
        return "found: hydra/launcher=slurm submits"
    return "none (no sbatch on PATH); a login node has it; to try it on one machine: apt-get install slurm-wlm munge"


def examine_packages() -> list[str]:
    names = core()
    if not names:
        return ["rlx      is not installed, only found: pip install -e . (or `make setup`)"]
    missing = [name for name in names if find_version(name) is None]
    have = ", ".join(f"{name} {find_version(name)}" for name in names if name not in missing)
    lines = [f"rlx      {find_version('rlx')}", f"have     {have}"]
    return lines + ([f"MISSING  {', '.join(missing)}: pip install {' '.join(missing)}"] if missing else [])


def examine_extras() -> list[str]:
    lines = []
    for extra in dict.fromkeys([*extras(), *EXTRAS]):
        wrong = lacks(extra)
        remedy = f"{how_to_get(extra)}{WHERE.get(extra, '')}"
        lines.append(f"extra    {extra:<10} {f'{wrong}: {remedy}' if wrong else 'installed'}")
    return lines


def examine_profiles() -> list[str]:
    """Report the hardware profiles that this machine can run, grouped by verdict."""
    groups: dict[str, list[str]] = {}
    for name, keys in shipped_options("hardware").items():
        groups.setdefault(can_run(build_value(keys, "hardware")), []).append(f"hardware={name}")
    return [f"profile  {', '.join(names)}: {text}" for text, names in sorted(groups.items())]


def can_run(hardware: Hardware) -> str:
    """`can run here`, or the first thing that is missing and the remedy."""
    try:
        check_devices(hardware)
        check_packages(hardware)
    except FitError as error:
        return f"cannot: {error}"
    wanted = hardware.cpus_per_task * hardware.processes_per_node
    return "can run here" + (
        f", slowly: it wants {format_count(wanted, 'core')} of {num_cores()}" if wanted > num_cores() else ""
    )
