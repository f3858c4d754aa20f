"""Arms of a paper's comparison: `+paper=carl_3b +arm=grpo` is a baseline with the settings that the paper gives it.

The registry (scripts/papers) holds each arm as words. An arm may name another option, such as `algo=grpo`: then none of
the preset's values below `algo` apply, but for those that the arm keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from hydra.core.override_parser.types import Override

from rlx.base.limits import near
from rlx.runs.folder import flatten
from rlx.runs.plain_yaml import parse_small
from rlx.settings.check import ConfigError, show, spell
from rlx.settings.folders import shipped_folder
from rlx.settings.presets import Presets

PAPER, ARM = "paper", "arm"
MAIN = "main"
"""Name of a preset's own run, among its arms."""


@dataclass(frozen=True, kw_only=True)
class PaperArm:
    """A run that a paper compares with others."""

    title: str
    source: str
    """Place in the paper, such as a table's row."""
    words: tuple[str, ...] = ()
    """Overrides beside the preset."""
    why: str = ""
    """Reason for a value that the paper does not state."""
    keeps: tuple[str, ...] = ()
    """Keys whose values are the preset's, though the arm replaces the option that they stand below."""


@cache
def read_papers() -> Mapping[str, Mapping[str, Any]]:
    """Return what the registry states of each paper, by the paper's name."""
    files = sorted(shipped_folder("scripts/papers").glob("*.yaml"))
    return {file.stem: dict(parse_small(file.read_text(encoding="utf-8"))) for file in files}


def arms_of(presets: Sequence[str]) -> Mapping[str, PaperArm]:
    """Return the arms of the last of these presets that has any: each preset builds on those before it."""
    stated = {name: arms for paper in read_papers().values() for name, arms in paper.get("arms", {}).items()}
    arms: Mapping[str, Any] = next((stated[name] for name in reversed(presets) if name in stated), {})
    return {name: read_arm(row) for name, row in arms.items()}


def read_arm(row: Mapping[str, Any]) -> PaperArm:
    lists = {key: tuple(row.get(key, ())) for key in ("words", "keeps")}
    return PaperArm(title=row["title"], source=row["source"], why=row.get("why", ""), **lists)


def describe_arms() -> dict[str, str]:
    """Return each arm of each preset, with its title and its place in the paper."""
    presets = [name for paper in read_papers().values() for name in paper.get("arms", {})]
    return {
        f"{preset}/{name}": f"{arm.title} ({arm.source})"
        for preset in presets
        for name, arm in arms_of([preset]).items()
    }


def find_arm(value: Any, presets: Sequence[str]) -> PaperArm:
    """Return an arm by its name; ConfigError where the presets have no such arm."""
    name = show(value)
    if not presets:
        raise ConfigError(f"+{ARM}={name}: an arm is of a paper's preset; name one, as in +paper=carl_3b +arm=grpo")
    arms = arms_of(presets)
    if name not in arms:
        hint = near(name, arms) if arms else "; it has none"
        raise ConfigError(f"+{ARM}={name}: +paper={presets[-1]} has no such arm{hint}")
    return arms[name]


def spell_arm(arm: PaperArm, values: Mapping[str, Any]) -> list[str]:
    """Return the words of an arm, then a word for each value of the preset among the keys of `keeps`."""
    flat = flatten(values)
    keys = [key for key in flat if any(f"{key}.".startswith(f"{name}.") for name in arm.keeps)]
    return [*arm.words, *(f"{key}={spell(flat[key])}" for key in keys)]


def spell_arms(overrides: Sequence[Override], presets: Presets) -> list[str]:
    """Return the words with the arm that they name in words of its own. These come first, so that others win, and leave
    out those below a group for which the command line names another option."""
    typed = [override for override in overrides if not is_arm(override)]
    papers = paper_names(presets)
    spelled: list[str] = []
    choices = list(filter(is_arm, overrides))
    if len(choices) > 1:
        names = " and ".join(f"+{ARM}={show(choice.value())}" for choice in choices)
        raise ConfigError(f"{names}: a run is one arm; leave out the others, or sweep over them with -m +{ARM}=A,B")
    for choice in choices:
        arm = find_arm(choice.value(), papers)
        words = spell_arm(arm, presets.values)
        options = {**presets.options} | dict(word.split("=", 1) for word in arm.words)
        others = {override.key_or_group for override in typed if is_other(override, options)}
        spelled += [word for word in words if word.partition("=")[0].partition(".")[0] not in others]
    return [*spelled, *(override.input_line or "" for override in typed)]


def paper_names(presets: Presets) -> list[str]:
    """Return the names of the papers' presets among some. The base of a preset comes before the preset."""
    return [path.removeprefix(f"{PAPER}/") for path in presets.paths if path.startswith(f"{PAPER}/")]


def is_other(override: Override, options: Mapping[str, str | None]) -> bool:
    """Tell whether a word names another option of a group than these."""
    key = override.key_or_group
    return override.package is None and key in options and override.value() != options[key]


def is_arm(override: Override) -> bool:
    """Tell whether a word names one arm; a sweep's jobs name one each."""
    return override.key_or_group == ARM and not override.is_sweep_override()
