from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.runs.codec import FORMAT, common_prefix, from_json, to_json
from rlx.runs.form import CodecError
from rlx.runs.store import StoreError, good_lines, growing, load, read, save, step_path
from rlx.types import Action, Completion, Fork, Group, Status, Task, Text, ToolUse, Trajectory, Turn
from tests.errors import raises_naming

NUMBERS = st.integers(0, 2**31 - 1)
COUNTS = st.integers(0, 99)
FLOATS = st.floats(allow_nan=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | FLOATS.filter(math.isfinite) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
PARTS = st.lists(st.builds(Text, st.text()), max_size=2).map(tuple)


@st.composite
def completions(draw: st.DrawFn) -> Completion:
    tokens = draw(st.lists(NUMBERS, max_size=6))
    column = {"min_size": len(tokens), "max_size": len(tokens)}
    return Completion(
        token_ids=tuple(tokens),
        logprobs=tuple(draw(st.lists(FLOATS, **column))),
        mask_ids=tuple(draw(st.just([]) | st.lists(COUNTS, **column))),
        stop=draw(st.sampled_from(["stop", "eos", "length", "context"])),
        version=draw(COUNTS),
    )


@st.composite
def turns(draw: st.DrawFn) -> tuple[Turn, ...]:
    """Some prompts extend the turn before, some share a part of it, some are rewritten."""
    made: list[Turn] = []
    for _ in range(draw(st.integers(0, 4))):
        before = made[-1].prompt_ids + made[-1].completion.token_ids if made else ()
        kept = draw(st.integers(0, len(before)))
        made.append(
            Turn(
                prompt_ids=before[:kept] + tuple(draw(st.lists(NUMBERS, max_size=4))),
                completion=draw(completions()),
                action=draw(
                    st.builds(
                        Action, kind=st.sampled_from(["call", "answer", "invalid"]), text=st.text(), name=st.text()
                    )
                ),
                observation=draw(PARTS),
                luck=draw(NUMBERS),
                reward=draw(FLOATS),
                tool=draw(
                    st.builds(ToolUse, num_calls=COUNTS, num_failed=COUNTS, num_mismatches=COUNTS, num_tokens=COUNTS)
                ),
            )
        )
    return tuple(made)


TASKS = st.builds(Task, id=st.text(), prompt=PARTS, data=st.dictionaries(st.text(), JSON, max_size=3))
FORKS = st.builds(Fork, parent=COUNTS, turn=COUNTS, token=COUNTS, forced=st.lists(NUMBERS, max_size=3).map(tuple))


def fitted(one: Trajectory) -> Trajectory:
    """A fork gives the turn that it leaves no more tokens than this has."""
    left = one.turns[one.fork.turn :][:1] if one.fork else ()
    if one.fork is None or all(one.fork.num_prefix <= len(turn.completion.token_ids) for turn in left):
        return one
    return replace(one, fork=replace(one.fork, token=0, forced=()))


TRAJECTORIES = st.builds(
    Trajectory,
    task=TASKS,
    sample=COUNTS,
    turns=turns(),
    status=st.sampled_from(get_args(Status)),
    success=st.booleans(),
    error=st.text(),
    fork=st.none() | FORKS,
    opening=PARTS,
    spare=st.booleans(),
).map(fitted)


def small(task: str = "t", sample: int = 0) -> Trajectory:
    first = Turn(
        prompt_ids=(1, 2, 3),
        completion=Completion(token_ids=(4, 5), logprobs=(-0.5, -1.25), stop="stop"),
        action=Action(kind="call", name="python", text="1 + 1"),
        observation=(Text("2"),),
        reward=-0.02,
        tool=ToolUse(num_calls=1, num_tokens=1),
    )
    second = Turn(
        prompt_ids=(1, 2, 3, 4, 5, 6),
        completion=Completion(token_ids=(7,), logprobs=(-0.1,), stop="stop", version=3),
        action=Action(kind="answer", text="1 + 1"),
        reward=1.0,
    )
    return Trajectory(
        task=Task(id=task, prompt=(Text("make 2"),), data={"numbers": [1, 1], "target": 2}),
        sample=sample,
        turns=(first, second),
        status="done",
        success=True,
    )


@settings(max_examples=150)
@given(TRAJECTORIES)
def test_any_trajectory_survives_json(trajectory: Trajectory) -> None:
    assert from_json(json.loads(json.dumps(to_json(trajectory), allow_nan=False))) == trajectory


def test_a_float_that_is_not_a_number_survives() -> None:
    turn = Turn(
        prompt_ids=(),
        completion=Completion(token_ids=(1,), logprobs=(math.nan,), stop="eos"),
        action=Action(kind="answer", text=""),
    )
    one = Trajectory(task=small().task, sample=0, turns=(turn,), status="done")
    back = from_json(json.loads(json.dumps(to_json(one), allow_nan=False)))
    assert math.isnan(back.turns[0].completion.logprobs[0])


def test_a_prompt_stores_only_what_it_adds() -> None:
    stored = to_json(small())["turns"]
    assert (stored[0]["shared"], stored[0]["prompt"]) == (0, [1, 2, 3])
    assert (stored[1]["shared"], stored[1]["prompt"]) == (5, [6])


def test_groups_come_back_as_they_were_saved(tmp_path: Path) -> None:
    path = step_path(tmp_path, 12)
    groups = [
        Group(task=small(name).task, trajectories=tuple(small(name, i) for i in range(3))) for name in ("a", "b", "a")
    ]
    said = [[[{"pieces": ["\x1b[2J"] * 2, "trained": [1, 0]}, {"values": [None]}]] * 3] * 3
    save(path, groups, max_rounds=8, notes=said)
    assert path.name == "step-000012.jsonl"
    assert load(path) == groups
    assert [stored.line for stored in read(path)] == list(range(1, 10))
    assert {stored.max_rounds for stored in read(path)} == {8}
    assert path.read_bytes().isascii()
    assert b"\x1b" not in path.read_bytes()


def test_a_file_holds_nothing_a_terminal_would_obey(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    evil = Trajectory(
        task=Task(id="\x1b[2J\u202e", prompt=(), data={}), sample=0, turns=(), status="error", error="\x9b1m"
    )
    save(path, [Group(task=evil.task, trajectories=(evil,))], max_rounds=0)
    raw = path.read_bytes()
    assert raw.isascii()
    assert b"\x1b" not in raw
    assert load(path)[0].trajectories == (evil,)


def test_saving_leaves_no_other_file_and_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "trajectories" / "step-000001.jsonl"
    save(path, [Group(task=small().task, trajectories=(small(),))], max_rounds=1)
    other = replace(small().task, id="other")
    save(path, [Group(task=other, trajectories=(replace(small(), task=other),))], max_rounds=1)
    assert [child.name for child in path.parent.iterdir()] == [path.name]
    assert [group.task.id for group in load(path)] == ["other"]


def test_a_file_that_was_emptied_is_refused(tmp_path: Path) -> None:
    (tmp_path / "step-000001.jsonl").write_text("")
    with raises_naming(StoreError, "step-000001.jsonl", "no episodes"):
        load(tmp_path / "step-000001.jsonl")


def edited(change: Any) -> bytes:
    line = {"format": FORMAT, "group": 0, "max_rounds": 8, "trajectory": to_json(small())}
    change(line)
    return json.dumps(line).encode() + b"\n"


def test_a_line_of_before_says_that_it_is(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(edited(lambda line: line.update(format=1)))
    with raises_naming(StoreError, f"{tmp_path}/x.jsonl:1:", f"(1, now {FORMAT})"):
        load(tmp_path / "x.jsonl")


def test_a_file_that_grows_keeps_what_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.partial"
    with growing(path, max_rounds=2) as add:
        add(small("a", 0))
        add(small("a", 1))
        assert [stored.trajectory.sample for _, stored in good_lines(path)] == [0, 1], "before it is closed"
    whole = path.read_bytes()
    for torn in (b'{"format"', b"\x00\n" + whole, b"{}\n"):
        path.write_bytes(whole + torn)
        assert [stored.trajectory for _, stored in good_lines(path)] == [small("a", 0), small("a", 1)]
        with growing(path, max_rounds=2) as add:
            add(small("b", 0))
        assert [stored.trajectory.task.id for _, stored in good_lines(path)] == ["a", "a", "b"]
    assert list(good_lines(tmp_path / "none")) == []


HOSTILE = {
    "cut short": json.dumps({"format": FORMAT}).encode(),
    "not JSON": b"\x00\xff\n",
    "deep": b"[" * 200_000 + b"\n",
    "huge number": b'{"format": ' + b"9" * 5_000 + b"}\n",
    "a list": b"[]\n",
    "NaN": edited(lambda line: line["trajectory"]["turns"][0].update(reward=math.nan)),
    "format": edited(lambda line: line.update(format="\x1b[31m" * 50)),
    "key": edited(lambda line: line["trajectory"].update({"__class__\n": "os"})),
    "missing": edited(lambda line: line["trajectory"].pop("status")),
    "status": edited(lambda line: line["trajectory"].update(status="won")),
    "flag": edited(lambda line: line["trajectory"].update(success=1)),
    "shared": edited(lambda line: line["trajectory"]["turns"][1].update(shared=6)),
    "negative": edited(lambda line: line["trajectory"]["turns"][0].update(tokens=[-1, 2])),
    "large": edited(lambda line: line["trajectory"]["turns"][0].update(tokens=[2**40, 2])),
    "reward": edited(lambda line: line["trajectory"]["turns"][0].update(reward=10**400)),
    "bool": edited(lambda line: line["trajectory"]["turns"][0].update(tokens=[True, 2])),
    "columns": edited(lambda line: line["trajectory"]["turns"][0].update(logprobs=[0.0])),
    "counts": edited(lambda line: line["trajectory"]["turns"][0].update(tool=[1, 2])),
    "data": edited(lambda line: line["trajectory"]["task"].update(data=[])),
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_line_is_one_line_that_names_it(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(edited(lambda line: None) + raw)
    with pytest.raises(StoreError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:2: ")
    assert len(message.splitlines()) == 1
    assert len(message) < len(str(path)) + 150
    assert "\x1b" not in message


@settings(max_examples=300)
@given(JSON)
def test_any_json_is_a_trajectory_or_a_codec_error(value: Any) -> None:
    with pytest.raises(CodecError):
        from_json(value)


class Compared(int):
    """An id that knows how often any was compared by hand; one with itself never is."""

    count: ClassVar = [0]

    def __eq__(self, other: object) -> bool:
        self.count[0] += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_what_a_prompt_repeats_is_found_without_a_look_at_each_id() -> None:
    before = tuple(map(Compared, range(1000)))
    assert common_prefix(before, (*before, Compared(7))) == 1000
    assert Compared.count[0] == 0
    assert common_prefix(before, (*before[:9], -1, 3)) == 9
    assert common_prefix((), (1,)) == common_prefix((1,), ()) == 0
