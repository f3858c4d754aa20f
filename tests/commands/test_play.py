"""An episode by hand, through the command itself: what a model would see, what a turn meant, and how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.commands.play import turns_of, typed_turns
from tests.errors import assert_mistake
from tests.loops import for_each

ROOT = Path(__file__).resolve().parents[2]
Command = Callable[..., "subprocess.CompletedProcess[str]"]
"""`rlx_here` of conftest.py: a command in this process, which is faster than `play` below."""
GUESS = ("env=game/guess_the_number", "protocol=boxed")


def environ() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)}


def play(*words: str, said: str | bytes = "", cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    told = said.encode() if isinstance(said, str) else said
    done = subprocess.run(
        [sys.executable, "-m", "rlx", "play", *words],
        input=told,
        capture_output=True,
        cwd=cwd,
        env=environ(),
        timeout=600,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@for_each(
    "stops, typed, turns",
    [
        (("\n",), "25\n12\n", ["25\n", "12\n"]),
        (("\n",), "\n25\n\r\n\n12\n", ["25\n", "12\n"]),
        ((), "a\nb\n\nc\n\n\n", ["a\nb", "c"]),
        (("</a>",), "x\n<a>1</a> and more\n\ny\n\n", ["x\n<a>1</a>", "y"]),
        (("</a>",), "no end", ["no end"]),
        ((), "", []),
        ((), "\ud800\r\n\r\n", ["?"]),
    ],
)
def test_a_turn_ends_as_a_models_does_or_with_an_empty_line(
    stops: tuple[str, ...], typed: str, turns: list[str]
) -> None:
    assert list(turns_of(typed.splitlines(keepends=True), stops)) == turns


@pytest.mark.parametrize(("stops", "end"), [(("\n",), "a line"), (("</a>",), "an empty line")])
def test_who_types_is_told_at_first_what_ends_a_turn(
    stops: tuple[str, ...], end: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = iter(["25", "", "12", ""])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda prompt: next(said))
    turns = typed_turns(stops)
    assert [next(turns).strip(), next(turns).strip()] == ["25", "12"]
    assert capsys.readouterr().out == f"{end} ends your turn, Ctrl-D the episode\n"


@given(st.lists(st.text()), st.sampled_from([(), ("\n",), ("</a>",)]))
def test_whatever_is_typed_is_some_turns(lines: list[str], stops: tuple[str, ...]) -> None:
    for turn in turns_of([f"{line}\n" for line in lines], stops):
        assert turn.encode()


def test_a_game_is_played_by_hand_and_its_end_told() -> None:
    done = play(*GUESS, "env.high=2", "env.max_turns=5", said="First \\boxed{1}\n\n\\boxed{2}\n\n\\boxed{1}\n\n")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("the model sees ")
    assert r"  Put your number in \boxed{}." in lines
    assert "  First \\boxed{1}<|end|>" in lines
    assert lines[-1].startswith("solved (done), reward 1.000, ")
    assert lines[-3:-1] == ["observation", "  correct"]
    assert max(map(len, lines)) <= 80


def test_the_end_of_the_input_ends_it(rlx_here: Command) -> None:
    done = rlx_here("play", "env=game/guess_the_number", "protocol=direct", said=b"0\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "not solved (left), reward 0.000, 1 turn, 0 tool calls, 2 tokens"
    assert rlx_here("play", *GUESS).stdout.endswith(
        "not solved (left), reward 0.000, 0 turns, 0 tool calls, 0 tokens\n"
    )


def test_an_interrupt_ends_it() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "rlx", "play", *GUESS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # what a shell starts behind itself ignores it
    )
    assert process.stdout is not None
    while b"It is a number" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=600) == 0  # with its input still open
    assert process.stdout.read().decode().splitlines()[-1].startswith("not solved (left)")


def test_an_expert_is_watched_and_tokens_are_told_apart(rlx_here: Command) -> None:
    done = rlx_here(
        "play", "env=game/guess_the_number", "protocol=direct", "--expert", "--tokens", "--split", "test", "--task", "2"
    )
    assert done.stdout.splitlines()[-1].startswith("solved (done), reward 1.000, ")
    assert "  2|5|" in done.stdout.splitlines()


def test_a_picture_is_shown_before_each_turn_and_at_the_end(rlx_here: Command) -> None:
    pytest.importorskip("minigrid")
    done = rlx_here("play", "env=babyai/go_to", "protocol=direct", "--expert")
    num_turns = done.stdout.count("\nturn ")
    assert done.stdout.count("the environment, which the model does not see\n  ## ## ##") == num_turns + 1 > 1
    assert "\nsolved (done)" in done.stdout


def test_what_a_model_would_choose_is_written_by_hand_and_by_the_expert(rlx_here: Command) -> None:
    words = ("env=sorting/sort2", "protocol=expa")
    done = rlx_here("play", *words, said=b"compare A B\n\nI see. swap A B\n\nsorted\n\n")
    for turn in ("turn 1: act compare", "turn 2: act swap", "turn 3: answer"):
        assert turn in done.stdout, done.stdout + done.stderr
    assert "\nsolved" in rlx_here("play", *words, "protocol.stops=[END]", "--expert").stdout


def test_with_a_window_the_whole_context_is_shown_anew(rlx_here: Command) -> None:
    done = rlx_here("play", "env=game/guess_the_number", "protocol=direct", "protocol.window=0", said=b"0\n0\n")
    assert done.stdout.count("Guess the number that I think of.") == 3


def test_what_a_terminal_would_obey_is_not_passed_on() -> None:
    done = play(*GUESS, said=b"\x1b[2J\xff\xfe \\boxed{\x1b[31m}\n\n")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "reward -0.100" in done.stdout


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--task", "100000", "--split", "test"], ["--task 100000:", "test split"]),
        (["--task", "0"], ["'--task'"]),
        (["--task", "1000000000"], ["'--task'"]),
        (["env=countdwn"], ["env", "'countdwn'"]),
    ],
)
def test_what_cannot_be_played_is_one_line(rlx_here: Command, words: list[str], names: list[str]) -> None:
    done = rlx_here("play", *words)
    assert_mistake(done, *names)


def test_an_environment_that_raises_ends_as_it_would_in_a_run(
    rlx_here: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text(
        "from rlx.environment import Environment, Episode\n"
        "from rlx.types import Task, Text\n"
        "class Broken(Environment, Episode):\n"
        "    def tasks(self, split, seed): yield Task(id='t', prompt=(Text('go'),), data={})\n"
        "    def start(self, task): return self\n"
        "    def step(self, action): raise RuntimeError('boom')\n"
    )
    (tmp_path / "conf" / "env").mkdir(parents=True)
    (tmp_path / "conf" / "env" / "broken.yaml").write_text("# It raises\n_target_: broken.Broken\n")
    done = play("env=broken", "protocol=direct", said="x\n", cwd=tmp_path)
    assert done.stdout.splitlines()[-2:] == [
        "not solved (error), reward 0.000, 0 turns, 0 tool calls, 0 tokens",
        f"error: RuntimeError at {tmp_path}/broken.py:6: boom",
    ]
    assert done.returncode == 1
    monkeypatch.syspath_prepend(str(tmp_path))
    assert_mistake(rlx_here("play", "env=broken", "--expert", cwd=tmp_path), "--expert:", "Broken")
