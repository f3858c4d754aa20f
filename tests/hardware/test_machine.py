"""What a machine has, from what its driver and system say."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.hardware import machine
from rlx.hardware.machine import Gpu, gpus, machine_memory, num_cores, size


def make_smi(folder: Path, text: str, code: int = 0) -> None:
    file = folder / "nvidia-smi"
    file.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {code}\n")
    file.chmod(0o755)


def test_gpus_are_those_that_nvidia_smi_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    make_smi(tmp_path, "NVIDIA A100-SXM4-80GB, 81920\nNVIDIA A100-SXM4-80GB, 81920")
    assert gpus({}) == [Gpu(name="NVIDIA A100-SXM4-80GB", memory=81920 * 2**20)] * 2
    assert len(gpus({"CUDA_VISIBLE_DEVICES": "1"})) == 1
    assert gpus({"CUDA_VISIBLE_DEVICES": ""}) == gpus({"CUDA_VISIBLE_DEVICES": "-1"}) == []


def test_without_it_the_drivers_files_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    make_smi(tmp_path, "NVIDIA-SMI has failed", code=9)
    monkeypatch.setattr(machine, "DRIVER", tmp_path)
    assert gpus({}) == []
    (tmp_path / "0000:01").mkdir()
    (tmp_path / "0000:01" / "information").write_text("Model: \t NVIDIA T4\nIRQ: 3\n")
    assert gpus({}) == [Gpu(name="NVIDIA T4")]


def test_a_container_limits_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "CGROUP", tmp_path / "memory.max")
    whole = machine_memory()
    assert whole is not None
    (tmp_path / "memory.max").write_text("1000\n")
    assert machine_memory() == 1000
    (tmp_path / "memory.max").write_text("max\n")
    assert machine_memory() == whole
    assert num_cores() >= 1


def test_sizes() -> None:
    assert [size(n) for n in (1500, 12_000_000, 1_500_000_000)] == ["1.5 kB", "12.0 MB", "1.5 GB"]
