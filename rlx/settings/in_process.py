"""One run within a longer program: the run leaves Hydra's state and the log unchanged."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hydra.core.singleton import Singleton

from rlx.run.run import Run
from rlx.settings.check import ConfigError
from rlx.settings.compose import Check, Job, launch
from rlx.settings.saved import refuse_options
from rlx.settings.words import parse_overrides, parse_words, spell_mixtures

FOLDER = "hydra.run.dir"
"""The only key of Hydra that a single run in this process may set."""
QUIET = ("hydra/job_logging=none", "hydra/hydra_logging=none")
"""Words that leave Python's logging to the program."""


def launch_here(words: Sequence[str], job: Job, check: Check) -> Path:
    """Run `job` on the one run that the words mean, as `launch` does, and return the folder of that run."""
    folders: list[Path] = []

    def remember(run: Run) -> None:
        folders.append(run.folder.absolute())
        set_torch_threads(run.hardware.num_threads)
        job(run)

    with restore_after():
        launch([*words, *QUIET], remember, check)
    return folders[0]


def refuse_several(words: Sequence[str]) -> None:
    """Refuse the words of a sweep, of a launcher and of anything else that is not one run in this process."""
    arguments = parse_words(spell_mixtures(words))
    refuse_options(arguments, "one run in this process, which takes KEY=VALUE and -cd DIR")
    for override in parse_overrides(arguments.overrides):
        key = str(override.key_or_group)
        if override.is_sweep_override():
            raise ConfigError(f"{override.input_line}: one run takes one value of a key; `rlx train -m` sweeps")
        if key.partition(".")[0].partition("/")[0] == "hydra" and key != FOLDER:
            raise ConfigError(f"{key}: one run in this process takes no key of Hydra but {FOLDER}; use `rlx train`")


@contextmanager
def restore_after() -> Iterator[None]:
    """Restore Hydra's global state, which `launch` changes."""
    state = Singleton.get_state()
    try:
        yield
    finally:
        Singleton.set_state(state)


def set_torch_threads(num: int) -> None:
    """Tell torch its number of threads; the variables come too late for a program that has imported torch before."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(num)
