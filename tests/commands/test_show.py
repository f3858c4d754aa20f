"""Stored episodes as a person would read them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rlx.commands.find import ShowError, Wanted, find_file, glance, pick, scan
from rlx.commands.show import describe_line, show_episodes
from rlx.runs.store import StoreError, save, stored_files
from rlx.types import Action, Completion, Fork, Group, Stop, Task, Text, ToolUse, Trajectory, Turn
from tests.errors import raises_naming


def turn(text: str, reward: float, observation: str = "", kind: str = "answer", stop: str = "stop") -> Turn:
    return Turn(
        prompt_ids=(500, 501),
        completion=Completion(token_ids=(502, 503), logprobs=(0.0, 0.0), stop=stop),
        action=Action(kind=kind, text=text, name="python" if kind == "call" else ""),
        observation=(Text(observation),) if observation else (),
        reward=reward,
        tool=ToolUse(num_calls=int(kind == "call")),
    )


def episode(task: str, sample: int, *turns: Turn, success: bool = False, status: str = "done") -> Trajectory:
    told = Task(id=task, prompt=(Text(f"Solve {task}."),), data={})
    return Trajectory(task=told, sample=sample, turns=turns, status=status, success=success, error="")


def write(file: Path, *episodes: Trajectory) -> None:
    save(file, [Group(task=one.task, trajectories=(one,)) for one in episodes], max_rounds=8)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    call = turn("1 + 1", -0.02, "2\x1b[2J and " + "long " * 30, kind="call")
    write(
        tmp_path / "trajectories" / "eval-8.jsonl",
        episode("a", 0, turn("3", 0.0, stop="length"), status="truncated"),
        episode("a", 1, call, turn("2", 1.0), success=True),
        episode("b", 0, turn("2", 1.0), success=True),
    )
    write(tmp_path / "trajectories" / "start-8.jsonl", episode("a", 0))
    write(tmp_path / "trajectories" / "step-000010.jsonl", episode("c", 0, turn("x", 0.5)))
    (tmp_path / "config.yaml").write_text("model: {path: nowhere}\n")
    return tmp_path


def test_the_newest_result_of_a_warm_start_is_shown(tmp_path: Path) -> None:
    for steps in (30, 60, 120):
        write(tmp_path / "trajectories" / f"result-{steps}.jsonl", episode(str(steps), 0))
    assert [file.stem for file in stored_files(tmp_path)] == ["result-30", "result-60", "result-120"]
    assert find_file(tmp_path).stem == "result-120"


def test_a_file_is_named_by_its_step_or_its_evaluation(run: Path) -> None:
    assert [file.stem for file in stored_files(run)] == ["step-000010", "eval-8", "start-8"]
    assert find_file(run).stem == find_file(run, "eval").stem == "eval-8"
    assert find_file(run, "10").stem == find_file(run, "step").stem == "step-000010"
    assert find_file(run, "start").stem == "start-8"
    with raises_naming(ShowError, "'9'", "step-000010, eval-8, start-8"):
        find_file(run, "9")
    with raises_naming(StoreError, "trajectories"):
        find_file(run / "trajectories")


def test_episodes_are_chosen_by_task_sample_outcome_place_and_reward(run: Path) -> None:
    file = find_file(run)
    assert [line.number for line in scan(file, Wanted())] == [1, 2, 3]
    assert [line.number for line in scan(file, Wanted(task="a"))] == [1, 2]
    assert [line.number for line in scan(file, Wanted(task="a", success=False))] == [1]
    assert [line.number for line in scan(file, Wanted(sample=0))] == [1, 3]
    assert pick(file, Wanted(), index=3).task == "b"
    assert pick(file, Wanted(), by="best").number == 3
    assert pick(file, Wanted(success=True), by="worst").number == 2
    for index, wanted in ((4, Wanted()), (1, Wanted(task="z"))):
        with raises_naming(ShowError, "`--list`"):
            pick(file, wanted, index=index)


def test_an_episode_is_told_turn_by_turn_on_80_columns(run: Path) -> None:
    (told,) = show_episodes(run, "", Wanted(success=True))
    assert told.startswith(
        "eval-8.jsonl, episode 2: task a, sample 1\nsolved, reward 0.980, 2 turns, 1 tool call, 4 tokens\n\n"
        "task\n  Solve a.\n\nturn 1: call python, reward -0.020\n  1 + 1\nobservation\n  2�[2J and long"
    )
    assert told.endswith("turn 2: answer, reward 1.000\n  2")
    assert max(map(len, told.splitlines())) <= 80
    assert "cut off by length" in next(show_episodes(run, "", Wanted()))


@pytest.mark.parametrize(
    ("stop", "told"), [("eos", "ended by eos"), ("length", "cut off by length"), ("context", "cut off by context")]
)
def test_a_turn_that_the_model_ended_was_not_cut_off(tmp_path: Path, stop: Stop, told: str) -> None:
    write(tmp_path / "trajectories" / "step-000001.jsonl", episode("a", 0, turn("3", 0.0, stop=stop)))
    assert told in next(show_episodes(tmp_path, "", Wanted()))


def test_a_list_has_a_line_for_each(run: Path) -> None:
    told = list(show_episodes(run, "", Wanted(), listed=True))
    assert [line.split()[:3] for line in told] == [["1", "truncated", "0.000"], ["2", "solved", "0.980"],
                                                  ["3", "solved", "1.000"]]  # fmt: skip
    evil = glance(b'{"trajectory": {"task": {"id": "\\u001b[2J"}, "sample": 0, "success": 1, "status": "done",'
                  b'"turns": []}}', 1)  # fmt: skip
    assert "\x1b" not in describe_line(evil)


def test_tokens_are_decoded_as_they_were_with_special_ones(run: Path) -> None:
    (run / "config.yaml").write_text("model: {path: nano}\n")
    (told,) = show_episodes(run, "", Wanted())
    assert told.split("\n\n")[1].startswith("prompt\n")


@pytest.mark.parametrize("line", ["", "{}", "[]", '{"trajectory": {"task": 1}}', "[" * 10**5])
def test_a_file_that_no_run_wrote_is_told_in_a_line(run: Path, line: str) -> None:
    find_file(run).write_text(line + "\n")
    with raises_naming(StoreError, "eval-8.jsonl:1:"):
        list(show_episodes(run, "", Wanted()))


def test_what_is_chosen_is_read_whole_and_no_more(run: Path) -> None:
    file = find_file(run)
    file.write_text(file.read_text() + "garbage\n")
    assert len(list(show_episodes(run, "", Wanted(), index=3))) == 1


def test_a_step_of_any_length_is_looked_for(run: Path) -> None:
    with raises_naming(ShowError, "no episodes"):
        find_file(run, "9" * 5000)


NOTES = {
    "pieces": ["\x1b[2Jab", "\n"],
    "advantages": [0.25, None],
    "entropies": [1.5, 0.0],
    "values": [None, -1.0],
    "trained": [1.0, 0.0],
}


def noted(file: Path, notes: dict[str, list[object]]) -> None:
    one = episode("a", 0, turn("3", 0.0))
    save(file, [Group(task=one.task, trajectories=(one,))], max_rounds=8, notes=[[[notes]]])


def test_tokens_are_told_with_what_was_made_of_them_and_move_no_terminal(run: Path) -> None:
    noted(find_file(run), NOTES)
    (told,) = show_episodes(run, "", Wanted(), tokens=True)
    rows = [line.split() for line in told.split("\n\n")[-2].splitlines()[-2:]]
    assert rows == [['"\\u001b[2Jab"', "0.000", "0.250", "1.500", "yes"], ['"\\n"', "0.000", "0.000", "-1.000", "no"]]
    assert max(map(len, told.splitlines())) <= 80
    assert "log-prob" not in next(show_episodes(run, "", Wanted()))


def test_tokens_of_an_evaluation_have_no_notes_and_are_told_all_the_same(run: Path) -> None:
    (told,) = show_episodes(run, "", Wanted(), tokens=True)
    assert told.split("\n\n")[-2].splitlines()[-1].split() == ['"id', '503"', "0.000"]


@pytest.mark.parametrize(
    ("notes", "names"),
    [
        ({"pieces": ["a"]}, ["2 tokens", "1 pieces"]),
        ({"pieces": ["a", 3]}, ["string"]),
        ({"trained": [{}, None]}, ["number"]),
        ({"values": "ab"}, ["list"]),
    ],
)
def test_notes_that_no_run_wrote_are_named(run: Path, notes: dict[str, list[object]], names: list[str]) -> None:
    noted(find_file(run), notes)
    with raises_naming(StoreError, "eval-8.jsonl:1:", "turns[0]", *names):
        list(show_episodes(run, "", Wanted(), tokens=True))


def test_a_file_and_a_line_of_it_are_opened(run: Path) -> None:
    file = find_file(run)
    (told,) = show_episodes(file, "", Wanted(), line=3)
    assert told.startswith("eval-8.jsonl, episode 3: task b")
    with raises_naming(ShowError, "line 4", "has 3"):
        list(show_episodes(file, "", Wanted(), line=4))


@pytest.fixture
def forked(run: Path) -> Path:
    """A run whose evaluation has a fork: a turn replayed, one left after a token and one token forced, one after it."""
    call = turn("1 + 1", -0.02, "2", kind="call")
    left = turn("\x1b[2J", 0.0, "3", kind="call")
    left = replace(left, completion=Completion(token_ids=(502, 503, 504), logprobs=(0.0,) * 3, stop="stop"))
    one = episode("a" * 40, 12, call, left, turn("2", 1.0), success=True)
    write(find_file(run), episode("a" * 40, 0), replace(one, fork=Fork(parent=10, turn=1, token=1, forced=(503,))))
    return run


def test_a_fork_says_what_it_left_and_what_is_its_own(forked: Path) -> None:
    (told,) = show_episodes(forked, "", Wanted(), index=2)
    assert told.splitlines()[2:5] == [
        "solved, reward 0.980, 3 turns, 2 tool calls, 7 tokens",
        "a fork of sample 10, left in turn 2 after 1 token, 1 token forced",
        "its own: 2 turns, 1 tool call, 3 tokens; the rest is replayed or forced",
    ]
    assert "\nturn 1: call python, reward -0.020, replayed\n" in told
    assert "\x1b" not in told
    plain, fork = show_episodes(forked, "", Wanted(), listed=True)
    assert "fork" not in plain
    assert fork.endswith("…/12, a fork of 10")
    assert len(fork) == 80


def test_the_text_of_a_fork_s_first_turn_is_told_in_its_parts(forked: Path) -> None:
    (forked / "config.yaml").write_text("model: {path: nano}\n")
    (told,) = show_episodes(forked, "", Wanted(), index=2)
    lines = told.split("\n\n")[3].splitlines()
    assert (lines[0], lines[1], lines[3], lines[5]) == (
        "turn 2: call python, reward 0.000", "replayed", "forced", "its own")  # fmt: skip


def test_a_fork_s_tokens_say_whose_they_are(forked: Path) -> None:
    (told,) = show_episodes(forked, "", Wanted(), index=2, tokens=True)
    rows = [line.split()[-1] for line in told.splitlines() if line.startswith('  "id ')]
    assert rows == ["replayed", "replayed", "replayed", "forced", "0.000", "0.000", "0.000"]
    assert max(map(len, told.splitlines())) <= 80
    assert "\ntrained: whether the update learned" in told


def test_a_fork_that_no_run_wrote_is_named(forked: Path) -> None:
    file = find_file(forked)
    stored = [json.loads(line) for line in file.read_text().splitlines()]
    stored[1]["trajectory"]["fork"]["token"] = 2**60
    file.write_text("".join(json.dumps(line) + "\n" for line in stored))
    with raises_naming(StoreError, 2, "fork", "turn 1", "tokens"):
        list(show_episodes(forked, "", Wanted(), index=2, tokens=True))


def test_episodes_are_chosen_by_a_metric_of_their_replies(tmp_path: Path) -> None:
    first = replace(turn("left", 0.0, kind="act"), reply={"reply/reasoning_words": 5.0, "reply/only_action": 0.0})
    second = replace(turn("left", 0.0, kind="act"), reply={"reply/reasoning_words": 0.0, "reply/only_action": 1.0})
    file = tmp_path / "trajectories" / "step-000001.jsonl"
    write(file, episode("a", 0, first), episode("b", 0, first, second), episode("c", 0))
    (told,) = show_episodes(tmp_path, "1", Wanted(reply="only_action"))
    assert "task b" in told
    assert "turn 2: act, reward 0.000, reasoning_words 0, only_action 1\n" in told
    assert len(list(show_episodes(tmp_path, "1", Wanted(reply="reply/reasoning_words"), listed=True))) == 2
    with raises_naming(ShowError, "`--list`"):
        list(show_episodes(tmp_path, "1", Wanted(reply="unknown")))
