"""Render chat templates in a process of its own, with limits of time, memory and length.

A template comes with a model's weights and is a program. transformers runs it in jinja's sandbox, which keeps it from
the machine, and neither from endless loops nor from gigabytes of text.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from functools import cache
from typing import Any

from rlx.model.problem import ModelError

SECONDS, PATIENCE = 5, 120.0
"""Processor time of all conversations of a template; seconds that a busy machine may take over them."""
MEGABYTES = 512
"""Memory beyond that of the imported packages."""
LONGEST = 2**17
"""Characters of a rendered conversation."""
START = "from rlx.model.rendering import main; main()"
REMEDY = "mend the template, or set model.chat=false"

Messages = Sequence[Mapping[str, str]]


class SameDay(datetime):
    """Clock of templates that tell the date (Llama 3), fixed at the templates' default date: a prompt must not depend
    on the day."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> SameDay:
        return cls(2024, 7, 26, tzinfo=tz)


def render(tokenizer: Any, conversations: Sequence[Messages]) -> list[str | None]:
    """Return the text of each conversation up to where the assistant speaks, or to its end if the assistant spoke last;
    None where the template refuses it.

    ModelError if the template fails for the first one, or takes too much for any.
    """
    try:
        template = tokenizer.get_chat_template()
    except Exception as error:  # a tokenizer may have several templates, and none that is meant
        raise ModelError(f"the tokenizer's chat template fails: {type(error).__name__}; {REMEDY}") from error
    request = {"template": template, "conversations": conversations, "tokens": tokenizer.special_tokens_map}
    return [text if failure is None else None for text, failure in ask(json.dumps(request, default=str))]


@cache
def ask(request: str) -> tuple[tuple[str, str | None], ...]:
    """Return a text and the name of its error, or None, for each conversation. Cached, as a run asks several times."""
    places = [os.path.abspath(place) for place in sys.path if place]
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", START],
            input=request.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ModelError(too_much()) from None
    try:
        answers = json.loads(done.stdout) if done.returncode == 0 else None
    except ValueError:
        answers = None
    if answers is None:
        raise ModelError(too_much())
    first = answers[0][1]
    if any(failure in ("MemoryError", "TooLong") for _, failure in answers):
        raise ModelError(too_much())
    if first is not None:
        raise ModelError(f"the tokenizer's chat template fails: {first}; {REMEDY}")
    return tuple((text, failure) for text, failure in answers)


def too_much() -> str:
    """Say that a template took more than it may."""
    limits = f"{SECONDS} s of processor time, {MEGABYTES} MB or {LONGEST:,} characters"
    return f"the tokenizer's chat template takes more than {limits} for a few short messages; {REMEDY}"


def main() -> None:
    """Answer one request of standard input on standard output, within the limits."""
    import resource

    from transformers.utils import chat_template_utils

    vars(chat_template_utils)["datetime"] = SameDay  # in this process alone
    request = json.load(sys.stdin)
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (int(used) + 1 + SECONDS,) * 2)
    if sys.platform == "linux":
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEGABYTES * 2**20,) * 2)
    sys.stdout.write(
        json.dumps(
            [
                render_one(chat_template_utils.render_jinja_template, conversation, request)
                for conversation in request["conversations"]
            ]
        )
    )


def render_one(rendered: Any, conversation: Messages, request: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the text of one conversation, or the name of its error."""
    try:
        (text,), _ = rendered(
            conversations=[conversation],
            chat_template=request["template"],
            add_generation_prompt=conversation[-1]["role"] != "assistant",
            **request["tokens"],
        )
    except Exception as error:  # a template raises what it likes
        return "", type(error).__name__
    return ("", "TooLong") if len(text) > LONGEST else (str(text), None)
