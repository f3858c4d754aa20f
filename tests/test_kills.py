"""A run that is killed twice, anywhere, ends with the same bits: every algorithm, with critics and with adapters.

A kill is SIGKILL at one of the moments at which the process touches its folder or its cache. Between two of them
nothing on disk changes but the file that is open, so a kill there leaves what the one before it leaves, or a torn file.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rlx.base.console import Screen
from rlx.runs.track import is_clock
from rlx.settings.compose import build_run, compose
from rlx.training import train
from tests.test_repeat_adapters import ADAPTERS, ALGORITHMS, metrics_of, tensors_of, words_of

pytestmark = pytest.mark.slow

TOUCHES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate", "shutil.rmtree"}
CASES = [(name, number % 2 == 0) for number, name in enumerate(ALGORITHMS)]
CASES += [(name, not adapted) for name, adapted in CASES if name in {"a2c", "ppo", "tool_rloo", "earl"}]
"""Every algorithm with or without adapters, and four both ways: 24 runs, with 48 kills."""
WARM = ("warm_start=sft", "warm_start.steps=2", "warm_start.algo.num_prompts=1")
"""Where no adapters are trained, a stage comes before the run."""
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["rlx.training", "rlx.settings.compose", "rlx.learner.learner", "transformers"])


@dataclass
class Touch:
    """Counts the moments at which files below a folder are touched, and kills its process at one of them."""

    root: str
    last: int
    count: int = 0

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if event in TOUCHES and args and str(args[0]).startswith(self.root):
            self.count += 1
            if self.count == self.last:
                os.kill(os.getpid(), signal.SIGKILL)


def play(words: list[str], folder: Path, last: int) -> None:
    """Train in a process of its own, killed at touch number `last`; how many there were is left beside the folder."""
    os.environ["RLX_CACHE"] = str(folder.parent / "cache")
    touch = Touch(str(folder.parent), last)
    sys.addaudithook(touch)
    train(build_run(compose(words), folder), Screen(silent=True))
    (folder.parent / "touches").write_text(str(touch.count))


def run_killed(words: list[str], folder: Path, last: int = -1) -> int:
    process = PROCESSES.Process(target=play, args=(words, folder, last))
    process.start()
    process.join()
    return process.exitcode or 0


def words_for(algorithm: str, model: Path, adapted: bool) -> list[str]:
    """The run: with adapters, or with all weights and a stage before it."""
    words = words_of(algorithm, model)
    if adapted:
        return words
    rest = [word for word in words if word not in {*ADAPTERS, "warm_start=none"}]
    return [*rest, *(("warm_start=none",) if "sft" in algorithm else WARM)]


SEARCH = (
    *("env=search_qa", "env.reads=true", "env.thoughts=true", "env.form=ignore", "env.max_rounds=5"),
    "env.hops=[1]",
    *("protocol=standalone", "sampling.max_new_tokens=12", "sampling.max_context=900", "evaluate.max_new_tokens=12"),
)
"""An environment with pages, whose turns stand alone."""


def search_words(algorithm: str, model: Path) -> list[str]:
    """Return the words of a run on search_qa; its warm start teaches calls, so that episodes differ."""
    words = [word for word in words_for(algorithm, model, False) if not word.startswith(("env", "protocol", "warm"))]
    kept = [word for word in words if not word.startswith(("sampling", "evaluate.max"))]
    return [*kept, *SEARCH, "warm_start=tool_sft", "warm_start.steps=2", "warm_start.algo.num_prompts=1"]


def summary_of(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "summary.json").read_text())
    found["cost"] = {key: found["cost"][key] for key in ("tokens", "tool_calls")}
    return {key: value for key, value in found.items() if not is_clock(key) and key != "ended"}


def episodes_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((folder / "trajectories").glob("[!.]*"))}


@pytest.mark.parametrize(("algorithm", "adapted"), CASES)
def test_a_run_killed_anywhere_ends_with_the_same_bits(
    tiny: Path, tmp_path: Path, algorithm: str, adapted: bool
) -> None:
    compare_killed(words_for(algorithm, tiny, adapted), f"{algorithm}/{adapted}", tmp_path)


def test_a_search_agent_killed_anywhere_ends_with_the_same_bits(tiny: Path, tmp_path: Path) -> None:
    compare_killed(search_words("carl", tiny), "search", tmp_path)


def compare_killed(words: list[str], key: str, tmp_path: Path) -> None:
    """Run once whole and once with two kills, and compare all that is left."""
    whole, cut = tmp_path / "a" / "run", tmp_path / "b" / "run"
    assert run_killed(words, whole) == 0
    touches = int((whole.parent / "touches").read_text())
    rng = random.Random(key)
    first = rng.randint(1, touches)
    codes = [run_killed(words, cut, last) for last in (first, rng.randint(1, touches - first + 5))]
    assert codes == [-signal.SIGKILL] * 2
    assert run_killed(words, cut) == 0
    assert metrics_of(cut) == metrics_of(whole)
    assert summary_of(cut) == summary_of(whole)
    assert episodes_of(cut) == episodes_of(whole)
    mine, theirs = tensors_of(whole), tensors_of(cut)
    assert mine.keys() == theirs.keys()
    assert [name for name, x in mine.items() if not x.equal(theirs[name])] == []
