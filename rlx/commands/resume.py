"""`rlx resume`: the command that goes on with a run, from the words that its folder has.

The folder may come from a stranger. Its configuration passes the checks of every saved configuration first, and its
words are used only if they give that same configuration here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlx.hardware.ranks import find_place
from rlx.runs.command import TRAIN
from rlx.runs.folder import COMMAND, differences, read_config
from rlx.runs.single_files import read_json
from rlx.settings.check import ConfigError
from rlx.settings.compose import compose
from rlx.settings.saved import load_tree
from rlx.settings.words import parse_overrides, parse_words, quote

LAUNCHING = ("hydra", "hydra/")
"""Keys that say how a run is started: they are taken from the command line alone."""


def resume_command(folder: Path, words: Sequence[str] = ()) -> list[str]:
    """Return the words of `rlx train` that go on with the run in `folder`, changed by `words`."""
    arguments = parse_words(words)
    options = [] if arguments.config_dir is None else ["--config-dir", arguments.config_dir]
    first = None if arguments.config_dir is None else Path(arguments.config_dir)
    run_overrides = [word for word in arguments.overrides if not word.lstrip("+~").startswith(LAUNCHING)]
    load_tree(folder, run_overrides, config_dir=first)  # refuses code that only the folder names, and not the user
    original_words = recorded_words(folder)
    refuse_other(folder, compose([*options, *original_words]))
    return [*options, *original_words, *arguments.overrides, f"hydra.run.dir={quote(str(folder))}"]


def needs_launch(words: Sequence[str]) -> bool:
    """Tell whether these words are of a run of several processes, and this process is none of them yet."""
    return find_place().size == 1 and int(compose(words)["hardware"]["num_processes"]) > 1


def recorded_words(folder: Path) -> list[str]:
    """Return the words that the run was started with; ConfigError where there are none, or none that a run records."""
    record = read_json(folder / COMMAND)
    words = record.get("words")
    if record.get("command", TRAIN) != TRAIN:
        raise ConfigError(f"{folder} is an evaluation: repeat its command, which its {COMMAND} holds")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ConfigError(f"{folder} has no {COMMAND} that names its words: repeat its rlx train command")
    for override in parse_overrides(words):
        if str(override.key_or_group).startswith(LAUNCHING) or override.is_sweep_override():
            raise ConfigError(
                f"{folder / COMMAND}: {override.input_line!r:.80} is no word of a single run's configuration"
            )
    return list(words)


def refuse_other(folder: Path, tree: dict[str, Any]) -> None:
    """Refuse words that give another configuration than the run has: options changed since, or the folder was."""
    changed = differences(read_config(folder), json.loads(json.dumps(tree)), free=())
    if changed:
        raise ConfigError(
            f"{folder}: its words give another configuration here ({'; '.join(changed[:3])}): repeat its rlx train "
            "command, with --config-dir where it had one"
        )
