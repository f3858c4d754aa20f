"""What a rollout server and its client say to each other, as JSON: strict, exact and total.

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
from rlx.record.codec import (
    CodecError,
    completion_from_json,
    float_to_json,
    ids,
    listed,
    number,
    record,
    string,
    watched_to_json,
    whole,
)
from rlx.rollout.engine import Counts
from rlx.types import Completion, Request, Sampling

FORMAT = 2
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


def advance_to_json(advance: Advance) -> dict[str, Any]:
    added = [[name, request_to_json(request)] for name, request in advance.add]
    return {"ticks": advance.num_ticks, "release": list(advance.release), "add": added}


def advance_from_json(value: Any) -> Advance:
    fields = record(value, "step", ("ticks", "release", "add"))
    added = (pair(entry, "add") for entry in listed(fields["add"], "add"))
    return Advance(
        num_ticks=whole(fields["ticks"], "ticks", MOST_TICKS),
        release=tuple(whole(session, "release") for session in listed(fields["release"], "release")),
        add=tuple((whole(name, "add"), request_from_json(asked)) for name, asked in added),
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


def request_to_json(request: Request) -> dict[str, Any]:
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
        **({} if request.state is None else {"state": request.state}),
        **({} if request.group is None else {"group": request.group}),
        **({"given": list(request.given)} if request.given else {}),
        **({"watch": list(request.watch)} if request.watch else {}),
    }


def request_from_json(value: Any) -> Request:
    allowed = ("state", "group", "given", "watch")
    fields = record(value, "request", ("session", "stream", "prompt", "sampling", "stops"), allowed)
    return Request(
        session=whole(fields["session"], "session"),
        stream=whole(fields["stream"], "stream", LARGEST_STREAM),
        prompt_ids=ids(fields["prompt"], "prompt"),
        sampling=sampling_from_json(fields["sampling"]),
        stops=tuple(string(stop, "stops") for stop in listed(fields["stops"], "stops")),
        state=whole(fields["state"], "state") if "state" in fields else None,
        group=whole(fields["group"], "group") if "group" in fields else None,
        given=ids(fields.get("given", []), "given"),
        watch=ids(fields.get("watch", []), "watch"),
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
        "chosen": list(completion.chosen_ids),
        "watched": watched_to_json(completion),
        "stop": completion.stop,
        "version": completion.version,
    }


def read_completion(value: Any) -> Completion:
    return completion_from_json(
        record(value, "completion", ("tokens", "logprobs", "masks", "chosen", "watched", "stop", "version")),
        "completion",
    )


def automaton_to_json(automaton: Automaton) -> dict[str, Any]:
    actions = automaton.actions
    return {
        "states": [state_to_json(state) for state in automaton.states],
        "actions": None if actions is None else actions_to_json(actions),
    }


def state_to_json(state: State) -> dict[str, Any]:
    return {
        "allowed": None if state.allowed is None else sorted(state.allowed),
        "forbidden": sorted(state.forbidden),
        "moves": sorted([chosen, target] for chosen, target in state.moves.items()),
        "ends": sorted(state.ends),
    }


def automaton_from_json(value: Any) -> Automaton:
    """Whether it is one of the engine's model is the engine's to say."""
    fields = record(value, "automaton", ("states", "actions"))
    states = tuple(state_from_json(state) for state in listed(fields["states"], "states"))
    actions = None if fields["actions"] is None else actions_from_json(fields["actions"], "actions")
    try:
        return Automaton(states=states, actions=actions)
    except ValueError as error:
        raise CodecError(str(error)) from error


def state_from_json(value: Any) -> State:
    fields = record(value, "state", ("allowed", "forbidden", "moves", "ends"))
    allowed = None if fields["allowed"] is None else frozenset(ids(fields["allowed"], "allowed"))
    forbidden, ends = (frozenset(ids(fields[name], name)) for name in ("forbidden", "ends"))
    moves = dict(_move(move) for move in listed(fields["moves"], "moves"))
    try:
        return State(allowed=allowed, forbidden=forbidden, moves=moves, ends=ends)
    except ValueError as error:
        raise CodecError(str(error)) from error


def _move(value: Any) -> tuple[int, int]:
    chosen, state = pair(value, "moves")
    return whole(chosen, "moves"), whole(state, "moves")


def pair(value: Any, where: str) -> tuple[Any, Any]:
    both = listed(value, where)
    if len(both) != 2:
        raise CodecError(f"{where} has an entry of {len(both)} things, not 2")
    return both[0], both[1]
