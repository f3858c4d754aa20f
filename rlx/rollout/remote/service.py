"""The engine behind a rollout server (server.py), and what is left of its last call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from rlx.base.http import RefusedError
from rlx.rollout.engine import Engine
from rlx.rollout.remote.wire import ADVANCE, ADVANCED, AUTOMATON, Advance, Advanced, dump
from rlx.runs.form import nothing_or, parse
from rlx.types import Completion

if TYPE_CHECKING:
    from torch import Tensor


class Service:
    """The engine, whose only caller is one thread, and what is left of the last call."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self._running: Future[list[tuple[int, Completion]]] | None = None
        self._numbers: dict[int, int] = {}
        """Session to the number its request is known by."""
        self._weights: dict[str, Tensor] = {}
        """The first parts of a version."""
        self._call = 0
        self._answer = b""

    def reset(self) -> None:
        """For a new client: nothing of the old one is left but the weights."""
        if self._running is not None:
            self._running.exception()
        self._running = None
        for session in list(self._numbers):
            self._on_thread(lambda session=session: self.engine.release(session))  # type: ignore[misc]
        self._numbers.clear()
        self._weights.clear()
        self._on_thread(lambda: self.engine.use(None))
        self._call, self._answer = 0, b""

    def _settle(self) -> list[tuple[int, Completion]]:
        """Wait for the ticks under way; what they finished."""
        running, self._running = self._running, None
        return [] if running is None else running.result()

    def _on_thread(self, work: Callable[[], None]) -> None:
        self._thread.submit(work).result()

    def once(self, call: int, do: Callable[[], bytes]) -> bytes:
        """The answer to call number `call`, which is done if it is new."""
        if call == self._call + 1:
            self._answer = do()
            self._call = call
        elif call != self._call:
            raise RefusedError(400, f"call {call} follows call {self._call}")
        return self._answer

    def step(self, raw: bytes) -> bytes:
        advance = ADVANCE.read(parse(raw), "step")
        finished = self._settle()
        self._on_thread(lambda: self._change(advance))
        self._running = self._thread.submit(self._run, advance.num_ticks)
        return dump(ADVANCED.write(Advanced(finished=tuple(finished), counts=self.engine.counts)))

    def _change(self, advance: Advance) -> None:
        for session in advance.release:
            self._numbers.pop(session, None)
            self.engine.release(session)
        for number, request in advance.add:
            self.engine.add(request)
            self._numbers[request.session] = number

    def _run(self, num_ticks: int) -> list[tuple[int, Completion]]:
        """So many ticks, or fewer where nothing is left to do."""
        finished: list[tuple[int, Completion]] = []
        for _ in range(num_ticks):
            if not self._numbers:
                break
            for request, answer in self.engine.step():
                assert isinstance(answer, Completion), "an engine of this process completes every request"
                finished.append((self._numbers.pop(request.session), answer))
        return finished

    def use(self, raw: bytes) -> bytes:
        automaton = nothing_or(AUTOMATON).read(parse(raw), "automaton")
        self._settle()
        self._on_thread(lambda: self.engine.use(automaton))
        return dump({})

    def load(self, some: Mapping[str, Tensor], version: int | None) -> bytes:
        """Put weights by, until those come that complete a version."""
        self._weights.update(some)
        if version is not None:
            self._settle()
            new_weights, self._weights = self._weights, {}
            self._on_thread(lambda: self.engine.load(new_weights, version))
        return dump({})
