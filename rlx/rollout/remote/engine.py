"""Rollout servers seen as one Engine.

A step here is `num_ticks` ticks of every server. The client sends each server the sessions to forget and the requests
to add. It receives the completions that the ticks of the previous call finished (see server.py). So the schedule counts
ticks and nothing else, as an engine's must, and the same calls give the same batches on every server. A session stays
on the server of its first request: the server of its group, to share contexts, or else the server with the fewest
sessions at that time.

A server that dies loses no work, because a request holds its complete prompt and its random stream. Its unanswered
requests go to the other servers, with the same answers up to rounding. Each answer has a number and is taken once; an
answer that nobody waits for is dropped.

Weights go to all servers at once, over HTTP, part by part. Where learner and servers have GPUs, NCCL would be quicker:
only `Link.load` would have to change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from rlx.protocol.automaton import Automaton
from rlx.rollout.engine import Counts, RequestError
from rlx.rollout.remote.link import GoneError, Link, ServerError
from rlx.types import Completion, Failed, Request

if TYPE_CHECKING:
    from torch import Tensor

NUM_TICKS = 1
"""Ticks of every server in a step."""
PART_BYTES = 2**30
"""Largest part of weights that is sent at once, unless one tensor is larger."""


class RemoteEngine:
    """See the module's docstring, and rlx.rollout.engine.Engine for the methods."""

    def __init__(self, links: Sequence[Link], *, num_ticks: int = NUM_TICKS, may_be_gone: bool = False) -> None:
        """Claim the servers. Their weights are whatever they began with until `load`. Without servers the engine can
        only look on, as a process does that plays nothing while others of its run do. If servers `may_be_gone`, a
        request that none of them answers fails, and the run goes on."""
        self.links = list(links)
        self.num_ticks, self.may_be_gone = num_ticks, may_be_gone
        self.gone = ""
        """Reason why no server is left."""
        self.version = -1
        """Version of the weights; -1 before the first load, while servers hold those of their start."""
        self.num_moved = 0
        """Requests moved from dead servers so far."""
        self.tick = self._num_added = 0
        self._home: dict[int, Link] = {}
        self._group: dict[int, int] = {}
        """Group of each session that has one."""
        self._waited: dict[int, Request] = {}
        """Waiting requests by number, in the order of `add`."""
        self._number_of: dict[int, int] = {}
        """Number of each session's request."""
        self._threads = ThreadPoolExecutor(max(len(self.links), 1), thread_name_prefix="server")
        self._everyone(lambda link: link.step(0))

    @property
    def counts(self) -> Counts:
        parts = [link.counts for link in self.links]
        return Counts(
            num_prefilled=sum(part.num_prefilled for part in parts),
            num_reused=sum(part.num_reused for part in parts),
            num_shared=sum(part.num_shared for part in parts),
            num_sampled=sum(part.num_sampled for part in parts),
        )

    @property
    def num_living(self) -> int:
        return len(self._living())

    def _living(self) -> list[Link]:
        return [link for link in self.links if not link.fate]

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        if self._waited:
            raise ValueError("remote engine: a request is being decoded; step until it ends or release it before load")
        if any(link.releases for link in self._living()):
            self._everyone(lambda link: link.step(0))
        for some, is_last in in_parts(weights):
            self._everyone(lambda link, some=some, v=version if is_last else None: link.load(some, v))  # type: ignore[misc]
        self.version = version

    def use(self, automaton: Automaton | None) -> None:
        if self._waited:
            raise ValueError("remote engine: a request is being decoded; step until it ends or release it before use")
        self._everyone(lambda link: link.use(automaton))

    def later(self, weights: Mapping[str, Tensor], version: int) -> Callable[[], None]:
        """`load`, with the weights as they are now, whenever it is called; nothing if it has that version by then.

        They are copied to the machine's memory, in a process that has servers. All processes call it together.
        """
        copies = {name: weights[name].detach().to("cpu", copy=True) for name in weights} if self.links else {}
        if not self.links:
            for name in weights:  # what is spread over processes is made whole by all of them
                _ = weights[name]

        def load() -> None:
            if self.version != version:
                self.load(copies, version)

        return load

    def add(self, request: Request) -> None:
        if request.session in self._number_of:
            raise ValueError(f"session {request.session} has a request under way; wait for it or release the session")
        if not request.prompt_ids:
            raise RequestError(f"session {request.session}: the prompt is empty; give it at least one token")
        if not self.links:
            raise ValueError(f"session {request.session}: this process has no rollout server")
        number, self._num_added = self._num_added, self._num_added + 1
        self._waited[number] = request
        self._number_of[request.session] = number
        if not self.gone:
            self._send(number, request)

    def _send(self, number: int, request: Request) -> None:
        """Send a request to the session's own server, to its group's, or to one that has few sessions."""
        link = self._home.get(request.session)
        if link is None:
            kin = [
                self._home[session]
                for session, group in self._group.items()
                if group == request.group and session in self._home
            ]
            link = kin[0] if kin else min(self._living(), key=lambda link: len(link.sessions))
            self._home[request.session] = link
            link.sessions.add(request.session)
        if request.group is not None:
            self._group[request.session] = request.group
        link.adds[number] = request

    def release(self, session: int) -> None:
        number = self._number_of.pop(session, None)
        if number is not None:
            del self._waited[number]
        self._group.pop(session, None)
        link = self._home.pop(session, None)
        if link is not None:
            link.sessions.discard(session)
            link.releases.append(session)
            link.adds.pop(-1 if number is None else number, None)

    def step(self) -> Sequence[tuple[Request, Completion | Failed]]:
        self.tick += 1
        answers = self._everyone(lambda link: link.step(self.num_ticks))
        if self.gone:
            return [(self._close(number), Failed(self.gone)) for number in list(self._waited)]
        finished = sorted(
            ((number, completion) for answer in answers for number, completion in answer.finished),
            key=lambda pair: pair[0],
        )
        return [(self._close(number), completion) for number, completion in finished if number in self._waited]

    def _close(self, number: int) -> Request:
        request = self._waited.pop(number)
        del self._number_of[request.session]
        return request

    def _everyone(self, call: Callable[[Link], Any]) -> list[Any]:
        """Call every living server at once; return the answers of the servers that survived the call."""
        links = self._living()
        if not links:
            return []
        tries = [self._threads.submit(call, link) for link in links[1:]]
        outcomes = [attempt(lambda: call(links[0])), *(attempt(future.result) for future in tries)]
        for link, outcome in zip(links, outcomes):
            if isinstance(outcome, ServerError):
                raise outcome
            if isinstance(outcome, GoneError):
                self._bury(link, str(outcome))
        return [outcome for outcome in outcomes if not isinstance(outcome, GoneError)]

    def _bury(self, link: Link, fate: str) -> None:
        """Add what a dead server had not answered to the others."""
        link.fate = fate or "died"
        link.close()
        if not self._living():
            self.gone = f"no rollout server is left: {'; '.join(link.obituary() for link in self.links)}"
            if self.may_be_gone:
                return
            raise ServerError(f"{self.gone}; run the same command to go on from the checkpoint")
        for session in link.sessions:
            self._home.pop(session, None)
        link.sessions.clear()
        orphans = [(number, request) for number, request in self._waited.items() if request.session not in self._home]
        for number, request in orphans:
            self._send(number, request)
        self.num_moved += len(orphans)

    def rest(self, keep: bool = True) -> None:
        """Servers have devices of their own."""

    def close(self) -> None:
        """Let the servers go."""
        for link in self.links:
            link.close()
        self._threads.shutdown(wait=False)


def in_parts(weights: Mapping[str, Tensor], largest: int = PART_BYTES) -> Iterator[tuple[dict[str, Tensor], bool]]:
    """Yield the weights some at a time, each time with True for the last ones. Shards are never all here."""
    some: dict[str, Tensor] = {}
    size = 0
    for name in weights:
        tensor = weights[name]
        if some and size + tensor.nbytes > largest:
            yield some, False
            some, size = {}, 0
        some[name], size = tensor, size + tensor.nbytes
    yield some, True


def attempt(work: Callable[[], Any]) -> Any:
    """Return the result of the work, or the error that says that a server cannot be used."""
    try:
        return work()
    except (GoneError, ServerError) as error:
        return error
