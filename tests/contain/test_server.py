"""A server survives failed forks; the late end of a process and the file name of a module do no harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.tool.contain.box import Box, Limits
from rlx.tool.contain.process import ChildError
from tests.errors import raises_naming

pytestmark = pytest.mark.usefixtures("container")
MODULE, SHORT = (str(Path(__file__).with_name(name)) for name in ("hostile.py", "short.py"))
LIMITS = Limits(memory_mb=256, cpu_seconds=2)


def test_a_machine_short_of_processes_ends_no_server() -> None:
    own = Box(SHORT)
    assert own.ask(2, 60, LIMITS) == 2, "two forks fail"
    assert own.server is not None
    server = own.server.pid
    with raises_naming(ChildError, "BlockingIOError"):
        own.ask(99, 60, LIMITS)
    assert own.ask(0, 60, LIMITS) == 0
    assert own.server.pid == server
    own.end()


def test_a_late_end_of_a_process_kills_none_of_the_next_server() -> None:
    own = Box(MODULE)
    old = own.begin("import time; time.sleep(600)", LIMITS)
    own.end()  # as if the server had died
    new = own.begin("import time; time.sleep(0.3); out = 5", LIMITS)
    old.end()
    assert new.hear(60).get("value") == 5
    own.end()


@pytest.mark.parametrize("contained", [True, False])
def test_a_module_may_have_the_name_of_the_package_that_it_imports(tmp_path: Path, contained: bool) -> None:
    """As the adapter gem.py, which imports gem."""
    path = tmp_path / "colorsys.py"
    path.write_text("import colorsys\n\n\ndef answer(asked):\n    return colorsys.rgb_to_hsv(*asked)\n")
    own = Box(str(path), contained=contained)
    assert own.ask([0.0, 0.0, 0.5], 60, LIMITS) == [2 / 3, 1.0, 0.5]
    own.end()
