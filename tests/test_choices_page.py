"""docs/choices.md has what rlx chooses for every environment, algorithm and kind of model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_tables_of_choices_are_those_of_the_code() -> None:
    words = [sys.executable, str(ROOT / "scripts" / "choices.py")]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in (ROOT / "docs" / "choices.md").read_text(encoding="utf-8")
