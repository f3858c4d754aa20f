"""`rlx check` where engines, learners and servers are what a cluster has, on CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rlx.hardware.packages import lacks

pytestmark = pytest.mark.cluster
SMALL = ("env.max_rounds=2", "sampling.max_new_tokens=40")
NEEDS = {"cpu": None, "cpux2": "deepspeed", "cpu_vllm": "vllm", "cpu_async": None}


@pytest.mark.parametrize("hardware", NEEDS)
def test_every_check_is_passed(hardware: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = NEEDS[hardware]
    if needed is not None and lacks(needed):
        pytest.skip(f"{lacks(needed)}; `make setup-cluster` installs it")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    command = [sys.executable, "-m", "rlx", "check", f"hardware={hardware}", *SMALL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=700)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "FAILED" not in done.stdout
    assert "nothing is left behind" in done.stdout
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("rlx")]
