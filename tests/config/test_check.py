"""How a value is spelled as an override."""

from __future__ import annotations

from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from rlx.settings.check import spell
from tests.loops import for_each

TEXTS = st.text(st.characters(codec="ascii", exclude_categories=["Cc"])) | st.text("a'\\\\ 0.e_")


def read(word: str) -> Any:
    (override,) = OverridesParser.create().parse_overrides([word])
    return override.value()


@given(TEXTS)
def test_text_that_is_spelled_is_read_back(text: str) -> None:
    for value in (text, [text, 1], {"key": text}):
        assert read(f"x={spell(value)}") == value


@for_each("text", ["null", "True", "NaN", "-inf", "1", "1.5", "1e5", "1_0", "-3", ".5", "5."])
def test_text_that_reads_as_something_else_is_quoted(text: str) -> None:
    assert spell(text) == f"'{text}'"
    assert read(f"x={spell(text)}") == text


@for_each("value", [None, True, 3, -1.5, 1e-9, [None, False], {"key": [1, {"inner": 2.5}]}])
def test_what_is_no_text_is_read_back_as_it_was(value: Any) -> None:
    assert read(f"x={spell(value)}") == value
    assert type(read(f"x={spell(value)}")) is type(value)
