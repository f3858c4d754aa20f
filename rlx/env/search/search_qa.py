"""Search agents: questions whose pages must be found, read and put together, as in ASearcher (arXiv:2508.07976).

    call search "Mira Anna"   -> titles of pages, or their texts
    call access "Mira Anna"   -> the page
    act read "born in Arden"  -> nothing
    answer "Arden"            -> F1, and the end

A reading turn notes what a result says, so that later turns need not see the page again (rlx.protocol.standalone). The
reward is F1 x (every turn had its form), as in CARL (arXiv:2512.04949).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from random import Random
from typing import Literal

from rlx.base.limits import Address, MistakeError, above, refuse, within
from rlx.env.questions.invented_world import InventedWorld, make_world
from rlx.env.questions.qa import WordQuestions
from rlx.env.questions.question import LONGEST, Question, end_judged
from rlx.env.questions.wording import F1_FORMS, exact_match
from rlx.environment import Episode
from rlx.tool.python import printable
from rlx.tool.retrieval.build import open_index
from rlx.tool.retrieval.client import TIMEOUT, Client, UnspokenError, parse_url
from rlx.tool.retrieval.folder import read_about
from rlx.tool.retrieval.memory import MemoryRetriever
from rlx.tool.retrieval.page import MOST_HITS, Hit, Page, Retriever
from rlx.tool.retrieval.words import LONGEST_QUERY
from rlx.types import Action, Move, Step, Task, Text, ToolUse, Verb

SEARCH = Verb(name="search", description="search pages for words", argument="words")
ACCESS = Verb(name="access", description="open a page of the results", argument="its address")
READ = Verb(name="read", description="note what the last result says", argument="what matters of it", when=("result",))
ANSWER = Verb(name="answer", description="answer the question", argument="a few words", when=("free",))
LAST_TURN = "No turns are left for searches: answer now."


@dataclass(frozen=True, kw_only=True)
class SearchQA(WordQuestions):
    """Questions on the invented world or of a data set, and a search over pages."""

    index: str | None = None
    """Folder of an index of pages (rlx data build-index); null: the pages of the invented world, in memory."""
    search_url: Address | None = None
    """Server that is asked instead of the index, such as http://127.0.0.1:8000: `rlx serve retriever`, or any other
    of Search-R1's protocol; null: none."""
    timeout: float = TIMEOUT
    """Seconds of one try to ask the server."""
    top_k: int = 5
    """Pages that a search shows, at most."""
    result_characters: int = 0
    """Characters of each page that a search shows; 0: only titles and addresses."""
    page_characters: int = 4_000
    """Characters of a page that is opened."""
    access: bool = True
    """Lend a tool that opens a page by its address; false: a search alone shows pages."""
    reads: bool = True
    """Ask for a reading turn after each result."""
    f1: Literal["hotpot", "asearcher"] = "hotpot"
    """F1 of the reward: hotpot (words as often as they occur) or asearcher (sets of words)."""
    form: Literal["multiply", "ignore"] = "multiply"
    """Reward of an episode with an invalid turn: multiply (nothing) or ignore (the same as others)."""
    thoughts: bool = True
    """The expert thinks before each turn."""
    max_rounds: int = 9
    """Turns before the answer: searches, opened pages, reading turns and invalid turns. The player counts them, and the
    turn before the last says so. An evaluation with other limits does not change what is said."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(1, MOST_HITS, top_k=self.top_k)
        within(0, 10**6, result_characters=self.result_characters)
        within(1, 10**7, page_characters=self.page_characters)
        if self.max_rounds < 1:
            refuse("max_rounds", self.max_rounds, "1 or more, as a search is a turn before the answer")
        if not self.access and not self.result_characters:
            refuse("result_characters", 0, "1 or more with access=false, or no page can be read")
        above(0.0, 1e6, timeout=self.timeout)
        if self.search_url is not None:
            parse_url(self.search_url)
        if self.search_url is not None and self.index is not None:
            refuse("index", self.index, "null beside search_url: a question is asked of one of them")
        if self.search_url is None and self.index is None and self.source == "hub":
            refuse("index", None, "the folder of an index, or search_url, beside source=hub")

        needed = self.longest_way if self.source == "generated" else 0
        if needed > self.max_rounds:
            minimum = f"{needed} or more, as a question of {max(self.hops)} hops needs so many turns before the answer"
            refuse("max_rounds", self.max_rounds, f"{minimum}; or lower hops")

    @property
    def longest_way(self) -> int:
        """Return the turns that the longest questions of the world need before the answer."""
        opens = self.access and any(map(self.cuts, make_world(self.settings).facts))
        return max(self.hops) * (1 + opens) * (1 + self.reads)

    @property
    def stream(self) -> str:
        return f"search_qa/{self.world}/{self.names}"

    @property
    def tools(self) -> tuple[Verb, ...]:
        return (SEARCH, ACCESS) if self.access else (SEARCH,)

    @property
    def actions(self) -> tuple[Verb, ...]:
        return (READ, ANSWER) if self.reads else ()

    @property
    def is_remote(self) -> bool:
        """Tell whether questions or results come from elsewhere, so that a plan does not wait for them."""
        return super().is_remote or self.search_url is not None

    @cached_property
    def engine(self) -> Retriever:
        """Search engine, made when it is first asked."""
        if self.search_url is None and self.index is None:
            return world_retriever(make_world(self.settings))
        return shared_engine(self.search_url, self.timeout, self.index)

    def data_version(self) -> str:
        """Return a name of the data set's state and of the pages; nothing of pages that a number defines."""
        is_generated = self.search_url is None and self.index is None
        return " ".join(filter(None, (super().data_version(), "" if is_generated else self.engine.edition())))

    def check_inputs(self) -> None:
        """Refuse a data set or an index that cannot be used."""
        super().check_inputs()
        if self.index is not None:
            read_about(Path(os.path.expanduser(self.index)))

    def check_servers(self) -> None:
        """Refuse a server that cannot be used, where the run is, or that opens no pages where the agent shall."""
        if self.search_url is None:
            return
        assert isinstance(self.engine, Client)
        self.engine.check(self.top_k)
        try:
            if self.access:
                self.engine.check_access()
        except UnspokenError as error:
            why = f"the server at {self.search_url} opens no pages (POST /access: status {error.status})"
            how = "set env.access=false and env.result_characters=1000, so that a search alone shows pages"
            raise MistakeError(f"env.access=true: {why}: {how}") from None

    def draw(self, rng: Random) -> Question:
        _, path = self.draw_way(rng)
        question = self.put(path.question, path.golds)
        key = {**question.key, "hops": len(path.relations), "searches": path.met[:-1], "facts": path.sentences}
        return replace(question, worked=" ".join(path.sentences), key=key)

    def start(self, task: Task) -> SearchEpisode:  # type: ignore[override]
        return SearchEpisode(self, task)

    def judge(self, task: Task, text: str) -> Step:
        key = task.data["key"]
        match, hops = exact_match(text, key["golds"]), key.get("hops")
        scores = {form: score(text, key["golds"]) for form, score in F1_FORMS.items()}
        figures = {f"f1_{form}": value for form, value in scores.items()}
        chosen = scores[self.f1]
        by_hops = {} if hops is None else {f"f1_{hops}_hops": chosen}
        reward = chosen if self.reward == "f1" else float(match)
        return end_judged(reward, match, {"exact_match": float(match), **figures, **by_hops})

    def unanswered(self, task: Task) -> Mapping[str, float]:
        """A question without an answer has an F1 of 0, as in the papers, and no valid form."""
        return dict.fromkeys((*self.judge(task, "").metrics, "form"), 0.0)

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """Look up the subject of each fact, open its page where the results cut it, and note the fact; then answer.

        An agent without a search answers at once.
        """
        key = task.data["key"]
        if "searches" not in key:
            raise ValueError("env: no expert knows the way to an answer of these questions")
        for name, fact in zip(key["searches"], key["facts"], strict=True) if "search" in tools else ():
            yield self.move(f"I need the page of {name}.", Action(kind="call", name="search", text=name))
            if self.access and self.cuts(name):
                yield from self.reading(f"The results have the page of {name}.")
                yield self.move(f"I open the page of {name}.", Action(kind="call", name="access", text=name))
            yield from self.reading(fact)
        yield self.move(task.data["worked"], Action(kind="answer", text=task.data["answer"]))

    def cuts(self, name: str) -> bool:
        """Tell whether results show less than the page of a subject."""
        return len(make_world(self.settings).text(name)) > self.result_characters

    def move(self, thought: str, action: Action) -> Move:
        """Return a move of the expert, without the thought if `thoughts` is false."""
        return Move(thought=thought if self.thoughts else "", action=action)

    def reading(self, noted: str) -> Iterator[Move]:
        """Yield the expert's reading turn, where there are such turns."""
        if self.reads:
            yield Move(thought="", action=Action(kind="act", name="read", text=noted))

    def random_tries(self, task: Task, num: int, seed: int) -> list[str]:
        """Return answers of somebody who guesses names of the world, or of a data set's question."""
        if self.source == "hub":
            return super().random_tries(task, num, seed)
        names = [name for kind in make_world(self.settings).names.values() for name in kind]
        return Random(f"search_qa/random/{seed}/{task.id}").sample(names, min(num, len(names)))


@cache
def shared_engine(search_url: str | None, timeout: float, index: str | None) -> Retriever:
    """Return a server's client or an open index, the same for all parts of a mixture."""
    if search_url is not None:
        return Client(search_url, timeout=timeout)
    engine: Retriever = open_index(Path(os.path.expanduser(index or "")))
    return engine


class SearchEpisode(Episode):
    """One question: its calls, and whether a result is still to be read."""

    def __init__(self, env: SearchQA, task: Task) -> None:
        self.env, self.task = env, task
        self.is_due, self.is_valid, self.num_turns = False, True, 0

    def opening(self) -> Step:
        return Step(legal=self.legal())

    def legal(self) -> tuple[str, ...] | None:
        """Return the declared actions that may come next."""
        if not self.env.reads:
            return None
        return ("read",) if self.is_due else ("answer",)

    def step(self, action: Action) -> Step:
        self.num_turns += 1
        if action.kind == "answer":
            return self.answered(action.text)
        step = self.called(action) if action.kind == "call" else self.noted(action)
        if self.num_turns != self.env.max_rounds:
            return replace(step, legal=self.legal())
        self.is_due = False
        return replace(step, observation=(*step.observation, Text(LAST_TURN)), legal=self.legal())

    def answered(self, text: str) -> Step:
        """Judge the answer."""
        step = self.env.judge(self.task, text) if len(text) <= LONGEST else end_judged(0.0)
        reward = 0.0 if self.env.form == "multiply" and not self.is_valid else step.reward
        figures = {**step.metrics, "form": float(self.is_valid)}
        return replace(step, reward=reward or self.env.reward_wrong, metrics=figures)

    def noted(self, action: Action) -> Step:
        """Hear a reading turn, or an invalid one."""
        if action.kind == "act":
            self.is_due = False
            return Step()
        self.is_valid = False
        return Step(observation=(Text(f"Error: {action.text:.200}"),))

    def called(self, action: Action) -> Step:
        """Search, or open a page."""
        if self.is_due:
            self.is_valid = False
            return answer_failed("note what the last result says first")
        tool = {"search": self.search, "access": self.access}.get(action.name)
        if tool is None or (action.name == "access" and not self.env.access):
            return answer_failed("there is no such tool")
        return tool(action.text.strip()[:LONGEST_QUERY])

    def search(self, query: str) -> Step:
        """Show the best pages."""
        (hits,) = self.env.engine.find([query], self.env.top_k)
        if not hits:
            return answer_failed("no page has any of these words")
        return self.result("\n".join(self.listed(hit) for hit in hits))

    def listed(self, hit: Hit) -> str:
        """Return a page's line among the results."""
        head = head_of(hit.page)
        excerpt = hit.page.text[: self.env.result_characters]
        return printable(f"{head}: {excerpt}" if excerpt else head)

    def access(self, url: str) -> Step:
        """Show a page."""
        page = self.env.engine.open(url)
        if page is None:
            return answer_failed("no page has this address")
        return self.result(printable(f"{page.title}: {page.text[: self.env.page_characters]}"))

    def result(self, text: str) -> Step:
        """Return a result, which is to be read where there are reading turns."""
        self.is_due = self.env.reads
        return Step(observation=(Text(text),), tool=ToolUse(num_calls=1))


def head_of(page: Page) -> str:
    """Return a page's title, and the address if different."""
    return page.title if page.url in ("", page.title) else f"{page.title} ({page.url})"


def answer_failed(why: str) -> Step:
    """Return the answer to a call that found nothing."""
    return Step(observation=(Text(f"Error: {why}"),), tool=ToolUse(num_calls=1, num_failed=1))


def world_retriever(world: InventedWorld) -> MemoryRetriever:
    """Return a search over a world's pages; the address of a page is its title."""
    texts = ((subject, world.text(subject)) for subject in world.facts)
    return MemoryRetriever(Page(id=title, title=title, text=text, url=title) for title, text in texts)
