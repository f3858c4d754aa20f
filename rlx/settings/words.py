"""The words of a command by Hydra's grammar: options, overrides, and what a sweep draws from."""

from __future__ import annotations

import argparse
import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from itertools import accumulate
from typing import Any, NoReturn

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override
from hydra.errors import OverrideParseException

from rlx.base.limits import near, to_text
from rlx.settings.check import ConfigError

DEEPEST = 50
"""Brackets within each other in a word."""
LONGEST_NUMBER = 1000
"""Digits; Python reads 4,300."""
LONG_NUMBER = re.compile(rf"[\d_]{{{LONGEST_NUMBER + 1}}}")
SEARCH = "hydra.searchpath"
"""Key of Hydra's for more folders. Files of these would not be completed with defaults."""
SEVERAL = re.compile(r"env=\[(.*)\]")
GAINS = re.compile(r".*/(pass@\d+|reward|success)|(reward|success)/.*")
"""Metrics of which nobody wants less."""


def check_sweeper(chosen: str, sweeper: Any, objective: str | list[str] | None) -> None:
    """Hydra's own sweeper takes what comes; another one optimises, and needs a number for each of its directions."""
    if chosen == "basic":
        return
    if not objective:
        raise ConfigError(
            f"hydra/sweeper={chosen} optimises, and has nothing to go by: name it with objective=eval/reward"
        )
    names = [objective] if isinstance(objective, str) else objective
    directions = directions_of(sweeper)
    if directions and len(directions) != len(names):
        raise ConfigError(
            f"objective names {len(names)} of the metrics and hydra.sweeper.direction is for {len(directions)}: give "
            "one direction for each, as in hydra.sweeper.direction=[maximize,minimize]"
        )
    for name, direction in zip(names, directions, strict=bool(directions)):
        if direction == "minimize" and GAINS.fullmatch(name):
            raise ConfigError(f"objective={name} would be minimised: say hydra.sweeper.direction=maximize")


def directions_of(sweeper: Any) -> list[str]:
    """List the directions of an optuna sweeper; none if the sweeper has no such key."""
    setting = sweeper.get("direction")
    listed = [] if setting is None else [setting] if isinstance(setting, str | Enum) else list(setting)
    return [direction.name if isinstance(direction, Enum) else str(direction) for direction in listed]


def make_parser() -> argparse.ArgumentParser:
    """Build the parser of a command's words: overrides, and the options of `rlx train`."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--multirun", "-m", action="store_true")
    parser.add_argument("--config-dir", "-cd")
    parser.add_argument("--cfg", "-c", choices=["job", "hydra", "all"])
    parser.add_argument("--resolve", action="store_true")
    return parser


def parse_words(words: Sequence[str]) -> argparse.Namespace:
    """Return the options (`-m`, `--cfg`, `-cd` …) and overrides among the words; a wrong option is a ConfigError."""
    parser = make_parser()
    flags = [flag for action in parser._actions for flag in action.option_strings]

    def refuse(message: str) -> NoReturn:
        unknown = next((word for word in words if word.startswith("-") and word.split("=")[0] not in flags), None)
        raise ConfigError(f"unknown option {unknown!r}{near(unknown, flags)}" if unknown else message)

    parser.error = refuse  # type: ignore[method-assign]
    arguments = parser.parse_intermixed_args(list(words))
    if arguments.multirun and arguments.cfg:
        raise ConfigError("--multirun and --cfg cannot go together")
    if arguments.resolve and not arguments.cfg:
        raise ConfigError("--resolve needs --cfg")
    if any(override.get_key_element().lstrip("+~") == SEARCH for override in parse_overrides(arguments.overrides)):
        raise ConfigError(f"{SEARCH}: add a folder of options with -cd DIR")
    return arguments


def spell_mixtures(words: Sequence[str]) -> list[str]:
    """Return the words, with `env=[a,b]` spelled out as a mixture whose parts are these options, named after them."""
    return [other for word in words for other in spell_mixture(word)]


def spell_mixture(word: str) -> list[str]:
    match = SEVERAL.fullmatch(word)
    if match is None:
        return [word]
    names = [name.strip(" '") for name in match[1].split(",")]
    for name, num in Counter(names).items():
        if num > 1 or not name:
            raise ConfigError(f"{word}: expected different options, with commas between")
    parts = {re.sub(r"\W", "_", name): name for name in names}
    words = ["env=mixture", "~env.parts.first", "~env.parts.second"]
    for part, name in parts.items():
        portion = "{_target_:rlx.env.mixed.mixture.Portion,weight:1.0,protocol:null}"
        words += [f"+env@env.parts.{part}.env={name}", f"+env.parts.{part}={portion}"]
    return words


def parse_overrides(words: Sequence[str]) -> list[Override]:
    """Read overrides by Hydra's grammar; a ConfigError quotes an unreadable word."""
    parser = OverridesParser.create()
    overrides = []
    for word in words:
        refuse_unreadable(word)
        try:
            overrides += parser.parse_overrides([word])
        except OverrideParseException as error:
            raise ConfigError(f"cannot read {word!r:.200}{how_to_write(word)}") from error
    return overrides


def refuse_unreadable(word: str) -> None:
    """Refuse what the grammar's reader, or Python behind it, fails on in many lines."""
    key = word.partition("=")[0]
    if max(accumulate((character in "[{(") - (character in "]})") for character in word), default=0) > DEEPEST:
        raise ConfigError(f"{key:.80}: its value is nested more than {DEEPEST} deep")
    if LONG_NUMBER.search(word):
        raise ConfigError(f"{key:.80}: a number has more than {LONGEST_NUMBER} digits")


OUTPUTS = {"run": "outputs", "sweep": "outputs/sweeps"}
EVALUATED = "${hydra:runtime.choices.env}-eval/${now:%Y-%m-%d_%H-%M-%S}"
"""Name of a run's folder as in conf/config.yaml, without the algorithm."""


def drop_training(words: Sequence[str]) -> list[str]:
    """Return overrides that turn a training command into an evaluation of the untrained model.

    A key that the command sets itself stays. The folder's name leaves out the algorithm."""
    overrides = parse_overrides(parse_words(words).overrides)
    named = {
        str(name).partition(".")[0] for override in overrides for name in (override.key_or_group, override.package)
    }
    defaults = {"steps": "steps=0", "warm_start": "warm_start=none"}
    folders = [f"hydra.{kind}.dir={place}/{EVALUATED}" for kind, place in OUTPUTS.items()]
    return [*(word for key, word in defaults.items() if key not in named), *folders]


def quote(text: str) -> str:
    """Return text as a value that Hydra's grammar reads unchanged."""
    if re.fullmatch(r"[\w./][\w./+:%@-]*", text, re.ASCII):
        return text
    return in_quotes(text)


def in_quotes(text: str) -> str:
    """Return text between quotes; the grammar halves the backslashes before a quote, the last one included."""
    return "'{}'".format(re.sub(r"(\\*)('|\Z)", lambda match: 2 * match[1] + ("\\'" if match[2] else ""), text))


def how_to_write(word: str) -> str:
    """The word with its value in quotes, where that can be read."""
    key, _, value = word.partition("=")
    quoted = '{}="{}"'.format(key, value.replace('"', '\\"'))
    try:
        OverridesParser.create().parse_overrides([quoted if "=" in word else ""])
    except OverrideParseException:
        return "; overrides look like key=value"
    return f": close its brackets and quotes, or quote the value whole, as in {to_text(shlex.quote(quoted))}"


def first_words(words: Sequence[str]) -> list[str]:
    """Return the words with the first value of each sweep."""
    return [values_of(override)[0] for override in parse_overrides(words)]


def values_of(override: Override) -> list[str]:
    """The words an override stands for; of an interval, which a sweeper draws from, its ends."""
    if not override.is_sweep_override():
        return [override.input_line or ""]
    if override.is_interval_sweep():
        interval = override.value()
        assert isinstance(interval, IntervalSweep)
        return [f"{override.get_key_element()}={value}" for value in (interval.start, interval.end)]
    return [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]


def one_line(error: Exception) -> str:
    """All lines of an error as one, not too long, less where Hydra's own pages tell of it."""
    text = re.sub(r"\bSee https://hydra\.cc\S*( for \w+( \w+)?)?\.?", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return textwrap.shorten(" ".join(lines), 240, placeholder=" …") if lines else type(error).__name__
