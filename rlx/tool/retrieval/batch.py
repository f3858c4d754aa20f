"""Queries of many threads, searched together, and answers kept.

    threads --find--> cache --misses--> [ all that wait ] --one search--> engine

A thread that finds no search under way searches for all that wait; the others wait for their part. No thread of its
own is needed, so nothing is left when the callers are gone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event, Lock

from rlx.tool.retrieval.page import Hit, Page, Retriever

Hits = list[Hit]
MOST_TOGETHER = 1024
"""Queries of one search."""


@dataclass(slots=True, eq=False)
class Ticket:
    """Queries of one caller, and their answer."""

    queries: Sequence[str]
    top_k: int
    hits: list[Hits] = field(default_factory=list)
    error: BaseException | None = None
    leads: bool = False
    """The caller was woken to search for those that wait now."""
    ready: Event = field(default_factory=Event)


class Batched:
    """A retriever that searches for all waiting callers at once."""

    def __init__(self, inner: Retriever, *, shares_errors: bool = False, num_searches: int = 1) -> None:
        """Raise an error in all callers that wait if `shares_errors`, as for a server that is gone. Otherwise search
        for the callers one by one after an error, so that one caller's query harms no other. `num_searches` may run at
        a time."""
        self.inner, self.shares_errors = inner, shares_errors
        self.lock = Lock()
        self.waiting: list[Ticket] = []
        self.num_free = num_searches
        self.num_searches = 0
        """Searches so far."""

    def find(self, queries: Sequence[str], top_k: int) -> list[Hits]:
        ticket = Ticket(queries, top_k)
        with self.lock:
            if self.num_free:
                self.num_free -= 1
                ticket.leads = True
            else:
                self.waiting.append(ticket)
        if not ticket.leads:
            self.wait(ticket)
        if ticket.leads:
            self.lead(ticket)
        if ticket.error is not None:
            raise ticket.error
        return ticket.hits

    def wait(self, ticket: Ticket) -> None:
        """Wait for an answer or to lead. A caller that is interrupted leaves the others in order."""
        try:
            ticket.ready.wait()
        except BaseException:
            with self.lock:
                if ticket in self.waiting:
                    self.waiting.remove(ticket)
                elif ticket.leads:
                    self.hand_over()
            raise

    def hand_over(self) -> None:
        """Let the first of those that wait lead; the lock is held."""
        if self.waiting:
            following = self.waiting.pop(0)
            following.leads = True
            following.ready.set()
        else:
            self.num_free += 1

    def lead(self, ticket: Ticket) -> None:
        """Search for this caller and all that wait, then let the first of those that came meanwhile lead."""
        tickets = [ticket, *self.take(MOST_TOGETHER - len(ticket.queries))]
        try:
            self.serve(tickets)
        finally:
            for served in tickets[1:]:
                served.ready.set()
            with self.lock:
                self.hand_over()

    def take(self, room: int) -> list[Ticket]:
        """Remove the first of those that wait, with at most `room` queries together."""
        with self.lock:
            num = 0
            while num < len(self.waiting) and len(self.waiting[num].queries) <= room:
                room, num = room - len(self.waiting[num].queries), num + 1
            batch, self.waiting = self.waiting[:num], self.waiting[num:]
        return batch

    def serve(self, tickets: list[Ticket]) -> None:
        """Answer the tickets, or give each its error."""
        try:
            self.search(tickets)
        except Exception as error:
            if not self.shares_errors and len(tickets) > 1:
                for ticket in tickets:
                    self.serve([ticket])
                return
            with self.lock:
                others, self.waiting = (self.waiting, []) if self.shares_errors else ([], self.waiting)
            for ticket in (*tickets, *others):
                ticket.error = error
            for ticket in others:
                ticket.ready.set()
        except BaseException as error:  # an interrupt of the caller that leads
            for ticket in tickets[1:]:
                ticket.error = RuntimeError(f"the search was stopped: {type(error).__name__}")
            raise

    def search(self, tickets: list[Ticket]) -> None:
        """Search for all tickets, each distinct query once, as many pages as any of them wants."""
        queries = list(dict.fromkeys(query for ticket in tickets for query in ticket.queries))
        top_k = max(ticket.top_k for ticket in tickets)
        self.num_searches += 1
        hits_by_query = dict(zip(queries, self.inner.find(queries, top_k), strict=True)) if queries else {}
        for ticket in tickets:
            ticket.hits = [hits_by_query[query][: ticket.top_k] for query in ticket.queries]

    def open(self, url: str) -> Page | None:
        return self.inner.open(url)

    def edition(self) -> str:
        return self.inner.edition()


class Cached:
    """A retriever that keeps the latest answers, by edition, query and number of pages."""

    def __init__(self, inner: Retriever, size: int = 20_000) -> None:
        """`size`: answers that are kept; 0: none."""
        self.inner, self.size = inner, size
        self.lock = Lock()
        self.entries: OrderedDict[tuple[str, str, int], Hits] = OrderedDict()
        self.num_asked = self.num_hits = 0

    def find(self, queries: Sequence[str], top_k: int) -> list[Hits]:
        edition = self.inner.edition()
        hits_by_query: dict[str, Hits] = {}
        with self.lock:
            for query in queries:
                key = (edition, query, top_k)
                self.num_asked += 1
                if query in hits_by_query:
                    self.num_hits += 1
                elif key in self.entries:
                    self.num_hits += 1
                    self.entries.move_to_end(key)
                    hits_by_query[query] = self.entries[key]
        missing = [query for query in dict.fromkeys(queries) if query not in hits_by_query]
        if missing:
            hits_by_query.update(zip(missing, self.inner.find(missing, top_k), strict=True))
            with self.lock:
                for query in missing if self.size else ():
                    self.entries[edition, query, top_k] = hits_by_query[query]
                while len(self.entries) > self.size:
                    self.entries.popitem(last=False)
        return [list(hits_by_query[query]) for query in queries]

    @property
    def hit_rate(self) -> float:
        """Share of queries that were answered from the cache."""
        return self.num_hits / self.num_asked if self.num_asked else 0.0

    def open(self, url: str) -> Page | None:
        return self.inner.open(url)

    def edition(self) -> str:
        return self.inner.edition()
