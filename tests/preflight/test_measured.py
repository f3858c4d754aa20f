"""Plans by a run's own figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.commands.plan import describe_plan
from rlx.plan.lengths import NO_HINTS
from rlx.plan.measured import ENOUGH, Measured, read_measured
from rlx.plan.prospect import Prospect
from rlx.settings.compose import build_run, compose

WORDS = ("env=countdown", "algo=tool_rloo", "steps=40")


def folder_of(path: Path, steps: int, **more: Any) -> Path:
    """A folder with a run's configuration and as many steps, each of 300 tokens and 2 s."""
    figures = {"episode/tokens": 300.0, "episode/turns": 4.0, "tool/tokens": 40.0, "time/step": 2.0}
    figures |= {"time/rollout": 1.5, "time/update": 0.5, **more}
    lines = [json.dumps({"step": step, **figures}) for step in range(1, steps + 1)]
    path.mkdir(exist_ok=True)
    (path / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (path / "config.yaml").write_text(yaml.safe_dump(dict(compose(WORDS))))
    return path


def read(path: Path, *words: str) -> Measured | None:
    return read_measured(path, compose([*WORDS, *words]))


def flat(measured: Measured | None, *words: str) -> str:
    run = build_run(compose([*WORDS, *words]), Path())
    prospect = Prospect(run=run, length_hints=measured.length_hints if measured else NO_HINTS, measured=measured)
    return " ".join(describe_plan(prospect, []).split())


def test_a_run_s_own_steps_replace_the_estimate_once_there_are_ten(tmp_path: Path) -> None:
    assert read(folder_of(tmp_path, ENOUGH - 1)) is None
    measured = read(folder_of(tmp_path, ENOUGH))
    assert measured is not None
    assert measured.is_same
    assert (measured.length_hints.tokens, measured.length_hints.turns, measured.length_hints.observed) == (300, 4, 40)
    text = flat(measured)
    assert "as measured, for what is left after 10 steps" in text
    assert "step of the run, measured: 2 s (rollout 1.5 s, update 0.5 s)" in text
    assert "300 sampled in 4 turns" in text


def test_a_checkpoint_that_the_run_has_timed_replaces_the_assumed_rates(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, 20)
    assert "at an assumed 0.5 GB/s" in flat(read(folder))
    measured = read(folder_of(tmp_path, 20, **{"time/checkpoint": 90.0}))
    assert measured is not None
    assert measured.saving == 90
    text = flat(measured, "hydra/launcher=slurm")
    assert "about 90 s each, as measured in this run" in text
    assert "assumed" not in text
    other = read(folder, "algo.num_prompts=64")
    assert "at an assumed 0.5 GB/s" in flat(other, "algo.num_prompts=64"), "another run's disk may be another"
    assert read(folder_of(tmp_path, 20, **{"time/checkpoint": -1.0})).saving is None  # type: ignore[union-attr]


def test_with_other_settings_only_its_lengths_are_used(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, 20)
    for words, is_same in ((("steps=90", "evaluate=quick"), True), (("algo.num_prompts=64",), False)):
        measured = read(folder, *words[:1])
        assert measured is not None
        assert measured.is_same == is_same, words
    other = read(folder, "hardware=a100x8", "model=qwen2_5_7b")
    text = flat(other, "hardware=a100x8", "model=qwen2_5_7b")
    assert "time 300 tokens: " in text
    assert "measured" not in text.partition("episode")[0]


@pytest.mark.parametrize(
    "bad",
    [{"episode/tokens": -1.0}, {"episode/tokens": "many"}, {"episode/tokens": 1e300}, {"time/step": None}],
)
def test_figures_that_are_none_tell_nothing(tmp_path: Path, bad: dict[str, Any]) -> None:
    assert read(folder_of(tmp_path, 20, **bad)) is None


def test_a_name_of_a_folder_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    folder = tmp_path / "run\x1b[31m"
    measured = read(folder_of(folder, 20))
    assert "\x1b" not in flat(measured)
