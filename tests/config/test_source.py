"""Parsed files: read again after a change, and never shared between compositions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hydra.types import RunMode

from rlx.settings.auto import AutoLoader
from rlx.settings.check import ConfigError
from rlx.settings.compose import ROOT, compose, compose_sources, open_loader
from tests.errors import raises_naming


def write_env(folder: Path, rounds: int) -> Path:
    """Write an option `mine` whose text has the same length for every digit."""
    path = folder / "env" / "mine.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"defaults: [countdown, _self_]\nmax_rounds: {rounds}\n")
    return path


def test_a_changed_file_is_parsed_again_even_if_its_size_and_time_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CONF_DIR", str(tmp_path))
    before = write_env(tmp_path, 2).stat()
    assert compose(["env=mine"])["env"]["max_rounds"] == 2
    os.utime(write_env(tmp_path, 3), ns=(before.st_atime_ns, before.st_mtime_ns))
    assert compose(["env=mine"])["env"]["max_rounds"] == 3


def test_files_of_the_same_name_in_two_folders_are_two(tmp_path: Path) -> None:
    for rounds in (2, 3):
        (tmp_path / str(rounds)).mkdir()
        write_env(tmp_path / str(rounds), rounds)
    found = [compose(["-cd", str(tmp_path / name), "env=mine"])["env"]["max_rounds"] for name in ("2", "3", "2")]
    assert found == [2, 3, 2]


def test_overrides_of_one_composition_do_not_reach_the_next() -> None:
    words = ["seed=7", "env.max_rounds=1", "env.numbers=[3]", "~env.low", "hydra.run.dir=here", "+sweep=tool_cost"]
    before, sources = compose_sources([])
    with open_loader() as loader:
        changed = loader.load_configuration(ROOT, words, RunMode.RUN)
        assert (changed.seed, changed.hydra.run.dir) == (7, "here")
        again = loader.load_configuration(ROOT, [], RunMode.RUN)
        assert (again.seed, again.env.low) == (before["seed"], before["env"]["low"])
        assert again.hydra.run.dir != "here"
    assert compose_sources([]) == (before, sources)


def test_options_are_chosen_once_for_the_same_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    peeked: list[list[str]] = []
    peek = AutoLoader.peek

    def spy(self: AutoLoader, config_name: str | None, rest: list) -> list:
        peeked.append([override.input_line for override in rest])
        return peek(self, config_name, rest)

    monkeypatch.setattr(AutoLoader, "peek", spy)
    with open_loader() as loader:
        first = loader.complete(ROOT, ["env=math", "algo=grpo", "warm_start.steps=1"])
        assert loader.complete(ROOT, ["env=math", "algo=grpo", "warm_start.steps=2"])[3:] == first[3:] != []
        assert loader.complete(ROOT, ["env=countdown", "algo=tool_rloo"])[2:] != first[3:]
    assert peeked == [["env=math", "algo=grpo"], ["env=countdown", "algo=tool_rloo"]]


NINE = ", ".join(["*{0}"] * 9)
HEAD = "_target_: rlx.env.countdown.countdown.Countdown\n"
LAUGHS = HEAD + "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{NINE.format(f'a{n - 1}')}]\n" for n in range(1, 12))
MERGED = (
    HEAD + "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [{NINE.format(f'a{n - 1}')}]}}\n" for n in range(1, 12))
)
STAIRS = HEAD + "".join(f"{' ' * depth}a:\n" for depth in range(3000))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (LAUGHS, ("aliases", "20,000")),
        (MERGED, ("aliases",)),
        (HEAD + "a: &a [*a]\n", ("alias", "line 2")),
        (HEAD + "a: " + "[" * 3000 + "]" * 3000 + "\n", ("100 deep",)),
        (STAIRS, ("262,144",)),
        (HEAD + "- " * 3000 + "\n", ()),
        (HEAD + "".join(f"key_{n}: {n}\n" for n in range(30_000)), ("262,144",)),
    ],
)
def test_an_option_that_expands_without_end_is_refused_in_one_line_that_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, names: tuple[str, ...]
) -> None:
    monkeypatch.setenv("RLX_CONF_DIR", str(tmp_path))
    (write_env(tmp_path, 2).parent / "bomb.yaml").write_text(text)
    with raises_naming(ConfigError, "bomb.yaml", *names):
        compose(["env=bomb"])
    assert compose(["env=mine"])["env"]["max_rounds"] == 2, "other options stay usable"


def test_a_few_aliases_are_written_out_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_CONF_DIR", str(tmp_path))
    write_env(tmp_path, 2).write_text("defaults: [countdown, _self_]\nmax_rounds: &n 3\nmax_wrong: *n\n")
    found = compose(["env=mine"])["env"]
    assert (found["max_rounds"], found["max_wrong"]) == (3, 3)
