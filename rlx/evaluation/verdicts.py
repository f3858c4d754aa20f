"""Verdicts on stored answers by another model, behind an endpoint that speaks OpenAI's protocol.

    POST URL/chat/completions {"model", "messages", "temperature": 0, "max_tokens"}

CARL (arXiv:2512.04949) and ASearcher report such a judge's accuracy (LasJ) beside F1. The prompt is this project's.
A verdict is the judge's first yes or no after its thoughts; a reply without one is no verdict, and counts as wrong.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rlx.base.limits import Address, MistakeError
from rlx.base.regular import read_bounded
from rlx.protocol.thought import outside
from rlx.runs.store import read

KEY_VARIABLE = "RLX_JUDGE_KEY"
"""Environment variable with the endpoint's secret, if any."""
LARGEST_ANSWER = 2**20
LONGEST = 2000
"""Characters of a question or an answer that the judge is shown."""
LONGEST_PAUSE = 60.0
"""Seconds that an endpoint is waited for at most, whatever it asks for."""
SECONDS = re.compile(r"\d{1,6}", re.ASCII)
PAUSES = (1.0, 3.0, 10.0)
"""Seconds between tries of a call that failed."""
BUSY = (408, 429)
WORD = re.compile(r"\b(yes|no)\b", re.IGNORECASE)
PROMPT = (
    "Does an answer to a question mean the same as one of the right answers?\n"
    "Question: {question}\nRight answers: {golds}\nAnswer: {answer}\nSay yes or no."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer to be judged; the texts may come from anyone, and reach the judge as JSON strings alone."""

    task: str
    question: str
    golds: tuple[str, ...]
    answer: str

    @property
    def prompt(self) -> str:
        """Return the message to the judge."""
        golds = " | ".join(self.golds)[:LONGEST]
        return PROMPT.format(question=self.question[:LONGEST], golds=golds, answer=self.answer[:LONGEST])

    @property
    def digest(self) -> str:
        """Return a name for what the judge is told."""
        return sha256(self.prompt.encode(errors="replace")).hexdigest()[:24]


def answers_in(file: Path) -> Iterator[Answer]:
    """Yield the answer of every episode of a stored evaluation; an episode without one has an empty answer."""
    for stored in read(file):
        trajectory = stored.trajectory
        key = trajectory.task.data.get("key")
        golds = key.get("golds") if isinstance(key, Mapping) else None
        if not golds:
            raise MistakeError(
                f"{file}: task {trajectory.task.key!r:.60} has no right answers in words; judge questions alone"
            )
        answer_text = (
            trajectory.turns[-1].action.text
            if trajectory.turns and trajectory.turns[-1].action.kind == "answer"
            else ""
        )
        question_text = "\n".join(part.text for part in trajectory.task.prompt)
        yield Answer(task=trajectory.task.key, question=question_text, golds=tuple(map(str, golds)), answer=answer_text)


@dataclass(frozen=True, kw_only=True)
class Judge:
    """An endpoint and its model."""

    url: Address
    model: str
    timeout: float = 60.0
    max_tokens: int = 2048

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise MistakeError(f"--url {self.url!r:.100}: expected http://HOST:PORT/v1 or https://HOST/v1")

    def ask(self, prompt: str) -> str:
        """Return the judge's reply; MistakeError in one line where there is none."""
        body = {"model": self.model, "messages": [{"role": "user", "content": prompt}]}
        request = json.dumps({**body, "temperature": 0, "max_tokens": self.max_tokens}).encode()
        why = ""
        for pause in (*PAUSES, 0.0):
            try:
                status, raw, wait = self.call(request)
                pause = max(pause, min(wait, LONGEST_PAUSE)) if pause else pause
                if status < 500 and status not in BUSY:
                    return self.reply_in(status, raw)
                why = f"status {status}"
            except (OSError, HTTPException) as error:
                why = " ".join(str(error).split())[:200] or type(error).__name__
            time.sleep(pause)
        raise MistakeError(f"--url {self.url}: no answer ({why}); start the endpoint, or name another")

    def call(self, body: bytes) -> tuple[int, bytes, float]:
        """Make one call over a connection of its own; no proxy and no redirect is followed. Return the status, the
        answer, and the seconds for which the endpoint asks to wait (Retry-After)."""
        parts = urlsplit(self.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self.timeout)
        headers = {"Content-Type": "application/json"}
        if os.environ.get(KEY_VARIABLE):
            headers["Authorization"] = f"Bearer {os.environ[KEY_VARIABLE]}"
        try:
            connection.request("POST", f"{parts.path.rstrip('/')}/chat/completions", body, headers)
            reply = connection.getresponse()
            wait = reply.getheader("Retry-After") or ""
            return reply.status, reply.read(LARGEST_ANSWER + 1), float(wait) if SECONDS.fullmatch(wait) else 0.0
        finally:
            connection.close()

    def reply_in(self, status: int, raw: bytes) -> str:
        """Return the text of a completion."""
        try:
            if status == 200 and len(raw) <= LARGEST_ANSWER:
                return text_of(json.loads(raw)["choices"][0]["message"]["content"])
            why = f"status {status}" if status != 200 else "an answer of more than 1 MB"
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            why = "its answer is no chat completion"
        raise MistakeError(f"--url {self.url} does not speak OpenAI's protocol: {why}; the key is {KEY_VARIABLE}")


def text_of(content: Any) -> str:
    """Return the text of a message: none where a model that reasons wrote only thoughts; TypeError for no text."""
    if content is not None and not isinstance(content, str):
        raise TypeError(f"content of type {type(content).__name__}")
    return content or ""


def verdict_in(reply: str) -> bool | None:
    """Return the first yes or no outside of thoughts; None where there is none."""
    word = WORD.search(outside(reply))
    return None if word is None else word[1].lower() == "yes"


Verdicts = dict[str, bool | None]
"""Verdicts by the digest of what was asked."""


def new_verdicts(
    answers: Sequence[Answer], ask: Callable[[str], str], digests: Container[str], num_threads: int
) -> Iterator[tuple[str, bool | None]]:
    """Yield each verdict as it comes, with the digest of its question.

    Answers with a digest in `digests` are skipped, and equal answers are asked once. An empty answer is wrong and is
    not asked. If
    a call fails, the waiting calls are cancelled.
    """
    waiting = {answer.digest: answer for answer in answers if answer.answer.strip() and answer.digest not in digests}
    with ThreadPoolExecutor(num_threads, thread_name_prefix="judge") as pool:
        futures = {pool.submit(ask, answer.prompt): digest for digest, answer in waiting.items()}
        try:
            for done in as_completed(futures):
                yield futures[done], verdict_in(done.result())
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def is_right(answer: Answer, verdicts: Mapping[str, bool | None]) -> bool:
    """Tell whether the judge said yes."""
    return bool(answer.answer.strip()) and verdicts.get(answer.digest) is True


def share_by_task(answers: Sequence[Answer], verdicts: Mapping[str, bool | None]) -> list[float]:
    """Return the share of right answers of each task, in the order of the tasks."""
    verdicts_by_task: dict[str, list[bool]] = {}
    for answer in answers:
        verdicts_by_task.setdefault(answer.task, []).append(is_right(answer, verdicts))
    return [sum(task_verdicts) / len(task_verdicts) for task_verdicts in verdicts_by_task.values()]


def read_verdicts(file: Path, judge: Judge) -> Verdicts:
    """Return the verdicts of a file if this judge made them; an empty dict for other or damaged files."""
    try:
        contents: Any = json.loads(read_bounded(file))
        if contents["model"] != judge.model or contents["prompt"] != PROMPT:
            return {}
        return {str(key): value for key, value in contents["verdicts"].items() if value in (True, False, None)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def as_json(judge: Judge, verdicts: Mapping[str, bool | None]) -> str:
    """Return the text of such a file."""
    return json.dumps({"model": judge.model, "prompt": PROMPT, "verdicts": dict(verdicts)}, indent=0) + "\n"
