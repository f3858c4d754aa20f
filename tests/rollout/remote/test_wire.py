"""What goes over the wire comes back as it was, and what should not be there is refused in one line."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load as load_safetensors

from rlx.protocol.automaton import Actions, Automaton, State
from rlx.rollout.engine import Counts
from rlx.rollout.remote.weights import read_weights, write_weights
from rlx.rollout.remote.wire import (
    ADVANCE,
    ADVANCED,
    AUTOMATON,
    Advance,
    Advanced,
    dump,
)
from rlx.runs.form import CodecError, parse
from rlx.types import Completion, Request, Sampling
from tests.loops import for_each

IDS = st.integers(0, 2**31 - 1)
COUNTS = st.integers(0, 99)
FLOATS = st.floats(allow_nan=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | FLOATS.filter(math.isfinite) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


ACTIONS = st.none() | st.lists(st.text(max_size=4), min_size=1, max_size=3, unique=True).map(
    lambda names: Actions(first=2**20, names=tuple(names), descriptions=((1, 2),) * len(names))
)


@st.composite
def automata(draw: st.DrawFn) -> Automaton:
    num = draw(st.integers(1, 3))
    some, moves = st.frozensets(IDS, min_size=1, max_size=3), st.dictionaries(IDS, st.integers(0, num - 1), max_size=3)
    allowing, forbidding = st.fixed_dictionaries({"allowed": some}), st.fixed_dictionaries({"forbidden": some})
    kinds = st.lists(allowing | forbidding | st.just({}), min_size=num, max_size=num)
    states = tuple(State(**kind, moves=draw(moves), ends=draw(st.frozensets(IDS, max_size=2))) for kind in draw(kinds))
    return Automaton(states=states, actions=draw(ACTIONS))


REQUESTS = st.builds(
    Request,
    session=COUNTS,
    stream=st.integers(0, 2**64 - 1),
    prompt_ids=st.lists(IDS, max_size=6).map(tuple),
    sampling=st.builds(
        Sampling,
        temperature=st.just(0.0) | st.floats(0.01, 1000),
        top_k=COUNTS,
        top_p=st.floats(1e-6, 1),
        max_new_tokens=COUNTS.map(lambda count: count + 1),
        max_context=COUNTS.map(lambda count: count + 1),
    ),
    stops=st.lists(st.text(), max_size=2).map(tuple),
    state=st.none() | COUNTS,
    group=st.none() | COUNTS,
    completion_prefix=st.lists(IDS, max_size=3).map(tuple),
    watch=st.lists(IDS, max_size=3).map(tuple),
    entropy_of=COUNTS,
)


@st.composite
def completions(draw: st.DrawFn) -> Completion:
    tokens = draw(st.lists(IDS, max_size=6))
    column = {"min_size": len(tokens), "max_size": len(tokens)}
    return Completion(
        token_ids=tuple(tokens),
        logprobs=tuple(draw(st.lists(FLOATS, **column))),
        mask_ids=tuple(draw(st.just([]) | st.lists(COUNTS, **column))),
        chosen_ids=tuple(draw(st.just([]) | st.lists(IDS, **column))),
        watched=tuple(draw(st.just([]) | st.lists(st.lists(FLOATS, max_size=2).map(tuple), **column))),
        stop=draw(st.sampled_from(["stop", "eos", "length", "context"])),
        version=draw(COUNTS),
    )


def numbered(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(st.tuples(COUNTS, values), max_size=3).map(tuple)


@settings(max_examples=100)
@given(numbered(REQUESTS), st.lists(COUNTS, max_size=3).map(tuple))
def test_any_step_survives_the_wire(add: Any, release: tuple[int, ...]) -> None:
    advance = Advance(num_ticks=3, release=release, add=add)
    assert ADVANCE.read(parse(dump(ADVANCE.write(advance))), "step") == advance


@settings(max_examples=100)
@given(automata())
def test_any_automaton_survives_the_wire(automaton: Automaton) -> None:
    assert AUTOMATON.read(parse(dump(AUTOMATON.write(automaton))), "automaton") == automaton


@settings(max_examples=100)
@given(numbered(completions()))
def test_any_answer_survives_the_wire(finished: Any) -> None:
    answer = Advanced(finished=finished, counts=Counts(num_prefilled=1, num_reused=2, num_shared=3, num_sampled=2**40))
    assert ADVANCED.read(parse(dump(ADVANCED.write(answer))), "answer") == answer


def edited(change: Any) -> Any:
    asked = Request(session=0, stream=0, prompt_ids=(1,), sampling=Sampling(), state=0)
    value = ADVANCE.write(Advance(num_ticks=1, add=((7, asked),)))
    change(value)
    return value


@for_each(
    "change",
    [
        lambda v: v.update(ticks=10**6),
        lambda v: v.update(ticks=-1),
        lambda v: v.update(ticks=True),
        lambda v: v.update({"__class__\n": 1}),
        lambda v: v.pop("add"),
        lambda v: v["add"].append([1]),
        lambda v: v["add"][0][1].update(stream=2**64),
        lambda v: v["add"][0][1].update(prompt=[2**40]),
        lambda v: v["add"][0][1].update(stops="</answer>"),
        lambda v: v["add"][0][1]["sampling"].update(temperature="hot"),
        lambda v: v["add"][0][1]["sampling"].update(temperature=-1.0),
        lambda v: v["add"][0][1].update(state=-1),
    ],
)
def test_a_step_that_is_not_one_is_refused_in_one_line(change: Any) -> None:
    with pytest.raises(CodecError) as caught:
        ADVANCE.read(edited(change), "step")
    assert len(str(caught.value).splitlines()) == 1


@for_each(
    "change",
    [
        lambda v: v["states"][0].update(moves=[[1, 2]]),
        lambda v: v["states"][0].update(moves=[[1]]),
        lambda v: v["states"][0].update(allowed=[]),
        lambda v: v["states"][0].update(forbidden=[4]),
        lambda v: v["states"].clear(),
        lambda v: v["actions"].update(first=0),
        lambda v: v["actions"]["actions"].append({"name": "go", "description": [2]}),
    ],
)
def test_an_automaton_that_is_not_one_is_refused_in_one_line(change: Any) -> None:
    actions = Actions(first=9, names=("go",), descriptions=((1,),))
    automaton = Automaton(states=(State(allowed=frozenset({1})),), actions=actions)
    value = AUTOMATON.write(automaton)
    change(value)
    with pytest.raises(CodecError) as caught:
        AUTOMATON.read(value, "automaton")
    assert len(str(caught.value).splitlines()) == 1


@settings(max_examples=200)
@given(JSON)
def test_any_json_is_a_message_or_a_codec_error(value: Any) -> None:
    for read in (
        lambda: ADVANCE.read(value, "step"),
        lambda: ADVANCED.read(value, "answer"),
        lambda: AUTOMATON.read(value, "automaton"),
    ):
        with pytest.raises(CodecError):
            read()


@settings(max_examples=100)
@given(st.binary(max_size=40))
def test_any_bytes_are_json_or_a_codec_error(raw: bytes) -> None:
    try:
        expected = json.loads(raw, parse_constant=lambda name: pytest.fail(name))
    except (ValueError, RecursionError, pytest.fail.Exception):
        with pytest.raises(CodecError):
            parse(raw)
    else:
        assert parse(raw) == expected


@for_each("raw", [b"[" * 200_000, b"9" * 5_000, b"NaN", b"\xff", b""])
def test_deep_long_and_broken_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(CodecError):
        parse(raw)


WEIGHTS = {
    "a": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "b": torch.randn(5, generator=torch.Generator().manual_seed(0)).bfloat16(),
    "c": torch.arange(6.0).reshape(2, 3).t(),
    "none": torch.empty(0, 4),
    "one": torch.tensor(3, dtype=torch.int64),
}


def packed(weights: dict[str, torch.Tensor]) -> bytes:
    length, chunks = write_weights(weights)
    raw = b"".join(bytes(chunk) for chunk in chunks)
    assert len(raw) == length
    return raw


def unpacked(raw: bytes) -> dict[str, torch.Tensor]:
    return read_weights(io.BytesIO(raw).readinto, len(raw))


def test_weights_survive_the_wire_and_are_safetensors() -> None:
    raw = packed(WEIGHTS)
    for read in (unpacked(raw), load_safetensors(raw)):
        assert set(read) == set(WEIGHTS)
        assert all(read[name].dtype == WEIGHTS[name].dtype and read[name].equal(WEIGHTS[name]) for name in WEIGHTS)


def test_tied_weights_travel_once() -> None:
    tied = {**WEIGHTS, "head": WEIGHTS["a"]}
    assert len(packed(tied)) - len(packed(WEIGHTS)) < 64
    assert unpacked(packed(tied))["head"].equal(WEIGHTS["a"])


def header(**entries: Any) -> bytes:
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text


F4 = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@for_each(
    "raw",
    [
        b"",
        b"\xff" * 8,
        (2**40).to_bytes(8, "little") + b"{}",
        packed(WEIGHTS)[:-1],
        packed(WEIGHTS) + b"x",
        header(a={**F4, "shape": [2]}) + bytes(4),
        header(a={**F4, "shape": [2**40, 2**40]}) + bytes(4),
        header(a={**F4, "dtype": "F8"}) + bytes(4),
        header(a={**F4, "data_offsets": [4, 8]}) + bytes(8),
        header(a=F4, b=F4) + bytes(4),
        header(a=F4, __metadata__={"b": "nobody"}) + bytes(4),
        header(a=F4, __metadata__={"a": "a"}) + bytes(4),
        header(a=[]) + bytes(4),
    ],
)
def test_weights_that_are_not_whole_are_refused(raw: bytes) -> None:
    with pytest.raises(CodecError):
        unpacked(raw)


@settings(max_examples=200)
@given(st.binary(max_size=64))
def test_any_bytes_are_weights_or_a_codec_error(raw: bytes) -> None:
    try:
        assert unpacked(raw) == {}
    except CodecError:
        return
