"""The answer to a probe: log-probs of text that nobody sampled, teacher-forced by the engine of the rollouts.

    request j   context, d_1 ... d_{j-1}  |  d_j ?     one token is sampled, which nobody reads, and d_j is watched

An episode's context is in the engine's cache, so a request computes the tokens after it alone: n - 1 passes of one
token for a description of n whose first token is known. All places of a step's failed groups are probed side by side,
in as many slots as there are. On the embedded model a probe costs about what sampling n - 1 tokens does.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from rlx.algo.entry import Probe
from rlx.types import Completion, Request, Sampling

Answering = Generator[Request, Any, float]


def answer_probe(probe: Probe, sampling: Sampling, session: int, group: int | None) -> Answering:
    """Ask for one token after another; return the sum of the log-probs, or -inf where the context has no room."""
    done = probe.turn.completion
    context = probe.turn.prompt_ids + done.token_ids[: probe.token]
    if len(context) + len(probe.ids) > sampling.max_context:
        return -math.inf
    total = 0.0
    for place in range(probe.skip, len(probe.ids)):
        request = Request(
            session=session,
            stream=0,
            prompt_ids=context,
            completion_prefix=probe.ids[:place],
            group=group,
            watch=probe.ids[place : place + 1],
            sampling=replace(sampling, max_new_tokens=place + 1),
            state=done.mask_ids[probe.token] if done.mask_ids else None,
        )
        completion: Completion = yield request
        total += completion.watched[-1][0]
    return total
