"""What a rollout server and its client say to each other, as JSON: strict, exact and total.

A float is written as the shortest text that reads back as the same float, so tokens and log-probs are the engine's to
the last bit. A reader trusts nothing: bytes are a value or a CodecError of one line. Weights travel beside it, as
safetensors. An automaton is large and rarely new, so it is sent once and then spoken of by number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from rlx.record.codec import CodecError, completion_from_json, float_to_json, ids, listed, number, record, string, whole
from rlx.rollout.engine import Counts
from rlx.types import Automaton, Completion, Request, Sampling

FORMAT = 1
"""Of the messages; both sides must have the same."""
LARGEST_STREAM = 2**64 - 1
MOST_TICKS = 1024
"""In one call."""


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


def parse(raw: bytes) -> Any:
    """JSON, or CodecError."""
    try:
        return json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not JSON: {type(error).__name__}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def advance_to_json(advance: Advance, known: dict[int, tuple[int, Automaton]]) -> dict[str, Any]:
    """`known`: automata the server was told of, with their numbers, by identity; new ones are added to it."""
    news: list[list[Any]] = []
    added: list[list[Any]] = []
    for name, request in advance.add:
        automaton = request.automaton
        if automaton is not None and id(automaton) not in known:
            known[id(automaton)] = (len(known), automaton)
            news.append([known[id(automaton)][0], automaton_to_json(automaton)])
        added.append([name, request_to_json(request, None if automaton is None else known[id(automaton)][0])])
    return {"ticks": advance.num_ticks, "release": list(advance.release), "automata": news, "add": added}


def advance_from_json(value: Any, automata: dict[int, Automaton]) -> Advance:
    """`automata`: those this client has told of; new ones are added to it."""
    fields = record(value, "step", ("ticks", "release", "automata", "add"))
    for entry in listed(fields["automata"], "automata"):
        name, told = pair(entry, "automata")
        automata[whole(name, "automata")] = automaton_from_json(told)
    added = (pair(entry, "add") for entry in listed(fields["add"], "add"))
    return Advance(
        num_ticks=whole(fields["ticks"], "ticks", MOST_TICKS),
        release=tuple(whole(session, "release") for session in listed(fields["release"], "release")),
        add=tuple((whole(name, "add"), request_from_json(asked, automata)) for name, asked in added),
    )


def advanced_to_json(advanced: Advanced) -> dict[str, Any]:
    counts = advanced.counts
    return {
        "finished": [[name, completion_to_json(completion)] for name, completion in advanced.finished],
        "counts": [counts.num_prefilled, counts.num_reused, counts.num_shared, counts.num_sampled],
    }


def advanced_from_json(value: Any) -> Advanced:
    fields = record(value, "answer", ("finished", "counts"))
    counts = [whole(count, "counts") for count in listed(fields["counts"], "counts")]
    if len(counts) != 4:
        raise CodecError(f"counts has {len(counts)} numbers, not 4")
    finished = (pair(entry, "finished") for entry in listed(fields["finished"], "finished"))
    return Advanced(
        finished=tuple((whole(name, "finished"), read_completion(told)) for name, told in finished),
        counts=Counts(num_prefilled=counts[0], num_reused=counts[1], num_shared=counts[2], num_sampled=counts[3]),
    )


def request_to_json(request: Request, automaton: int | None) -> dict[str, Any]:
    sampling = request.sampling
    return {
        "session": request.session,
        "stream": request.stream,
        "prompt": list(request.prompt_ids),
        "sampling": {
            "temperature": float_to_json(sampling.temperature),
            "top_k": sampling.top_k,
            "top_p": float_to_json(sampling.top_p),
            "max_new_tokens": sampling.max_new_tokens,
            "max_context": sampling.max_context,
        },
        "stops": list(request.stops),
        **({} if automaton is None else {"automaton": automaton}),
    }


def request_from_json(value: Any, automata: Mapping[int, Automaton]) -> Request:
    fields = record(value, "request", ("session", "stream", "prompt", "sampling", "stops"), ("automaton",))
    named = whole(fields["automaton"], "automaton") if "automaton" in fields else None
    if named is not None and named not in automata:
        raise CodecError(f"automaton {named} was never told")
    return Request(
        session=whole(fields["session"], "session"),
        stream=whole(fields["stream"], "stream", LARGEST_STREAM),
        prompt_ids=ids(fields["prompt"], "prompt"),
        sampling=sampling_from_json(fields["sampling"]),
        stops=tuple(string(stop, "stops") for stop in listed(fields["stops"], "stops")),
        automaton=None if named is None else automata[named],
    )


def sampling_from_json(value: Any) -> Sampling:
    fields = record(value, "sampling", ("temperature", "top_k", "top_p", "max_new_tokens", "max_context"))
    try:
        return Sampling(
            temperature=number(fields["temperature"], "temperature"),
            top_k=whole(fields["top_k"], "top_k"),
            top_p=number(fields["top_p"], "top_p"),
            max_new_tokens=whole(fields["max_new_tokens"], "max_new_tokens"),
            max_context=whole(fields["max_context"], "max_context"),
        )
    except CodecError:
        raise
    except ValueError as error:
        raise CodecError(f"sampling.{error}") from error


def completion_to_json(completion: Completion) -> dict[str, Any]:
    return {
        "tokens": list(completion.token_ids),
        "logprobs": [float_to_json(value) for value in completion.logprobs],
        "masks": list(completion.mask_ids),
        "stop": completion.stop,
        "version": completion.version,
    }


def read_completion(value: Any) -> Completion:
    return completion_from_json(
        record(value, "completion", ("tokens", "logprobs", "masks", "stop", "version")), "completion"
    )


def automaton_to_json(automaton: Automaton) -> dict[str, Any]:
    return {
        "start": automaton.start,
        "allowed": [sorted(state) for state in automaton.allowed],
        "moves": [sorted([token, state] for token, state in moves.items()) for moves in automaton.moves],
    }


def automaton_from_json(value: Any) -> Automaton:
    """Whether its states fit together is the engine's to say."""
    fields = record(value, "automaton", ("start", "allowed", "moves"))
    allowed = tuple(frozenset(ids(state, "allowed")) for state in listed(fields["allowed"], "allowed"))
    moves = tuple(dict(_move(move) for move in listed(state, "moves")) for state in listed(fields["moves"], "moves"))
    if len(moves) != len(allowed):
        raise CodecError(f"automaton has {len(allowed)} states and moves for {len(moves)}")
    return Automaton(start=whole(fields["start"], "start", len(allowed)), allowed=allowed, moves=moves)


def _move(value: Any) -> tuple[int, int]:
    token, state = pair(value, "moves")
    return whole(token, "moves"), whole(state, "moves")


def pair(value: Any, where: str) -> tuple[Any, Any]:
    both = listed(value, where)
    if len(both) != 2:
        raise CodecError(f"{where} has an entry of {len(both)} things, not 2")
    return both[0], both[1]
