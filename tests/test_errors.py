"""An expected error is told from others by the names in its message."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.errors import assert_mistake, is_sentence, raises_naming


@pytest.mark.parametrize(
    "text", ["lr=0", "no room", "step-1 of step-2", "'there is no key'", "/tmp/a b.yaml", "a, 1, b"]
)
def test_names_are_no_sentence(text: str) -> None:
    assert not is_sentence(text)


@pytest.mark.parametrize("text", ["there is no key", "lr=0: expected an integer", "it ended too early, so"])
def test_three_words_are_a_sentence(text: str) -> None:
    assert is_sentence(text)


@pytest.mark.parametrize(
    "expected",
    [
        ("algo.lr=0.5",),
        (4, "algo.lr=0.5"),
        ("algo.lr=",),
        ("algo.lr",),
        (Path("/x/config.yaml"),),
        ("config.yaml", "below"),
    ],
)
def test_an_error_passes_that_names_what_is_expected(expected: tuple[object, ...]) -> None:
    with raises_naming(ValueError, *expected):
        raise ValueError("algo.lr=0.5: expected a number below 4 in /x/config.yaml")


@pytest.mark.parametrize(
    "expected",
    [("algo.lr=0",), ("lr=0.5",), ("algo.l",), ("algo",), (40,), ("config",), ("above",), ("in",), (4, "algo.lr=5")],
)
def test_an_error_fails_that_names_another_key_or_value(expected: tuple[object, ...]) -> None:
    with pytest.raises(AssertionError, match="expected"), raises_naming(ValueError, *expected):
        raise ValueError("algo.lr=0.5: expected a number below 44 at /x/config.yaml")


def test_a_place_begins_the_message_or_follows_a_file() -> None:
    with pytest.raises(AssertionError, match="beginning"), raises_naming(ValueError, "lr=0"):
        raise ValueError("an lr=0 is no rate")
    for place in ("lr=0", "lr=", "run/config.yaml:"):
        with raises_naming(ValueError, place):
            raise ValueError("run/config.yaml: lr=0: expected more")


def test_an_error_of_two_lines_or_of_another_type_fails() -> None:
    with pytest.raises(AssertionError, match="one line"), raises_naming(ValueError, "a"):
        raise ValueError("a\nb")
    with pytest.raises(KeyError), raises_naming(ValueError, "a"):
        raise KeyError("a")


def test_a_sentence_and_nothing_cannot_be_expected() -> None:
    for names in (("there is no key",), (), ("",)):
        with pytest.raises(AssertionError), raises_naming(ValueError, *names):
            raise ValueError("there is no key")


def test_a_mistake_of_a_command_has_its_exit_code_and_one_line() -> None:
    assert_mistake(subprocess.CompletedProcess((), 2, "", "rlx: lr=0: no\n"), "lr=0")
    for code, told in ((1, "rlx: lr=0: no"), (2, "lr=0: no"), (2, "rlx: lr=1: no"), (2, "rlx: lr=0: no\nmore")):
        with pytest.raises(AssertionError):
            assert_mistake(subprocess.CompletedProcess((), code, "", told), "lr=0")
