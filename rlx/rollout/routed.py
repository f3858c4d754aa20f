"""Several policies seen as one Engine: a request goes to the policy that it names.

The run's own engine takes weights and is the one whose version and counts are told. The other policies never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from rlx.protocol.automaton import Automaton
from rlx.rollout.engine import Counts, Engine
from rlx.types import Completion, Failed, Request

if TYPE_CHECKING:
    from torch import Tensor


class RoutedEngine:
    """See the module's docstring, and rlx.rollout.engine.Engine for the methods."""

    def __init__(self, trained_engine: Engine, others: Mapping[str, Engine]) -> None:
        """`others` by the names of their policies; two names may share an engine."""
        self.trained_engine, self.others = trained_engine, others
        self.tick = 0
        self._waiting: dict[int, str] = {}
        """Policy of the request under way, by session."""

    @property
    def counts(self) -> Counts:
        return self.trained_engine.counts

    @property
    def version(self) -> int:
        return self.trained_engine.version

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        self.trained_engine.load(weights, version)

    def later(self, weights: Mapping[str, Tensor], version: int) -> Callable[[], None]:
        return self.trained_engine.later(weights, version)  # type: ignore[attr-defined]

    def use(self, automaton: Automaton | None) -> None:
        self.trained_engine.use(automaton)

    def add(self, request: Request) -> None:
        self._engine(request.policy).add(request)
        self._waiting[request.session] = request.policy

    def step(self) -> list[tuple[Request, Completion | Failed]]:
        """Tick every engine that has a request, in the order of the policies' names; the run's own comes first."""
        self.tick += 1
        engines = [self._engine(name) for name in sorted({*self._waiting.values()})]
        finished = [answered for engine in distinct(engines) for answered in engine.step()]
        for request, _ in finished:
            del self._waiting[request.session]
        return finished

    def release(self, session: int) -> None:
        self._waiting.pop(session, None)
        for engine in distinct([self.trained_engine, *self.others.values()]):
            engine.release(session)

    def rest(self, keep: bool = True) -> None:
        self.trained_engine.rest(keep)
        for engine in distinct(self.others.values()):
            engine.rest()

    def close(self) -> None:
        self.trained_engine.close()
        self.close_others()

    def close_others(self) -> None:
        for engine in distinct(self.others.values()):
            engine.close()

    def _engine(self, policy: str) -> Engine:
        return self.others[policy] if policy else self.trained_engine


def distinct(engines: Iterable[Engine]) -> list[Engine]:
    """Return each engine once, in order."""
    return list({id(engine): engine for engine in engines}.values())
