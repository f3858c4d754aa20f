"""The rollout of Figure 2 by Algorithm 1 (Yue et al. 2025), step by step: history h, environment e, latent state z."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import torch

from rlx.env.sorting.episode import SortingEpisode
from rlx.env.sorting.sorting import Sorting
from rlx.environment import Episode
from rlx.environment.world import dialect_of
from rlx.model.load import Model, load_tokenizer
from rlx.model.masks import Masks
from rlx.protocol.automaton import Actions
from rlx.protocol.drawn import added_by, drawn_by
from rlx.protocol.expa import ExpA
from rlx.rollout.automaton import mask
from rlx.rollout.episode import play_episode, worlds_of
from rlx.rollout.row import RequestRow, Vocabulary, open_row
from rlx.rollout.speech import Speech, speech_of
from rlx.rollout.stops import token_bytes
from rlx.types import Request, Sampling, Start, Stop, Trajectory

CP, SW, A, B, C = "compare", "swap", " A", " B", " C"
ROUTES, ITEMS = {CP, SW}, {A, B, C}


@dataclass(frozen=True, kw_only=True)
class Open(Sorting):
    """Sorting whose latent state is seen."""

    started: list[SortingEpisode] = field(default_factory=list)

    def start(self, task: Any) -> SortingEpisode:
        self.started.append(super().start(task))
        return self.started[-1]


class Agent(Episode):
    """Chooses in an episode one action at a time, by an engine's own rows and masks."""

    def __init__(self, env: Sorting, numbers: list[int]) -> None:
        tokenizer = load_tokenizer(Model(path="nano"))
        self.speech = speech_over(tokenizer, env)
        self.actions: Any = self.speech.drawn.actions
        self.automaton: Any = self.speech.drawn.automaton
        self.eos = tokenizer.eos_token_id
        self.masks = Masks(self.automaton, self.actions.first, torch.device("cpu"))
        self.vocabulary = Vocabulary(
            num_ids=self.actions.first, eos_ids=frozenset({self.eos}), spelled=token_bytes(tokenizer)
        )
        start = Start(task=env.describe("sort", numbers), sample=0)
        self.playing: Generator[Any, Any, Trajectory] = play_episode(
            worlds_of(env, self.speech)[""], Sampling(max_context=1000), start, ("figure 2",), session=0
        )
        self.go_on(next(self.playing))

    def go_on(self, asked: Any) -> None:
        """Do what the environment is asked, up to the next completion."""
        while not isinstance(asked, Request):
            asked = self.playing.send(asked())
        self.request = asked
        self.row: RequestRow = open_row(0, asked, self.automaton, self.vocabulary)

    @property
    def free(self) -> list[int]:
        """What the mask leaves."""
        logits = torch.zeros(1, self.actions.first + len(self.actions.names))
        mask(self.masks, logits, [self.row.walk])
        return [int(i) for i in logits[0].eq(0).nonzero()[:, 0]]

    @property
    def may(self) -> tuple[int, set[str]]:
        """How many tokens of the vocabulary may be chosen, and which actions."""
        first = self.actions.first
        return sum(i < first for i in self.free), {self.actions.names[i - first] for i in self.free if i >= first}

    @property
    def history(self) -> str:
        return self.speech.decode(self.row.ids)

    @property
    def speaks(self) -> bool:
        """Whether e_t is the language environment."""
        assert self.row.walk is not None
        return self.row.walk.state == self.request.state

    def choose(self, *ids: int) -> Stop | None:
        """Why the completion ends with them, if it does; what is left of a longer description leaves no choice."""
        stop = None
        for one in ids:
            assert one in self.free
            stop = self.row.take(one, 0.0)
        while stop is None and len(self.free) == 1:
            stop = self.row.take(self.free[0], 0.0)
        return stop

    def act(self, name: str) -> Stop | None:
        return self.choose(self.actions.first + self.actions.names.index(name))

    def say(self, text: str) -> Stop | None:
        return self.choose(*self.speech.encode(text))

    def step(self, stop: Stop) -> None:
        """The environment's step: o_t, z_t+1 and exit."""
        self.go_on(self.playing.send(self.row.complete(stop, 0)))


def speech_over(tokenizer: Any, env: Sorting) -> Speech:
    """As a run builds it, with ids of actions after the vocabulary's."""
    speech, dialects = speech_of(ExpA(), tokenizer), {"": dialect_of(env, ExpA())}
    found = {name: tuple(speech.encode(text)) for name, text in added_by(dialects).items()}
    actions = Actions(first=len(tokenizer), names=tuple(found), descriptions=tuple(found.values()))
    return speech_of(ExpA(), tokenizer, drawn=drawn_by(dialects, actions, speech.encode))


def test_figure_2() -> None:
    env = Open(sizes=(3,), shares=(1,), test_sizes=(3,), test_shares=(1,))
    agent = Agent(env, [30, 10, 20])
    (episode,) = env.started
    language = (agent.actions.first, ROUTES)
    begun = agent.history
    assert begun.startswith("Hidden numbers stand in A B C.")

    # e = 0: any a of V, or a route; h grows by a
    assert (agent.speaks, agent.may) == (True, language)
    assert agent.say("Is A the least?") is None
    assert (agent.speaks, agent.may) == (True, language)
    # a = <cp>: h grows by desc(<cp>), e = compare
    assert agent.act(CP) is None
    assert agent.history == f"{begun}Is A the least? compare"
    # e = compare: nothing but its own actions, and z as it was
    assert (agent.speaks, agent.may) == (False, (0, ITEMS))
    assert agent.act(A) is None
    assert (agent.speaks, agent.may) == (False, (0, {B, C}))
    assert agent.act(B) == "stop"
    assert episode.numbers == [30, 10, 20]
    # exit: h grows by o in plain text, e = 0; a comparison leaves z
    agent.step("stop")
    assert agent.history == f"{begun}Is A the least? compare A B A > B\n"
    assert (agent.speaks, agent.may) == (True, language)
    assert episode.numbers == [30, 10, 20]

    # a = <sw> at once: e = swap, and its exit changes z
    assert agent.act(SW) is None
    assert (agent.speaks, agent.may) == (False, (0, ITEMS))
    assert agent.act(B) is None
    assert agent.may == (0, {A, C})
    assert agent.act(A) == "stop"
    assert episode.numbers == [30, 10, 20]
    agent.step("stop")
    assert episode.numbers == [10, 30, 20]
    assert agent.history == f"{begun}Is A the least? compare A B A > B\n swap B A swapped B A\n"

    for route, first, second in ((CP, C, B), (SW, B, C)):
        assert (agent.speaks, agent.may) == (True, language)
        assert [agent.act(name) for name in (route, first, second)] == [None, None, "stop"]
        agent.step("stop")
    assert episode.numbers == [10, 20, 30]

    # text that spells a route is text: it ends as an answer does, and R is told of z alone
    assert agent.say(" compare A B: sorted") is None
    assert agent.choose(agent.eos) == "eos"
    done = agent.row.complete("eos", 0)
    assert done.chosen_ids == ()
    act = agent.playing.send(done)
    try:
        agent.playing.send(act())
    except StopIteration as end:
        told = end.value
    assert (told.status, told.success, told.reward) == ("done", True, 1.0)
    assert [(turn.action.kind, turn.action.name, turn.action.text) for turn in told.turns] == [
        ("act", "compare", "A B"),
        ("act", "swap", "B A"),
        ("act", "compare", "C B"),
        ("act", "swap", "B C"),
        ("answer", "", "compare A B: sorted"),
    ]
    # what is trained: a's that were chosen, each under the mask of where it was chosen
    first = told.turns[0].completion
    names = [agent.actions.names[i - agent.actions.first] for i in first.chosen_ids if i >= agent.actions.first]
    assert names == [CP, A, B]
    assert len(first.mask_ids) == len(first.chosen_ids) == len(first.token_ids)
    assert max(first.token_ids) < agent.actions.first


def test_a_verb_s_name_is_watched_as_it_begins_after_a_blank_and_without() -> None:
    agent = Agent(Open(), [1, 2])
    blank, compare = agent.speech.encode(" compare")
    assert agent.speech.decode([blank]) == " "
    entries = {entry.name: entry for entry in worlds_of(Open(), agent.speech)[""].speech.entries}
    assert entries[CP].words == (compare,)
    assert entries[SW].words == (agent.speech.encode("swap")[0],)
    assert entries[CP].chosen == (agent.actions.first + agent.actions.names.index(CP),)
