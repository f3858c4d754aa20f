"""Words of a command from Python's values: `word_of("steps", 3)` is `steps=3`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from rlx.base.limits import to_text
from rlx.settings.check import ConfigError
from rlx.settings.words import in_quotes

KEY = re.compile(r"\+{0,2}[\w./@-]+", re.ASCII)
PLAIN = re.compile(r"[A-Za-z_][\w./-]*", re.ASCII)
"""Pattern of text without quotes; NAMES need quotes all the same."""
NAMES = {"true", "false", "yes", "no", "on", "off", "null", "none", "nan", "inf"}
REFERENCE = re.compile(r"(\\*)\$\{")
"""A reference as OmegaConf reads it, after any backslashes."""
KINDS = "None, True, False, a number, a text, a path, a list or a mapping"


def word_of(key: str, value: Any) -> str:
    """Return the word that gives a key this value; text stands for itself, also where it looks like a reference."""
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise ConfigError(f"{to_text(key)!r}: expected the name of a key, such as 'algo.optimizer.lr'")
    return f"{key}={value_of(value, key)}"


def value_of(value: Any, key: str) -> str:
    """Return a value in Hydra's grammar; ConfigError for one that a configuration cannot hold."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return repr(float(value))
    if isinstance(value, str | Path):
        return text_of(str(value), key)
    if isinstance(value, list | tuple):
        return f"[{','.join(value_of(item, key) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{name_of(name, key)}:{value_of(item, key)}' for name, item in value.items())}}}"
    raise ConfigError(f"{key}: expected {KINDS}, not {type(value).__name__:.60}")


def text_of(text: str, key: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{key}={to_text(text)}: expected text that can be written as UTF-8") from None
    if PLAIN.fullmatch(text) and text.lower() not in NAMES:
        return text
    return in_quotes(literal(text))


def name_of(name: Any, key: str) -> str:
    """Return a key within a mapping, which the grammar cannot quote."""
    if not isinstance(name, str) or not PLAIN.fullmatch(name):
        raise ConfigError(f"{key}: {to_text(name)!r} cannot be a key in its mapping")
    return name


def literal(value: Any) -> Any:
    """Escape `${` in text: it is text, and refers to nothing."""
    if isinstance(value, dict):
        return {key: literal(child) for key, child in value.items()}
    if isinstance(value, list):
        return [literal(child) for child in value]
    return REFERENCE.sub(r"\1\1\\${", value) if isinstance(value, str) else value
