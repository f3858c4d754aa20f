from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from rlx.base.console import Screen, clean, duration, one_line, plain_line
from tests.loops import for_each


def screen(terminal: bool) -> tuple[Screen, StringIO]:
    out = StringIO()
    return Screen(console=Console(file=out, force_terminal=terminal, width=100, color_system=None)), out


@given(st.text())
def test_clean_text_holds_no_control_character_but_newline_and_tab(text: str) -> None:
    assert all(c in "\n\t" or (ord(c) >= 32 and not 127 <= ord(c) < 160) for c in clean(text))


@given(st.text(), st.integers(1, 50))
def test_one_line_is_one_short_line(text: str, limit: int) -> None:
    assert len(one_line(text, limit)) <= limit
    assert len(one_line(text, limit).splitlines()) <= 1


@for_each("evil", ["\x1b[2J", "\x9b31m", "\u202egnp.exe", "a\rb", "\x07", "\ud800"])
def test_what_a_terminal_would_obey_is_replaced(evil: str) -> None:
    assert clean(evil) != evil
    assert "\N{REPLACEMENT CHARACTER}" in clean(evil)


def test_ordinary_text_is_left_alone() -> None:
    assert clean("(44 - 35) * 19 = 171\n\té漢字🙂") == "(44 - 35) * 19 = 171\n\té漢字🙂"


def test_markup_is_shown_not_obeyed() -> None:
    shown, out = screen(terminal=False)
    shown.say("[red]x[/red] [link=http://a]b[/link]")
    assert out.getvalue() == "[red]x[/red] [link=http://a]b[/link]\n"


def test_without_a_terminal_a_bar_is_one_plain_line() -> None:
    shown, out = screen(terminal=False)
    with shown.bar("evaluation", total=4, unit="episodes") as advance:
        for _ in range(4):
            advance(1, note="reward [b]0.5")
    assert len(out.getvalue().splitlines()) == 1
    assert out.getvalue().startswith("evaluation: 4/4 episodes, ")
    assert out.getvalue().endswith("episodes/s, reward [b]0.5\n")


def test_plain_lines_come_every_interval() -> None:
    shown, out = screen(terminal=False)
    shown.interval = 0.0
    with shown.bar("train", total=3) as advance:
        for _ in range(3):
            advance()
    assert [line.split(",")[0] for line in out.getvalue().splitlines()] == [
        "train: 1/3 steps",
        "train: 2/3 steps",
        "train: 3/3 steps",
        "train: 3/3 steps",
    ]


def test_in_a_terminal_bars_nest_and_go() -> None:
    shown, out = screen(terminal=True)
    with shown.bar("train", total=2) as outer:
        for _ in range(2):
            with shown.bar("episodes", total=3, unit="episodes") as inner:
                inner(3, note="[bold]\x1b[31m")
                shown.say("a line between")
            outer()
    text = out.getvalue()
    assert "train" in text
    assert "2/2" in text
    assert "a line between" in text
    assert "\x1b[31m" not in text
    assert shown._bars is None


def test_a_bar_ends_when_its_block_raises() -> None:
    shown, _ = screen(terminal=True)
    with pytest.raises(KeyError), shown.bar("train", total=2):
        raise KeyError
    assert shown._bars is None


def test_a_silent_screen_says_nothing() -> None:
    shown, out = screen(terminal=True)
    shown.silent = True
    with shown.bar("train", total=2) as advance:
        advance(1, note="x")
        shown.say("y")
    assert out.getvalue() == ""


def test_a_plain_line_gives_rate_and_time_left() -> None:
    assert plain_line("train", 10, 100, "steps", 0.5) == "train: 10/100 steps, 0.5 steps/s, 3 min 0 s left"
    assert plain_line("train", 0, 100, "steps", 0.0) == "train: 0/100 steps"


@for_each("seconds, text", [(0, "0 s"), (59, "59 s"), (185, "3 min 5 s"), (7_440, "2 h 4 min")])
def test_durations_are_read_at_a_glance(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def fail_after_speaking(shown: Screen, log: Path) -> None:
    with shown.logged(log):
        shown.say("hello \x1b[2J")
        with shown.bar("train", 2) as advance:
            advance(2, note="reward 1")
        shown.show(Text("a table"))
        raise ValueError("no")


def test_a_log_keeps_what_was_said_and_what_ended_it(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    for terminal in (False, True):
        shown, _ = screen(terminal=terminal)
        with pytest.raises(ValueError, match="no"):
            fail_after_speaking(shown, log)
        shown.say("not logged")
    text = log.read_text()
    assert text.count("hello �[2J\n") == text.count("train: 2/2 steps") == 2
    assert text.count("\na table\n") == text.count("ended by ValueError: no\n") == text.count(" began: ") == 2
    assert "not logged" not in text
    assert "\x1b" not in text


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    shown, out = screen(terminal=False)
    with shown.logged(tmp_path / "nowhere" / "log.txt"):
        shown.say("hello")
    assert "hello" in out.getvalue()
