"""Commands in README and docs: the command exists, and so does every option that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import typer

from rlx.cli import app
from rlx.settings.folders import list_groups, list_options

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
SHELL = re.compile(r"^```sh.*?^```$", re.MULTILINE | re.DOTALL)
IN_TEXT = re.compile(r"(?<!\\)`rlx ([a-z][a-z-]*)([^`]*)`")
"""A command in a span of code. A report escapes the backquotes of warnings, so those are text."""
IN_BLOCKS = re.compile(r"^    rlx ([a-z][a-z-]*)((?: [^\s#]\S*)*)(?:$|  +| #)", re.MULTILINE)
OWN = {
    *(
        "cellar",
        "grpo_length",
        "echo",
        "higher_lower",
        "shop",
        "corridor",
        "matches",
        "town",
        "winners",
        "token_ppo",
        "mine",
    ),
    *("library", "NAME", "X", "Y", "…"),
}
"""Options of the reader's own folder, and names that stand for any."""


def commands(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the words of each command of a page."""
    text = re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8"))
    text = SHELL.sub(lambda block: re.sub("^", "    ", block[0], flags=re.MULTILINE), text)
    for name, words in [*IN_TEXT.findall(text), *IN_BLOCKS.findall(text)]:
        yield name, words.split()


def test_every_command_of_the_docs_exists() -> None:
    known = set(typer.main.get_group(app).commands)
    used = {name for page in PAGES for name, _ in commands(page)}
    assert {"train", "plan", "show", "play"} <= used
    assert not used - known


def test_every_option_that_the_docs_name_exists() -> None:
    options = {group: {*list_options(group), *OWN} for group in list_groups()}
    words = {word for page in PAGES for _, found in commands(page) for word in found if "=" in word}
    named = [word.lstrip("+").partition("=")[::2] for word in words]
    chosen = [(key, value) for key, values in named for value in values.strip("[]").split(",") if key in options]
    assert len(chosen) > 30
    assert not [(key, value) for key, value in chosen if value not in options[key]]
