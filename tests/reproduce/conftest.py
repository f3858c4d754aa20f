"""What tests of reproductions share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rlx.lab.reproduce.files import read_reproduction
from rlx.lab.reproduce.reproduction import ReproductionError


@pytest.fixture
def refusal() -> Callable[[Path], str]:
    """The line that refuses a reproduction's file, after the file's name."""

    def read(path: Path) -> str:
        with pytest.raises(ReproductionError) as caught:
            read_reproduction(path)
        told = str(caught.value)
        assert told.startswith(f"{path}: ")
        assert "\n" not in told
        assert len(told) < 600
        return told

    return read
