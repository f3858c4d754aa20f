"""Expect an error by its type and by what it names, so that a message can be reworded."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|`[^`]*`")
SENTENCE = re.compile(r"(?<!\S)[A-Za-z]+(?: [A-Za-z]+){2,}(?![^\s,;:.?])")


@contextmanager
def raises_naming(
    error: type[Exception] | tuple[type[Exception], ...], *names: object
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect an error of this type, of one line, that names each of `names`: `raises_naming(ConfigError, "lr=0", 4)`.

    A name is a key, `key=value`, a path, an option, a number or a decisive word; it may not be a sentence. If the first
    is `key=value` or `key:`, the message begins with it, or goes on with it after `FILE: `.
    """
    check_names(names)
    with pytest.raises(error) as info:
        yield info
    check_message(str(info.value), names)
    del info  # its traceback has this frame: a circle that would keep what the test holds


def assert_mistake(done: subprocess.CompletedProcess[str], *names: object) -> None:
    """Assert that a command ended with exit code 2 and one line on stderr that names each of `names`."""
    check_names(names)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("rlx: "), done.stderr
    check_message(done.stderr.removeprefix("rlx: "), names)


def check_names(names: tuple[object, ...]) -> None:
    """Reject an expectation that is empty or pins a sentence."""
    assert names, "give at least one name, or use pytest.raises"
    for name in names:
        assert str(name), "an empty name is in every message"
        assert not is_sentence(str(name)), f"{name!r} is a sentence: give what the message names"


def check_message(message: str, names: tuple[object, ...]) -> None:
    """Assert that the message is one line and names each of `names`."""
    assert len(message.splitlines()) == 1, f"expected one line: {message!r}"
    for name in names:
        assert pattern_of(name).search(message), f"expected {str(name)!r} in {message!r}"
    if is_place(first := str(names[0])):
        begins = re.compile(rf"(?:.*?: )?{pattern_of(first).pattern}")
        assert begins.match(message), f"expected {first!r} at the beginning of {message!r}"


def is_sentence(text: str) -> bool:
    """Return whether three plain words follow each other outside of quotes."""
    return bool(SENTENCE.search(QUOTED.sub("''", text)))


def is_place(name: str) -> bool:
    """Return whether a name is `key:` or `key=value`, which tells where an error is."""
    return bool(re.match(r"[\w.+]+(=|:$)", name))


def pattern_of(name: object) -> re.Pattern[str]:
    """Return a pattern of the whole name: `lr=1` is neither in `lr=10` nor in `lr=1.5` nor in `algo.lr=1`."""
    text = str(name)
    before = (r"(?<![\w.])" if "=" in text else r"(?<!\w)") if re.match(r"\w", text) else ""
    after = r"(?!\w|[.,]\w)" if re.search(r"\w$", text) and not text.endswith("=") else ""
    return re.compile(before + re.escape(text) + after)
