"""What `rlx check` finds on machines other than this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.commands import machine
from rlx.hardware import packages
from rlx.hardware.machine import Gpu
from rlx.hardware.packages import how_to_get
from rlx.plan import devices
from rlx.settings.folders import list_options


def pretend(monkeypatch: pytest.MonkeyPatch, num_gpus: int, version: str | None) -> None:
    monkeypatch.setattr(devices, "gpus", lambda: [Gpu(name="A100", memory=80 * 10**9)] * num_gpus)
    for module in (machine, devices, packages):
        monkeypatch.setattr(module, "find_version", lambda name: version)
    monkeypatch.setattr(machine, "lacks", lambda extra: None if version else f"{extra} is missing")
    monkeypatch.setattr(devices, "lacks", lambda extra: None if version else f"{extra} is missing")


def verdicts() -> dict[str, str]:
    lines = [line.removeprefix("profile  ").partition(": ") for line in machine.examine_profiles()]
    return {name.removeprefix("hardware="): text for names, _, text in lines for name in names.split(", ")}


def test_every_profile_has_a_verdict_and_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 0, None)
    found = verdicts()
    assert set(found) == set(list_options("hardware"))
    assert found["cpu"].startswith("can run here")
    assert "no" in found["a100x8"]
    assert "hydra/launcher=slurm" in found["a100x8"]
    assert "torchrun" in found["a100x8x2"]


def test_a_machine_of_four_gpus_runs_profiles_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 4, "1")
    found = verdicts()
    assert found["gpu1"].startswith("can run here")
    assert found["a100x4"].startswith("can run here")
    assert "wants 8 GPUs on a machine and this one has 4" in found["a100x8"]


@pytest.mark.parametrize(
    ("cores", "verdict"), [(12, "can run here"), (11, "can run here, slowly: it wants 12 cores of 11")]
)
def test_a_profile_is_slow_where_threads_tools_and_servers_have_no_cores(
    monkeypatch: pytest.MonkeyPatch, cores: int, verdict: str
) -> None:
    pretend(monkeypatch, 1, "1")
    monkeypatch.setattr(machine, "num_cores", lambda: cores)
    assert verdicts()["gpu1"] == verdict


def test_missing_packages_are_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 8, None)
    assert verdicts()["a100x8"].endswith("[deepspeed]'")
    lines = "\n".join(machine.examine_extras())
    assert "make setup-cluster" in lines
    assert how_to_get("slurm") in lines


def test_a_torch_without_cuda_beside_a_gpu() -> None:
    found = [Gpu(name="A100", memory=80 * 10**9)]
    assert machine.describe_gpus(found, "2.13.0") == "A100 (80.0 GB)"
    assert "without CUDA: pip install" in machine.describe_gpus(found, "2.13.0+cpu")
    assert machine.describe_gpus([], "2.13.0") == "none"


def test_slurm_is_found_by_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    assert "apt-get install slurm-wlm" in machine.describe_slurm()


def test_a_missing_compiler_and_a_missing_header_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine.shutil, "which", lambda name: "/usr/bin/gcc" if name == "gcc" else None)
    assert str(tmp_path / "Python.h") in machine.describe_build(str(tmp_path))
    assert "a C compiler" not in machine.describe_build(str(tmp_path))
    (tmp_path / "Python.h").write_text("")
    assert "MISSING" not in machine.describe_build(str(tmp_path))
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    assert "a C compiler" in machine.describe_build(str(tmp_path))
