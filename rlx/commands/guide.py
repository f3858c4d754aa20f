"""Help texts of `rlx`, `rlx train`, `rlx eval` and `rlx list`, at 80 columns."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from rlx.base.console import hang
from rlx.base.limits import near
from rlx.settings.arms import ARM, describe_arms
from rlx.settings.check import ConfigError
from rlx.settings.folders import (
    FAMILIES,
    config_folders,
    every_group,
    list_groups,
    list_options,
    option_files,
    shipped_folder,
)

EXAMPLES = """\
rlx train +example=quickstart             train and evaluate, in outputs/
rlx plan algo=grpo model=qwen2_5_7b       what a run would be, need and cost
rlx list algo                             the options of a group
rlx keys algo.loss.kl                     what a key means
rlx eval run=DIR evaluate=paper           evaluate what a run has learned
rlx compare DIR                           what a run has gained over its start
rlx resume DIR                            go on with a run that was stopped
rlx status                                how the runs are getting on
"""

TRAIN = """\
Usage: rlx train [GROUP=OPTION | KEY=VALUE]... [OPTIONS]

  Train and evaluate. A run is a choice of env x algo x model x hardware: each
  is a group, GROUP=OPTION chooses of it, KEY=VALUE changes one key. What a run
  leaves is in its folder (hydra.run.dir); the same command with the same folder
  goes on where it stopped, or says what came out.

Examples:
  rlx train
  rlx train env=countdown_hard algo=grpo seed=1 steps=50
  rlx train algo.optimizer.lr=1e-4 env.max_rounds=5 track=disabled
  rlx train hydra.run.dir=outputs/mine
  rlx train -m algo=rloo,grpo seed=0,1,2

Groups and their options, * being the default unless another option's file
chooses (algo=grpo brings its own warm_start); `rlx list GROUP` describes them:
{groups}

Keys:
  `rlx keys` tells what each means, `rlx keys algo` those of a group, `rlx
  keys algo.loss.kl` all of one; `rlx train --cfg job` shows their values. An
  option's file may leave a key of its own out: +KEY=VALUE adds it.

Options:
  -m, --multirun        Every combination of KEY=1,2 and GROUP=A,B: a sweep.
  -cd, --config-dir DIR A folder of options of your own, searched first.
  --cfg job             Show the configuration and start nothing; --resolve
                        follows its references.
  --help                Show this message and exit.
"""

EVAL = """\
Usage: rlx eval run=DIR [KEY=VALUE]... [-cd DIR]
       rlx eval [GROUP=OPTION | KEY=VALUE]... [OPTIONS]

  Evaluate on held-out tasks: Pass@k with 95% intervals, tool use and its cost.

  With run=DIR: the last checkpoint of that run, with the run's own settings but
  for those given here. Without: a model as it stands, in a new folder, with the
  groups, keys and options of `rlx train`.

Examples:
  rlx eval run=outputs/mine
  rlx eval run=outputs/mine evaluate=paper evaluate.num_tasks=20
  rlx eval model=nano env=countdown_hard
  rlx eval model=nano env=[countdown,game/guess_the_number] protocol=boxed
  rlx eval model.path=outputs/mine/checkpoints/step-24

evaluate, * being the default:
{options}

Options:
  --help                Show this message and exit.
"""


def train_help() -> str:
    return TRAIN.format(groups=columns({how_chosen(group): options_of(group) for group in every_group()}))


def eval_help() -> str:
    default = defaults().get("evaluate")
    options = {f"{name}{'*' * (name == default)}": text for name, text in list_options("evaluate").items()}
    return EVAL.format(options=columns(options))


def describe_groups(config_dir: Path | None = None) -> str:
    """`rlx list`: every group with its options."""
    folders = config_folders(config_dir)
    rows = {how_chosen(group): options_of(group, folders) for group in every_group(folders)}
    rows[f"+{ARM}"] = "baselines and ablations of a +paper: `rlx list arm`"
    return f"Groups and their options, * being the default; `rlx list GROUP` describes them.\n{columns(rows)}"


def listed_groups(folders: Sequence[Path] | None = None) -> list[str]:
    """Return the groups that `rlx list` describes: those of options, and the arms of the papers."""
    return [*every_group(folders), ARM]


def describe_group(group: str, config_dir: Path | None = None) -> str:
    """`rlx list GROUP`: what each option is."""
    folders = config_folders(config_dir)
    groups = listed_groups(folders)
    if group not in groups:
        raise ConfigError(f"there is no group {group!r}{near(group, groups)}")
    options, width = describe_arms() if group == ARM else list_options(group, folders), screen_width()
    left = max(map(len, options), default=0) + 2
    rows = {name: hang(name.ljust(left), text, width) for name, text in options.items()}
    families = families_of(options).values()
    return "\n\n".join("\n".join(row for name in names for row in rows[name]) for names in families)


def families_of(options: Iterable[str]) -> dict[str, list[str]]:
    """Options by the folder that they stand in, those in none first."""
    families: dict[str, list[str]] = {}
    for name in sorted(options, key=lambda name: (name.rpartition("/")[0], name)):
        families.setdefault(name.rpartition("/")[0], []).append(name)
    return families


def presets_of(names: Sequence[str]) -> dict[str, list[str]]:
    """Options of one folder, each with what others add to its name: `sudoku` with `_easy` and `_hard`."""
    presets: dict[str, list[str]] = {}
    for name in sorted(names):
        plain = next((other for other in presets if name.startswith(f"{other}_")), None)
        if plain is None:
            presets[name] = []
        else:
            presets[plain].append(name.removeprefix(plain))
    return presets


PLACED = {"policy": "policies.AGENT"}
"""Groups whose options stand below a key that the user names."""


def how_chosen(group: str) -> str:
    """Return a group as a command writes it: with `+` where no file chooses of the group, and with the key that an
    option is for where there may be several."""
    if group in PLACED:
        return f"+{group}@{PLACED[group]}"
    return group if group in defaults() or group in chosen_below() else f"+{group}"


def chosen_below() -> set[str]:
    """Return the inner groups of which some option has a default, such as `model/recipe`."""
    files = [(group, file) for group in list_groups() for file in (shipped_folder("conf") / group).glob("*.yaml")]
    chosen = [(group, name) for group, file in files for name in default_options(f"{group}/{file.stem}")]
    return {f"{group}/{name.partition('@')[0]}" for group, name in chosen}


def options_of(group: str, folders: Sequence[Path] | None = None) -> str:
    """Write all options of a group in a line, the default marked; those of a large group are listed by family."""
    default = defaults().get(group)
    if group not in FAMILIES:
        return ", ".join(f"{name}*" if name == default else name for name in option_files(group, folders))
    families = families_of(option_files(group, folders)).values()
    presets = [preset for names in families for preset in presets_of(names).items()]
    marked = [(f"{name}*" if name == default else name, ", ".join(more)) for name, more in presets]
    return ", ".join(f"{name} ({more})" if more else name for name, more in marked)


def defaults() -> Mapping[str, str]:
    """The option of each group that a run has unless its words choose another, groups inside groups among them."""
    chosen = default_options("config")
    inner = (default_options(f"{group}/{option}", f"{group}/") for group, option in chosen.items())
    return {group: option for part in (chosen, *inner) for group, option in part.items() if "override" not in group}


def default_options(file: str, place: str = "") -> dict[str, str]:
    """Return the choices of other groups in a shipped file's defaults list; none without the file."""
    path = shipped_folder("conf") / f"{file}.yaml"
    tree = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    parts = [part for part in tree.get("defaults", []) if isinstance(part, dict)]
    return {f"{place}{group}": option for part in parts for group, option in part.items()}


def columns(rows: Mapping[str, str], *, indent: str = "  ", width: int = 80) -> str:
    """Names at the left and what is said of each at the right, wrapped."""
    left = max(map(len, rows), default=0) + len(indent) + 2
    return "\n".join(row for name, text in rows.items() for row in hang(f"{indent}{name}".ljust(left), text, width))


def screen_width() -> int:
    """Return the terminal's width; without a terminal no line is broken, for grep."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def asks_for_help(words: Sequence[str]) -> bool:
    return any(word in ("--help", "-h") for word in words)
