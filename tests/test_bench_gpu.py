"""benchmarks/bench_gpu.py on a CPU with a tiny model: what it would do on a GPU, but for what needs one."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("bench_gpu")
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def rows(bench: Any) -> Any:
    return importlib.import_module("gpu_rows")


def arguments(out: Path, minutes: float = 5.0) -> argparse.Namespace:
    lengths, models = [32], ["tiny"]
    given = {"minutes": minutes, "row_minutes": 1.0, "threads": 1, "repeats": 1, "no_check": True, "out": out}
    return argparse.Namespace(models=models, lengths=lengths, **given)


def test_model_flops_by_hand(rows: Any) -> None:
    shape = rows.read_shape(rows.read_model("tiny"))
    layer = 32 * (32 + 16 + 16) + 32 * 32 + 3 * 32 * 64
    num = 2 * layer + 1536 * 32
    assert rows.model_flops(shape, 10, adapted=False) == 6 * num + 6 * 2 * 32 * 10
    assert rows.model_flops(shape, 10, adapted=True) == 4 * num + 6 * 2 * 32 * 10


def test_it_measures_on_a_cpu_names_what_needs_a_gpu_and_goes_on_where_it_was(
    bench: Any, rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []

    def here(row: dict[str, Any], seconds: float) -> dict[str, Any]:
        """In this process: a new one takes seconds to import torch."""
        measured.append(row["kind"])
        return dict(rows.measure({**row, "repeats": 1, "new": 4}))

    monkeypatch.setattr(bench, "measure_row", here)
    monkeypatch.setattr(bench, "measure_flops", lambda: 1e11)
    text = bench.main(arguments(tmp_path), ["--models", "tiny"])
    assert measured == ["update", "update", "rollout"]
    for line in ("| tiny | full | 32 | ", "| tiny | LoRA (r=16) | 32 | ", "| tiny | torch | 8 | "):
        (found,) = [each for each in text.splitlines() if each.startswith(line)]
        assert found.rstrip("| ").endswith(("MB", "GB"))
        assert "failed" not in found
    assert text.count("skipped: no CUDA") == 2
    assert "torch 2" in text
    assert (tmp_path / "gpu.md").read_text() == text
    assert bench.main(arguments(tmp_path), ["--models", "tiny"]) == text
    assert len(measured) == 3, "rows that are measured are read again"
    (tmp_path / "rows.jsonl").unlink()
    late = bench.main(arguments(tmp_path, minutes=0.0), [])
    assert late.count("not reached in time") == 3


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed"),
        ("raise ValueError('no such\\nkernel')", "kernel"),
        ("import time; time.sleep(60)", "not done after"),
        ("print('noise'); print('{\"tokens_per_s\": 3.5}')", ""),
    ],
)
def test_a_row_that_dies_costs_its_figures_alone(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    (tmp_path / "gpu_rows.py").write_text(program)
    monkeypatch.setattr(bench, "HERE", tmp_path)
    found = bench.measure_row({"kind": "update"}, 5.0 if "sleep" in program else 600.0)
    assert said in found.get("failed", "")
    assert found == {"tokens_per_s": 3.5} or said


def test_what_is_out_of_memory_says_so(bench: Any, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(row: dict[str, Any]) -> dict[str, Any]:
        raise MemoryError

    monkeypatch.setitem(rows.MEASURES, "update", full)
    row = {"kind": "update", "model": "tiny", "adapted": False, "length": 32}
    found = rows.measure(row)
    assert found == {"failed": "out of memory"}
    place = bench.Place(device="cuda", name="NVIDIA H100", peak=989e12, versions="")
    assert bench.described(row, found, place) == ["tiny", "full", "32", "out of memory", "", "", ""]


def test_a_gpu_has_rows_of_every_kind_and_share_of_its_peak(bench: Any) -> None:
    place = bench.Place(device="cuda", name="NVIDIA H100", peak=989e12, versions="")
    planned = bench.plan_rows(place, (), ())
    assert {row["kind"] for row in planned} == set(bench.TITLES)
    lengths = {row["length"] for row in planned if row["kind"] == "attention"}
    assert lengths == {100, 128, 129, 32_768}
    found = {"flops": 98.9e12, "tokens_per_s": 11_900.0, "seconds": 1.38, "peak_bytes": 12_500_000_000}
    row = {"kind": "update", "model": "qwen3_0_6b", "adapted": False, "length": 16384}
    assert bench.described(row, found, place)[3:] == ["10.0%", "11,900", "1.38 s", "12.5 GB"]
    assert json.loads(bench.key_of(row, place))[1] == "NVIDIA H100"


@pytest.mark.parametrize(
    ("device", "name", "profile"),
    [
        ("cpu", "AMD EPYC, 1 thread", "cpu"),
        ("cuda", "NVIDIA H100 80GB HBM3", "gpu1"),
        ("cuda", "NVIDIA GeForce RTX 4090", "gpu1"),
    ],
)
def test_the_check_comes_first_on_the_profile_of_one_device(
    bench: Any, monkeypatch: pytest.MonkeyPatch, device: str, name: str, profile: str
) -> None:
    """Without vLLM, as here, on the profile that does without it."""
    asked: list[list[str]] = []

    def answer(words: list[str], **_: Any) -> Any:
        asked.append(words)
        return argparse.Namespace(returncode=0, stdout="ok      the run ends\n", stderr="")

    monkeypatch.setattr(bench, "lacks", lambda extra: "vllm is missing")
    monkeypatch.setattr(bench.subprocess, "run", answer)
    place = bench.Place(device=device, name=name, peak=1e11, versions="")
    text = bench.run_check(place, 4.0, 1)
    assert asked[0][3:5] == ["check", f"hardware={profile}"]
    assert asked[0][-2:] == ["--minutes", "4"]
    assert "exit code 0" in text
    assert "ok      the run ends" in text
