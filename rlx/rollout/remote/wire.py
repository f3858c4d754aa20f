"""Messages between a rollout server and its client, as JSON: strict, exact and total.

A float is written as the shortest text that reads back as the same float, so tokens and log-probs are the engine's to
the last bit. A reader trusts nothing: bytes are a value or a CodecError of one line. Weights travel beside it, as
safetensors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rlx.model.expand import actions_from_json, actions_to_json
from rlx.protocol.automaton import Automaton, State
from rlx.rollout.engine import Counts
from rlx.runs.codec import COMPLETION
from rlx.runs.form import (
    FLAG,
    IDS,
    NATURAL,
    NUMBER,
    STRING,
    Form,
    counted,
    ids,
    in_order,
    made,
    many,
    natural,
    nothing_or,
)
from rlx.types import Completion, Request, Sampling

FORMAT = 2
"""Format of the messages; both sides must have the same."""
LARGEST_STREAM = 2**64 - 1
MOST_TICKS = 1024
"""Most ticks in one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """One `step` of a client: what to forget, what to add, and then how many ticks to run."""

    num_ticks: int
    release: tuple[int, ...] = ()
    add: tuple[tuple[int, Request], ...] = ()
    """Requests under the numbers their client knows them by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """The answer: what the ticks of the call *before* finished."""

    finished: tuple[tuple[int, Completion], ...]
    counts: Counts


def dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def up_to(most: int) -> Form:
    return Form(int, lambda value, where: natural(value, where, most))


SAMPLING = made(Sampling, temperature=NUMBER, top_k=NATURAL, top_p=NUMBER, max_new_tokens=NATURAL, max_context=NATURAL)
REQUEST = made(
    Request,
    session=NATURAL,
    stream=up_to(LARGEST_STREAM),
    prompt=IDS.of("prompt_ids"),
    sampling=SAMPLING,
    stops=many(STRING),
    state=NATURAL.unless(None),
    group=NATURAL.unless(None),
    given=IDS.of("completion_prefix").unless(()),
    watch=IDS.unless(()),
    entropy_of=NATURAL.unless(0),
    thinking=FLAG.unless(None),
)
ADVANCE = made(
    Advance,
    ticks=up_to(MOST_TICKS).of("num_ticks"),
    release=many(NATURAL),
    add=many(in_order(NATURAL, REQUEST)),
)
ADVANCED = made(
    Advanced,
    finished=many(in_order(NATURAL, COMPLETION)),
    counts=counted(Counts, "num_prefilled", "num_reused", "num_shared", "num_sampled"),
)
SET = Form(sorted, lambda value, where: frozenset(ids(value, where)))
MOVES = many(in_order(NATURAL, NATURAL))
STATE = made(
    State,
    allowed=nothing_or(SET),
    forbidden=SET,
    moves=Form(lambda moves: MOVES.write(sorted(moves.items())), lambda value, where: dict(MOVES.read(value, where))),
    ends=SET,
)
AUTOMATON = made(Automaton, states=many(STATE), actions=nothing_or(Form(actions_to_json, actions_from_json)))
"""The engine says whether it suits its model."""
