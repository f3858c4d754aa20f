"""Chromium for tests of the page, which keeps screenshots and fails on any message of its console."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SCREENSHOTS = Path(__file__).parent / "screenshots"
AXE = Path(__file__).parents[2] / "scripts" / "page" / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    """Return the program; skip the test where there is none."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.skip("chromium is not installed; CHROMIUM names it")
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: the extra browser has it"
    )
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield found
        found.close()


class Screen:
    """A page, what its console said, and its screenshots."""

    def __init__(self, page: Any, name: str) -> None:
        self.page, self.name, self.messages = page, name, []
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))

    def open(self, address: str, ready: str) -> None:
        """Go to an address, and wait for an element."""
        self.page.goto(address)
        self.page.wait_for_selector(ready, state="visible")

    def shot(self, name: str) -> None:
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{self.name}-{name}.png")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def problems(self) -> list[str]:
        """Return what axe finds serious: the rule, and the first element that breaks it."""
        if not AXE.is_file():
            pytest.skip("axe-core is not installed: npm --prefix scripts/page ci")
        self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        bad = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
        return [
            f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary'][:300]}" for one in bad
        ]


@pytest.fixture
def screen(browser: Any, request: pytest.FixtureRequest) -> Iterator[Screen]:
    """Yield a page of 1440 x 900 in the light theme, or of the width, height and theme of an indirect parameter."""
    width, height, theme = getattr(request, "param", (1440, 900, "light"))
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    name = request.node.originalname.removeprefix("test_")
    found = Screen(context.new_page(), f"{name}-{theme}-{width}")
    yield found
    context.close()
    assert found.messages == []


REAL = {
    "carl": (*("env=countdown", "env.max_rounds=2", "algo=carl", "algo.num_fresh=2", "algo.num_forks=3"), 40),
    "earl": (*("env=sorting/sort3", "env.sizes=[3]", "env.shares=[1]", "algo=earl", "algo.num_samples=2"), 8),
    "babyai": (*("env=babyai/go_to", "protocol=direct_goal", "algo=nested_ppo", "algo.num_samples=1"), 12),
    "tool_rloo": (*("env=countdown", "env.max_rounds=2", "algo=tool_rloo", "algo.num_samples=2"), 40),
}
"""Words of runs, and the tokens of a turn."""


@pytest.fixture(scope="session")
def real_runs(tmp_path_factory: pytest.TempPathFactory, small_run: Callable[..., Any]) -> Path:
    """The folder of runs of the embedded model that were trained for one step: a tree, twins, a grid and tool calls."""
    pytest.importorskip("minigrid")
    from rlx.base.console import Screen as Console
    from rlx.training import train

    folder = tmp_path_factory.mktemp("real")
    for name, (*words, tokens) in REAL.items():
        short = ("algo.num_prompts=2", "steps=1", "evaluate.num_tasks=1", "evaluate.num_samples=1", "evaluate.ks=[1]")
        limits = (f"sampling.max_new_tokens={tokens}", f"evaluate.max_new_tokens={tokens}")
        run = small_run(folder / name, *words, *short, *limits, without=("env", "algo"))
        train(run, Console(silent=True))  # type: ignore[arg-type]
    return folder
